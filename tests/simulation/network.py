"""The network between client and servers: delays, loses, cuts, doubles, and answers by itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass
from random import Random
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from eventclient.client.transport import Answer, Loss, Request
from eventclient.model.event_specs import EVENT_SPECS, Convergence
from eventclient.wire import spec
from eventclient.wire.responses import decode_refusal

from .plan import MAX_HURTS, Kind, Plan
from .site import Site
from .trace import Trace

INTERMEDIARY_STATUSES: Final = (500, 502, 503)
MAX_ASKED_S: Final = 3
"""How long an intermediary's 429 asks to wait at most."""
LATE_S: Final = 12.0
"""How long a late request or answer travels at most. Two such trips fit into the fast budget."""
LATE_COPY_S: Final = 90.0
NO_SUCH_ROUTE: Final = b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"
LOST: Final = Loss(sent=True, cause="connection lost (simulated)")
REFUSED: Final = Loss(sent=False, cause="no connection (simulated)")
TIMED_OUT: Final = Loss(sent=True, cause="no answer in time")


@dataclass(frozen=True, slots=True)
class Parcel:
    """A request on its way.

    Attributes:
        number: of the attempt, for the trace.
        name: what all attempts of one logical request have in common.
    """

    number: int
    name: str
    request: Request


class Network:
    """A `Transport` that goes by chance.

    Attributes:
        is_kind: nothing is delayed or lost.
        has_seen_support: an answer has told the client that keys are honoured.
        replays, collections: how many answers that reached the client had been given before, or told it to
            come back for the real one.
    """

    def __init__(self, plan: Plan, chance: Random, trace: Trace) -> None:
        self._plan = plan
        self._chance = chance
        self._trace = trace
        self._hurts: Counter[str] = Counter()
        self._names: dict[tuple[str, bytes], str] = {}
        self._open: Counter[str] = Counter()
        self._count = 0
        self._couriers: set[asyncio.Task[None]] = set()
        self.is_kind = True
        self.has_seen_support = False
        self.replays = 0
        self.collections = 0
        self.site: Site | None = None

    def may_hurt(self, name: str) -> bool:
        """Whether the request `name` may be hurt once more; if so, it has been."""
        if self._plan.is_gentle and self._hurts[name] >= MAX_HURTS:
            return False
        self._hurts[name] += 1
        return True

    def may_crash(self) -> bool:
        """Whether every request under way may be hurt once more; if so, they have been."""
        names = [name for name, count in self._open.items() if count]
        if self._plan.is_gentle and any(
            self._hurts[name] >= MAX_HURTS or not name.startswith("POST") for name in names
        ):
            return False
        self._hurts.update(names)
        return True

    async def send(self, request: Request) -> Answer | Loss:
        """See `Transport.send`."""
        self._count += 1
        parcel = Parcel(self._count, self._name(request), request)
        self._note(parcel, "{} {}", parcel.name, request.label)
        self._open[parcel.name] += 1
        try:
            reply = await self._send(parcel)
        except asyncio.CancelledError:
            self._note(parcel, "is no longer waited for")
            raise
        finally:
            self._open[parcel.name] -= 1
        if isinstance(reply, Loss):
            self._note(parcel, "met {}", reply.cause)
            return reply
        words = in_words(reply)
        self._note(parcel, "met {}", words)
        self.has_seen_support |= spec.HEADER_KEY_SUPPORT in reply.headers
        self.replays += spec.HEADER_KEY_REPLAYED in reply.headers
        self.collections += spec.CODE_IN_PROGRESS in words or spec.CODE_DEADLINE_EXCEEDED in words
        return reply

    async def aclose(self) -> None:
        """See `Transport.aclose`."""

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        while self._couriers:
            await asyncio.wait(set(self._couriers))

    def _note(self, parcel: Parcel, what: str, *parts: object) -> None:
        self._trace.note(f"#{parcel.number}", what, *parts)

    def _name(self, request: Request) -> str:
        key = request.headers.get(spec.HEADER_KEY)
        if key is not None:
            return f"POST {key.strip(chr(34))}"
        known = (str(request.url), request.body or b"")
        return self._names.setdefault(known, f"{request.method} {len(self._names) + 1}")

    async def _send(self, parcel: Parcel) -> Answer | Loss:
        if self.is_kind:
            return self._read(parcel.request, await self._deliver(parcel) or b"")
        plan, chance = self._plan, self._chance
        if self._happens(plan.refused, parcel):
            return REFUSED
        if self._happens(plan.throttled, parcel):
            return _by_intermediary(429, str(chance.randint(1, MAX_ASKED_S)))
        if self._happens(plan.answered, parcel):
            return _by_intermediary(chance.choice(INTERMEDIARY_STATUSES), None)
        reply: asyncio.Future[Answer | Loss] = asyncio.get_running_loop().create_future()
        self._dispatch(self._carry(parcel, reply))
        try:
            async with asyncio.timeout(plan.timeout_s):
                return await reply
        except TimeoutError:
            return TIMED_OUT

    async def _carry(self, parcel: Parcel, reply: asyncio.Future[Answer | Loss]) -> None:
        """Bring a request there and its answer back, whether or not anybody still waits for it."""
        plan, chance, request = self._plan, self._chance, parcel.request
        is_doubled = request.method == "POST" and chance.random() < plan.doubled
        await self._travel(parcel)
        if self._happens(plan.lost, parcel):
            self._note(parcel, "is lost on its way")
            return _settle(reply, LOST)
        if is_doubled and plan.kind is not Kind.OLD:
            self._dispatch(self._copy(parcel))
        raw = await self._deliver(parcel)
        if raw is None:
            # A copy of it may be more fortunate.
            return _settle(reply, LOST if is_doubled else REFUSED)
        if is_doubled and plan.kind is Kind.OLD and is_settled_by(request, raw):
            self._dispatch(self._copy(parcel))
        await self._travel(parcel)
        if self._happens(plan.deaf, parcel):
            self._note(parcel, "loses its answer")
            return _settle(reply, LOST)
        cut = chance.random() if self._happens(plan.cut, parcel) else None
        return _settle(reply, self._read(request, raw, cut))

    async def _copy(self, parcel: Parcel) -> None:
        chance = self._chance
        if chance.random() < 0.7:
            await asyncio.sleep(chance.choice((0.05, 3.0, LATE_COPY_S)) * chance.random())
        self._note(parcel, "comes once more")
        await self._deliver(parcel)

    async def _deliver(self, parcel: Parcel) -> bytes | None:
        """What a server answers: nothing when it died meanwhile, None when none could be reached."""
        if self.site is None:
            raise RuntimeError("there is no site")
        server = self.site.choose()
        while not server.is_up:
            if self._happens(1.0, parcel):
                return None
            await asyncio.sleep(0.1)
            server = self.site.choose()
        self._note(parcel, "reaches {}", server.place.name)
        if not self._plan.has_batch_route and parcel.request.url.raw_path.endswith(spec.BATCH_SEGMENT):
            return NO_SUCH_ROUTE
        return await server.ask(encode_request(parcel.request))

    async def _travel(self, parcel: Parcel) -> None:
        chance = self._chance
        if self._happens(self._plan.late, parcel):
            await asyncio.sleep(chance.random() * LATE_S)
        else:
            await asyncio.sleep(0.0005 + chance.random() * 0.03)

    def _happens(self, rate: float, parcel: Parcel) -> bool:
        """Whether something that hurts `parcel` happens, which it does with the probability `rate`."""
        if rate == 0.0 or self._chance.random() >= rate:
            return False
        if self._plan.is_gentle and parcel.request.method != "POST":
            return False
        return self.may_hurt(parcel.name)

    def _dispatch(self, courier: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(courier)
        self._couriers.add(task)
        task.add_done_callback(self._couriers.discard)

    def _read(self, request: Request, raw: bytes, cut: float | None = None) -> Answer | Loss:
        """The answer in `raw`, of which the share `cut` came."""
        if not raw:
            return LOST
        answer = decode_answer(raw)
        headers = answer.headers
        if self._plan.kind is Kind.OLD:
            plain = headers.copy()
            plain.popall(spec.HEADER_KEY_SUPPORT, None)
            headers = CIMultiDictProxy(plain)
        if cut is None:
            return Answer(answer.status, headers, answer.body)
        if not request.partial:
            return Loss(sent=True, cause="connection lost (simulated)", status=answer.status)
        part = answer.body[: int(len(answer.body) * cut)]
        return Answer(answer.status, headers, part, "connection lost (simulated)")


def encode_request(request: Request) -> bytes:
    """The bytes of a request, on a connection of its own."""
    body = request.body or b""
    head = [f"{request.method} {request.url.raw_path_qs} HTTP/1.1"]
    fields = {"Host": "127.0.0.1", **request.headers, "Content-Length": len(body), "Connection": "close"}
    head += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*head, "", ""]).encode() + body


