"""The requests of event posts, and what is read out of their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eventclient.errors import ConfigurationError, ProtocolError
from eventclient.model.entities import Run, StoredEvent
from eventclient.model.events import Event
from eventclient.model.results import Log, Result
from eventclient.wire import spec
from eventclient.wire.codec import MalformedError
from eventclient.wire.logs import LogDecoder, fold_run
from eventclient.wire.responses import decode_batch, decode_single

from .endpoint import Endpoint
from .options import ClientOptions
from .transport import Answer, Request


def quoted_key(key: object) -> str:
    """`key` as the header ``Idempotency-Key`` carries it.

    Raises:
        ConfigurationError: no header can carry it.

    Source: RFC 8941 section 4.1.6 (strings), draft-ietf-httpapi-idempotency-key-header-07.
    """
    if not (
        isinstance(key, str) and 0 < len(key) <= spec.MAX_KEY_CHARS and key.isascii() and key.isprintable()
    ):
        raise ConfigurationError(
            "ClientOptions(mint_key=...): it must give 1 to"
            f" {spec.MAX_KEY_CHARS} printable ASCII characters. Nothing was sent under what it gave"
        )
    if '"' in key or "\\" in key:
        key = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{key}"'


def post_headers(endpoint: Endpoint, options: ClientOptions, *, accept: str = "*/*") -> dict[str, str]:
    """The headers of an event post, with a key of its own, under which all its attempts go."""
    return {
        **endpoint.headers,
        "Content-Type": spec.REQUEST_CONTENT_TYPE,
        "Accept": accept,
        spec.HEADER_REQUEST_TIME: str(int(options.clock.wall().timestamp() * 1000)),
        spec.HEADER_KEY: quoted_key(options.mint_key()),
    }


def batch_request(endpoint: Endpoint, options: ClientOptions, run: str, body: bytes, count: int) -> Request:
    """The post of a whole batch. `run` is the escaped run id."""
    return Request(
        "POST",
        endpoint.url(spec.RUNS_PATH.format(run_id=run) + "/" + spec.BATCH_SEGMENT),
        f"batch of {count} events",
        post_headers(endpoint, options),
        body,
    )


def single_request(
    endpoint: Endpoint, options: ClientOptions, run: str, event_type: str, body: bytes, *, streamed: bool
) -> Request:
    """The post of one event; `streamed` asks for the whole log as the answer."""
    return Request(
        "POST",
        endpoint.url(spec.RUNS_PATH.format(run_id=run) + "/" + event_type),
        f"post of {event_type}",
        post_headers(endpoint, options, accept=spec.FRAMES_CONTENT_TYPE if streamed else "*/*"),
        body,
        partial=streamed,
    )


def batch_reader(run_id: str, events: Sequence[Event]) -> Callable[[Answer], list[Result]]:
    """Reads the results of a batch."""
    return lambda answer: decode_batch(answer.body, run_id, events)


def single_reader(run_id: str, event: Event) -> Callable[[Answer], Result]:
    """Reads the result of a single post."""

    def read(answer: Answer) -> Result:
        if answer.headers.get("Content-Type", "").startswith(spec.FRAMES_CONTENT_TYPE):
            raise MalformedError("the answer is framed, one CBOR map was asked for")
        return decode_single(answer.body, run_id, event)

    return read


def read_streamed_start(answer: Answer) -> Result:
    """The result of a streamed ``run_started``, as far as the stream came.

    The log of the result says whether it is whole (`has_more`).

    Raises:
        MalformedError: no framed log, not one event, or without the headers it must have.
        ProtocolError: the server says that it cannot finish the log.
    """
    if not answer.headers.get("Content-Type", "").startswith(spec.FRAMES_CONTENT_TYPE):
        raise MalformedError("the answer is no framed log")
    limit = answer.headers.get(spec.HEADER_MAX_EVENTS, "").strip()
    if not limit.isdecimal() or int(limit) <= 0:
        raise MalformedError(f"the header {spec.HEADER_MAX_EVENTS} is no positive whole number")
    decoder = LogDecoder()
    try:
        events = decoder.receive_data(answer.body)
    except ProtocolError as error:
        if error.code is None:
            raise MalformedError(error.message) from None
        raise
    whole = decoder.receive_eof()
    if not events:
        raise MalformedError(
            "the log holds no event" if whole else "the log is cut off before its first event"
        )
    if whole and decoder.end is not None and decoder.end.next is None:
        raise MalformedError("the end of the log names no cursor")
    cursor = decoder.end.next if decoder.end else spec.CURSOR_EVENT_PREFIX + events[-1].event_id
    log = Log(tuple(events), cursor, decoder.end is None or decoder.end.has_more)
    return Result(200, max_events=int(limit), log=log)


def started(events: Sequence[StoredEvent]) -> tuple[StoredEvent, Run]:
    """The ``run_started`` event and the run out of a whole log.

    Raises:
        MalformedError: the log lacks its ``run_created`` or ``run_started``.
    """
    run = fold_run(events)
    event = next(event for event in events if event.event_type == "run_started")
    return event, run
