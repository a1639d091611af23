"""The rules for the attributes of a run."""

from __future__ import annotations

import pytest

from eventclient.devserver.attributes import InvalidAttributesError, merge_attributes


def test_changes_are_made_in_order_and_none_deletes() -> None:
    current = {"a": "1", "b": "2"}
    assert merge_attributes(current, [("b", None), ("c", "3"), ("d", None)]) == {"a": "1", "c": "3"}
    assert current == {"a": "1", "b": "2"}


def test_what_is_just_within_bounds_is_taken() -> None:
    assert merge_attributes({}, [("k" * 256, "é" * 128)]) == {"k" * 256: "é" * 128}
    assert len(merge_attributes({}, [(f"k{number}", "") for number in range(64)])) == 64
    full = {f"k{number}": "" for number in range(64)}
    assert len(merge_attributes(full, [("k0", None), ("new", "")])) == 64


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ([("", "x")], "1 to 256 characters"),
        ([("k" * 257, None)], "1 to 256 characters"),
        ([("k", "x" * 257)], "256 bytes"),
        ([("k", "é" * 129)], "256 bytes"),
        ([("k", "1"), ("k", None)], "twice"),
        ([("$k", "1")], "reserved"),
        ([("$k", None)], "reserved"),
        ([(f"k{number}", "") for number in range(65)], "64 attributes"),
    ],
)
def test_what_is_out_of_bounds_is_refused(changes: list[tuple[str, str | None]], rule: str) -> None:
    with pytest.raises(InvalidAttributesError, match=rule):
        merge_attributes({}, changes)


def test_reserved_keys_are_for_those_who_say_so() -> None:
    assert merge_attributes({}, [("$k", "1")], allow_reserved=True) == {"$k": "1"}