def decode_answer(raw: bytes) -> Answer:
    """The answer in the bytes of a whole connection."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, _, value = line.partition(":")
        headers.add(name, value.strip())
    if int(headers["Content-Length"]) != len(body):
        raise ValueError("the server sent another length than it said")
    return Answer(int(first.split()[1]), CIMultiDictProxy(headers), body)


def in_words(answer: Answer) -> str:
    """What an answer says, short."""
    words = [str(answer.status)]
    if answer.status >= 400:
        words.append(decode_refusal(answer.headers.get("Content-Type", ""), answer.body).code or "")
    if spec.HEADER_KEY_REPLAYED in answer.headers:
        words.append("replayed")
    return " ".join(words)


def is_settled_by(request: Request, raw: bytes) -> bool:
    """Whether a copy of this post can do nothing more, even where keys are ignored: it is a single one,
    has been taken, and converges."""
    status = decode_answer(raw).status if raw else 0
    _, _, event_type = request.url.raw_path.rpartition("/")
    facts = EVENT_SPECS.get(event_type)
    return status == 200 and facts is not None and facts.converges is Convergence.ALWAYS


def _by_intermediary(status: int, retry_after: str | None) -> Answer:
    headers: CIMultiDict[str] = CIMultiDict({"Content-Type": "text/html"})
    if retry_after is not None:
        headers[spec.HEADER_RETRY_AFTER] = retry_after
    return Answer(status, CIMultiDictProxy(headers), b"<html>not the server</html>")


def _settle(reply: asyncio.Future[Answer | Loss], end: Answer | Loss) -> None:
    if not reply.done():
        reply.set_result(end)
