"""Frames: the same in any pieces, and a cut is seen anywhere."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventclient.wire.codec import MalformedError, encode_value
from eventclient.wire.frames import Frame, FrameCountError, FrameDecoder, decode_frames, encode_frame

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
        frames = decode_frames(data, max_meta_bytes=1000)
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
    assert list(FrameDecoder(max_bytes=10).receive_data(encoded([frame]))) == [frame]


@given(FRAMES, st.data())
def test_a_whole_body_and_a_stream_are_read_alike(frames: list[Frame], draw: st.DataObject) -> None:
    data = encoded(frames)
    data = data[: draw.draw(st.integers(0, len(data)))] + draw.draw(st.binary(max_size=3))
    decoder, streamed = FrameDecoder(), list[Frame]()
    try:
        streamed += decoder.receive_data(data)
        decoder.receive_eof()
    except MalformedError:
        with pytest.raises(MalformedError):
            decode_frames(data)
    else:
        assert decode_frames(data) == streamed


def test_frames_are_counted_and_measured_before_any_is_decoded() -> None:
    broken, fine = encode_frame(b"\xff", b""), encode_frame(b"\xa0", b"x")
    with pytest.raises(FrameCountError, match="more frames than 2"):
        decode_frames(broken * 3, max_count=2)
    with pytest.raises(FrameCountError):
        decode_frames(fine + b"\0", max_count=1)
    assert len(decode_frames(fine * 2, max_count=2)) == 2
    with pytest.raises(MalformedError, match="meta of frame 1 claims 2 bytes, more than 1"):
        decode_frames(broken + encode_frame(b"\xa0\xa0", b""), max_meta_bytes=1)
    with pytest.raises(MalformedError, match="meta of frame 0 claims 4294967295 bytes, more than 5"):
        decode_frames(b"\xff\xff\xff\xff", max_meta_bytes=5)


def test_what_stands_for_an_enormous_value_stays_small() -> None:
    # Sixty shared lists, each twice in the next one: 2**60 items when written out.
    doubling = b"".join(b"\xd8\x1c\x82" for _ in range(60)) + b"\x80"
    doubling += b"".join(b"\xd8\x1d" + _uint(59 - level) for level in range(60))
    (frame,) = decode_frames(encode_frame(b"\xa1ax" + doubling, b""))
    assert len(repr(frame.meta)) < 20 * len(doubling)
    texts = b"\xd9\x01\x00\x99\x10\x01\x79\x10\x00" + b"t" * 0x1000 + b"\xd8\x19\x00" * 0x1000
    (frame,) = decode_frames(encode_frame(b"\xa1ax" + texts, b""))
    assert len(repr(frame.meta)) < 20 * len(texts)


def test_keys_cannot_be_made_to_collide() -> None:
    # All of them have the hash 0, as integers; as what they are here, each has its own.
    numbers = [(number << 61) - number for number in range(16, 66)]
    keys = [b"\xc2\x49" + number.to_bytes(9, "big") for number in numbers]
    (frame,) = decode_frames(encode_frame(b"\xb8\x32" + b"\x00".join(keys) + b"\x00", b""))
    assert len({hash(key) for key in frame.meta}) == 50
    assert {hash(number) for number in numbers} == {0}


def _uint(value: int) -> bytes:
    return bytes((value,)) if value < 24 else bytes((0x18, value))


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
