"""Which recorded events go to the client in one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eventclient.model.event_specs import is_pair
from eventclient.recordings.order import Posting

MAX_STRETCH_EVENTS = 640
"""Most events of one call. A call tells what it did when it is over, so this bounds how long a watcher
sees nothing. It is a whole number of full batches and of full batches of pairs, and costs a long run at
most one request in twenty."""


def stretches(
    postings: Sequence[Posting], max_events: int = MAX_STRETCH_EVENTS
) -> Iterator[tuple[Posting, ...]]:
    """`postings` in order, cut into calls.

    A delivery with a resume id is a call of its own, because a resume id is an option of one write.
    A create is never cut off from the start directly behind it.
    """
    stretch: list[Posting] = []
    for posting in postings:
        alone = posting.resume_id is not None
        if stretch and (alone or _is_full(stretch, posting, max_events)):
            yield tuple(stretch)
            stretch = []
        if alone:
            yield (posting,)
        else:
            stretch.append(posting)
    if stretch:
        yield tuple(stretch)


def _is_full(stretch: Sequence[Posting], coming: Posting, max_events: int) -> bool:
    return len(stretch) >= max_events and not is_pair(stretch[-1].event, coming.event)
