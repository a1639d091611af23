"""How the events of one call are cut into requests.

Source of the rules: `@workflow/world` 5.0.0-beta.37 (what a batch may hold, the 100-item transaction and
the 768 KiB behind the limits).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eventclient.errors import ConfigurationError, InvalidEventError
from eventclient.model.event_specs import EVENT_SPECS, Entity, is_batchable, is_pair, payload_field
from eventclient.model.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How much one batch may hold.

    Attributes:
        max_events: 1..50.
        max_bytes: most frame bytes, length prefixes and meta included. An event or a pair over it cannot
            be sent at all.

    Raises:
        ConfigurationError: a limit is out of its range.
    """

    max_events: int = 32
    max_bytes: int = 768 * 1024

    def __post_init__(self) -> None:
        if not 1 <= self.max_events <= 50:
            raise ConfigurationError(f"max_batch_events={self.max_events!r}: must be in 1..50")
        if self.max_bytes < 1:
            raise ConfigurationError(f"max_batch_bytes={self.max_bytes!r}: must be at least 1")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Events ``start`` to ``stop`` (exclusive) of a call, sent in one request.

    Attributes:
        batch: True for the batch route, False for a single post of the one event.
    """

    start: int
    stop: int
    batch: bool

    def __len__(self) -> int:
        return self.stop - self.start


# Plain texts, because an enumeration's members are hashed by Python code.
_ENTITIES: Final = {name: str(facts.entity) for name, facts in EVENT_SPECS.items()}


def entity_key(event: Event) -> tuple[str, str | None]:
    """What identifies the entity an event changes within its run."""
    entity = _ENTITIES[event.event_type]
    return (entity, None if entity == Entity.RUN else event.correlation_id)


def _opens_pair(events: Sequence[Event], index: int, limits: BatchLimits) -> bool:
    # With batches of one there is no pair to keep together: both are single posts anyway.
    return limits.max_events > 1 and index + 1 < len(events) and is_pair(events[index], events[index + 1])


def plan_chunks(events: Sequence[Event], sizes: Sequence[int], limits: BatchLimits) -> list[Chunk]:
    """The fewest requests that carry `events` in order under the rules.

    A batch holds at most `limits.max_events` events and `limits.max_bytes`, never two events of one entity
    other than a ``step_created`` directly followed by its ``step_started`` (which is never split), and no
    event the batch route refuses: those are single posts at their place. A batch of one is a single post.

    Args:
        events: of one call.
        sizes: frame bytes of each.
        limits: see `BatchLimits`.

    Raises:
        InvalidEventError: an event, or a pair, is larger than a whole request may be.
    """
    chunks: list[Chunk] = []
    entities: set[tuple[str, str | None]] = set()
    start = index = size = 0
    while index < len(events):
        event = events[index]
        stop = index + 1
        if event.event_type == "step_created" and _opens_pair(events, index, limits):
            stop = index + 2
        added = sizes[index] if stop == index + 1 else sizes[index] + sizes[index + 1]
        if added > limits.max_bytes:
            raise _too_large(event, index, sizes[index], added, limits)
        batchable, entity = is_batchable(event), entity_key(event)
        if not (
            batchable
            and entity not in entities
            and stop - start <= limits.max_events
            and size + added <= limits.max_bytes
        ):
            if index > start:
                chunks.append(Chunk(start, index, batch=index - start > 1))
            start, size = index, 0
            entities.clear()
        if batchable:
            size += added
            entities.add(entity)
        else:
            chunks.append(Chunk(index, stop, batch=False))
            start = stop
        index = stop
    if index > start:
        chunks.append(Chunk(start, index, batch=index - start > 1))
    return chunks


def _too_large(event: Event, index: int, own: int, added: int, limits: BatchLimits) -> InvalidEventError:
    what = "it" if own > limits.max_bytes else "the pair it opens"
    return InvalidEventError(
        f"{what} takes {added} bytes; one request carries {limits.max_bytes} (ClientOptions.max_batch_bytes)",
        field=f"eventData.{payload_field(event) or 'changes'}",
        event_index=index,
    )


def plan_waves(chunks: Sequence[Chunk], events: Sequence[Event], concurrency: int) -> list[list[Chunk]]:
    """Chunks grouped into waves whose members may fly together, at most `concurrency` in each.

    Chunks of one wave change different entities, and none of them changes the run, its attributes or a hook,
    which everything else depends on. Waves follow one another, so order is kept where it matters.
    """
    if concurrency == 1 or len(chunks) == 1:
        return [[chunk] for chunk in chunks]
    waves: list[list[Chunk]] = []
    seen: set[tuple[str, str | None]] = set()
    open_wave = False
    for chunk in chunks:
        keys = {entity_key(event) for event in events[chunk.start : chunk.stop]}
        alone = any(kind not in (Entity.STEP, Entity.WAIT) for kind, _ in keys)
        if open_wave and not alone and len(waves[-1]) < concurrency and seen.isdisjoint(keys):
            waves[-1].append(chunk)
            seen |= keys
        else:
            waves.append([chunk])
            seen = keys
        open_wave = not alone
    return waves
