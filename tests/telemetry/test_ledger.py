"""The account of a write."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.telemetry.ledger import Ledger, LedgerBook, Phase

PARTS = {
    Phase.WIRE: "wire_s",
    Phase.THROTTLED: "throttled_s",
    Phase.COLLECT: "collect_s",
    Phase.BACKOFF: "backoff_s",
    Phase.QUEUED: "queued_s",
    Phase.ENCODING: "encoding_s",
}


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def book(watch: Watch) -> LedgerBook:
    return LedgerBook(watch)


def total(ledger: Ledger) -> float:
    return sum(float(getattr(ledger, name)) for name in PARTS.values())


def test_a_closed_account_says_what_was_counted(book: LedgerBook) -> None:
    book.requests += 2
    book.bytes += 100
    book.fallbacks += 1
    book.reads += 3
    assert book.close() == Ledger(requests=2, bytes=100, fallbacks=1, reads=3)


def test_an_account_without_entries_is_zero(book: LedgerBook) -> None:
    assert book.close() == Ledger()
    assert dataclasses.asdict(Ledger()) == dict.fromkeys(dataclasses.asdict(Ledger()), 0)


def test_a_closed_account_stays_as_it_is(book: LedgerBook) -> None:
    closed = book.close()
    book.requests += 1
    assert closed.requests == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        closed.requests = 5  # type: ignore[misc]


def test_every_phase_has_its_part() -> None:
    assert set(PARTS) == set(Phase)
    seconds = {field.name for field in dataclasses.fields(Ledger) if field.name.endswith("_s")}
    assert seconds == {*PARTS.values(), "wall_s"}


@pytest.mark.parametrize("phase", set(Phase) - {Phase.ENCODING})
def test_a_phase_counts_as_its_part_and_the_rest_as_encoding(
    phase: Phase, book: LedgerBook, watch: Watch
) -> None:
    watch.at += 1
    assert book.enter(phase) == 1001.0
    watch.at += 5
    assert book.leave(phase) == 1006.0
    watch.at += 2
    ledger = book.close()
    assert getattr(ledger, PARTS[phase]) == 5
    assert (ledger.encoding_s, ledger.wall_s) == (3, 8)


def test_of_several_at_a_time_the_first_counts(book: LedgerBook, watch: Watch) -> None:
    order = sorted(set(Phase) - {Phase.ENCODING}, reverse=True)
    for phase in order:
        book.enter(phase)
        watch.at += 1
    # The last to come is on the wire; as long as it is, so is the call.
    for phase in order[:-1]:
        book.leave(phase)
        watch.at += 1
    book.leave(Phase.WIRE)
    ledger = book.close()
    assert ledger.wire_s == 5
    assert {getattr(ledger, PARTS[phase]) for phase in order[:-1]} == {1}
    assert ledger.encoding_s == 0


def test_two_on_the_wire_count_once(book: LedgerBook, watch: Watch) -> None:
    book.enter(Phase.WIRE)
    watch.at += 1
    book.enter(Phase.WIRE)
    watch.at += 1
    book.leave(Phase.WIRE)
    watch.at += 1
    book.leave(Phase.WIRE)
    assert (book.close().wire_s, book.close().wall_s) == (3, 3)


def test_what_is_under_way_counts_until_the_account_is_closed(book: LedgerBook, watch: Watch) -> None:
    book.enter(Phase.COLLECT)
    watch.at += 4
    assert book.close().collect_s == 4


@given(st.lists(st.tuples(st.sampled_from(sorted(set(Phase) - {Phase.ENCODING})), st.integers(0, 1000))))
def test_the_parts_add_up_to_the_whole(steps: list[tuple[Phase, int]]) -> None:
    watch = Watch()
    book = LedgerBook(watch)
    under_way: list[Phase] = []
    for phase, ticks in steps:
        watch.at += ticks / 8
        if phase in under_way:
            under_way.remove(phase)
            book.leave(phase)
        else:
            under_way.append(phase)
            book.enter(phase)
    watch.at += 1
    ledger = book.close()
    assert total(ledger) == ledger.wall_s == watch.at - 1000.0
