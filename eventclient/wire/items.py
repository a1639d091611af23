"""CBOR items that are short enough to be written by hand, several times as fast as by a library.

Source: RFC 8949; `@workflow/world-vercel` 5.0.0-beta.50 and cbor-x 1.6.0 (dates).
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Final

_PACK_F64: Final = struct.Struct(">d").pack
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class UnencodableError(ValueError):
    """A value CBOR, or the reference's decoder, cannot carry unchanged.

    Attributes:
        path: where in the value, dotted; empty for the value itself.
        reason: why.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


def epoch_ms(instant: datetime) -> int:
    """Whole milliseconds since 1970, cut off towards the past."""
    if instant.tzinfo is UTC and 1970 <= instant.year < 2100:
        # Quicker than the subtraction, and exact: until then a float tells microseconds apart.
        return int(instant.timestamp()) * 1000 + instant.microsecond // 1000
    delta = instant - _EPOCH
    return (delta.days * 86400 + delta.seconds) * 1000 + delta.microseconds // 1000


def encode_instant(instant: datetime) -> bytes:
    """An aware datetime as tag 1 with float seconds, in whole milliseconds.

    Never as an integer: the reference's decoder fails on a 64-bit integer under tag 1.
    """
    return b"\xc1\xfb" + _PACK_F64(epoch_ms(instant) / 1000)


def encode_text(text: str) -> bytes:
    """A text string of definite length.

    Raises:
        UnencodableError: it holds a lone surrogate, which UTF-8 does not have.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise UnencodableError("holds a lone surrogate, which UTF-8 cannot carry") from None
    return _string(0x60, data)


def encode_bytes(data: bytes) -> bytes:
    """A byte string of definite length."""
    return _string(0x40, data)


def _string(kind: int, data: bytes) -> bytes:
    size = len(data)
    if size < 24:
        return bytes((kind | size,)) + data
    if size < 0x100:
        return bytes((kind | 24, size)) + data
    if size < 0x1_0000:
        return bytes((kind | 25,)) + size.to_bytes(2, "big") + data
    return bytes((kind | 26,)) + size.to_bytes(4, "big") + data


def encode_map_header(count: int) -> bytes:
    """The header of a map of `count` pairs."""
    if count < 24:
        return bytes((0xA0 | count,))
    return bytes((0xB8, count)) if count < 0x100 else b"\xb9" + count.to_bytes(2, "big")
