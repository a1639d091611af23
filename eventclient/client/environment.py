"""The one place that reads the environment.

Source of the names: `@workflow/world-vercel` 5.0.0-beta.50.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from eventclient.wire import spec

SERVER_URL = "VERCEL_WORKFLOW_SERVER_URL"
BACKEND_URL = "WORKFLOW_VERCEL_BACKEND_URL"
AUTH_TOKEN = "WORKFLOW_VERCEL_AUTH_TOKEN"  # noqa: S105 - the name of a variable
OIDC_TOKEN = "VERCEL_OIDC_TOKEN"  # noqa: S105 - the name of a variable
DEFAULT_BACKEND_URL = "https://api.vercel.com/v1/workflow"
DEFAULT_SERVER_URL = "https://vercel-workflow.com"


def read(name: str) -> str | None:
    """The value of an environment variable, blanks trimmed; None when unset or empty."""
    return os.environ.get(name, "").strip() or None


def batching_enabled() -> bool:
    """Whether the kill switch leaves batches on. Read anew at each call."""
    value = os.environ.get(spec.KILL_SWITCH, "").strip().lower()
    return value not in ("0", "false")


@dataclass(frozen=True, slots=True)
class ProjectConfig:
    """What the environment says about server, project and identity.

    Attributes:
        token: the explicit token; `oidc_token` the platform's. Neither is ever shown.
    """

    server_url: str | None
    backend_url: str | None
    token: str | None = field(repr=False)
    oidc_token: str | None = field(repr=False)
    environment: str | None
    project_id: str | None
    team_id: str | None
    deployment_id: str | None
    limit_overrides: str | None

    @property
    def proxied(self) -> bool:
        """Whether requests go through the platform's proxy: project and team are both known."""
        return self.project_id is not None and self.team_id is not None

    @property
    def configured(self) -> bool:
        """Whether the environment names a project, a team or an environment."""
        return any((self.project_id, self.team_id, self.environment))


def read_project_config() -> ProjectConfig:
    """The project configuration as the environment holds it now."""
    return ProjectConfig(
        server_url=read(SERVER_URL),
        backend_url=read(BACKEND_URL),
        token=read(AUTH_TOKEN),
        oidc_token=read(OIDC_TOKEN),
        environment=read("WORKFLOW_VERCEL_ENV"),
        project_id=read("WORKFLOW_VERCEL_PROJECT"),
        team_id=read("WORKFLOW_VERCEL_TEAM"),
        deployment_id=read("VERCEL_DEPLOYMENT_ID"),
        limit_overrides=read("WORKFLOW_TEST_LIMIT_OVERRIDES"),
    )
