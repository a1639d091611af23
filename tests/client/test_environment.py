"""What the environment says."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from eventclient import ConfigurationError, EventClient
from eventclient.client.endpoint import Endpoint, project_endpoint
from eventclient.client.environment import batching_enabled, read, read_project_config

SECRET = "do-not-show-me"


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("WORKFLOW_", "VERCEL_")):
            monkeypatch.delenv(name)


def endpoint(monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, str]) -> Endpoint:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return project_endpoint(read_project_config(), headers=None, allow_plain_http=False)


PROJECT = {"WORKFLOW_VERCEL_PROJECT": "prj_1"}
PROXY = {**PROJECT, "WORKFLOW_VERCEL_TEAM": "team_1"}
TOKEN = {"WORKFLOW_VERCEL_AUTH_TOKEN": SECRET}
OIDC = {"VERCEL_OIDC_TOKEN": "oidc"}
LOCAL = {"VERCEL_WORKFLOW_SERVER_URL": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("settings", "base_url", "headers"),
    [
        ({}, "https://vercel-workflow.com/api", {}),
        (LOCAL, "http://127.0.0.1:1/api", {}),
        (LOCAL | TOKEN, "http://127.0.0.1:1/api", {"Authorization": f"Bearer {SECRET}"}),
        (
            OIDC,
            "https://vercel-workflow.com/api",
            {"Authorization": "Bearer oidc", "x-vercel-trusted-oidc-idp-token": "oidc"},
        ),
        (
            OIDC | TOKEN,
            "https://vercel-workflow.com/api",
            {"Authorization": f"Bearer {SECRET}", "x-vercel-trusted-oidc-idp-token": "oidc"},
        ),
        # A project without a team stays direct and still says who it is.
        (
            PROJECT,
            "https://vercel-workflow.com/api",
            {"x-vercel-environment": "production", "x-vercel-project-id": "prj_1"},
        ),
        (
            PROXY | TOKEN | LOCAL | OIDC | {"WORKFLOW_VERCEL_ENV": "preview"},
            "https://api.vercel.com/v1/workflow",
            {
                "Authorization": f"Bearer {SECRET}",
                "x-vercel-environment": "preview",
                "x-vercel-project-id": "prj_1",
                "x-vercel-team-id": "team_1",
                "x-vercel-workflow-api-url": "http://127.0.0.1:1",
            },
        ),
        (
            {"WORKFLOW_TEST_LIMIT_OVERRIDES": ' {"a":1} ', "WORKFLOW_VERCEL_ENV": "preview"},
            "https://vercel-workflow.com/api",
            {"x-workflow-test-limit-overrides": '{"a":1}', "x-vercel-environment": "preview"},
        ),
    ],
)
def test_the_endpoint_of_an_environment(
    settings: Mapping[str, str], base_url: str, headers: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = endpoint(monkeypatch, settings)
    assert told.base_url == base_url
    assert {name: value for name, value in told.headers.items() if name != "User-Agent"} == headers
    assert repr(EventClient.from_environment()) == f"<EventClient {base_url}>"
    assert SECRET not in repr(told) + repr(read_project_config())


def test_the_backend_of_the_proxy_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = PROXY | TOKEN | {"WORKFLOW_VERCEL_BACKEND_URL": "https://backend.test/x"}
    assert endpoint(monkeypatch, settings).base_url == "https://backend.test/x"


def test_a_deployment_is_told_in_the_user_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert endpoint(monkeypatch, {"VERCEL_DEPLOYMENT_ID": "dpl_1"}).headers["User-Agent"].endswith(" dpl_1")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (PROXY, "WORKFLOW_VERCEL_AUTH_TOKEN"),
        (PROXY | OIDC, "WORKFLOW_VERCEL_AUTH_TOKEN"),
        (PROXY | TOKEN | {"WORKFLOW_VERCEL_BACKEND_URL": "nowhere"}, "WORKFLOW_VERCEL_BACKEND_URL"),
        (PROXY | TOKEN | {"WORKFLOW_VERCEL_BACKEND_URL": "http://backend.test"}, "allow_plain_http"),
        ({"VERCEL_WORKFLOW_SERVER_URL": "ftp://x"}, "VERCEL_WORKFLOW_SERVER_URL"),
        (OIDC | {"VERCEL_WORKFLOW_SERVER_URL": "http://events.test"}, "allow_plain_http"),
    ],
)
def test_an_environment_that_does_not_work_is_refused(
    settings: Mapping[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        endpoint(monkeypatch, settings)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(("value", "expected"), [(None, None), ("", None), (" ", None), (" x ", "x")])
def test_blanks_are_trimmed_and_empty_is_unset(
    value: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv("WORKFLOW_VERCEL_ENV", value)
    assert read("WORKFLOW_VERCEL_ENV") == expected


def test_the_switch_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batching_enabled()
    monkeypatch.setenv("WORKFLOW_BATCH_TRANSITIONS", "0")
    assert not batching_enabled()
