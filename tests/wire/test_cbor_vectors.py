"""Our CBOR against what cbor-x and cbor2 were seen to make of the same bytes and values."""

from __future__ import annotations

import math
import struct
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import cbor2
import pytest

from eventclient.wire.codec import MalformedError, decode, encode_value
from eventclient.wire.items import UnencodableError, encode_instant
from tests.support import vectors
from tests.support.cbor_table import (
    EXPRESSION_NAMES,
    FROM_JS,
    RAW,
    TABLE,
    TO_JS,
    as_cbor2_read,
    evaluate,
    in_words_of_the_table,
    nest_list,
    seen_forms,
)
from tests.support.tagged_json import Foreign, difference, read

# -- bytes that anybody may send ---------------------------------------------------------------

REFUSED: Final = object()
SHARED: Final = object()

OURS: Final[dict[str, tuple[Any, str]]] = {
    "indefinite-text": ("ab", "indefinite lengths are read"),
    "indefinite-bytes": (b"\x01\x02", "indefinite lengths are read"),
    "indefinite-text-empty": ("", "indefinite lengths are read"),
    "nint32-2p31": (-(2**31) - 1, "cbor-x reads it wrongly"),
    "nint32-max": (-(2**32), "cbor-x reads it wrongly"),
    "simple-23": (None, "undefined by itself is None"),
    "simple-24-invalid": (REFUSED, "no two-byte form of a simple value below 32"),
    "simple-0": (cbor2.CBORSimpleValue, "simple values mean nothing here and stay what they are"),
    "simple-19": (cbor2.CBORSimpleValue, "simple values mean nothing here and stay what they are"),
    "simple-24-32": (cbor2.CBORSimpleValue, "simple values mean nothing here and stay what they are"),
    "simple-255": (cbor2.CBORSimpleValue, "simple values mean nothing here and stay what they are"),
    "break": (REFUSED, "a break ends nothing here"),
    "map-array-key": ({(1,): 2}, "keys stay what they are"),
    "map-map-key": (dict, "keys stay what they are"),
    "map-null-key": ({None: 1}, "keys stay what they are"),
    "nested-arrays-1000": (REFUSED, "what is nested more than 400 levels deep is refused"),
    "nested-maps-600": (REFUSED, "what is nested more than 400 levels deep is refused"),
    "proto-key": ({"__proto__": 1}, "keys stay what they are"),
    "tag-1-text": (Foreign("tag 1", "01"), "an instant no datetime can hold stays tagged"),
    "tag-4-decimal": (Decimal("12.34"), "decimals are exact"),
    "tag-5-bigfloat": (Decimal("1.5"), "decimals are exact"),
    "tag-25-stringref": (REFUSED, "a reference to nothing"),
    "tag-27-error": (Foreign("tag 27", ["TypeError", "boom"]), "JavaScript types stay tagged"),
    "tag-28-29-sharing": (SHARED, "cbor2 resolves shared values, circles too"),
    "tag-37-uuid": (uuid.UUID("01234567-89ab-cdef-0123-456789abcdef"), "cbor2 knows UUIDs"),
    "tag-51-packed": (cbor2.CBORTag, "packed CBOR is not known and stays tagged"),
    "tag-64-text": ("a", "what tag 64 holds stays what it is"),
    "tag-69-uint16le": (Foreign("tag 69", b"\x01\x00\x02\x00"), "JavaScript types stay tagged"),
    "tag-259-map": (Foreign("tag 259", {1: 2}), "JavaScript types stay tagged"),
    "tag-huge": (Foreign("tag 18446744073709551615", 1), "tags are of any size"),
}
"""Where our decoder reads bytes otherwise than cbor-x, and why."""


def ours_for(name: str) -> Any:
    """What our decoder has to make of a raw row; cbor-x's own reading where no row says otherwise."""
    if name in OURS:
        return OURS[name][0]
    js = RAW[name]["js"]
    return REFUSED if "threw" in js else read(js["value"])


