"""The account of a write."""

from __future__ import annotations

import dataclasses

import pytest

from eventclient.telemetry.ledger import Ledger, LedgerBook


def test_a_closed_account_says_what_the_book_says() -> None:
    book = LedgerBook()
    book.requests += 2
    book.bytes += 100
    book.throttled_s += 1.5
    book.backoff_s += 0.1
    book.fallbacks += 1
    assert book.close() == Ledger(requests=2, bytes=100, throttled_s=1.5, backoff_s=0.1, fallbacks=1)


def test_an_account_without_entries_is_zero() -> None:
    assert LedgerBook().close() == Ledger()
    assert dataclasses.asdict(Ledger()) == dict.fromkeys(dataclasses.asdict(Ledger()), 0)


def test_a_closed_account_stays_as_it_is() -> None:
    book = LedgerBook()
    closed = book.close()
    book.requests += 1
    assert closed.requests == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        closed.requests = 5  # type: ignore[misc]


def test_book_and_account_have_the_same_entries() -> None:
    assert [field.name for field in dataclasses.fields(Ledger)] == [
        field.name for field in dataclasses.fields(LedgerBook)
    ]
