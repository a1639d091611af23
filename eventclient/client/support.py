"""Whether the server keeps idempotency keys: what its answers said, and a question where they did not."""

from __future__ import annotations

from eventclient.clock import Clock
from eventclient.telemetry.ledger import LedgerBook, Phase
from eventclient.wire import spec

from .endpoint import Endpoint, segment
from .gets import get_request
from .transport import Answer, Transport


def advertises(answer: Answer) -> bool:
    """Whether `answer` comes from a server that keeps keys."""
    return answer.headers.get(spec.HEADER_KEY_SUPPORT, "").strip().lower() == spec.TRUE


def is_challenge(answer: Answer) -> bool:
    """Whether a firewall answered in place of the server."""
    return answer.headers.get(spec.HEADER_MITIGATED, "").strip().lower() == spec.MITIGATED_CHALLENGE


def _is_log(answer: Answer) -> bool:
    framed = answer.headers.get("Content-Type", "").startswith(spec.FRAMES_CONTENT_TYPE)
    return answer.status == 200 and framed and not is_challenge(answer)


class KeySupport:
    """The memory of one client, which has one server.

    Attributes:
        known: whether the server keeps keys; None while no answer has told.
    """

    __slots__ = ("_clock", "_endpoint", "_transport", "known")

    def __init__(self, transport: Transport, endpoint: Endpoint, clock: Clock) -> None:
        self._transport = transport
        self._endpoint = endpoint
        self._clock = clock
        self.known: bool | None = None

    def learn(self, *, advertised: bool, own: bool) -> None:
        """Take note of an answer; the latest word counts.

        Args:
            advertised: it has the advert.
            own: it is surely the server's own, so that without the advert the server keeps no keys. Others
                may be the word of a proxy before it.
        """
        if advertised:
            self.known = True
        elif own:
            self.known = False

    async def holds(self, run_id: str, book: LedgerBook) -> bool:
        """Whether the server keeps keys. Asks it, once and cheaply, where that is unknown.

        Without an answer that tells, it is taken not to.
        """
        if self.known is None:
            path = spec.RUNS_PATH.format(run_id=segment(run_id, "run_id"))
            query = {"limit": "1", "remoteRefBehavior": "lazy"}
            label = "question whether keys are kept"
            request = get_request(self._endpoint, self._clock, path, query, label, partial=False)
            book.requests += 1
            book.enter(Phase.WIRE)
            try:
                reply = await self._transport.send(request)
            finally:
                book.leave(Phase.WIRE)
            if isinstance(reply, Answer):
                self.learn(advertised=advertises(reply), own=_is_log(reply))
        return bool(self.known)
