"""What became of a request: filled in by whoever handles it, read by the access log and the page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aiohttp import web

from eventclient.wire.posted import PostedEvent
from eventclient.wire.replies import Refused, Written
from eventclient.wire.rows import NewRow

MAX_NAME_CHARS: Final = 256
"""How much is kept of a name that a caller chose freely."""


class EventAccount(NamedTuple):
    """What one posted event met. Holds no payload and no token.

    Attributes:
        status: as in the answer to a batch.
        code: of a refusal.
        slot: where it stands in the log; of a repeat, where it stood already.
        delivery: 1-based; more than 1 when its request was handled once more by a fault.
    """

    event_type: str
    correlation_id: str | None
    status: int
    code: str | None = None
    slot: int | None = None
    delivery: int = 1


@dataclass(slots=True)
class Account:
    """What became of one request.

    Attributes:
        route: the name of the route; ``other`` when there is none.
        faults: what was injected, in words.
        delivery: how often the request is being handled by now.
        pause: awaited while the request is executed, if it has a key; a fault that makes it slow.
        is_replayed: the answer was recorded under the request's key before.
        is_kept: whether it may be kept as something about its run; not when a stranger asked, nor when the
            name it gave can be that of no run.
    """

    route: str = "other"
    run_id: str | None = None
    events: list[EventAccount] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    delivery: int = 1
    pause: Callable[[], Awaitable[None]] | None = None
    is_replayed: bool = False
    is_kept: bool = True

    def tell(self, posted: PostedEvent, result: Written | Refused) -> None:
        """One event met `result`."""
        subject = posted.correlation_id
        subject = subject[:MAX_NAME_CHARS] if subject is not None else None
        if isinstance(result, Written):
            row = result.row
            # A row that is not new repeats what was posted before, and so is of its type.
            event_type = row.event_type if isinstance(row, NewRow) else posted.event_type
            told = EventAccount(event_type, subject, 200, slot=row.slot, delivery=self.delivery)
        else:
            event_type = posted.event_type[:MAX_NAME_CHARS]
            told = EventAccount(event_type, subject, result.status, result.code, delivery=self.delivery)
        self.events.append(told)


_KEY: Final[Any] = web.RequestKey("account", Account) if hasattr(web, "RequestKey") else "account"
"""aiohttp before 3.14 knows no typed keys, and later ones warn of any other."""


def has_account(request: web.BaseRequest) -> bool:
    """Whether anybody has opened the account of a request: it has come as far as the middlewares."""
    return request.get(_KEY) is not None


def account_of(request: web.Request) -> Account:
    """The account of a request, opened at the first call."""
    account: Account | None = request.get(_KEY)
    if account is None:
        account = request[_KEY] = Account()
    return account
