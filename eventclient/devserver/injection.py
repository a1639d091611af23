"""Carries faults out: what a caller sees of them, and whether the request was handled."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from aiohttp import web
from aiohttp.http_writer import StreamWriter
from aiohttp.typedefs import Handler, Middleware

from eventclient.clock import Clock
from eventclient.wire import spec
from eventclient.wire.codec import MalformedError, decode, encode_value
from eventclient.wire.frames import decode_frames
from eventclient.wire.replies import Refused

from .account import account_of
from .connections import Connection
from .fault_plan import Asked, FaultPlan, Fired
from .faults import Challenge, Cut, Delay, Drop, Garbage, Refuse, Rule, Stall, Throttle, Twice
from .keys import takes_key
from .limits import LIMITS
from .requests import wants_frames
from .responses import refused_response
from .shortened import shortened

MAX_PATH_CHARS: Final = 256
NO_ANSWER: Final = 444
"""The status the log gives a request that was hung up on. Source: nginx has the same one."""
CHALLENGE_PAGE: Final = "<!DOCTYPE html><html><head><title>Checking your browser</title></head></html>"

_RESET_ON_CLOSE: Final = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
_FRAMED_ROUTES: Final = frozenset({"list", "get", "correlation"})

GoOn = Callable[[], Awaitable[web.StreamResponse]]


class Injector:
    """The middleware that injects what a plan decides.

    Stands inside of the guard, so that bodies are read and bounded, and around a middleware that turns
    refusals into answers.

    Args:
        clock: is what delays and stalls sleep on.
    """

    def __init__(self, plan: FaultPlan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._closing = asyncio.Event()
        self._allowed_bytes: dict[int, int | None] = {}

    def attach(self, app: web.Application) -> None:
        """Follow what `app` does: answers that are sent as they come, and its end."""
        app.on_response_prepare.append(self._tap)
        app.on_shutdown.append(self._end)

    @property
    def middleware(self) -> Middleware:
        """What to put around the handlers."""

        @web.middleware
        async def inject(request: web.Request, handler: Handler) -> web.StreamResponse:
            fired = self._plan.decide(await _look_at(request))
            account_of(request).faults += map(str, fired)
            return await self._meet(request, handler, fired)

        return inject

    async def _meet(
        self, request: web.Request, handler: Handler, fired: Sequence[Fired]
    ) -> web.StreamResponse:
        if not fired:
            return await handler(request)
        rule = fired[0].rule
        return await _CARRIERS[type(rule)](
            self, request, rule, lambda: self._meet(request, handler, fired[1:])
        )

    # -- what happens --------------------------------------------------------------------------

    async def _refuse(self, request: web.Request, rule: Refuse, go_on: GoOn) -> web.StreamResponse:
        if rule.commit:
            await self._answer_of(request, go_on)
        if rule.hex is None:
            response = refused_response(Refused(rule.status, rule.code, rule.message))
        else:
            response = web.Response(status=rule.status, body=bytes.fromhex(rule.hex))
        response.headers.update(rule.headers)
        return response

    async def _throttle(self, request: web.Request, rule: Throttle, go_on: GoOn) -> web.StreamResponse:
        response = refused_response(Refused(429, rule.code, rule.message))
        return _with_retry_after(response, rule.retry_after)

    async def _challenge(self, request: web.Request, rule: Challenge, go_on: GoOn) -> web.StreamResponse:
        response = web.Response(status=rule.status, text=CHALLENGE_PAGE, content_type="text/html")
        response.headers[spec.HEADER_MITIGATED] = spec.MITIGATED_CHALLENGE
        return _with_retry_after(response, rule.retry_after)

    async def _delay(self, request: web.Request, rule: Delay, go_on: GoOn) -> web.StreamResponse:
        if not rule.commit and takes_key(request):
            # It is the execution that takes so long: the key is looked up at once.
            account_of(request).pause = lambda: self._wait(rule.seconds, self._closing)
            return await go_on()
        response = await go_on() if rule.commit else None
        # Not cut short when the caller goes: a request on its way arrives all the same.
        await self._wait(rule.seconds, self._closing)
        if response is not None:
            return response
        return hang_up(request) if self._closing.is_set() else await go_on()

    async def _drop(self, request: web.Request, rule: Drop, go_on: GoOn) -> web.StreamResponse:
        if rule.commit:
            await self._answer_of(request, go_on)
        return hang_up(request, reset=rule.reset)

    async def _cut(self, request: web.Request, rule: Cut, go_on: GoOn) -> web.StreamResponse:
        whole = await self._answer_of(request, go_on, max(rule.at_bytes, 0))
        if whole is None:
            return hang_up(request)
        body = whole.body if isinstance(whole.body, bytes) else b""
        part = web.StreamResponse(status=whole.status, headers=whole.headers)
        part.content_length = len(body)
        await part.prepare(request)
        await part.write(body[: rule.at_bytes])
        hang_up(request)
        return part

    async def _garbage(self, request: web.Request, rule: Garbage, go_on: GoOn) -> web.StreamResponse:
        is_short = rule.content == "short" and rule.hex is None
        answer = await self._answer_of(request, go_on) if rule.commit or is_short else None
        if is_short:
            return hang_up(request) if answer is None else shortened(answer)
        framed = account_of(request).route in _FRAMED_ROUTES or wants_frames(request)
        content_type = spec.FRAMES_CONTENT_TYPE if framed else spec.CBOR_CONTENT_TYPE
        if rule.hex is not None:
            return web.Response(body=bytes.fromhex(rule.hex), content_type=content_type)
        if rule.content == "text":
            return web.Response(text="this is no answer")
        body = b"" if rule.content == "empty" else encode_value({"unexpected": True})
        return web.Response(body=body, content_type=content_type)

    async def _twice(self, request: web.Request, rule: Twice, go_on: GoOn) -> web.StreamResponse:
        first = await self._answer_of(request, go_on)
        account_of(request).delivery += 1
        if rule.answer == "second" or first is None:
            return await go_on()
        await self._answer_of(request, go_on)
        return first

    async def _stall(self, request: web.Request, rule: Stall, go_on: GoOn) -> web.StreamResponse:
        if rule.commit:
            await self._answer_of(request, go_on)
        connection = request.protocol
        lost = [connection.lost] if isinstance(connection, Connection) else []
        await self._wait(rule.seconds, self._closing, *lost)
        return hang_up(request)

    # -- how -----------------------------------------------------------------------------------

    async def _answer_of(
        self, request: web.Request, go_on: GoOn, allowed_bytes: int | None = None
    ) -> web.Response | None:
        """Handle the request and keep its answer back.

        An answer that is sent as it comes, as a live read is, cannot be kept: it is ended after
        `allowed_bytes` of its body, before it begins when that is None, and None is returned.
        """
        self._allowed_bytes[id(request)] = allowed_bytes
        try:
            response = await go_on()
        except ConnectionResetError:
            # The answer that was kept back had begun to be one in chunks; the next one has its own form.
            if isinstance(request.writer, StreamWriter):
                request.writer.chunked = False
            return None
        finally:
            del self._allowed_bytes[id(request)]
        return response if isinstance(response, web.Response) else None

    async def _tap(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Watch the beginning of an answer that is sent while its request is still being handled."""
        if id(request) not in self._allowed_bytes:
            return
        left = self._allowed_bytes[id(request)]
        if left is None:
            raise ConnectionResetError("the answer is kept back")
        write = response.write

        async def write_allowed(data: bytes | bytearray | memoryview) -> None:
            nonlocal left
            await write(data[:left])
            left -= min(left or 0, len(data))
            if not left:
                raise ConnectionResetError("the answer is cut")

        response.write = write_allowed  # type: ignore[method-assign]

    async def _wait(self, seconds: float, *ends: asyncio.Event) -> None:
        """Wait `seconds`, or until one of `ends` is set."""
        waits = [asyncio.ensure_future(self._clock.sleep(seconds))]
        waits += [asyncio.ensure_future(end.wait()) for end in ends]  # type: ignore[arg-type]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _end(self, _app: web.Application) -> None:
        self._closing.set()


