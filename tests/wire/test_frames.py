"""Frames: the same in any pieces, and a cut is seen anywhere."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.wire.codec import MalformedError, encode_value
from eventclient.wire.frames import Frame, FrameDecoder, decode_frames, encode_frame

METAS = st.dictionaries(
    st.text(st.characters(max_codepoint=0x7F), max_size=5), st.integers(0, 99), max_size=3
)
FRAMES = st.lists(st.builds(Frame, METAS, st.binary(max_size=30)), max_size=5)


def encoded(frames: list[Frame]) -> bytes:
    return b"".join(encode_frame(encode_value(frame.meta), frame.body) for frame in frames)


@given(FRAMES)
def test_decode_undoes_encode(frames: list[Frame]) -> None:
    assert decode_frames(encoded(frames)) == frames


@given(FRAMES, st.data())
def test_any_pieces_give_the_same_frames(frames: list[Frame], draw: st.DataObject) -> None:
    data = encoded(frames)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)))))
    decoder, seen = FrameDecoder(), list[Frame]()
    for start, stop in itertools.pairwise([0, *cuts, len(data)]):
        seen += decoder.receive_data(data[start:stop])
    decoder.receive_eof()
    assert seen == frames
    assert (decoder.count, decoder.pending_bytes) == (len(frames), 0)


@given(FRAMES)
def test_byte_by_byte_gives_the_same_frames(frames: list[Frame]) -> None:
    decoder = FrameDecoder()
    seen = [frame for byte in encoded(frames) for frame in decoder.receive_data(bytes((byte,)))]
    decoder.receive_eof()
    assert seen == frames


@given(FRAMES)
def test_a_cut_is_seen_unless_it_falls_between_frames(frames: list[Frame]) -> None:
    data = encoded(frames)
    ends = {len(encoded(frames[:count])): count for count in range(len(frames) + 1)}
    for size in range(len(data) + 1):
        decoder = FrameDecoder()
        seen = list(decoder.receive_data(data[:size]))
        assert seen == frames[: len(seen)]
        if size in ends:
            decoder.receive_eof()
            assert len(seen) == ends[size]
        else:
            with pytest.raises(MalformedError, match=f"inside frame {len(seen)}"):
                decoder.receive_eof()


@given(FRAMES, st.integers(1, 3))
def test_a_reader_may_stop_between_frames_and_go_on(frames: list[Frame], taken: int) -> None:
    decoder = FrameDecoder()
    first = list(itertools.islice(decoder.receive_data(encoded(frames)), taken))
    assert first + list(decoder.receive_data(b"")) == frames


@given(st.binary(max_size=60))
def test_decoding_raises_nothing_but_malformed(data: bytes) -> None:
    try:
        frames = decode_frames(data, max_bytes=1000)
    except MalformedError:
        return
    assert decode_frames(encoded(frames)) == frames or frames


@pytest.mark.parametrize("meta", [b"", b"\x01", b"\x80", b"\xf6", b"\xa1\x61", b"\xa0\x00", b"{}"])
def test_a_meta_that_is_no_map_is_malformed(meta: bytes) -> None:
    with pytest.raises(MalformedError, match="meta of frame 1"):
        decode_frames(encode_frame(b"\xa0", b"") + encode_frame(meta, b"x"))


def test_a_length_over_the_limit_is_refused_before_the_bytes_come() -> None:
    for data, name in (
        (struct.pack(">I", 11), "meta"),
        (encode_frame(b"\xa0", b"")[:-4] + struct.pack(">I", 11), "body"),
    ):
        with pytest.raises(MalformedError, match=f"{name} of frame 0 claims 11 bytes, more than 10"):
            list(FrameDecoder(max_bytes=10).receive_data(data))


def test_a_limit_takes_what_just_fits() -> None:
    frame = Frame({}, b"x" * 10)
    assert decode_frames(encoded([frame]), max_bytes=10) == [frame]


def test_the_meta_of_a_frame_under_way_is_known_once_the_length_of_its_body_is() -> None:
    data = encode_frame(encode_value({"a": 1}), b"body")
    for size in range(len(data)):
        decoder = FrameDecoder()
        assert list(decoder.receive_data(data[:size])) == []
        known = size >= len(data) - 4
        assert decoder.pending_meta() == ({"a": 1} if known else None)


def test_a_frame_owns_its_bytes() -> None:
    data = bytearray(encode_frame(b"\xa0", b"body"))
    (frame,) = FrameDecoder().receive_data(bytes(data))
    data[-1] = 0
    assert frame == Frame({}, b"body")
    assert type(frame.body) is bytes
