"""Event classes: they hold what they were given, cannot be changed, and show no secrets."""

from __future__ import annotations

import pytest

from eventclient.model.event_specs import EVENT_SPECS, payload_field, payload_of
from eventclient.model.parsing import parse_event
from tests.client.samples import FULL_DATA, TYPES, event, full_mapping, mapping


@pytest.mark.parametrize("kind", TYPES)
def test_the_payload_is_the_field_the_facts_name(kind: str) -> None:
    field = payload_field(event(kind))
    assert payload_of(parse_event(full_mapping(kind))) == FULL_DATA[kind].get(field or "", b"")


def test_events_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        event("step_created").spec_version = 3


SECRET = "do-not-show-me"


@pytest.mark.parametrize("kind", TYPES)
def test_no_payload_token_or_attribute_is_shown(kind: str) -> None:
    data = FULL_DATA[kind] | {key: SECRET for key in ("token",) if key in FULL_DATA[kind]}
    field = EVENT_SPECS[kind].payload_field
    if field is not None:
        data |= {field: SECRET.encode()}
    for key in ("attributes", "executionContext"):
        if key in data:
            data |= {key: {"a": SECRET}}
    if "changes" in data:
        data |= {"changes": [{"key": "a", "value": SECRET}]}
    parsed = parse_event(mapping(kind) | {"eventData": data})
    assert SECRET not in repr(parsed) + str(parsed)
