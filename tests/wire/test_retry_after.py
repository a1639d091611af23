"""How long a server asks to wait."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventclient.wire.retry_after import MAX_RETRY_AFTER_S, read_pace, read_retry_after, throttle_wait

NOW = datetime(2026, 11, 6, 8, 49, 30, tzinfo=UTC)
AHEAD = "Fri, 06 Nov 2026 08:49:37 GMT"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("1", 1),
        ("29", 29),
        ("30", 30),
        ("3600", 3600),
        (" 7 ", 7),
        ("+7", 7),
        ("007", 7),
        ("1.5", 2),
        ("0.493", 1),
        ("0.0", 0),
        (".5", 1),
        ("5.", 5),
        ("9" * 5000, MAX_RETRY_AFTER_S),
        ("9999999999", MAX_RETRY_AFTER_S),
        # The three forms of a date in HTTP.
        (AHEAD, 7),
        ("Friday, 06-Nov-26 08:49:37 GMT", 7),
        ("Fri Nov  6 08:49:37 2026", 7),
        ("Fri, 06 Nov 2026 08:49:37 -0000", 7),
        ("Fri, 06 Nov 2026 09:49:37 +0100", 7),
        ("Fri, 06 Nov 2026 08:49:30 GMT", 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", -348542490),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER_S),
    ],
)
def test_what_is_read(value: str, seconds: float) -> None:
    assert read_retry_after(value, NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "-1",
        "-1.5",
        "abc",
        "5abc",
        "3600x",
        "nan",
        "inf",
        "-inf",
        "1e3",
        "0x10",
        "1_000",
        "١",  # noqa: RUF001 - a digit, and none of HTTP's
        "1.5.2",
        "7 s",
        "2026-11-06T08:49:37Z",
        "Fri, 06 Nov 99999 08:49:37 GMT",
        "Fri, 99 Nov 2026 08:49:37 GMT",
        "Fri, 06 Nov 2026 08:49:37 +9999999",
        "\x00",
    ],
)
def test_what_is_not_read(value: str) -> None:
    assert read_retry_after(value, NOW) is None


def test_a_date_is_rounded_up() -> None:
    assert read_retry_after(AHEAD, NOW + timedelta(milliseconds=1)) == 7


DATE_PARTS = st.sampled_from(
    ["Fri", ",", " ", "06", "Nov", "2026", "08:49:37", "GMT", "+0100", "-0000", "99999", ":", "-", "EST", "."]
)


@given(st.text() | st.lists(DATE_PARTS).map(" ".join) | st.lists(DATE_PARTS).map("".join))
@example("Fri, 06 Nov 2026 08:49:37 " + "9" * 400)
def test_reading_never_raises_and_stays_finite(value: str) -> None:
    seconds = read_retry_after(value, NOW)
    assert seconds is None or (math.isfinite(seconds) and seconds <= MAX_RETRY_AFTER_S)
    assert 1.0 <= throttle_wait([value], NOW) <= MAX_RETRY_AFTER_S


@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)), st.integers(-12, 14))
def test_any_date_is_read_to_the_second(instant: datetime, offset: int) -> None:
    date = instant.replace(microsecond=0, tzinfo=timezone(timedelta(hours=offset)))
    seconds = read_retry_after(format_datetime(date), NOW)
    assert seconds == min((date - NOW).total_seconds(), MAX_RETRY_AFTER_S)


@pytest.mark.parametrize("value", ["9" * 8000 + "x", "1" + "." * 8000, " " * 8000 + "x", "," * 8000])
def test_a_long_header_takes_no_long_time(value: str) -> None:
    before = time.process_time()
    throttle_wait([value], NOW)
    assert time.process_time() - before < 0.1


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ([], 1),
        (["0"], 1),
        (["-5"], 1),
        (["nan"], 1),
        (["soon"], 1),
        (["Wed, 21 Oct 2015 07:28:00 GMT"], 1),
        (["0.2"], 1),
        (["1.5"], 2),
        (["14"], 14),
        ([AHEAD], 7),
        (["2", "5"], 5),
        (["5", "2"], 5),
        (["5", "soon"], 5),
        (["2, 5"], 5),
        ([f"{AHEAD}, 3"], 7),
    ],
)
def test_the_wait_after_a_throttle(values: list[str], seconds: float) -> None:
    assert throttle_wait(values, NOW) == seconds


# -- the pace of a result ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "pace_s"),
    [
        ([], None),
        ([""], None),
        (["soon"], None),
        (["nan", "x, y"], None),
        (["0"], 0),
        (["-1"], 0),
        (["-1.5"], 0),
        (["Wed, 21 Oct 2015 07:28:00 GMT"], 0),
        (["1"], 1),
        (["1.2"], 2),
        ([AHEAD], 7),
        (["2", "5"], 5),
        (["2, 5"], 5),
        (["soon", "3"], 3),
        (["-4", "3"], 3),
        (["9" * 5000], MAX_RETRY_AFTER_S),
    ],
)
def test_the_pace_that_is_named(values: list[str], pace_s: float | None) -> None:
    assert read_pace(values, NOW) == pace_s


@given(st.lists(st.text()))
def test_whatever_comes_is_no_pace_or_one_that_can_be_kept(values: list[str]) -> None:
    pace_s = read_pace(values, NOW)
    assert pace_s is None or 0 <= pace_s <= MAX_RETRY_AFTER_S
