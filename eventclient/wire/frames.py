"""Frames: ``u32be length, meta, u32be length, body``; meta is one CBOR map, body is opaque bytes.

Source: `@workflow/world-vercel` 5.0.0-beta.50.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from . import spec
from .codec import MalformedError, decode

_PACK_U32: Final = struct.Struct(">I").pack
_UNPACK_U32: Final = struct.Struct(">I").unpack_from


@dataclass(frozen=True, slots=True)
class Frame:
    """One decoded frame."""

    meta: dict[str, Any]
    body: bytes


def encode_frame(meta: bytes, body: bytes) -> bytes:
    """A frame of an encoded CBOR map and a body."""
    return _PACK_U32(len(meta)) + meta + _PACK_U32(len(body)) + body


class FrameDecoder:
    """Frames out of a byte stream that arrives in any pieces. Does no IO.

    After the last piece, `receive_eof` says whether the stream stopped inside a frame.
    """

    __slots__ = ("_buffer", "_max_bytes", "_offset", "count")

    def __init__(self, *, max_bytes: int | None = None) -> None:
        """`max_bytes`: the longest meta or body to accept; None takes what the prefix can say."""
        self._buffer = bytearray()
        self._offset = 0
        self._max_bytes = spec.MAX_U32 if max_bytes is None else max_bytes
        self.count = 0
        """How many whole frames have been taken out so far."""

    def receive_data(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes, in order.

        Raises:
            MalformedError: a meta that is no CBOR map, or a length over `max_bytes`.
        """
        self._buffer += data
        while (frame := self._next()) is not None:
            self.count += 1
            yield frame
        if self._offset:
            del self._buffer[: self._offset]
            self._offset = 0

    def pending_meta(self) -> dict[str, Any] | None:
        """The meta of the frame being received, once it and the length of its body are there."""
        meta_range = self._part(self._offset, "meta")
        if meta_range is None or len(self._buffer) < meta_range[1] + spec.LENGTH_BYTES:
            return None
        return self._meta(meta_range)

    @property
    def pending_bytes(self) -> int:
        """Bytes received that no whole frame has used yet."""
        return len(self._buffer) - self._offset

    def receive_eof(self) -> None:
        """The stream has ended.

        Raises:
            MalformedError: it ended inside a frame.
        """
        if self.pending_bytes:
            raise MalformedError(_cut_off(self.count, self.pending_bytes))

    def _next(self) -> Frame | None:
        meta_range = self._part(self._offset, "meta")
        if meta_range is None:
            return None
        body_range = self._part(meta_range[1], "body")
        if body_range is None:
            return None
        meta = self._meta(meta_range)
        frame = Frame(meta, bytes(self._buffer[slice(*body_range)]))
        self._offset = body_range[1]
        return frame

    def _meta(self, where: tuple[int, int]) -> dict[str, Any]:
        return _decode_meta(bytes(self._buffer[slice(*where)]), self.count)

    def _part(self, at: int, name: str) -> tuple[int, int] | None:
        start = at + spec.LENGTH_BYTES
        if len(self._buffer) < start:
            return None
        (length,) = _UNPACK_U32(self._buffer, at)
        _check_length(length, name, self.count, self._max_bytes)
        end: int = start + length
        return (start, end) if len(self._buffer) >= end else None


class FrameCountError(MalformedError):
    """There are more frames than are taken."""


def decode_frames(
    data: bytes, *, max_count: int | None = None, max_meta_bytes: int | None = None
) -> list[Frame]:
    """All frames of a whole body, as a server takes it from whoever sent it.

    Lengths are checked by their prefixes and frames are counted before any meta is decoded, and metas
    are decoded inertly (see `codec.decode`): time and memory are in proportion to `data`.

    Args:
        max_count: how many frames are taken; None takes them all.
        max_meta_bytes: the longest meta that is taken; None takes what the prefix can say.

    Raises:
        FrameCountError: there are more than `max_count`.
        MalformedError: the body is not a sequence of whole frames.
    """
    extents = _measure(data, max_count, spec.MAX_U32 if max_meta_bytes is None else max_meta_bytes)
    return [
        Frame(
            _decode_meta(data[start:meta_end], number, inert=True), data[meta_end + spec.LENGTH_BYTES : end]
        )
        for number, (start, meta_end, end) in enumerate(extents)
    ]


def _measure(data: bytes, max_count: int | None, max_meta_bytes: int) -> list[tuple[int, int, int]]:
    """Of each frame, where its meta starts, where that ends, and where the frame ends."""
    extents: list[tuple[int, int, int]] = []
    at, size = 0, len(data)
    while at < size:
        if len(extents) == max_count:
            raise FrameCountError(f"there are more frames than {max_count}")
        start = meta_end = at + spec.LENGTH_BYTES
        if start <= size:
            (length,) = _UNPACK_U32(data, at)
            _check_length(length, "meta", len(extents), max_meta_bytes)
            meta_end += length
        end = meta_end + spec.LENGTH_BYTES
        if end <= size:
            end += _UNPACK_U32(data, meta_end)[0]
        if end > size:
            raise MalformedError(_cut_off(len(extents), size - at))
        extents.append((start, meta_end, end))
        at = end
    return extents


def _check_length(length: int, name: str, number: int, limit: int) -> None:
    if length > limit:
        raise MalformedError(f"{name} of frame {number} claims {length} bytes, more than {limit}")


def _cut_off(number: int, left_bytes: int) -> str:
    return f"the stream ends inside frame {number}: {left_bytes} bytes are left over"


def _decode_meta(data: bytes, number: int, *, inert: bool = False) -> dict[str, Any]:
    try:
        meta = decode(data, inert=inert)
    except MalformedError as error:
        raise MalformedError(f"meta of frame {number}: {error}") from None
    if not isinstance(meta, dict):
        raise MalformedError(f"meta of frame {number} is {type(meta).__name__}, not a map")
    return meta
