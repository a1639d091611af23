"""Where a drill takes place: a server of its own, or somebody else's; and the runs it writes to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Protocol

from eventclient.client.client import EventClient
from eventclient.client.endpoint import direct_endpoint
from eventclient.client.options import ClientOptions
from eventclient.client.support import advertises
from eventclient.client.transport import AiohttpTransport, Answer, Request
from eventclient.devserver.app import DevServer
from eventclient.devserver.hidden import Hidden, Protection
from eventclient.errors import ConfigurationError, EventClientError
from eventclient.model.event_data import HookCreatedData, RunCreatedData, StepCreatedData
from eventclient.model.events import HookCreated, RunCreated, RunStarted, StepCreated
from eventclient.model.ids import RUN_PREFIX, encode_ulid
from eventclient.wire import spec

from .kinds import HOOK_ID, STEP_NAME, TARGETS
from .stalls import Stalls

Serve = Callable[[Hidden], AbstractAsyncContextManager[DevServer]]
"""Starts a server over a database that stays, with the keys' times of `stalls.KEYS`."""

WORKFLOW_NAME = "eventclient-drill"


class Ground(Protocol):
    """A place for drills.

    Attributes:
        own: the server can be held up.
        token: what it asks for.
    """

    own: bool
    token: str | None

    def under_fire(self, stalls: Stalls) -> AbstractAsyncContextManager[str]:
        """The server's address, while it is held up by `stalls`."""

    def at_peace(self) -> AbstractAsyncContextManager[str]:
        """The address for reading what is there when nothing is under way any more."""


class OwnGround:
    """A server of the drill's own. To be read it is started anew: whoever still had a claim is gone then.

    Args:
        serve: starts it.
        protection: how much it does about keys.
    """

    own = True
    token: str | None = None

    def __init__(self, serve: Serve, protection: Protection = Protection.FENCED) -> None:
        self._serve = serve
        self._protection = protection

    @asynccontextmanager
    async def under_fire(self, stalls: Stalls) -> AsyncIterator[str]:
        async with self._serve(Hidden(protection=self._protection, between=stalls.between)) as server:
            yield server.url

    @asynccontextmanager
    async def at_peace(self) -> AsyncIterator[str]:
        async with self._serve(Hidden()) as server:
            yield server.url


class OtherGround:
    """Somebody else's server.

    Args:
        url: its origin.
        token: what it asks for.
    """

    own = False

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url
        self.token = token

    @asynccontextmanager
    async def under_fire(self, stalls: Stalls) -> AsyncIterator[str]:
        yield self._url

    @asynccontextmanager
    async def at_peace(self) -> AsyncIterator[str]:
        yield self._url


async def check_support(url: str, token: str | None, run_id: str) -> None:
    """Make sure that a server keeps keys, by a read that changes nothing.

    Raises:
        ConfigurationError: it does not, or cannot be reached.
    """
    options = ClientOptions()
    endpoint = direct_endpoint(url, token=token, headers=None, allow_plain_http=False)
    address = endpoint.url(spec.RUNS_PATH.format(run_id=run_id), {"limit": "1"})
    transport = AiohttpTransport(options)
    try:
        reply = await transport.send(
            Request("GET", address, "question", {**endpoint.headers, "Accept": "*/*"})
        )
    finally:
        await transport.aclose()
    if not isinstance(reply, Answer):
        raise ConfigurationError(f"the server {endpoint.base_url} cannot be reached: {reply.cause}")
    if reply.status in (401, 403):
        raise ConfigurationError(f"the server lets nobody in without its token: it answers {reply.status}")
    if not advertises(reply):
        raise ConfigurationError(
            f"the server does not keep idempotency keys: its answer ({reply.status}) has no"
            f" {spec.HEADER_KEY_SUPPORT}: {spec.TRUE}. There is nothing to drill"
        )


def mint_run_ids(count: int, now: datetime, entropy: int) -> list[str]:
    """`count` new run ids that carry the instant `now`, out of 80 random bits."""
    milliseconds = int(now.timestamp() * 1000)
    first = entropy % ((1 << 80) - count)
    return [RUN_PREFIX + encode_ulid(milliseconds, first + number) for number in range(count)]


async def prepare_run(client: EventClient, run_id: str, steps: Sequence[str]) -> None:
    """Make a run with everything the operations need to be there.

    Args:
        steps: beside `TARGETS`.

    Raises:
        ConfigurationError: the server does not take it.
    """
    version = spec.MAX_SPEC_VERSION
    start = RunCreatedData(deployment_id="drill", workflow_name=WORKFLOW_NAME)
    hook = HookCreatedData(token=f"drill-{run_id}")
    step = StepCreatedData(step_name=STEP_NAME)
    try:
        await client.create(run_id, RunCreated(event_data=start, spec_version=version))
        await client.create(run_id, RunStarted(spec_version=version), skip_preload=True)
        await client.create(
            run_id, HookCreated(correlation_id=HOOK_ID, event_data=hook, spec_version=version)
        )
        created = [
            StepCreated(correlation_id=name, event_data=step, spec_version=version)
            for name in (*TARGETS, *steps)
        ]
        result = await client.create_batch(run_id, created)
        result.raise_for_failures()
    except EventClientError as error:
        raise ConfigurationError(f"the server cannot be drilled: {error}", run_id=run_id) from error
