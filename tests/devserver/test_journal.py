"""What is recorded of a request, and what is kept of it."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from eventclient.devserver.account import MAX_NAME_CHARS, EventAccount, account_of
from eventclient.devserver.journal import ANY_RUN, Journal
from eventclient.devserver.notices import Notices
from eventclient.devserver.run_records import RUN_WEIGHT, Mark, Record, RunRecords
from tests.support.fake_clock import FakeClock

AT = datetime(2026, 1, 1, tzinfo=UTC)
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


def wrote(slot: int | None, status: int = 200, code: str | None = None) -> EventAccount:
    return EventAccount("step_created", f"s{slot}", status, code, slot)


def record(*events: EventAccount, **fields: Any) -> Record:
    told = {"method": "POST", "path": "/runs/{runId}/events", "route": "batch", "run_id": "r", "status": 200}
    return Record(**{"at": AT, "duration_ms": 1.0, **told, "events": events, **fields})


# -- one request -------------------------------------------------------------------------------


class Watched:
    """A server with one handler and a journal around it."""

    def __init__(self, url: str, journal: Journal, records: list[Record]) -> None:
        self.url = url
        self.journal = journal
        self._records = records
        self._grown = asyncio.Event()

    def hear(self, record: Record) -> None:
        self._records.append(record)
        self._grown.set()

    async def record(self) -> Record:
        """The one record there is, once there is one."""
        await asyncio.wait_for(self._grown.wait(), 30)
        (record,) = self._records
        return record


@asynccontextmanager
async def watching(handle: Handle, clock: FakeClock | None = None) -> AsyncIterator[Watched]:
    watched = Watched("", Journal(FakeClock(), Notices()), [])
    watched.journal = Journal(clock or FakeClock(), Notices(), watched.hear)
    app = web.Application(middlewares=[watched.journal.middleware()])
    app.router.add_route("*", "/runs/{runId}/things/{name}", handle)
    # Nothing at all would be no limit.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        watched.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield watched
    finally:
        await runner.cleanup()


async def test_a_record_says_what_was_asked_and_answered(session: aiohttp.ClientSession) -> None:
    clock = FakeClock()

    async def handle(request: web.Request) -> web.Response:
        account = account_of(request)
        account.route = "thing"
        account.events.append(wrote(3))
        account.faults.append("delay")
        assert await request.read() == b"12345"
        clock.advance(1.5)
        return web.json_response({"code": "slow-down"}, status=429, headers={"Retry-After": "7"})

    async with watching(handle, clock) as watched:
        url = f"{watched.url}/runs/r%2F1/things/secret?token=secret"
        async with session.post(url, data=b"12345") as response:
            answer = await response.read()
        told = await watched.record()
        assert told.bytes_out > len(answer)
        assert told == Record(
            at=AT,
            duration_ms=1500.0,
            method="POST",
            path="/runs/{runId}/things/{name}",
            route="thing",
            run_id="r/1",
            status=429,
            code="slow-down",
            retry_after="7",
            bytes_in=5,
            bytes_out=told.bytes_out,
            events=(wrote(3),),
            faults=("delay",),
            number=1,
            place=3,
        )


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("secret"), 500), (ConnectionError("secret"), 500), (web.HTTPConflict(), 409)],
)
async def test_a_handler_that_raises_is_recorded_by_the_class_of_its_error(
    session: aiohttp.ClientSession, error: Exception, status: int
) -> None:
    async def handle(_: web.Request) -> web.Response:
        raise error

    async with watching(handle) as watched:
        async with session.get(f"{watched.url}/runs/r/things/x") as response:
            assert response.status == status
        told = await watched.record()
    assert told.status == status
    assert told.error == (type(error).__name__ if status == 500 else None)


async def raw_request(url: str, text: str) -> asyncio.StreamWriter:
    host, _, port = url.removeprefix("http://").rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(text.encode())
    await writer.drain()
    return writer


async def test_a_body_that_breaks_off_has_no_status() -> None:
    began = asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        began.set()
        await request.read()
        raise AssertionError("the body came to its end")

    async with watching(handle) as watched:
        head = "POST /runs/r/things/x HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1234"
        writer = await raw_request(watched.url, head)
        await began.wait()
        writer.close()
        told = await watched.record()
        assert (told.status, told.bytes_in) == (None, 4)
        assert told.error is not None
        assert list(told.marks) == [Mark.DROPPED]


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_an_answer_nobody_waits_for_has_no_status(method: str) -> None:
    began = asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        began.set()
        with pytest.raises(ConnectionError):
            await request.read()
        return web.Response(text="too late")

    async with watching(handle) as watched:
        head = f"{method} /runs/r/things/x HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"
        writer = await raw_request(watched.url, head)
        await began.wait()
        writer.close()
        told = await watched.record()
    assert told.status is None
    # A reader may leave when it likes.
    assert list(told.marks) == ([Mark.DROPPED] if method == "POST" else [])


async def test_an_answer_that_is_cut_off_has_no_status(session: aiohttp.ClientSession) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = 10
        await response.prepare(request)
        await response.write(b"12345")
        assert request.transport is not None
        request.transport.close()
        return response

    async with watching(handle) as watched:
        with pytest.raises(aiohttp.ClientError):
            async with session.post(f"{watched.url}/runs/r/things/x") as response:
                await response.read()
        assert (await watched.record()).status is None


async def test_a_handler_that_is_cancelled_is_recorded() -> None:
    began = asyncio.Event()

    async def handle(_: web.Request) -> web.Response:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError("it was waited for")

    async with watching(handle) as watched:
        writer = await raw_request(watched.url, "GET /runs/r/things/x HTTP/1.1\r\nHost: h\r\n\r\n")
        await began.wait()
    told = await watched.record()
    writer.close()
    assert (told.status, told.error) == (None, "CancelledError")


@pytest.mark.parametrize("body", [b"[1]", b"{", b'{"code": 5}', b"[" * 4000, b" " * 5000 + b'{"code": "x"}'])
async def test_a_refusal_need_not_have_a_code(session: aiohttp.ClientSession, body: bytes) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=body, status=400)

    async with watching(handle) as watched:
        async with session.post(f"{watched.url}/runs/r/things/x") as response:
            assert response.status == 400
        told = await watched.record()
    assert (told.status, told.code) == (400, None)


async def test_segments_that_callers_chose_are_not_recorded(session: aiohttp.ClientSession) -> None:
    async def handle(_: web.Request) -> web.Response:
        raise AssertionError("nothing is routed here")

    for path, told in (
        ("/runs/r/nothing/secret?token=secret", "/runs/*/*/*"),
        ("/runs", "/runs"),
        ("/things/secret/things/", "/things/*/things/"),
        ("/" + "/".join("runs" for _ in range(50)), "/" + "/".join(["runs"] * 15) + "/*"),
    ):
        async with watching(handle) as watched:
            async with session.get(f"{watched.url}{path}") as response:
                assert response.status == 404
            assert (await watched.record()).path == told


async def test_names_are_cut(session: aiohttp.ClientSession) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response()

    async with watching(handle) as watched:
        async with session.get(f"{watched.url}/runs/{'r' * 1000}/things/x") as response:
            assert response.status == 200
        assert (await watched.record()).run_id == "r" * MAX_NAME_CHARS


# -- what is kept ------------------------------------------------------------------------------


async def keep(journal: Journal, *events: EventAccount, **fields: Any) -> None:
    """Have the journal watch one request that went like this."""
    fields = {"run": "r", "status": 200, "faults": [], **fields}

    async def handle(request: web.Request) -> web.Response:
        account = account_of(request)
        account.run_id = fields["run"]
        account.events.extend(events)
        account.faults.extend(fields["faults"])
        return web.Response(status=fields["status"])

    app = web.Application(middlewares=[journal.middleware()])
    app.router.add_route("POST", "/", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession() as session, session.post(url):
            pass
    finally:
        await runner.cleanup()


async def test_kept_is_what_wrote_or_went_wrong() -> None:
    journal = Journal(FakeClock(), Notices())
    await keep(journal, wrote(1))
    await keep(journal)
    await keep(journal, run=None, status=400)
    await keep(journal, status=404)
    await keep(journal, faults=["delay"])
    await keep(journal, wrote(None, 409, "conflict"), wrote(2))
    assert [kept.number for kept in journal.of("r").since(0)] == [1, 2, 3, 4]
    assert [list(kept.marks) for kept in journal.of("r").since(1)] == [["refused"], ["fault"], ["conflict"]]
    assert journal.number == 4
    assert not journal.of("other")


async def test_those_who_listen_are_told() -> None:
    notices = Notices()
    journal = Journal(FakeClock(), notices)
    with notices.listen("r") as one, notices.listen(ANY_RUN) as any_run, notices.listen("s") as other:
        await keep(journal, wrote(1))
        assert (one._heard.is_set(), any_run._heard.is_set()) == (True, True)
        assert not other._heard.is_set()


async def test_the_oldest_is_forgotten_when_it_gets_too_much() -> None:
    journal = Journal(FakeClock(), Notices(), max_kept=6 + RUN_WEIGHT)
    await keep(journal, wrote(1), wrote(2))
    await keep(journal, wrote(1), run="other")
    # Two runs weigh more than one.
    assert not journal.of("r")
    await keep(journal, wrote(2), run="other")
    assert not journal.of("r")
    assert [kept.number for kept in journal.of("other").since(0)] == [2, 3]
    for slot in range(3, 20):
        await keep(journal, wrote(slot), run="other")
    assert len(journal.of("other").since(0)) == 3


@pytest.mark.parametrize("run_count", [1, 10_000])
@pytest.mark.parametrize("events", [(), (wrote(1),)])
def test_what_is_kept_costs_what_it_weighs(run_count: int, events: tuple[EventAccount, ...]) -> None:
    max_kept = 2000
    journal = Journal(FakeClock(), Notices(), max_kept=max_kept)
    tracemalloc.start()
    try:
        for number in range(2500):
            wrote_here = tuple(each._replace(correlation_id=f"step_{number:026}") for each in events)
            run_id = f"wrun_{number % run_count:026}"
            journal._take(record(*wrote_here, run_id=run_id, status=429, duration_ms=number * 1.1))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0 < journal._kept <= max_kept
    # A run of each own would cost 2,400 bytes and more if it weighed nothing.
    assert size < 700 * max_kept


def test_an_empty_journal_weighs_nothing() -> None:
    journal = Journal(FakeClock(), Notices(), max_kept=RUN_WEIGHT)
    for number in range(5):
        journal._take(record(wrote(1), run_id=str(number)))
    assert (journal._kept, len(journal._records), len(journal._runs)) == (0, 0, 0)


@pytest.mark.parametrize("run_id", ["r" * 257, "r" * 1000, "r%0Ax", "%2E%2E", "%1B%5B31m"])
async def test_a_name_that_no_run_can_have_is_logged_and_not_kept(run_id: str) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(status=400)

    async with watching(handle) as watched:
        head = f"POST /runs/{run_id}/things/x HTTP/1.1\r\nHost: h\r\n\r\n"
        writer = await raw_request(watched.url, head)
        told = await watched.record()
        writer.close()
        assert (told.status, told.number) == (400, 0)
        assert watched.journal.number == 0


# -- where it stands ---------------------------------------------------------------------------


def numbered(*records: Record) -> RunRecords:
    run = RunRecords()
    for number, each in enumerate(records, 1):
        each.number = number
        run.add(each)
    return run


def told(records: list[Record]) -> list[int]:
    return [each.number for each in records]


def test_records_are_found_by_the_slots_they_wrote() -> None:
    run = numbered(
        record(wrote(1)),
        record(wrote(2), wrote(None, 409), wrote(3)),
        record(status=429),
        record(wrote(4)),
        record(wrote(2)),
    )
    assert told(run.among(1, 4, 4)) == [1, 2, 3, 4]
    assert told(run.among(3, 3, 4)) == [2, 3]
    assert told(run.among(4, 4, 4)) == [4]
    assert told(run.since(3)) == [4, 5]
    assert [run.place_of(each, 4) for each in run.since(0)] == [1, 2, 3, 4, 2]


def test_what_came_before_everything_belongs_to_the_first_slot() -> None:
    run = numbered(record(status=503), record(wrote(1)))
    assert told(run.among(1, 1, 2)) == [1, 2]
    assert told(run.among(2, 2, 2)) == []


def test_records_of_a_log_older_than_the_server_stand_behind_what_it_had() -> None:
    run = numbered(record(status=429))
    assert run.place_of(next(run.marked()), 10) == 10
    run.add(record(wrote(11), number=2))
    assert run.place_of(next(run.marked()), 11) == 10
    assert told(run.among(1, 9, 11)) == []
    assert told(run.among(10, 11, 11)) == [1, 2]


def test_what_is_forgotten_is_found_no_more() -> None:
    run = numbered(record(wrote(1), wrote(None, 409)), record(wrote(1)), record(wrote(2)))
    assert run.tally() == {"requests": 3, "batches": 1, "conflict": 1}
    assert told(list(run.marked())) == [1]
    run.forget_first()
    assert told(list(run.marked())) == []
    assert told(run.among(1, 2, 2)) == [3]
    assert run.tally() == {"requests": 2}
    run.forget_first()
    run.forget_first()
    assert not run
    assert run.tally() == {}


@pytest.mark.parametrize(
    ("told", "marks"),
    [
        (record(wrote(1)), {}),
        (record(wrote(None, 409), wrote(None, 409), wrote(1)), {Mark.CONFLICT: 2}),
        (record(wrote(None, 409), status=409), {Mark.CONFLICT: 1}),
        (record(wrote(None, 404), wrote(None, 425)), {Mark.REFUSED: 2}),
        (record(status=429), {Mark.THROTTLED: 1}),
        (record(status=400), {Mark.REFUSED: 1}),
        (record(status=503), {Mark.FAILED: 1}),
        (record(status=None), {Mark.DROPPED: 1}),
        (record(wrote(1), status=None, faults=("a", "b")), {Mark.DROPPED: 1, Mark.FAULT: 2}),
        (record(status=None, method="GET"), {}),
        (record(status=404, method="GET"), {}),
        (record(status=429, method="GET"), {Mark.THROTTLED: 1}),
        (record(status=503, method="GET"), {Mark.FAILED: 1}),
    ],
)
def test_a_record_stands_out_for_what_went_wrong(told: Record, marks: dict[Mark, int]) -> None:
    assert told.marks == marks


def test_a_record_weighs_what_its_events_do() -> None:
    assert record().weight == 1
    assert record(*[wrote(slot) for slot in range(50)]).weight == 51
