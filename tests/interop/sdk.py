"""The published Python SDK's world, as the tests call it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final

from eventclient.model.ids import encode_ulid
from tests.support.presence import missing

PACKAGE: Final = "vercel-workflow"
VERSION: Final = "0.12.0"
DEPLOYMENT: Final = "dpl_interop"
WORKFLOW: Final = "workflow//interop//fan-out"
READ_BY_THE_SDK: Final = (
    "SSL_CERT_FILE",
    "VERCEL_DEPLOYMENT_ID",
    "VERCEL_OIDC_TOKEN",
    "VERCEL_PROJECT_ID",
    "VERCEL_TOKEN",
    "WORKFLOW_VERCEL_BACKEND_URL",
)
"""Environment variables that would make another client of it."""


def load_sdk() -> Any:
    """The module of the SDK with its events and errors.

    Typed as anything: the SDK is not there wherever types are checked, and what is tested of it is behaviour.
    """
    try:
        version = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        missing("sdk", f"{PACKAGE} is not installed")
    if version != VERSION:
        missing("sdk", f"{PACKAGE} is {version}, not {VERSION}")
    return importlib.import_module("vercel.workflow._internal.world")


def load_client() -> Any:
    """The module of the SDK with its client."""
    return importlib.import_module("vercel.workflow._internal.worlds.vercel")


@dataclass
class Sdk:
    """Events of the SDK, made and posted.

    Attributes:
        w: the module of the SDK with its events and errors.
        world: its client, of the server that the environment names.
        lost: what it raises when a connection breaks.
    """

    w: Any
    world: Any
    lost: type[Exception]
    _count: int = 0

    def new_run_id(self) -> str:
        self._count += 1
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        return f"wrun_{encode_ulid(now_ms, self._count)}"

    def event(self, event_type: str, correlation_id: str | None = None, **data: Any) -> Any:
        """An event of the class that the SDK has for the type; `data` under the names on the wire."""
        name = "".join(part.capitalize() for part in event_type.split("_"))
        fields: dict[str, Any] = {"eventType": event_type}
        if correlation_id is not None:
            fields["correlationId"] = correlation_id
        if data:
            fields["eventData"] = data
        return getattr(self.w, f"{name}Event").from_wire(fields)

    async def post(self, run_id: str, event_type: str, correlation_id: str | None = None, **data: Any) -> Any:
        return await self.world.events_create(run_id, self.event(event_type, correlation_id, **data))

    async def begin_run(self) -> str:
        """A run that has been created and started."""
        run_id = self.new_run_id()
        await self.post(run_id, "run_created", **CREATION)
        await self.post(run_id, "run_started")
        return run_id

    async def log(self, run_id: str, **pagination: Any) -> Any:
        options = self.w.PaginationOptions(**{"sort_order": "asc", **pagination})
        return await self.world.events_list(run_id, pagination=options)

    async def types(self, run_id: str) -> list[str]:
        """The types in the log; its slots are dense."""
        page = await self.log(run_id)
        assert not page.has_more
        assert [slot_of(event) for event in page.data] == list(range(1, len(page.data) + 1))
        return [event.event_type for event in page.data]


CREATION: Final[dict[str, Any]] = {
    "deploymentId": DEPLOYMENT,
    "workflowName": WORKFLOW,
    "input": b"devlinput",
}


def slot_of(event: Any) -> int:
    """The slot of an event as a list has it."""
    return int(event.server_props.event_id.removeprefix("evnt_"))
