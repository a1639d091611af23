"""CBOR. The only file that calls cbor2.

Source: `@workflow/world-vercel` 5.0.0-beta.50 and cbor-x 1.6.0, measured against cbor2 6.3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, Final

import cbor2

from . import spec

_PACK_F64: Final = struct.Struct(">d").pack
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_DEPTH: Final = 64


class MalformedError(ValueError):
    """Bytes that are not what the protocol says; the message says what is wrong and where."""


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


# -- encode ------------------------------------------------------------------------------------


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
    size = len(data)
    if size < 24:
        return bytes((0x60 | size,)) + data
    if size < 0x100:
        return bytes((0x78, size)) + data
    if size < 0x1_0000:
        return b"\x79" + size.to_bytes(2, "big") + data
    return b"\x7a" + size.to_bytes(4, "big") + data


def encode_number(value: int | float) -> bytes:
    """A number; integers the reference cannot read as one travel as float64.

    Raises:
        UnencodableError: an integer that float64 cannot hold exactly.
    """
    if isinstance(value, int):
        return cbor2.dumps(_safe_int(value, ""))
    return b"\xfb" + _PACK_F64(value)


def encode_map_header(count: int) -> bytes:
    """The header of a map of `count` pairs."""
    if count < 24:
        return bytes((0xA0 | count,))
    return bytes((0xB8, count)) if count < 0x100 else b"\xb9" + count.to_bytes(2, "big")


def encode_value(value: object) -> bytes:
    """Any value made of None, bool, numbers, text, bytes, aware datetimes, lists and maps with text keys.

    Raises:
        UnencodableError: says where in the value and why.
    """
    return cbor2.dumps(_encodable(value, "", 0))


def _safe_int(value: int, path: str) -> int | float:
    if spec.MIN_SAFE_INT <= value <= spec.MAX_SAFE_INT:
        return int(value)
    try:
        number = float(value)
    except OverflowError:
        number = 0.0
    if number != value:
        raise UnencodableError("is an integer that float64 cannot hold exactly", path)
    return number


def _encodable(value: object, path: str, depth: int) -> object:
    if depth > _MAX_DEPTH:
        raise UnencodableError(f"is nested more than {_MAX_DEPTH} levels deep", path)
    if value is None or isinstance(value, bool | float) or type(value) is bytes:
        return value
    if isinstance(value, str):
        encode_text(value) if value.isascii() else _check_text(value, path)
        # Not `str(value)`: of an enum member that is its name.
        return str.__str__(value)
    if isinstance(value, int):
        return _safe_int(value, path)
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise UnencodableError("is a naive datetime: give it a time zone", path)
        return cbor2.CBORTag(spec.TAG_EPOCH_DATE, epoch_ms(value) / 1000)
    if isinstance(value, Mapping):
        pairs = {}
        for key, item in value.items():
            where = f"{path}.{key}" if path else str(key)
            if not isinstance(key, str):
                raise UnencodableError(f"has a key of type {type(key).__name__}, not text", path)
            _check_text(key, path)
            pairs[key] = _encodable(item, where, depth + 1)
        return pairs
    if isinstance(value, list | tuple):
        return [
            _encodable(item, f"{path}.{position}" if path else str(position), depth + 1)
            for position, item in enumerate(value)
        ]
    raise UnencodableError(f"is of type {type(value).__name__}, which the protocol does not carry", path)


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnencodableError("holds a lone surrogate, which UTF-8 cannot carry", path) from None


# -- decode ------------------------------------------------------------------------------------

_DECODE_ERRORS = (
    cbor2.CBORDecodeError,
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
    MemoryError,
)


def _unwrap_bytes(tag: cbor2.CBORTag, _immutable: bool) -> Any:
    return tag.value if tag.tag == spec.TAG_UINT8_ARRAY else tag


def _text_instant(value: Any, _immutable: bool) -> Any:
    try:
        instant = datetime.fromisoformat(value)
        return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    except (ValueError, TypeError):
        return cbor2.CBORTag(spec.TAG_TEXT_DATE, value)


def _epoch_instant(value: Any, _immutable: bool) -> Any:
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, TypeError, OverflowError, OSError):
        return cbor2.CBORTag(spec.TAG_EPOCH_DATE, value)


def _reads_naive_dates() -> bool:
    try:
        return cbor2.loads(b"\xc0\x732024-01-02T03:04:05").tzinfo is None
    except cbor2.CBORDecodeError:
        return False


# Newer versions of cbor2 refuse a tag 0 date without an offset, which brings it to the lenient decoders.
_PLAIN_DECODERS: Final = {spec.TAG_TEXT_DATE: _text_instant} if _reads_naive_dates() else None
_LENIENT_DECODERS: Final = {spec.TAG_TEXT_DATE: _text_instant, spec.TAG_EPOCH_DATE: _epoch_instant}


def decode(data: bytes, *, keep_undefined: bool = False) -> Any:
    """The one CBOR item that `data` is.

    Lenient in form: `undefined` members are dropped, byte strings under tag 64 are unwrapped, dates
    may be tag 0 or tag 1, indefinite lengths and invalid UTF-8 are read. Instants no datetime can
    hold stay tagged. Strict in extent: the item must be whole and must be all there is.

    With `keep_undefined` the dropping is left to the caller, who calls `without_undefined` where it matters.

    Raises:
        MalformedError: the bytes are not one whole CBOR item.
    """
    stream = BytesIO(data)
    # The whole item is read at once: cbor2 6.0 mixes up the pieces of a stream it reads in several.
    size = len(data) or 1
    try:
        value = cbor2.CBORDecoder(
            stream, tag_hook=_unwrap_bytes, semantic_decoders=_PLAIN_DECODERS, read_size=size
        ).decode()
    except _DECODE_ERRORS:
        stream = BytesIO(data)
        try:
            value = cbor2.CBORDecoder(
                stream,
                tag_hook=_unwrap_bytes,
                semantic_decoders=_LENIENT_DECODERS,
                str_errors="replace",
                read_size=size,
            ).decode()
        except _DECODE_ERRORS as error:
            raise MalformedError(_why(error, data)) from None
    if type(value) is object:
        # What cbor2 6.0 makes of a break code that ends nothing.
        raise MalformedError("the bytes are no CBOR item (a break code)")
    if stream.tell() != len(data):
        extra = len(data) - stream.tell()
        raise MalformedError(f"{extra} bytes follow the CBOR item")
    return value if keep_undefined or b"\xf7" not in data else without_undefined(value)


def _why(error: BaseException, data: bytes) -> str:
    if not data:
        return "the CBOR item is missing: there are no bytes"
    if isinstance(error, cbor2.CBORDecodeEOF):
        return f"the CBOR item is cut off after {len(data)} bytes"
    return f"the bytes are no CBOR item ({type(error).__name__})"


def without_undefined(value: Any) -> Any:
    """A decoded value with every `undefined` member dropped; `undefined` itself, and in a list, is None.

    Raises:
        MalformedError: the value refers to itself.
    """
    if value is cbor2.undefined:
        return None
    try:
        return _dropped(value) if _holds_undefined(value) else value
    except RecursionError:
        raise MalformedError("the CBOR item refers to itself") from None


def _holds_undefined(value: Any) -> bool:
    if not isinstance(value, dict | list):
        return False
    for item in value.values() if type(value) is dict else value:
        if item is cbor2.undefined:
            return True
        kind = type(item)
        if (kind is dict or kind is list) and _holds_undefined(item):
            return True
    return False


def _dropped(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _dropped(item) for key, item in value.items() if item is not cbor2.undefined}
    if isinstance(value, list | tuple):
        return [None if item is cbor2.undefined else _dropped(item) for item in value]
    return value
