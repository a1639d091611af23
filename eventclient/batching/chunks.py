"""How the events of one call are cut into requests.

Source of the rules: `@workflow/world` 5.0.0-beta.37 (what a batch may hold, the 100-item transaction and
the 768 KiB behind the limits).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eventclient.errors import ConfigurationError, InvalidEventError
from eventclient.model.events import EVENT_SPECS, Entity, Event, is_batchable, is_pair, payload_field


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


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is never split: an event, or a create with its start."""

    start: int
    stop: int
    size: int
    entity: tuple[str, str | None]
    batchable: bool


def entity_key(event: Event) -> tuple[str, str | None]:
    """What identifies the entity an event changes within its run."""
    entity = EVENT_SPECS[event.event_type].entity
    return (entity, None if entity is Entity.RUN else event.correlation_id)


def _units(events: Sequence[Event], sizes: Sequence[int], limits: BatchLimits) -> Iterator[_Unit]:
    index = 0
    while index < len(events):
        event = events[index]
        paired = index + 1 < len(events) and is_pair(event, events[index + 1])
        # With batches of one there is no pair to keep together: both are single posts anyway.
        stop = index + 2 if paired and limits.max_events > 1 else index + 1
        size = sum(sizes[index:stop])
        if size > limits.max_bytes:
            what = "the pair it opens" if stop > index + 1 and sizes[index] <= limits.max_bytes else "it"
            raise InvalidEventError(
                f"{what} takes {size} bytes; one request carries {limits.max_bytes}"
                " (ClientOptions.max_batch_bytes)",
                field=f"eventData.{payload_field(event) or 'changes'}",
                event_index=index,
            )
        yield _Unit(index, stop, size, entity_key(event), is_batchable(event))
        index = stop


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
    start = stop = size = 0
    entities: set[tuple[str, str | None]] = set()

    def close() -> None:
        if stop > start:
            chunks.append(Chunk(start, stop, batch=stop - start > 1))

    for unit in _units(events, sizes, limits):
        count = unit.stop - unit.start
        fits = (
            unit.batchable
            and stop - start + count <= limits.max_events
            and size + unit.size <= limits.max_bytes
            and unit.entity not in entities
        )
        if not fits:
            close()
            start, stop, size = unit.start, unit.start, 0
            entities = set()
        if unit.batchable:
            stop, size = unit.stop, size + unit.size
            entities.add(unit.entity)
        else:
            chunks.append(Chunk(unit.start, unit.stop, batch=False))
            start = stop = unit.stop
    close()
    return chunks


def single_chunks(count: int) -> list[Chunk]:
    """Every event by itself."""
    return [Chunk(index, index + 1, batch=False) for index in range(count)]


def plan_waves(chunks: Sequence[Chunk], events: Sequence[Event], concurrency: int) -> list[list[Chunk]]:
    """Chunks grouped into waves whose members may fly together, at most `concurrency` in each.

    Chunks of one wave change different entities, and none of them changes the run, its attributes or a hook,
    which everything else depends on. Waves follow one another, so order is kept where it matters.
    """
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
