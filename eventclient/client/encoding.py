"""Events in bytes, checked before anything of a call is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from eventclient.errors import InvalidEventError
from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.events import Event, RunStarted
from eventclient.wire.params import NO_PARAMS, WriteParams
from eventclient.wire.requests import EncodedEvent, encode_event

_EVENT_CLASSES: Final = frozenset(facts.model for facts in EVENT_SPECS.values())

_SIMPLE_CLASSES: Final = _EVENT_CLASSES - {RunStarted}
"""Event classes that are encoded alike wherever they go."""


def check_event(event: Event) -> None:
    """Make sure that `event` is one.

    Raises:
        InvalidEventError: it is something else.
    """
    if not isinstance(event, tuple(_EVENT_CLASSES)):
        raise InvalidEventError(
            f"is {type(event).__name__}, not an event: make one with parse_event", field="event"
        )


def encode_for_batch(event: Event, now: datetime, params: WriteParams = NO_PARAMS) -> EncodedEvent:
    """`event` in bytes, for a batch or as one of several single posts.

    Raises:
        InvalidEventError: names the field that cannot be sent and why.
    """
    if event.__class__ not in _EVENT_CLASSES:
        check_event(event)
    if event.event_type == "run_started":
        # Nobody reads the log out of a batch, so the answer need not carry it.
        params = replace(params, skip_preload=True)
    return encode_event(event, now=now, params=params, batch=True)


def encode_all(events: Sequence[Event], now: datetime, params: WriteParams) -> list[EncodedEvent]:
    """`events` in bytes.

    Raises:
        InvalidEventError: names the index and the field of the first that cannot be sent.
    """
    encoded: list[EncodedEvent] = []
    try:
        for event in events:
            if event.__class__ in _SIMPLE_CLASSES:
                encoded.append(encode_event(event, now=now, params=params, batch=True))
            else:
                encoded.append(encode_for_batch(event, now, params))
    except InvalidEventError as error:
        error.event_index = len(encoded)
        raise
    return encoded