_CARRIERS: Final[Mapping[type[Rule], Callable[..., Awaitable[web.StreamResponse]]]] = {
    Refuse: Injector._refuse,
    Throttle: Injector._throttle,
    Challenge: Injector._challenge,
    Delay: Injector._delay,
    Drop: Injector._drop,
    Cut: Injector._cut,
    Garbage: Injector._garbage,
    Twice: Injector._twice,
    Stall: Injector._stall,
}


async def _look_at(request: web.Request) -> Asked:
    run_id = request.match_info.get("runId") or request.query.get("runId")
    return Asked(
        request=f"{request.method} {request.path[:MAX_PATH_CHARS]}",
        route=account_of(request).route,
        run_id=run_id[:MAX_PATH_CHARS] if run_id is not None else None,
        event_types=_posted_types(request, await request.read()) if request.method == "POST" else (),
    )


def _posted_types(request: web.Request, body: bytes) -> tuple[str, ...]:
    """The types of the events that a body posts, as far as it can be read: frames, or one CBOR map."""
    metas: list[Any]
    try:
        limit = request.app[LIMITS].max_meta_bytes
        metas = [
            frame.meta
            for frame in decode_frames(body, max_count=spec.HARD_MAX_BATCH_EVENTS, max_meta_bytes=limit)
        ]
    except MalformedError:
        try:
            metas = [decode(body, inert=True)]
        except MalformedError:
            return ()
    named = (meta.get("eventType") for meta in metas if isinstance(meta, dict))
    return tuple(name[:64] for name in named if isinstance(name, str))


def hang_up(request: web.Request, *, reset: bool = False) -> web.Response:
    """End the connection; what is written after that goes nowhere."""
    transport = request.transport
    if transport is not None and reset:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        transport.abort()
    elif transport is not None:
        transport.close()
    return web.Response(status=NO_ANSWER)


def _with_retry_after(response: web.Response, retry_after: str | None) -> web.Response:
    if retry_after is not None:
        response.headers[spec.HEADER_RETRY_AFTER] = retry_after
    return response
