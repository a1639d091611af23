"""Names and numbers the protocol fixes, and that the options say the same."""

from __future__ import annotations

import re

from eventclient.batching.chunks import BatchLimits
from eventclient.model.event_data import RunCancelledData
from eventclient.policy.retry import RetryOptions
from eventclient.wire import spec


def test_names_a_server_reads() -> None:
    assert spec.FRAMES_CONTENT_TYPE == "application/vnd.workflow.v4-frames"
    assert spec.REQUEST_CONTENT_TYPE == "application/octet-stream"
    assert spec.CODE_BATCH_REQUIRES_SLOT_IDENTITY == "batch-requires-slot-identity"
    assert spec.KILL_SWITCH == "WORKFLOW_BATCH_TRANSITIONS"
    assert (spec.KEY_END, spec.KEY_ERROR, spec.CURSOR_EVENT_PREFIX) == ("_end", "_error", "eid:")
    assert (spec.HEADER_MITIGATED, spec.MITIGATED_CHALLENGE) == ("x-vercel-mitigated", "challenge")


def test_numbers_the_reference_client_has() -> None:
    assert spec.FRAME_OVERHEAD_BYTES == 8
    assert (spec.MIN_SAFE_INT, spec.MAX_SAFE_INT) == (-(2**31), 2**32 - 1)
    assert (spec.TAG_TEXT_DATE, spec.TAG_EPOCH_DATE, spec.TAG_UINT8_ARRAY) == (0, 1, 64)
    assert (spec.DEFAULT_SPEC_VERSION, spec.MIN_SLOT_SPEC_VERSION, spec.MAX_SPEC_VERSION) == (2, 6, 7)
    assert (spec.MAX_ATTRIBUTE_EVENT_BYTES, spec.MAX_EXECUTION_CONTEXT_BYTES) == (8192, 2048)
    assert spec.MAX_LIST_RESUMES == 2
    assert spec.MIN_THROTTLE_WAIT_S == 1.0


def test_the_options_start_from_these_numbers() -> None:
    options, limits = RetryOptions(), BatchLimits()
    assert options.throttle_budget_s == spec.MAX_THROTTLE_BUDGET_S
    assert (options.transient_retries, options.backoff_s) == (
        spec.TRANSIENT_RETRIES,
        spec.TRANSIENT_BACKOFF_S,
    )
    assert (options.read_retries, options.read_backoff_s) == (spec.READ_RETRIES, spec.READ_BACKOFF_S)
    assert limits.max_events == spec.DEFAULT_MAX_BATCH_EVENTS
    assert limits.max_bytes == spec.DEFAULT_MAX_BATCH_BYTES


def test_the_hard_limit_of_a_batch_is_the_options_limit() -> None:
    assert BatchLimits(max_events=spec.HARD_MAX_BATCH_EVENTS).max_events == 50


def test_the_limit_of_a_cancel_reason_is_the_model_s() -> None:
    told = repr(RunCancelledData.model_fields["cancel_reason"])
    assert re.search(rf"max_length={spec.MAX_CANCEL_REASON_CHARS}\b", told)
