"""Lists of runs, steps and hooks: which part a request asks for, and the page that answers it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from aiohttp import web

from eventclient.model.entities import Hook, Run, Step
from eventclient.wire import spec
from eventclient.wire.flat import encode_page
from eventclient.wire.stored import encode_entity

from .cursor import CODE_BAD_CURSOR
from .requests import read_descending, read_limit, refusal, wants_payloads
from .store import Listed

T = TypeVar("T")

_POSITION: Final = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class Listing:
    """How the entities of a kind are listed unless a request says otherwise.

    Attributes:
        kind: what its cursors begin with: a cursor of one list means nothing in another.
        limit: entities a page.
        descending: the newest come first.
    """

    kind: str
    limit: int
    descending: bool


RUNS: Final = Listing("runs", 200, descending=True)
STEPS: Final = Listing("steps", 20, descending=True)
HOOKS: Final = Listing("hooks", 20, descending=False)
"""Source of all three: `@workflow/world-local` 5.0.0-beta.46."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list, as far as it goes.

    Attributes:
        cursor: where to read on from; None when there is no position.
        has_more: whether there is anything behind it.
    """

    entities: tuple[T, ...]
    cursor: str | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of a list a request asks for.

    Attributes:
        cursor: as it was given.
        after: the position that it names.
    """

    listing: Listing
    limit: int
    descending: bool
    cursor: str | None
    after: int | None

    def arguments(self) -> dict[str, Any]:
        """What a `ListQuery` is made of: one entity more than the page, to know of a next one."""
        return {"after": self.after, "limit": self.limit + 1, "descending": self.descending}

    def page(self, listed: Sequence[Listed[T]]) -> Page[T]:
        """The page of what the store found with `arguments`."""
        kept = listed[: self.limit]
        cursor = f"{self.listing.kind}:{kept[-1].position}" if kept else self.cursor
        return Page(tuple(item.entity for item in kept), cursor, len(listed) > len(kept))


def read_part(request: web.Request, listing: Listing) -> Part:
    """The part that a query asks for."""
    cursor = request.query.get("cursor")
    after = None
    if cursor is not None:
        kind, _, position = cursor.partition(":")
        if kind != listing.kind or not _POSITION.fullmatch(position):
            raise refusal(CODE_BAD_CURSOR, f"cursor is no cursor of a list of {listing.kind}")
        after = int(position)
    return Part(
        listing,
        read_limit(request, listing.limit) or listing.limit,
        read_descending(request, listing.descending),
        cursor,
        after,
    )


def list_response(request: web.Request, page: Page[Any]) -> web.Response:
    """A page, with payloads unless the request does without."""
    resolve = wants_payloads(request)
    items = [encode_entity(entity, resolve=resolve) for entity in page.entities]
    body = encode_page(items, cursor=page.cursor, has_more=page.has_more)
    return web.Response(body=body, content_type=spec.CBOR_CONTENT_TYPE)


def entity_response(request: web.Request, entity: Run | Step | Hook) -> web.Response:
    """One entity."""
    body = encode_entity(entity, resolve=wants_payloads(request))
    return web.Response(body=body, content_type=spec.CBOR_CONTENT_TYPE)
