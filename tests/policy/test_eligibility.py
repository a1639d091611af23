"""Which events may be sent again after an answer was lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.model.event_specs import EVENT_SPECS
from eventclient.model.events import Event
from eventclient.policy.eligibility import all_converge, converges
from tests.client.samples import TYPES, event, pair, steps

NEVER = ("step_started", "step_retrying")
STEP_WRITER = {"type": "step", "stepId": "s", "attempt": 1}


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in (*NEVER, "hook_received")])
@pytest.mark.parametrize("resume_pair", [False, True])
def test_guarded_types_converge(kind: str, resume_pair: bool) -> None:
    assert converges(event(kind), resume_pair=resume_pair)


@pytest.mark.parametrize("kind", NEVER)
@pytest.mark.parametrize("resume_pair", [False, True])
def test_unguarded_types_do_not(kind: str, resume_pair: bool) -> None:
    assert not converges(event(kind), resume_pair=resume_pair)


def test_a_delivery_converges_with_its_resume_pair_only() -> None:
    assert not converges(event("hook_received"))
    assert converges(event("hook_received"), resume_pair=True)


@pytest.mark.parametrize(
    ("key", "writer", "safe"),
    [
        ("c_1", {"type": "workflow"}, True),
        (None, {"type": "workflow"}, True),
        ("c_1", STEP_WRITER, True),
        (None, STEP_WRITER, False),
        ("", STEP_WRITER, False),
    ],
)
def test_attributes_converge_unless_a_step_wrote_them_without_a_key(
    key: str | None, writer: dict[str, object], safe: bool
) -> None:
    assert converges(event("attr_set", key, writer=writer)) is safe


@pytest.mark.parametrize(
    ("events", "safe"),
    [
        ([], True),
        (steps(3), True),
        (pair(), False),
        ([*steps(3), event("step_retrying", "other")], False),
        ([*steps(3), event("wait_created", "w"), event("run_completed")], True),
    ],
)
def test_a_request_converges_if_all_in_it_does(events: list[Event], safe: bool) -> None:
    assert all_converge(events) is safe


@given(st.lists(st.sampled_from([event(kind) for kind in TYPES])))
def test_one_unsafe_event_makes_the_request_unsafe(events: list[Event]) -> None:
    assert all_converge(events) is all(converges(each) for each in events)


def test_every_type_has_a_rule() -> None:
    for kind in EVENT_SPECS:
        assert isinstance(converges(event(kind)), bool)
