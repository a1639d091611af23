"""The table of CBOR forms (`tests/vectors/cbor/interop.json`) as Python values."""

from __future__ import annotations

import collections
import datetime as datetime_module
import math
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import cbor2

from . import vectors
from .tagged_json import Foreign, read

TABLE: Final = vectors.interop()
RAW: Final = {row["name"]: row for row in TABLE["raw"]}
FROM_JS: Final = {row["name"]: row for row in TABLE["js_to_python"] if "encode_threw" not in row}
TO_JS: Final = {row["name"]: row for row in TABLE["python_to_js"]}


def nest_list(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def nest_map(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


EXPRESSION_NAMES: Final[dict[str, Any]] = {
    "Decimal": Decimal,
    "Fraction": Fraction,
    "UTC": UTC,
    "cbor2": cbor2,
    "collections": collections,
    "date": date,
    "datetime": datetime,
    "math": math,
    "nest_list": nest_list,
    "nest_map": nest_map,
    "timedelta": timedelta,
    "timezone": timezone,
    "uuid": uuid,
}
"""What the column `python` of the table is written in."""
REPR_NAMES: Final[dict[str, Any]] = {
    "CBORTag": cbor2.CBORTag,
    "datetime": datetime_module,
    "frozendict": cbor2.frozendict,
    "inf": math.inf,
    "nan": math.nan,
    "undefined": None,
}


def evaluate(expression: str, names: dict[str, Any]) -> Any:
    return eval(expression, dict(names))  # noqa: S307 - an expression of this repository's own table


def in_words_of_the_table(value: Any) -> Any:
    """`value` with what only cbor2 has a type for in the form `read` gives it."""
    if isinstance(value, cbor2.CBORTag):
        return Foreign(f"tag {value.tag}", in_words_of_the_table(value.value))
    if isinstance(value, set | frozenset):
        return Foreign("$set", sorted(value, key=str))
    if isinstance(value, Mapping):
        return {key: in_words_of_the_table(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [in_words_of_the_table(item) for item in value]
    return value


def as_cbor2_read(python: dict[str, Any]) -> Any:
    """The value cbor2 was seen to read, but for the bytes of a Uint8Array, which are unwrapped."""
    value = evaluate(python["repr"], REPR_NAMES)
    if isinstance(value, cbor2.CBORTag) and value.tag == 64:
        value = value.value
    return in_words_of_the_table(value)


def seen_forms() -> dict[str, Any]:
    """Bytes, in hex, that cbor-x was seen to read, and the value it read or wrote."""
    seen = {
        row["cbor_hex"]: as_cbor2_read(row["python"])
        for row in FROM_JS.values()
        if "cbor_hex" in row and "raised" not in row["python"] and row["name"] != "array-nested-100"
    }
    for row in (*RAW.values(), *TO_JS.values()):
        if "cbor_hex" in row and row.get("js") and "value" in row["js"]:
            seen[row["cbor_hex"]] = read(row["js"]["value"])
    return seen
