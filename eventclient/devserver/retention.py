"""What a run that has ended keeps of the data of its user.

Source: `@workflow/world` 5.0.0-beta.37 (the attribute), `@workflow/world-local` 5.0.0-beta.46.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

from eventclient.model.entities import Run

logger = logging.getLogger("eventclient.devserver")

RETENTION_ATTRIBUTE: Final = "$retention"
NO_RETENTION: Final = "0"
"""The one duration there is: all payloads go with the end of the run."""
DEFAULT_RETENTION: Final = "default"


def retire(run: Run, now: datetime) -> Run:
    """A run that has just ended, without its payloads if it asked for that.

    ``expiredAt`` then says since when they are gone, so that a reader can tell them from payloads that
    never were. A retention this server does not know keeps everything: nothing is deleted on a guess.
    """
    retention = run.attributes.get(RETENTION_ATTRIBUTE, DEFAULT_RETENTION)
    if retention == NO_RETENTION:
        return run.model_copy(update={"input": None, "output": None, "error": None, "expired_at": now})
    if retention != DEFAULT_RETENTION:
        logger.warning("run %s asks for a retention that is unknown: its data is kept", run.run_id)
    return run


def is_expired(run: Run) -> bool:
    """Whether the payloads of `run` are gone, and those that come late have to go too."""
    return run.expired_at is not None
