"""Raw requests to the reference server, and its answers taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from eventclient.model.parsing import parse_event
from eventclient.wire.codec import decode, encode_value
from eventclient.wire.frames import Frame, decode_frames, encode_frame
from eventclient.wire.params import NO_PARAMS, WriteParams
from eventclient.wire.requests import encode_event
from eventclient.wire.spec import FRAMES_CONTENT_TYPE, REQUEST_CONTENT_TYPE

RUN = "wrun_01M8N3CBJFGCK98VP8CKHQXT84"
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
FRAMES = {"Accept": FRAMES_CONTENT_TYPE}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content_type: str
    body: bytes
    json: Any = None

    @property
    def value(self) -> dict[str, Any]:
        """The CBOR value of a post that was taken."""
        assert self.status == 200, self
        assert self.content_type == "application/cbor"
        value: dict[str, Any] = decode(self.body)
        return value

    @property
    def results(self) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = self.value["results"]
        return results

    @property
    def statuses(self) -> list[int]:
        return [result["status"] for result in self.results]

    @property
    def code(self) -> str:
        code: str = self.json["code"]
        assert set(self.json) == {"message", "code"}
        return code

    @property
    def events(self) -> list[dict[str, Any]]:
        """The metas of the events of a stream, their bodies under ``body``."""
        return [{**frame.meta, "body": frame.body} for frame in self._frames() if "_end" not in frame.meta]

    @property
    def end(self) -> dict[str, Any]:
        last = self._frames()[-1]
        assert last.meta["_end"] == 1
        assert last.body == b""
        return last.meta

    def _frames(self) -> list[Frame]:
        assert self.status == 200, self
        assert self.content_type == FRAMES_CONTENT_TYPE
        return decode_frames(self.body)


Mapped = dict[str, Any]


def event(event_type: str, c: str | None = None, *, at: datetime = AT, spec: int = 7, **data: Any) -> Mapped:
    """What `parse_event` takes; the fields of eventData under their own names."""
    mapping: Mapped = {"eventType": event_type, "specVersion": spec, "occurredAt": at}
    mapping["eventData"] = data
    if c is not None:
        mapping["correlationId"] = c
    return mapping


def frame(mapping: Mapping[str, Any], params: WriteParams = NO_PARAMS, *, batch: bool = False) -> bytes:
    encoded = encode_event(parse_event(mapping), now=AT, params=params, batch=batch)
    return encoded.batch_frame() if batch else encoded.single_frame()


def raw_frame(body: bytes = b"", **meta: Any) -> bytes:
    return encode_frame(encode_value(meta), body)


class Api:
    """One server as its callers see it."""

    def __init__(self, session: aiohttp.ClientSession, origin: str) -> None:
        self._session = session
        self.origin = origin

    async def request(self, method: str, path: str, **kwargs: Any) -> Answer:
        url = URL(f"{self.origin}{path}", encoded=True)
        async with self._session.request(method, url, **kwargs) as response:
            body = await response.read()
            json = None
            if response.content_type == "application/json":
                json = await response.json()
            return Answer(response.status, response.headers, response.content_type, body, json)

    async def send(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        all_headers = {"Content-Type": REQUEST_CONTENT_TYPE, **(headers or {})}
        # A large body as plain bytes makes aiohttp warn.
        return await self.request("POST", f"/api/v4{path}", data=BytesIO(body), headers=all_headers)

    async def post(
        self,
        event_type: str,
        c: str | None = None,
        *,
        run: str = RUN,
        params: WriteParams = NO_PARAMS,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Answer:
        body = frame(event(event_type, c, **fields), params)
        return await self.send(f"/runs/{quote(run, safe='')}/events/{event_type}", body, headers)

    async def batch(self, *events: Mapping[str, Any], run: str = RUN) -> Answer:
        body = b"".join(frame(mapping, batch=True) for mapping in events)
        return await self.send(f"/runs/{quote(run, safe='')}/events/batch", body)

    async def call(self, method: str, path: str, value: object = None) -> Answer:
        """A request as the older routes take them: a CBOR body, or none."""
        headers = {"Accept": "application/cbor"}
        if value is None:
            return await self.request(method, f"/api{path}", headers=headers)
        headers["Content-Type"] = "application/cbor"
        return await self.request(method, f"/api{path}", data=encode_value(value), headers=headers)

    async def flat(
        self,
        event_type: str,
        c: str | None = None,
        *,
        run: str = RUN,
        data: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Answer:
        """A flat post; `fields` are keys of its map beside ``eventType`` and ``specVersion``."""
        body: Mapped = {"eventType": event_type, "specVersion": 5, **fields}
        if c is not None:
            body["correlationId"] = c
        if data is not None:
            body["eventData"] = dict(data)
        return await self.call("POST", f"/v3/runs/{quote(run, safe='')}/events", body)

    async def get(self, path: str) -> Answer:
        return await self.request("GET", f"/api/v4{path}")

    async def log(self, run: str = RUN) -> list[tuple[str, str | None]]:
        """Type and correlation id of every event of a run, in order; checks that the log is dense."""
        answer = await self.get(f"/runs/{quote(run, safe='')}/events?returnAll=true")
        slots = [int(row["eventId"].removeprefix("evnt_")) for row in answer.events]
        assert slots == list(range(1, len(slots) + 1))
        return [(row["eventType"], row.get("correlationId")) for row in answer.events]

    # -- states to start from ------------------------------------------------------------------

    async def pending_run(self, run: str = RUN, *, spec: int = 7, **data: Any) -> Answer:
        data = {"deploymentId": "dpl", "workflowName": "flow", "input": b"devlin", **data}
        return await self.post("run_created", run=run, spec=spec, **data)

    async def running_run(self, run: str = RUN, *, spec: int = 7) -> None:
        assert (await self.pending_run(run, spec=spec)).status == 200
        assert (await self.post("run_started", run=run, spec=spec)).status == 200

    async def all_taken(self, posts: Iterable[tuple[str, str | None, Mapped]], run: str = RUN) -> None:
        for event_type, c, fields in posts:
            answer = await self.post(event_type, c, run=run, **fields)
            assert answer.status == 200, (event_type, c, answer)
