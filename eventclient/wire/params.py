"""What a caller may say beside an event.

Source: `@workflow/world-vercel` 5.0.0-beta.50.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from eventclient.errors import InvalidEventError

from .items import UnencodableError, encode_text

ResolveData = Literal["all", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteParams:
    """What a caller may say beside an event. Each is sent only when given.

    Attributes:
        request_id: ``vercelId``, the caller's own request.
        resolve_data: ``"all"`` makes a batch answer hold payloads.
        event_count: ``maxSlot``, the highest slot the caller has loaded; 0 is allowed.
        since_cursor: ask for the part of the log behind this cursor.
        resume_id, resume_payload_digest: the pair that makes a ``hook_received`` safe to repeat.
        skip_preload: a ``run_started`` answered without the log.
        via_step_dispatch: a queue consumer makes sure that the step exists.
        replay_divergence_count: telemetry after a recovery.

    Raises:
        InvalidEventError: names what is of the wrong type or out of its range.
    """

    request_id: str | None = None
    resolve_data: ResolveData | None = None
    event_count: int | None = None
    since_cursor: str | None = None
    resume_id: str | None = None
    resume_payload_digest: str | None = None
    skip_preload: bool = False
    via_step_dispatch: bool = False
    replay_divergence_count: int | None = None

    def __post_init__(self) -> None:
        for name in ("request_id", "since_cursor", "resume_id", "resume_payload_digest"):
            text = getattr(self, name)
            if text is not None and not isinstance(text, str):
                raise InvalidEventError(f"must be a text, not {type(text).__name__}", field=name)
            if text is not None and not text.isascii():
                try:
                    encode_text(text)
                except UnencodableError as error:
                    raise InvalidEventError(error.reason, field=name) from None
        for name in ("event_count", "replay_divergence_count"):
            count = getattr(self, name)
            if count is not None and (type(count) is not int or not 0 <= count <= _MAX_COUNT):
                raise InvalidEventError(f"must be a whole number from 0 to {_MAX_COUNT}", field=name)
        if self.resolve_data not in (None, "all", "none"):
            raise InvalidEventError('must be "all" or "none"', field="resolve_data")


_MAX_COUNT: Final = 2**53 - 1
"""The highest slot an event id can name."""

NO_PARAMS: Final = WriteParams()
