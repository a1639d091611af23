"""Whether the server keeps idempotency keys, as its answers have said."""

from __future__ import annotations

from eventclient.wire import spec

from .transport import Answer, Loss


def advertises(reply: Answer | Loss) -> bool:
    """Whether `reply` comes from a server that keeps keys; an answer that broke off may have said so."""
    headers = reply.headers
    return headers is not None and headers.get(spec.HEADER_KEY_SUPPORT, "").strip().lower() == spec.TRUE


def is_challenge(answer: Answer) -> bool:
    """Whether a firewall answered in place of the server."""
    return answer.headers.get(spec.HEADER_MITIGATED, "").strip().lower() == spec.MITIGATED_CHALLENGE


class KeySupport:
    """The memory of one client, which has one server.

    Attributes:
        known: whether the server keeps keys; None while no answer has told.
        names: whether it has been seen to name the key in what it answers once it has looked it up. Then an
            answer that names none was given before that.
    """

    __slots__ = ("known", "names")

    def __init__(self) -> None:
        self.known: bool | None = None
        self.names = False

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
