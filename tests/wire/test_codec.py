"""CBOR values: bytes as the published client writes them, and everything it may send is read."""

from __future__ import annotations

import contextlib
import enum
import math
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.wire import codec
from eventclient.wire.codec import MalformedError, decode, encode_number, encode_value
from eventclient.wire.items import UnencodableError


class Shade(str, enum.Enum):  # noqa: UP042 - its text is not its value, which is the point
    DARK = "dark"


class Level(enum.IntEnum):
    HIGH = 3


SAFE_INTS = st.integers(-(2**53), 2**53)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
# Until 2242 a float of seconds tells microseconds apart.
INSTANTS = st.datetimes(datetime(1800, 1, 1), datetime(2242, 1, 1), timezones=st.just(UTC)).map(
    lambda instant: instant.replace(microsecond=instant.microsecond // 1000 * 1000)
)
SCALARS = st.none() | st.booleans() | SAFE_INTS | st.floats() | TEXTS | st.binary(max_size=20)
VALUES = st.recursive(
    SCALARS | INSTANTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    """Equal in meaning: whole floats and integers are alike, NaN is itself."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) and isinstance(other, int | float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(VALUES)
def test_decode_undoes_encode(value: object) -> None:
    assert same(decode(encode_value(value)), value)


@given(VALUES)
def test_a_cut_is_seen_at_every_byte_and_so_is_a_tail(value: object) -> None:
    data = encode_value(value)
    for size in range(len(data)):
        with pytest.raises(MalformedError):
            decode(data[:size])
    with pytest.raises(MalformedError, match="1 bytes follow"):
        decode(data + b"\x00")


@given(st.binary(max_size=60))
def test_decode_raises_nothing_but_malformed(data: bytes) -> None:
    with contextlib.suppress(MalformedError):
        decode(data)


# -- encode ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "hexed"),
    [
        (None, "f6"),
        (True, "f5"),
        (5, "05"),
        (Level.HIGH, "03"),
        (5.0, "fb4014000000000000"),
        (2**32 - 1, "1affffffff"),
        (-(2**31), "3a7fffffff"),
        # From here on the reference would read a BigInt, or a wrong number.
        (2**32, "fb41f0000000000000"),
        (-(2**31) - 1, "fbc1e0000000200000"),
        (1767225600123, "fb4279b76daa87b000"),
        ("", "60"),
        ("ß", "62c39f"),
        (Shade.DARK, "646461726b"),
        (b"\x01", "4101"),
        ([1, [2]], "82018102"),
        ((1,), "8101"),
        ({"a": None}, "a16161f6"),
        (datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC), "c1fb41d954fc4007df3b"),
        # Whole seconds, and those past 2106, are floats as well.
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), "c1fb41d954fc40000000"),
    ],
)
def test_the_bytes_of_a_value(value: object, hexed: str) -> None:
    assert encode_value(value).hex() == hexed


def loop() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


NAIVE = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (2**53 + 1, "", "float64"),
        ({"a": [0, {"b": 2**53 + 1}]}, "a.1.b", "float64"),
        (10**400, "", "float64"),
        ({"a": "\ud800"}, "a", "lone surrogate"),
        ({"\ud800": 1}, "", "lone surrogate"),
        ({"a": {5: 1}}, "a", "key of type int"),
        ({b"x": 1}, "", "key of type bytes"),
        ({"a": {1, 2}}, "a", "set"),
        ([uuid.UUID(int=5)], "0", "UUID"),
        ({"a": bytearray(b"x")}, "a", "bytearray"),
        (memoryview(b"x"), "", "memoryview"),
        (object(), "", "object"),
        ({"a": NAIVE}, "a", "naive"),
        (nested(100), ".".join("0" * 65), "nested"),
        (loop(), ".".join("0" * 65), "nested"),
        (1j, "", "complex"),
    ],
)
def test_what_cannot_be_carried_is_refused_with_its_place(value: object, path: str, reason: str) -> None:
    with pytest.raises(UnencodableError, match=reason) as refused:
        encode_value(value)
    assert refused.value.path == path
    assert str(refused.value) == (f"{path}: {refused.value.reason}" if path else refused.value.reason)


def test_sixty_levels_are_carried() -> None:
    assert decode(encode_value(nested(60))) == nested(60)


@given(st.integers() | st.floats())
def test_a_number_alone_is_encoded_as_within_a_value(number: float) -> None:
    try:
        expected = encode_value(number)
    except UnencodableError:
        with pytest.raises(UnencodableError):
            encode_number(number)
    else:
        decoded = decode(encode_number(number))
        assert same(decoded, decode(expected))
        assert decoded == number or math.isnan(number)


# -- decode ------------------------------------------------------------------------------------

THEN = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hexed", "value"),
    [
        # What cbor-x writes: two-byte map headers, tag 64 around bytes, undefined members.
        ("b90001617805", {"x": 5}),
        ("d84043010203", b"\x01\x02\x03"),
        ("b900026161f76162f6", {"b": None}),
        ("82f7f6", [None, None]),
        ("f7", None),
        ("a16178a16179f7", {"x": {}}),
        ("8181a16179f7", [[{}]]),
        # Dates under tag 0 and tag 1 in any number form.
        ("c074323032342d30312d30325430333a30343a30355a", THEN),
        ("c11a65937d25", THEN),
        ("c11b0000000065937d25", THEN),
        ("c1fb41d964df49400000", THEN),
        ("c120", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        # A text date without an offset is UTC: nothing here depends on the machine.
        ("c073323032342d30312d30325430333a30343a3035", THEN),
        ("1b0000000100000000", 2**32),
        ("c249010000000000000000", 2**64),
        ("fb4279b76daa87b000", 1767225600123.0),
        ("5f42010243030405ff", b"\x01\x02\x03\x04\x05"),
        ("7f61616162ff", "ab"),
        ("9f0102ff", [1, 2]),
        ("bf616101ff", {"a": 1}),
        ("62ff61", "\ufffda"),
    ],
)
def test_every_form_that_servers_send_is_read(hexed: str, value: object) -> None:
    assert decode(bytes.fromhex(hexed)) == value


@pytest.mark.parametrize("hexed", ["c1f97e00", "c1fbffefffffffffffff", "c064736f6f6e", "c1f6"])
def test_a_date_no_datetime_can_hold_is_no_error_and_no_date(hexed: str) -> None:
    assert not isinstance(decode(bytes.fromhex(hexed)), datetime | int | float | str)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01\xff\x44",
        b'{"results": []}',
        b"<title>Login</title>",
        b"\x81" * 100_000,
        bytes.fromhex("9bffffffffffffffff"),
        bytes.fromhex("bbffffffffffffffff"),
        bytes.fromhex("5bffffffffffffffff"),
        bytes.fromhex("d81c82f7d81d00"),
        b"\xff",
    ],
)
def test_what_is_not_one_whole_item_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        decode(data)


def test_an_error_repeats_nothing_of_the_bytes() -> None:
    with pytest.raises(MalformedError) as refused:
        decode(b"\x78\xffdo-not-show-me")
    assert "do-not-show-me" not in str(refused.value)


def test_a_small_item_must_be_all_there_is() -> None:
    whole = encode_value({"a": [1, {"b": "c"}]})
    for extra in (b"\x00", b"\x60", whole, b"\xff"):
        with pytest.raises(MalformedError):
            decode(whole + extra)
    for end in range(len(whole)):
        with pytest.raises(MalformedError):
            decode(whole[:end])
    assert decode(codec._ENCODED_MARK) == codec._MARK


@pytest.mark.parametrize("size", [codec._MAX_SMALL_BYTES - 8, codec._MAX_SMALL_BYTES, 70_000])
def test_small_and_large_items_are_read_alike(size: int) -> None:
    value = {"text": "x" * size, "undefined": None, "list": [1, b"y"]}
    assert decode(encode_value(value)) == value
    with pytest.raises(MalformedError, match="1 bytes follow"):
        decode(encode_value(value) + b"\x00")
