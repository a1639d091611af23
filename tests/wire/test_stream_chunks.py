"""Bodies of several stream chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.wire.codec import MalformedError
from eventclient.wire.stream_chunks import MAX_CHUNKS_PER_WRITE, decode_chunks


def body_of(chunks: list[bytes]) -> bytes:
    return b"".join(len(chunk).to_bytes(4, "big") + chunk for chunk in chunks)


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_chunks_come_out_as_they_went_in(chunks: list[bytes]) -> None:
    assert decode_chunks(body_of(chunks)) == chunks


@given(st.lists(st.binary(max_size=6), min_size=1, max_size=5), st.data())
def test_a_cut_is_seen_unless_it_is_between_chunks(chunks: list[bytes], data: st.DataObject) -> None:
    body = body_of(chunks)
    ends = {len(body_of(chunks[:count])): count for count in range(len(chunks) + 1)}
    at = data.draw(st.integers(0, len(body)))
    if at in ends:
        assert decode_chunks(body[:at]) == chunks[: ends[at]]
    else:
        with pytest.raises(MalformedError, match="ends inside chunk"):
            decode_chunks(body[:at])


def test_a_length_beyond_the_body_is_no_promise_of_memory() -> None:
    with pytest.raises(MalformedError, match="ends inside chunk 1"):
        decode_chunks(b"\x00\x00\x00\x01a\xff\xff\xff\xffb")


def test_there_is_a_most_of_chunks() -> None:
    assert decode_chunks(body_of([b"x"] * MAX_CHUNKS_PER_WRITE)) == [b"x"] * MAX_CHUNKS_PER_WRITE
    with pytest.raises(MalformedError, match="more than 1000 chunks"):
        decode_chunks(body_of([b"x"] * (MAX_CHUNKS_PER_WRITE + 1)))
