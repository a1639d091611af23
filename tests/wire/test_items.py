"""CBOR items written by hand: the bytes a library would write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.wire.codec import decode, encode_value
from eventclient.wire.items import (
    UnencodableError,
    encode_bytes,
    encode_instant,
    encode_map_header,
    encode_text,
    epoch_ms,
)


@given(st.text())
def test_text_alone_is_encoded_as_within_a_value(text: str) -> None:
    try:
        expected = encode_value(text)
    except UnencodableError:
        with pytest.raises(UnencodableError):
            encode_text(text)
    else:
        assert encode_text(text) == expected


@pytest.mark.parametrize("size", [0, 23, 24, 255, 256, 65535, 65536])
def test_text_of_any_length(size: int) -> None:
    assert encode_text("x" * size) == encode_value("x" * size)


@pytest.mark.parametrize("count", [0, 1, 23, 24, 255, 256, 1000])
def test_map_headers(count: int) -> None:
    body = b"".join(encode_text(f"{number:04}") + b"\x01" for number in range(count))
    assert decode(encode_map_header(count) + body) == {f"{number:04}": 1 for number in range(count)}


@given(st.datetimes(timezones=st.timezones() | st.just(UTC)))
def test_instants_are_cut_to_the_millisecond_towards_the_past(instant: datetime) -> None:
    ms = epoch_ms(instant)
    exact = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert ms == exact // 1000
    assert encode_instant(instant) == encode_value(instant)


@given(st.datetimes(datetime(2242, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))
def test_far_instants_keep_their_millisecond_within_a_float_s_reach(instant: datetime) -> None:
    assert abs(decode(encode_instant(instant)) - instant) <= timedelta(milliseconds=1.1)


def test_the_zone_of_an_instant_does_not_matter() -> None:
    then = datetime(2026, 3, 4, 5, 6, 7, 89_999, tzinfo=UTC)
    assert encode_instant(then) == encode_instant(then.astimezone(timezone(timedelta(hours=9))))


@pytest.mark.parametrize("size", [0, 1, 23, 24, 255, 256, 65535, 65536])
def test_bytes_of_any_size_are_as_the_library_writes_them(size: int) -> None:
    assert encode_bytes(b"x" * size) == encode_value(b"x" * size)
