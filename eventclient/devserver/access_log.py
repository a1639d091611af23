"""The access log: one line of JSON for each request, with what each of its events met."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from .account import EventAccount
from .run_records import Record

logger = logging.getLogger("eventclient.devserver")


class AccessLog:
    """Hands lines to whoever keeps them.

    Args:
        write: takes a line without its end, at once: requests wait for it. Whatever it raises keeps the
            server from nothing. After an OSError it is asked no more, as what cannot be written once cannot
            be written again; after anything else it is. Either is warned of once.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write: Callable[[str], None] | None = write
        self._has_warned = False

    def tell(self, record: Record) -> None:
        """Log a request."""
        if self._write is None:
            return
        try:
            self._write(line_of(record))
        except OSError as error:
            self._write = None
            logger.warning("the access log ends here, it cannot be written: %s", error.strerror or error)
        except Exception:
            # Code of whoever runs the server: the request it is told of has been answered, and went well.
            if not self._has_warned:
                self._has_warned = True
                logger.warning("the access log lacks a line, and may lack more", exc_info=True)


def line_of(record: Record) -> str:
    """One line of ASCII: an object whose absent members are left out, but for ``status``, which is null
    when no whole answer was sent. Names that callers chose are escaped, so that none can end the line."""
    told: dict[str, Any] = {
        "time": record.at.isoformat(timespec="milliseconds"),
        "method": record.method,
        "path": record.path,
        "route": record.route,
        "run": record.run_id,
        "status": record.status,
        "code": record.code,
        "error": record.error,
        "retry_after": record.retry_after,
        "duration_ms": record.duration_ms,
        "bytes_in": record.bytes_in,
        "bytes_out": record.bytes_out,
        "replayed": record.is_replayed or None,
        "faults": list(record.faults),
        "events": [_event(event, is_repeated=record.delivery_count > 1) for event in record.events],
    }
    kept = {key: value for key, value in told.items() if key == "status" or value not in (None, [])}
    return json.dumps(kept, separators=(",", ":"))


def _event(event: EventAccount, *, is_repeated: bool) -> dict[str, Any]:
    told = {
        "type": event.event_type,
        "correlation": event.correlation_id,
        "status": event.status,
        "code": event.code,
        "slot": event.slot,
        "delivery": event.delivery if is_repeated else None,
    }
    return {key: value for key, value in told.items() if value is not None}
