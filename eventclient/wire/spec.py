"""Every name and number the protocol fixes.

Source, where a line names none: `@workflow/world-vercel` 5.0.0-beta.50, the published JavaScript client.
"""

from __future__ import annotations

FRAMES_CONTENT_TYPE = "application/vnd.workflow.v4-frames"
"""Content type of a framed answer, matched as a case-sensitive prefix."""
REQUEST_CONTENT_TYPE = "application/octet-stream"
"""Content type of a framed request."""
CBOR_CONTENT_TYPE = "application/cbor"

LENGTH_BYTES = 4
"""Size of each of a frame's two length prefixes, unsigned big-endian."""
FRAME_OVERHEAD_BYTES = 2 * LENGTH_BYTES
MAX_U32 = 0xFFFF_FFFF

MIN_SAFE_INT = -(2**31)
MAX_SAFE_INT = 2**32 - 1
"""Integers outside MIN_SAFE_INT..MAX_SAFE_INT travel as float64: the reference's decoder yields
BigInt above and a wrong number below (measured on cbor-x 1.6.0)."""

TAG_TEXT_DATE = 0
TAG_EPOCH_DATE = 1
TAG_UINT8_ARRAY = 64
"""What cbor-x writes around a JavaScript Uint8Array."""
TAGS_BIG_INTEGER = (2, 3)
"""Above and below zero. What cbor-x writes for a BigInt beyond 64 bits."""
ACTIVE_TAGS = (4, 5, 25, 28, 29, 30, 35, 36, 256)
"""Tags the protocol has no use for, which make a decoder compute, compile, or repeat what came before:
fractions, references to texts and values, regular expressions, MIME. A few bytes of them can stand for
an enormous value. Source: the IANA registry of CBOR tags."""

LEGACY_SPEC_VERSION = 1
"""Runs of this version, and of none, are from before event sourcing. Source: `@workflow/world`."""
DEFAULT_SPEC_VERSION = 2
"""What an event without a specVersion is sent as."""
MIN_SLOT_SPEC_VERSION = 6
"""From this version on a run's event ids are slots, and batches are allowed. Source: `@workflow/world`."""
MAX_SPEC_VERSION = 7

DEFAULT_MAX_BATCH_EVENTS = 32
HARD_MAX_BATCH_EVENTS = 50
"""A fan-out event costs two items of a 100-item transaction."""
DEFAULT_MAX_BATCH_BYTES = 768 * 1024

MAX_ATTRIBUTE_EVENT_BYTES = 8192
"""`attr_set`: most UTF-8 bytes of eventData written as JSON."""
MAX_EXECUTION_CONTEXT_BYTES = 2048
"""Most encoded bytes of an execution context."""
MAX_CANCEL_REASON_CHARS = 512

MAX_THROTTLE_BUDGET_S = 30.0
MIN_THROTTLE_WAIT_S = 1.0
TRANSIENT_RETRIES = 2
TRANSIENT_BACKOFF_S = 0.1
READ_RETRIES = 5
READ_BACKOFF_S = 0.5
MAX_LIST_RESUMES = 2

KEY_END = "_end"
KEY_ERROR = "_error"
CURSOR_EVENT_PREFIX = "eid:"
"""``eid:<event id>``: strictly behind that event, ascending."""

HEADER_MAX_EVENTS = "x-wf-max-events"
HEADER_EVENT_ID = "x-wf-event-id"
HEADER_MITIGATED = "x-vercel-mitigated"
MITIGATED_CHALLENGE = "challenge"
HEADER_RETRY_AFTER = "Retry-After"
HEADER_REQUEST_TIME = "X-Request-Time"

HEADER_KEY = "Idempotency-Key"
"""Names one logical write: a quoted string (RFC 8941). The reference server repeats it on answers for which
it has looked the key up.

Source: draft-ietf-httpapi-idempotency-key-header-07."""
HEADER_KEY_SUPPORT = "Idempotency-Support"
"""``true`` on every answer of a server that honours keys. No published server sends it yet."""
HEADER_KEY_REPLAYED = "Idempotency-Replayed"
"""``true`` on an answer that was given before."""
HEADER_ERROR_TYPE = "X-Error-Type"
TRUE = "true"
MAX_KEY_CHARS = 255

CODE_KEY_REUSE = "idempotency_key_reuse"
"""422: the key came with another request before."""
CODE_IN_PROGRESS = "request_in_progress"
"""409: a request with this key is being executed."""
CODE_DEADLINE_EXCEEDED = "deadline_exceeded"
"""504: the request is still being executed, and its answer can be collected under its key."""
CODE_BATCH_REQUIRES_SLOT_IDENTITY = "batch-requires-slot-identity"
"""Refusal of a batch for a run below `MIN_SLOT_SPEC_VERSION`; status 400."""
CODE_PAYLOAD_MISSING = "payload-missing"
CODE_RUN_EXPIRED = "run-expired"
CODE_CONFLICT = "conflict"

KILL_SWITCH = "WORKFLOW_BATCH_TRANSITIONS"
"""Environment variable; ``0`` or ``false`` in any case sends single posts only."""

RUNS_PATH = "/v4/runs/{run_id}/events"
EVENTS_PATH = "/v4/events"
BATCH_SEGMENT = "batch"
