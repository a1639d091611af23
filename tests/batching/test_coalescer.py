"""Single writes that wait for company."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eventclient.batching.coalescer import Coalescer

LIMIT = 4
LINGER_S = 1.0


class Coalescing(RuleBasedStateMachine):
    """Items go in and come out per run in order, each once, in batches within the limit, one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.coalescer: Coalescer[int] = Coalescer(max_events=LIMIT, linger_s=LINGER_S)
        self.waiting: dict[str, list[int]] = {}
        self.under_way: set[str] = set()
        self.count = 0

    @rule(run=st.sampled_from("abc"))
    def add(self, run: str) -> None:
        self.coalescer.add(run, self.count, self.now)
        self.waiting.setdefault(run, []).append(self.count)
        self.count += 1

    @rule(seconds=st.floats(0, 2))
    def let_time_pass(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take_what_is_due(self) -> None:
        for run, batch in self.coalescer.handle_timer(self.now):
            assert run not in self.under_way
            assert batch
            # All that waits goes together.
            assert batch == self.waiting[run]
            self.waiting[run].clear()
            self.under_way.add(run)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def end_a_batch(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(sorted(self.under_way)))
        self.coalescer.done(run, self.now)
        self.under_way.discard(run)

    @precondition(lambda self: any(self.waiting.values()))
    @rule(data=st.data())
    def take_one_back(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(sorted(run for run, items in self.waiting.items() if items)))
        item = data.draw(st.sampled_from(self.waiting[run]))
        assert self.coalescer.discard(run, item)
        assert not self.coalescer.discard(run, item)
        self.waiting[run].remove(item)

    @rule()
    def flush(self) -> None:
        self.coalescer.flush(self.now)
        due = self.coalescer.get_timer()
        assert due is None or due <= self.now

    @rule()
    def drain(self) -> None:
        left = self.coalescer.drain()
        assert sorted(left) == sorted(item for items in self.waiting.values() for item in items)
        self.waiting = {}

    @invariant()
    def what_waits_is_counted(self) -> None:
        assert len(self.coalescer) == sum(map(len, self.waiting.values()))

    @invariant()
    def the_timer_never_oversleeps(self) -> None:
        idle = any(items and run not in self.under_way for run, items in self.waiting.items())
        due = self.coalescer.get_timer()
        assert (due is not None) is idle
        assert due is None or due <= self.now + LINGER_S


TestCoalescing = Coalescing.TestCase
TestCoalescing.settings = settings(max_examples=100, stateful_step_count=40)


def coalescer(linger_s: float = LINGER_S) -> Coalescer[str]:
    return Coalescer(max_events=LIMIT, linger_s=linger_s)


def test_a_first_item_waits_for_company() -> None:
    queue = coalescer()
    queue.add("r", "a", 10.0)
    assert queue.get_timer() == 11.0
    queue.add("r", "b", 10.9)
    assert queue.get_timer() == 11.0
    assert queue.handle_timer(10.99) == []
    assert queue.handle_timer(11.0) == [("r", ["a", "b"])]


def test_a_full_batch_does_not_wait() -> None:
    queue = coalescer()
    for item in "abcde":
        queue.add("r", item, 10.0)
    assert queue.get_timer() == 10.0
    # All of it goes: the cutting is left to those who see which events belong together.
    assert queue.handle_timer(10.0) == [("r", ["a", "b", "c", "d", "e"])]


def test_what_gathers_behind_a_batch_goes_when_it_ends() -> None:
    queue = coalescer()
    queue.add("r", "a", 10.0)
    assert queue.handle_timer(11.0) == [("r", ["a"])]
    queue.add("r", "b", 11.0)
    assert queue.get_timer() is None
    assert queue.handle_timer(99.0) == []
    queue.done("r", 20.0)
    assert queue.handle_timer(20.0) == [("r", ["b"])]


def test_runs_do_not_wait_for_each_other() -> None:
    queue = coalescer(0.0)
    queue.add("r", "a", 0.0)
    assert queue.handle_timer(0.0) == [("r", ["a"])]
    queue.add("other", "b", 0.0)
    assert queue.handle_timer(0.0) == [("other", ["b"])]


def test_runs_nobody_waits_for_are_forgotten() -> None:
    queue = coalescer()
    queue.add("r", "a", 0.0)
    assert queue.discard("r", "a")
    assert not queue.discard("r", "a")
    assert not queue.discard("never", "a")
    with pytest.raises(KeyError):
        queue.done("r", 0.0)
    assert queue.drain() == []
    assert queue.get_timer() is None
