"""The table of facts about each event type, and what follows from it for pairs and batches."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import BaseModel

from eventclient.model.event_specs import EVENT_SPECS, Convergence, Entity, is_batchable, is_pair
from eventclient.model.events import Event
from tests.client.samples import TYPES, event


def test_the_facts_cover_every_event_class_and_nothing_else() -> None:
    assert {facts.model for facts in EVENT_SPECS.values()} == set(get_args(Event))
    for kind, facts in EVENT_SPECS.items():
        assert facts.model.model_fields["event_type"].default == kind
        assert facts.why


@pytest.mark.parametrize("kind", TYPES)
def test_the_payload_field_is_the_one_that_holds_bytes(kind: str) -> None:
    data_model = EVENT_SPECS[kind].model.model_fields["event_data"].annotation
    assert isinstance(data_model, type)
    assert issubclass(data_model, BaseModel)
    holding = [name for name, field in data_model.model_fields.items() if field.annotation is bytes]
    assert holding == ([EVENT_SPECS[kind].payload_field] if EVENT_SPECS[kind].payload_field else [])


def test_the_golden_table_of_facts() -> None:
    told = {
        kind: (facts.entity, facts.payload_field, facts.batchable, facts.converges)
        for kind, facts in EVENT_SPECS.items()
    }
    always, never = Convergence.ALWAYS, Convergence.NEVER
    assert told == {
        "run_created": (Entity.RUN, "input", False, always),
        "run_started": (Entity.RUN, "input", False, always),
        "run_completed": (Entity.RUN, "output", True, always),
        "run_failed": (Entity.RUN, "error", True, always),
        "run_cancelled": (Entity.RUN, None, False, always),
        "attr_set": (Entity.ATTRIBUTES, None, False, Convergence.UNLESS_STEP_WRITER),
        "step_created": (Entity.STEP, "input", True, always),
        "step_started": (Entity.STEP, "input", True, never),
        "step_completed": (Entity.STEP, "result", True, always),
        "step_failed": (Entity.STEP, "error", True, always),
        "step_retrying": (Entity.STEP, "error", True, never),
        "hook_created": (Entity.HOOK, "metadata", False, always),
        "hook_received": (Entity.HOOK, "payload", False, Convergence.WITH_RESUME_PAIR),
        "hook_disposed": (Entity.HOOK, None, False, always),
        "wait_created": (Entity.WAIT, None, True, always),
        "wait_completed": (Entity.WAIT, None, True, always),
    }


# -- pairs and batches -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "paired"),
    [
        (event("step_created"), event("step_started"), True),
        (event("step_created", input=b"x"), event("step_started"), True),
        (event("step_created"), event("step_started", "c_2"), False),
        (event("step_created"), event("step_started", input=b"x", stepName="s"), False),
        (event("step_created"), event("step_completed"), False),
        (event("step_started"), event("step_created"), False),
        (event("wait_created"), event("step_started"), False),
    ],
)
def test_a_pair_is_a_create_with_its_start(first: Event, second: Event, paired: bool) -> None:
    assert is_pair(first, second) is paired


@pytest.mark.parametrize("kind", TYPES)
def test_what_a_batch_takes(kind: str) -> None:
    assert is_batchable(event(kind)) is EVENT_SPECS[kind].batchable


def test_a_lazy_start_goes_in_no_batch() -> None:
    assert not is_batchable(event("step_started", stepName="s", input=b"x"))
