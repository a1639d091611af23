"""CBOR. The only file that calls cbor2.

Source: `@workflow/world-vercel` 5.0.0-beta.50 and cbor-x 1.6.0, measured against cbor2 6.3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from secrets import token_hex
from typing import Any, Final

import cbor2

from . import spec
from .items import UnencodableError, encode_text, epoch_ms

_PACK_F64: Final = struct.Struct(">d").pack
_MAX_DEPTH: Final = 64


class MalformedError(ValueError):
    """Bytes that are not what the protocol says; the message says what is wrong and where."""


# -- encode ------------------------------------------------------------------------------------


def encode_number(value: int | float) -> bytes:
    """A number; integers the reference cannot read as one travel as float64.

    Raises:
        UnencodableError: an integer that float64 cannot hold exactly.
    """
    if isinstance(value, int):
        return cbor2.dumps(_safe_int(value, ""))
    return b"\xfb" + _PACK_F64(value)


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

_DECODE_ERRORS = (cbor2.CBORDecodeError, ValueError, TypeError, OverflowError, RecursionError, MemoryError)


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


def _keep_tag(number: int, value: Any, _immutable: bool) -> Any:
    return cbor2.CBORTag(number, value)


def _big_integer(number: int, value: Any, immutable: bool) -> Any:
    # As keys, integers of any size could be chosen to collide.
    if immutable or not isinstance(value, bytes):
        return cbor2.CBORTag(number, value)
    size = int.from_bytes(value, "big")
    return size if number == spec.TAGS_BIG_INTEGER[0] else -1 - size


_INERT: Final = {
    **{number: partial(_keep_tag, number) for number in spec.ACTIVE_TAGS},
    **{number: partial(_big_integer, number) for number in spec.TAGS_BIG_INTEGER},
}
_INERT_DECODERS: Final[Any] = ({**_INERT, **(_PLAIN_DECODERS or {})}, {**_INERT, **_LENIENT_DECODERS})


_MAX_SMALL_BYTES: Final = 4000
"""Below the 4096 bytes from which cbor2 6.0 reads in pieces, and mixes them up."""
_MARK: Final = token_hex(8)
_ENCODED_MARK: Final = encode_text(_MARK)
_NOT_DECODED: Final = object()


def decode(data: bytes, *, keep_undefined: bool = False, inert: bool = False) -> Any:
    """The one CBOR item that `data` is.

    Lenient in form: `undefined` members are dropped, byte strings under tag 64 are unwrapped, dates
    may be tag 0 or tag 1, indefinite lengths and invalid UTF-8 are read. Instants no datetime can
    hold stay tagged. Strict in extent: the item must be whole and must be all there is.

    With `keep_undefined` the dropping is left to the caller, who calls `without_undefined` where it matters.
    With `inert`, for bytes of strangers, `spec.ACTIVE_TAGS` and keys that are big integers stay tags; it
    costs time and memory in proportion to `data`. Nesting beyond 400 levels is malformed in any case.

    Raises:
        MalformedError: the bytes are not one whole CBOR item.
    """
    plain, lenient = _INERT_DECODERS if inert else (_PLAIN_DECODERS, _LENIENT_DECODERS)
    value = _decode_small(data, plain) if len(data) <= _MAX_SMALL_BYTES else _NOT_DECODED
    if value is _NOT_DECODED:
        value = _decode_stream(data, plain, lenient)
    return value if keep_undefined or b"\xf7" not in data else without_undefined(value)


def _decode_small(data: bytes, decoders: Any) -> Any:
    """The item that `data` is, at two thirds of the price of a stream; `_NOT_DECODED` when it is none.

    A reader of bytes does not tell where the item ended, so a mark that nobody can foresee is put behind it.
    """
    try:
        value, mark = cbor2.loads(
            b"\x82" + data + _ENCODED_MARK, tag_hook=_unwrap_bytes, semantic_decoders=decoders
        )
    except _DECODE_ERRORS:
        return _NOT_DECODED
    return value if mark == _MARK and type(value) is not object else _NOT_DECODED


def _decode_stream(data: bytes, plain: Any, lenient: Any) -> Any:
    stream = BytesIO(data)
    # The whole item is read at once: cbor2 6.0 mixes up the pieces of a stream it reads in several.
    size = len(data) or 1
    try:
        value = cbor2.CBORDecoder(
            stream, tag_hook=_unwrap_bytes, semantic_decoders=plain, read_size=size
        ).decode()
    except _DECODE_ERRORS:
        stream = BytesIO(data)
        try:
            value = cbor2.CBORDecoder(
                stream,
                tag_hook=_unwrap_bytes,
                semantic_decoders=lenient,
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
    return value


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
