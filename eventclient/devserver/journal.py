"""What became of the latest requests: for the access log, and for the page that shows a run.

A record is made when a request has ended: answered, broken off or failed. The log hears of every one;
kept are, up to a bound, those that say something about a run: they wrote to its log, or went wrong.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from eventclient.clock import Clock
from eventclient.wire import spec

from .account import MAX_NAME_CHARS, Account, account_of
from .admission import is_identifier
from .notices import Notices
from .run_records import RUN_WEIGHT, Record, RunRecords

MAX_KEPT: Final = 65_536
"""How much is kept: requests and the events in them, counted alike, and `RUN_WEIGHT` for each run. A run of
the most events a run may have fits. Measured, all of it takes 12 to 22 MiB with names of usual length, be the
requests of one run or of one each, and up to 100 MiB with the longest names that callers may choose."""
ANY_RUN: Final = "any run"
"""The subject under which every kept record is told of."""
_STATUS_OF_NO_ONE: Final = 499
_MAX_REFUSAL_BYTES: Final = 4096
_MAX_SEGMENTS: Final = 16
_UNKNOWN: Final = "-"

Log = Callable[[Record], None]


@dataclass(slots=True)
class _End:
    """How a request ended: no status when the caller got no whole answer."""

    status: int | None = None
    code: str | None = None
    error: str | None = None
    retry_after: str | None = None
    bytes_out: int = 0


class Journal:
    """Watches requests and keeps what became of them.

    Args:
        clock: tells what time it is and how long things take.
        notices: is told of a run, and of `ANY_RUN`, when a record of the run has been kept.
        log: is handed every record; None when nobody wants them.
        max_kept: see `MAX_KEPT`.

    Attributes:
        number: of the latest record kept; 0 before the first.
    """

    def __init__(
        self, clock: Clock, notices: Notices, log: Log | None = None, *, max_kept: int = MAX_KEPT
    ) -> None:
        self._clock = clock
        self._notices = notices
        self._log = log
        self._max_kept = max_kept
        self._kept = 0
        self._records: deque[Record] = deque()
        self._runs: dict[str, RunRecords] = {}
        self.number = 0

    def of(self, run_id: str) -> RunRecords:
        """What is kept about a run."""
        return self._runs.get(run_id) or RunRecords()

    def middleware(self) -> Middleware:
        """A middleware that watches every request that passes through it. Whatever changes an answer
        has to be inside of it: the answer is sent from here, so that a record knows whether it arrived."""

        @web.middleware
        async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
            account = account_of(request)
            run_id = request.match_info.get("runId")
            account.is_kept = run_id is None or is_identifier(run_id)
            account.run_id = run_id[:MAX_NAME_CHARS] if run_id is not None else None
            began_at, began_s = self._clock.wall(), self._clock.now()
            end = _End()
            try:
                return await _answer(request, handler, end)
            finally:
                elapsed_s = self._clock.now() - began_s
                record = _record(request, account, end, began_at, elapsed_s)
                self._tell(record)
                if account.is_kept:
                    self._take(record)

        return watch

    def refuse(self, status: int, code: str) -> None:
        """A request was refused before it was understood: nothing of it is told, it may hold a token."""
        record = Record(
            at=self._clock.wall(),
            duration_ms=None,
            method=_UNKNOWN,
            path=_UNKNOWN,
            route=_UNKNOWN,
            run_id=None,
            status=status,
            code=code,
        )
        self._tell(record)

    def _tell(self, record: Record) -> None:
        if self._log is not None:
            self._log(record)

    def _take(self, record: Record) -> None:
        if record.run_id is not None and (record.marks or record.slots):
            self._keep(record, record.run_id)

    def _keep(self, record: Record, run_id: str) -> None:
        self.number += 1
        record.number = self.number
        self._records.append(record)
        if run_id not in self._runs:
            self._runs[run_id] = RunRecords()
            self._kept += RUN_WEIGHT
        self._runs[run_id].add(record)
        self._kept += record.weight
        while self._kept > self._max_kept:
            self._forget(self._records.popleft())
        self._notices.tell(run_id)
        self._notices.tell(ANY_RUN)

    def _forget(self, record: Record) -> None:
        self._kept -= record.weight
        run_id = record.run_id or ""
        records = self._runs[run_id]
        records.forget_first()
        if not records:
            del self._runs[run_id]
            self._kept -= RUN_WEIGHT


async def _answer(request: web.Request, handler: Handler, end: _End) -> web.StreamResponse:
    """Handle a request and send the answer; `end` says how it went, also when this raises."""
    try:
        response = await handler(request)
    except web.HTTPException as answer:
        end.status = answer.status
        raise
    except ConnectionError as error:
        end.error = type(error).__name__
        if _is_gone(request):
            # Nobody is there to be answered, and that is no failure of the server to be told of.
            return web.Response(status=_STATUS_OF_NO_ONE)
        end.status = 500
        raise
    except Exception as error:
        end.error, end.status = type(error).__name__, 500
        raise
    except BaseException as error:
        end.error = type(error).__name__
        raise
    end.code = _code_of(response)
    end.retry_after = response.headers.get(spec.HEADER_RETRY_AFTER)
    # An answer that was cut off on its way is ended without a complaint.
    is_cut = _is_gone(request)
    try:
        await response.prepare(request)
        await response.write_eof()
        end.status = None if is_cut else response.status
    except ConnectionError as error:
        # The framework meets the same error when it sends the answer, and knows what to do.
        end.error = type(error).__name__
    end.bytes_out = response.body_length
    return response


def _is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _code_of(response: web.StreamResponse) -> str | None:
    """The code that a refusal gives its caller."""
    if response.status < 400 or not isinstance(response, web.Response):
        return None
    body = response.body
    if not isinstance(body, bytes) or len(body) > _MAX_REFUSAL_BYTES:
        return None
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    code = answer.get("code") if isinstance(answer, dict) else None
    return code[:MAX_NAME_CHARS] if isinstance(code, str) else None


def _record(
    request: web.Request, account: Account, end: _End, began_at: datetime, elapsed_s: float
) -> Record:
    return Record(
        at=began_at,
        duration_ms=round(elapsed_s * 1000, 3),
        method=request.method[:MAX_NAME_CHARS],
        path=path_of(request),
        route=account.route,
        run_id=account.run_id,
        status=end.status,
        code=end.code,
        error=end.error,
        retry_after=end.retry_after,
        bytes_in=request.content.total_bytes,
        bytes_out=end.bytes_out,
        events=tuple(account.events),
        faults=tuple(account.faults),
        is_replayed=account.is_replayed,
    )


def path_of(request: web.Request) -> str:
    """The path, with a name or a star for every segment that its caller chose: it may be a secret."""
    resource = request.match_info.route.resource
    if resource is not None:
        return resource.canonical
    paths = (resource.canonical for resource in request.app.router.resources())
    words = {segment for path in paths for segment in path.split("/")}
    segments = request.rel_url.raw_path.split("/", _MAX_SEGMENTS)
    return "/".join(segment if segment in words else "*" for segment in segments)
