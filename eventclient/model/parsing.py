"""From mappings to events."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel

from eventclient.errors import InvalidEventError

from .event_specs import EVENT_SPECS, SERVER_EVENT_TYPES
from .events import Event

logger = logging.getLogger("eventclient")


def parse_event(mapping: Mapping[str, Any]) -> Event:
    """The event that `mapping` describes.

    Takes ``{eventType, correlationId?, specVersion?, occurredAt?, computeInstanceId?, eventData?}``
    or the same names in snake_case. Payloads are ``bytes``; instants are aware ``datetime`` or ISO
    8601 text with an offset. Fields of ``eventData`` that the protocol does not carry for the type
    are left out, with one warning for each that names it.

    Raises:
        InvalidEventError: names the field and says why. Nothing of the value is repeated.
    """
    if not isinstance(mapping, Mapping):
        raise InvalidEventError(f"must be a mapping, not {type(mapping).__name__}", field="event")
    event_type = mapping.get("eventType", mapping.get("event_type"))
    if event_type is None:
        raise InvalidEventError("is missing: every event names its type", field="eventType")
    if isinstance(event_type, str) and event_type in SERVER_EVENT_TYPES:
        raise InvalidEventError(
            f"{event_type} is written by the server alone and cannot be posted", field="eventType"
        )
    spec = EVENT_SPECS.get(event_type) if isinstance(event_type, str) else None
    if spec is None:
        known = ", ".join(sorted(EVENT_SPECS))
        raise InvalidEventError(f"is no event type of this protocol; one of {known}", field="eventType")
    try:
        event = spec.model.model_validate(mapping)
    except ValidationError as error:
        raise _invalid(error) from None
    _warn_of_unknown(event_type, spec.model, mapping.get("eventData", mapping.get("event_data")))
    return cast(Event, event)


def _invalid(error: ValidationError) -> InvalidEventError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path: list[str] = []
    for part in first["loc"]:
        # The chosen arm of the writer's union stands in the location as if it were a field.
        if path[-1:] != ["writer"] or part not in ("workflow", "step"):
            # The names of attributes are the caller's own.
            own = not isinstance(part, str) or path[-1:] == ["attributes"]
            path.append(str(part) if own else to_camel(str(part)))
    reason = {
        "missing": "is missing",
        "extra_forbidden": "is no field of an event",
    }.get(first["type"], first["msg"])
    return InvalidEventError(reason, field=".".join(path) or "event")


_warned: set[tuple[str, str]] = set()


def _warn_of_unknown(event_type: str, model: type[BaseModel], data: object) -> None:
    data_model = model.model_fields["event_data"].annotation
    if not isinstance(data, Mapping) or data_model is None:
        return
    fields: Mapping[str, Any] = data_model.model_fields
    for name in data:
        known = name in fields or any(field.alias == name for field in fields.values())
        if not known and (event_type, str(name)) not in _warned and len(_warned) < 1000:
            _warned.add((event_type, str(name)))
            logger.warning("eventData.%s is no field of %s: it is not sent", name, event_type)
