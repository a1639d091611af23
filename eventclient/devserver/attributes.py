"""The rules for the attributes of a run. Source: `@workflow/world-local` 5.0.0-beta.46."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

MAX_ATTRIBUTES: Final = 64
MAX_ATTRIBUTE_KEY_CHARS: Final = 256
MAX_ATTRIBUTE_VALUE_BYTES: Final = 256
RESERVED_ATTRIBUTE_PREFIX: Final = "$"


class InvalidAttributesError(ValueError):
    """A change of attributes that the rules forbid; the message says which rule."""


def merge_attributes(
    current: Mapping[str, str], changes: Sequence[tuple[str, str | None]], *, allow_reserved: bool = False
) -> dict[str, str]:
    """`current` with `changes` made; a value of None deletes.

    Raises:
        InvalidAttributesError: a key or value out of bounds, a key twice, too many keys in the end.
    """
    merged = dict(current)
    seen = set()
    for key, value in changes:
        if not key or max(len(key), _length(key[:MAX_ATTRIBUTE_KEY_CHARS])) > MAX_ATTRIBUTE_KEY_CHARS:
            raise InvalidAttributesError(f"an attribute key has 1 to {MAX_ATTRIBUTE_KEY_CHARS} characters")
        if key in seen:
            raise InvalidAttributesError("an attribute key occurs twice")
        if key.startswith(RESERVED_ATTRIBUTE_PREFIX) and not allow_reserved:
            raise InvalidAttributesError(
                f"attribute keys that begin with {RESERVED_ATTRIBUTE_PREFIX} are reserved"
            )
        seen.add(key)
        if value is None:
            merged.pop(key, None)
        elif len(value.encode(errors="replace")) > MAX_ATTRIBUTE_VALUE_BYTES:
            raise InvalidAttributesError(f"an attribute value has at most {MAX_ATTRIBUTE_VALUE_BYTES} bytes")
        else:
            merged[key] = value
    if len(merged) > MAX_ATTRIBUTES:
        raise InvalidAttributesError(f"a run has at most {MAX_ATTRIBUTES} attributes")
    return merged


def _length(text: str) -> int:
    """As JavaScript counts: characters beyond the first 65536 are two."""
    return len(text) + sum(char > "\uffff" for char in text)
