"""Tagged JSON, in which the captured cases hold values that JSON has no form for.

See `tests/vectors/README.md` for the tags.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A JavaScript value that Python has no like for: an Invalid Date, a Map, a Set, a typed array."""

    kind: str
    value: Any = None


class _Undefined:
    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = _Undefined()


def read(value: Any) -> Any:
    """The value that `value`, out of `json.load`, stands for.

    Members of maps that are undefined are left out, as in every comparison between the two languages; in
    a list they are None, and by themselves `UNDEFINED`.
    """
    if isinstance(value, list):
        return [None if (item := read(entry)) is UNDEFINED else item for entry in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if tag.startswith("$") and set(value) <= {tag, "$class", "value", "values"}:
        return _tagged(tag, value[tag], value)
    return _members(value.items())


def _members(pairs: Any) -> dict[str, Any]:
    return {key: item for key, entry in pairs if (item := read(entry)) is not UNDEFINED}


def _tagged(tag: str, content: Any, whole: Mapping[str, Any]) -> Any:
    match tag:
        case "$date":
            return _date(content)
        case "$bytes":
            return base64.b64decode(content)
        case "$bytes_repeat":
            unit, length = base64.b64decode(content["unit"]), content["length"]
            return (unit * (length // len(unit) + 1))[:length]
        case "$number":
            return float(content.replace("Infinity", "inf"))
        case "$bigint":
            return int(content)
        case "$undefined":
            return UNDEFINED
        case "$string_utf16":
            units = b"".join(unit.to_bytes(2, "little") for unit in content)
            return units.decode("utf-16-le", "surrogatepass")
        case "$plain":
            return _members(content)
        case "$tag":
            return Foreign(f"tag {content}", read(whole["value"]))
        case _:
            return Foreign(tag, read(whole.get("values", content)) if tag != "$map" else content)


def _date(text: str | None) -> Any:
    if text is None:
        return Foreign("Invalid Date")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        # Years a JavaScript date has and a Python one has not.
        return Foreign("date", text)


def difference(ours: Any, theirs: Any, path: str = "") -> str | None:
    """Where two values differ in meaning; None when they do not.

    Numbers are equal by value whatever their types (5 and 5.0), NaN equals NaN, instants are equal to
    the millisecond. A bool is no number.
    """
    here = f"{path or 'value'}: {_shown(ours)} is not {_shown(theirs)}"
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return None if ours is theirs else here
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        return None if ours == theirs or (math.isnan(ours) and math.isnan(theirs)) else here
    if isinstance(ours, datetime) and isinstance(theirs, datetime):
        return None if _ms(ours) == _ms(theirs) else here
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        if set(ours) != set(theirs):
            return f"{path or 'value'}: members differ in {sorted(set(ours) ^ set(theirs), key=str)}"
        pairs = ((difference(ours[key], theirs[key], f"{path}.{key}")) for key in ours)
        return next((found for found in pairs if found), None)
    if _is_list(ours) and _is_list(theirs):
        if len(ours) != len(theirs):
            return f"{path}: {len(ours)} items, not {len(theirs)}"
        items = (difference(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(ours, theirs, strict=True)))
        return next((found for found in items if found), None)
    return None if type(ours) is type(theirs) and ours == theirs else here


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _ms(instant: datetime) -> int:
    delta = instant - _EPOCH
    return (delta.days * 86400 + delta.seconds) * 1000 + delta.microseconds // 1000


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else text[:200] + "..."
