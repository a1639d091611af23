from __future__ import annotations

from itertools import combinations

import pytest

from eventclient.devserver.stores.postgres_keys import MAX_KEY_LENGTH, key_of, lock_of, place_of

PLAIN = ["step_01M8N3CBJFKDMR05A0CN7T0001", "", "a b/c?d'\"\\", "x" * MAX_KEY_LENGTH]
ODD = ["#", "#1", "a\0", "a\n", "\u00e9", "\udcff", "x" * (MAX_KEY_LENGTH + 1), "x" * 5000]


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_name_is_its_own_key(name: str) -> None:
    assert key_of(name) == name


@pytest.mark.parametrize("name", ODD)
def test_the_key_of_any_other_name_is_short_and_plain(name: str) -> None:
    key = key_of(name)
    assert key.isascii()
    assert key.isprintable()
    assert len(key) < MAX_KEY_LENGTH
    # What looks like a key is no plain name, so it is not taken for the name it stands for.
    assert key_of(key) != key


def test_different_names_have_different_keys_and_locks() -> None:
    for one, other in combinations(PLAIN + ODD, 2):
        assert key_of(one) != key_of(other)
        assert lock_of("run", one) != lock_of("run", other)
    assert lock_of("run", "x") != lock_of("token", "x")
    assert lock_of("run", "x") == lock_of("run", "x")


def test_a_lock_is_a_signed_number_of_64_bits() -> None:
    locks = [lock_of("run", str(number)) for number in range(100)]
    assert all(-(2**63) <= lock < 2**63 for lock in locks)
    assert min(locks) < 0 < max(locks)


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
        ("postgresql://u:secret@h:5433/d", "the PostgreSQL database d at h:5433"),
        ("postgresql://u:secret@h/d?sslmode=require", "the PostgreSQL database d at h"),
        ("postgresql://u:s%2Fe%40cret@[::1]:1/d", "the PostgreSQL database d at ::1:1"),
        ("postgresql:///d?host=/run/x&password=secret", "the PostgreSQL database d"),
        ("postgresql://u:secret@h", "the PostgreSQL database"),
        ("postgresql://u:sec/ret@h/d", "the PostgreSQL database"),
        ("postgresql://u:1/ret@h/d", "the PostgreSQL database"),
        ("postgresql://u:1?ret@h/d", "the PostgreSQL database"),
        ("postgresql://u:1#ret@h/d", "the PostgreSQL database"),
        ("postgresql://u:se[cret@h/d", "the PostgreSQL database"),
        ("secret", "the PostgreSQL database"),
        ("secret://h/secret", "the PostgreSQL database"),
    ],
)
def test_a_place_is_shown_without_the_password(dsn: str, place: str) -> None:
    assert place_of(dsn) == place