def raw_bytes(row: dict[str, Any]) -> bytes:
    if "cbor_hex" in row:
        return bytes.fromhex(row["cbor_hex"])
    unit = b"\x81" if row["name"].startswith("nested-arrays") else b"\xa1ak"
    data: bytes = unit * ((row["cbor_length"] - 1) // len(unit)) + b"\x01"
    assert data.hex().startswith(row["cbor_hex_head"])
    assert len(data) == row["cbor_length"]
    return data


@pytest.mark.parametrize("name", RAW)
def test_reads_raw_bytes(name: str) -> None:
    data, expected = raw_bytes(RAW[name]), ours_for(name)
    if expected is REFUSED:
        with pytest.raises(MalformedError):
            decode(data)
        return
    try:
        value = decode(data)
    except MalformedError:
        # cbor2 6.0 takes a repeated key for a missing pair. The first value must never win.
        assert name == "map-duplicate-keys"
        return
    if expected is SHARED:
        assert value[0] == 1
        assert value[1] is value
    elif isinstance(expected, type):
        assert isinstance(value, expected)
    else:
        assert difference(in_words_of_the_table(value), expected) is None


# -- what JavaScript writes --------------------------------------------------------------------

STAY_TAGGED: Final = ("date-year-10000", "date-max", "date-min", "date-year-0", "date-invalid")
"""Instants that no datetime can hold: our decoder leaves their tag on."""
REPLACED: Final = ("string-lone-*",)
"""Texts that are no UTF-8: cbor2 refuses them, our decoder puts U+FFFD where they are broken."""


@pytest.mark.parametrize("name", [name for name, row in FROM_JS.items() if "cbor_hex" in row])
def test_reads_what_javascript_writes(name: str) -> None:
    row = FROM_JS[name]
    value = decode(bytes.fromhex(row["cbor_hex"]))
    if name in STAY_TAGGED:
        assert isinstance(value, cbor2.CBORTag)
        assert value.tag == 1
    elif vectors.matches(name, REPLACED) and "raised" in row["python"]:
        assert "�" in value
    elif name == "array-nested-100":
        assert value == nest_list(100)
    elif name == "undefined-in-object":
        assert value == {"b": None}
    else:
        assert difference(in_words_of_the_table(value), as_cbor2_read(row["python"])) is None


TEXTS: Final = [name for name in FROM_JS if name.startswith("string-") and "-lone-" not in name]


@pytest.mark.parametrize("name", TEXTS)
def test_writes_text_as_javascript_does(name: str) -> None:
    row = FROM_JS[name]
    assert_bytes(encode_value(text_of(row["js_expression"])), row)


def text_of(expression: str) -> str:
    literal, _, repeat = expression.partition(".repeat(")
    text = str(evaluate(literal, {}))
    return text * int(repeat.rstrip(")")) if repeat else text


def assert_bytes(ours: bytes, row: dict[str, Any]) -> None:
    if "cbor_hex" in row:
        assert ours.hex() == row["cbor_hex"]
    else:
        assert ours.hex().startswith(row["cbor_hex_head"])
        assert len(ours) == row["cbor_length"]


# -- what we write -----------------------------------------------------------------------------

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SEEN: Final = seen_forms()
UNSENDABLE: Final = {
    "datetime-naive-*": "an instant has a time zone",
    "date-*": "a date is no instant",
    "timedelta": "no form in the protocol",
    "bytearray": "payloads are bytes",
    "bytes-tag64": "tags are the encoder's affair",
    "bytes-in-map": "tags are the encoder's affair",
    "int-2p53+1": "float64 does not hold it",
    "int-2p63-1": "float64 does not hold it",
    "int-2p64-1": "float64 does not hold it",
    "int-neg2p64-1": "float64 does not hold it",
    "undefined": "what is absent is left out",
    "none-in-map": "what is absent is left out",
    "text-surrogate": "no UTF-8",
    "nested-*-100": "nested deeper than 64 levels",
    "map-int-keys": "keys are text",
    "map-bigint-key": "keys are text",
    "map-float-key": "keys are text",
    "map-bool-none-keys": "keys are text",
    "map-bytes-key": "keys are text",
    "map-tuple-key": "keys are text",
    "set": "no form in the protocol",
    "frozenset": "no form in the protocol",
    "uuid": "no form in the protocol",
    "decimal": "no form in the protocol",
    "fraction": "no form in the protocol",
    "complex": "no form in the protocol",
    "simple-*": "no form in the protocol",
    "tag-*": "tags are the encoder's affair",
}
"""Values our encoder refuses, and why."""
COMPOSED: Final = (
    "indefinite-containers",
    "map-order-canonical",
    "map-proto-key",
    "string-referencing",
    "value-sharing",
)
"""Values that the table holds in another form only; of ours every part is in it. Of `map-proto-key` cbor-x
changes a key, in any form."""


@pytest.mark.parametrize("name", [name for name in TO_JS if not vectors.matches(name, UNSENDABLE)])
def test_writes_what_javascript_reads(name: str) -> None:
    row = TO_JS[name]
    value = evaluate(row["python"], EXPRESSION_NAMES)
    ours = encode_value(value)
    if "cbor_hex_head" in row:
        assert_bytes(ours, row)
    elif isinstance(value, datetime):
        assert difference(javascript_date(ours), value) is None
    elif name in COMPOSED:
        assert difference(decode(ours), value) is None
    elif ours.hex() in SEEN:
        assert difference(SEEN[ours.hex()], in_words_of_the_table(value)) is None
    else:
        # Not this very number, but many others were seen to arrive in this form.
        assert ours == b"\xfb" + struct.pack(">d", value)


@pytest.mark.parametrize("name", [name for name in TO_JS if vectors.matches(name, UNSENDABLE)])
def test_refuses_what_javascript_would_misread(name: str) -> None:
    value = evaluate(TO_JS[name]["python"], EXPRESSION_NAMES)
    with pytest.raises(UnencodableError):
        encode_value(value)


def javascript_date(data: bytes) -> datetime:
    """What cbor-x reads: the seconds times 1000, rounded to the nearest millisecond."""
    assert data[:2] == b"\xc1\xfb"
    seconds = cbor2.loads(data[1:])
    return EPOCH + timedelta(milliseconds=math.floor(seconds * 1000 + 0.5))


@pytest.mark.parametrize("row", TABLE["date_sweep"]["sub_millisecond"], ids=lambda row: row["microsecond"])
def test_cuts_instants_off_at_the_millisecond(row: dict[str, Any]) -> None:
    instant = datetime(2026, 11, 30, 2, 7, 36, row["microsecond"], UTC)
    cut = datetime.fromisoformat(row["js_from_tag0"])
    assert encode_instant(instant) == encode_instant(cut)
    assert javascript_date(encode_instant(instant)) == cut


@pytest.mark.parametrize("year", [1, 1969, 1970, 2026, 2099, 2106, 9999])
def test_every_millisecond_of_a_second_arrives(year: int) -> None:
    for milliseconds in range(1000):
        instant = datetime(year, 11, 30, 2, 7, 36, milliseconds * 1000, UTC)
        assert javascript_date(encode_instant(instant)) == instant


def test_every_exception_is_used() -> None:
    assert vectors.unused(OURS, RAW) == []
    assert vectors.unused(UNSENDABLE, TO_JS) == []
    assert vectors.unused(STAY_TAGGED, FROM_JS) == []
