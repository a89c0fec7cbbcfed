"""Delays: the golden figures, Retry-After and hints, with everything a hostile provider may write there."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sereno.core.contract import Delays, HintUnit
from sereno.core.delay import (
    backoff,
    jittered,
    quoted,
    raw_backoff,
    read_hint,
    read_http_date,
    read_retry_after,
    throttle_backoff,
)
from sereno.core.values import FAR_FUTURE
from tests.core.waiting import NOON, after, seconds

GOLDEN = Delays(base=seconds(5), maximum=seconds(120))


@pytest.mark.parametrize(("n", "low", "high", "shown"), [(1, 5, 10, 9), (2, 10, 20, 17), (4, 40, 80, 77)])
def test_W06_golden_delays(n: int, low: float, high: float, shown: float) -> None:
    """With base 5 s and maximum 120 s the delays shown in the requirement fall in the permitted ranges, which are filled."""
    assert seconds(low) <= seconds(shown) <= seconds(high)
    assert (jittered(GOLDEN, raw_backoff(GOLDEN, n), 0.0), jittered(GOLDEN, raw_backoff(GOLDEN, n), 1.0)) == (
        seconds(low),
        seconds(high),
    )
    drawn = [backoff(GOLDEN, n, Random(seed)) for seed in range(400)]
    assert seconds(low) <= min(drawn) < seconds(low + (high - low) * 0.05)
    assert seconds(high - (high - low) * 0.05) < max(drawn) <= seconds(high)


def test_W06_the_maximum_caps_the_growth() -> None:
    """However many polls there were, raw is the maximum; nothing overflows."""
    assert raw_backoff(GOLDEN, 5) == seconds(120)
    assert raw_backoff(GOLDEN, 10_000) == seconds(120)
    assert raw_backoff(Delays(base=timedelta(days=3650), maximum=timedelta(days=3660)), 10_000) == timedelta(days=3660)


def test_W06_full_jitter_is_selectable_and_keeps_the_floor() -> None:
    """Full jitter draws from nothing to raw, but never under the minimum gap."""
    full = Delays(base=seconds(5), maximum=seconds(120), jitter="full", min_gap=seconds(3))
    assert jittered(full, seconds(80), 0.0) == seconds(3)
    assert jittered(full, seconds(80), 0.25) == seconds(20)


def test_W14_throttling_grows_steeply() -> None:
    """Without Retry-After each 429 adds base · 4^throttles to the backoff, up to four times the maximum, also under full jitter."""
    ranges = [
        (throttle_backoff(GOLDEN, 1, count, _Fixed(0.0)), throttle_backoff(GOLDEN, 1, count, _Fixed(1.0))) for count in (1, 2, 3)
    ]
    assert ranges == [(seconds(15), seconds(30)), (seconds(45), seconds(90)), (seconds(165), seconds(330))]
    assert throttle_backoff(GOLDEN, 50, 50, _Fixed(1.0)) == seconds(480)
    assert throttle_backoff(Delays(jitter="full"), 1, 3, _Fixed(0.0)) == seconds(165)


class _Fixed(Random):
    """Dice that always show the same."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self.value = value

    def random(self) -> float:
        """The value."""
        return self.value


@given(
    base=st.floats(0.001, 1e6),
    maximum=st.floats(0.001, 1e8),
    gap=st.floats(1, 1e5),
    n=st.integers(0, 10**6),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_I6_no_backoff_is_under_the_minimum_gap(base: float, maximum: float, gap: float, n: int, draw: float) -> None:
    """Whatever the numbers, a delay is at least the gap and at most the larger of gap and maximum."""
    delays = Delays(base=seconds(base), maximum=seconds(maximum), min_gap=seconds(gap))
    assert delays.min_gap <= jittered(delays, raw_backoff(delays, n), draw) <= max(delays.min_gap, delays.maximum)


REJECTED = [
    "", " ", "٣", "１２０", "1_0", "inf", "nan", "-5", "+5", "120, 240", "12.5", "1e3", "1e400", "0x10", "99999999999", "99999999999999999999",
    "²", "1 2", "12s", "soon", "12\n", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 31 Feb 2027 08:49:37 GMT",
    "Sun, 06 Nov 1994 25:49:37 GMT", "Sun, 06 Nov ١٩٩٤ 08:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 0000 08:49:37 GMT",
    "Sun, 06 Nov 1994 08:49:61 GMT", "2026-11-30T12:00:00Z", "Mon, 30 Nov 2026 12:01:00 GMT, 5", "9" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("text", REJECTED)
def test_I5_what_is_not_retry_after_is_absent(text: str) -> None:
    """Everything but 1 to 10 ASCII digits and the three dates is rejected with a short sentence that is safe to print
    (incident 18)."""
    why = read_retry_after(text, received_at=NOON)
    assert isinstance(why, str)
    assert len(why) < 140 and why.isprintable()


@pytest.mark.parametrize(
    ("text", "wait"),
    [("0", 0), ("00", 0), ("1", 1), ("120", 120), (" 12\t", 12), ("2147483648", 2**31), ("9999999999", 9_999_999_999)],
)
def test_W13_delta_seconds(text: str, wait: int) -> None:
    """Digits are seconds from receipt (incident 17)."""
    assert read_retry_after(text, received_at=NOON) == after(wait)


@pytest.mark.parametrize(
    "text",
    [
        "Mon, 30 Nov 2026 12:02:00 GMT",
        "Monday, 30-Nov-26 12:02:00 GMT",
        "Mon Nov 30 12:02:00 2026",
        "Tue, 30 Nov 2026 12:02:00 GMT",
    ],
)
def test_W13_all_three_http_dates(text: str) -> None:
    """IMF-fixdate, RFC 850 and asctime are read; a wrong name of the day is no reason to ask sooner (incident 18)."""
    assert read_retry_after(text, received_at=NOON) == after(120)


def test_W13_asctime_pads_the_day_with_a_blank() -> None:
    """The example of RFC 9110 in all three forms is the same instant."""
    forms = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994")
    assert {read_http_date(form, near=NOON) for form in forms} == {datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)}


def test_W13_two_digit_years() -> None:
    """A two-digit year is at most fifty years ahead, else of the century before."""
    assert read_http_date("Sunday, 06-Nov-76 08:49:37 GMT", near=NOON) == datetime(2076, 11, 6, 8, 49, 37, tzinfo=UTC)
    assert read_http_date("Sunday, 06-Nov-77 08:49:37 GMT", near=NOON) == datetime(1977, 11, 6, 8, 49, 37, tzinfo=UTC)


def test_W13_leap_second() -> None:
    """Second 60 is the next minute."""
    assert read_http_date("Thu, 31 Dec 2026 23:59:60 GMT", near=NOON) == datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("text", ["Mon, 30 Nov 2026 11:00:00 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"])
def test_I5_a_date_in_the_past_asks_for_nothing(text: str) -> None:
    """The past gives the instant of receipt; the planner then keeps its own gap."""
    assert read_retry_after(text, received_at=NOON) == NOON


@pytest.mark.parametrize(
    ("date", "wait"),
    [
        ("Mon, 30 Nov 2026 11:50:00 GMT", 720),  # the server is ten minutes behind: its delay is what counts
        ("Mon, 30 Nov 2026 12:10:00 GMT", 0),  # ten minutes ahead: the wait lies in its past
        ("Mon, 01 Nov 2021 12:00:00 GMT", 120),  # years off: not used
        ("nonsense", 120),
        ("", 120),
        (None, 120),
    ],
)
def test_W13_a_skewed_date_header_is_used_when_sane(date: str | None, wait: int) -> None:
    """The delay is the date minus the answer's own Date if that is within a day of ours."""
    assert read_retry_after("Mon, 30 Nov 2026 12:02:00 GMT", received_at=NOON, date_header=date) == after(wait)


def test_I5_far_dates_are_clamped() -> None:
    """Year 9999 overflows nothing, whatever the clock of the server says (incident 17)."""
    last, behind = "Fri, 31 Dec 9999 23:59:59 GMT", "Sun, 29 Nov 2026 12:00:00 GMT"
    assert read_retry_after(last, received_at=NOON) == FAR_FUTURE
    assert read_retry_after(last, received_at=NOON, date_header=behind) == FAR_FUTURE
    assert read_retry_after("9999999999", received_at=datetime(9900, 1, 1, tzinfo=UTC)) == FAR_FUTURE


@given(st.text(max_size=40), st.one_of(st.none(), st.text(max_size=40)))
def test_I5_any_text_gives_an_instant_not_in_the_past_or_a_reason(text: str, date: str | None) -> None:
    """Nothing a header may hold raises or asks for the past."""
    found = read_retry_after(text, received_at=NOON, date_header=date)
    assert isinstance(found, str) or NOON <= found <= FAR_FUTURE


CAP = timedelta(minutes=10)
S, MS, AT = HintUnit.SECONDS, HintUnit.MILLISECONDS, HintUnit.AT


@pytest.mark.parametrize(
    ("value", "unit", "wait"),
    [
        (30, S, 30), (0, S, 0), (1.5, S, 1.5), ("30", S, 30), ("1.5", S, 1.5), (" 30 ", S, 30), (600, S, 600),
        (1500, MS, 1.5), ("250", MS, 0.25), (600_000, MS, 600),
        ("2026-11-30T12:02:00Z", AT, 120), ("2026-11-30t12:02:00.5z", AT, 120.5), ("2026-11-30 13:02:00+01:00", AT, 120),
        ("2026-11-30T12:02:00.123456789Z", AT, 120.123456), (1796040120, AT, 120), ("1796040120", AT, 120), (1796040120.5, AT, 120.5),
    ],
)  # fmt: skip
def test_W07_good_hints(value: str | int | float, unit: HintUnit, wait: float) -> None:
    """Numbers, plain decimal text and RFC 3339 are read, up to the cap itself."""
    assert read_hint(value, unit, received_at=NOON, cap=CAP) == after(wait)


@pytest.mark.parametrize(
    ("value", "unit", "word"),
    [
        (-1, S, "negative"), (-0.001, MS, "negative"), (float("nan"), S, "not a number"), (float("inf"), S, "not a number"),
        (601, S, "cap"), (600.001, S, "cap"), (10**60, S, "cap"), (600_001, MS, "cap"), (1e308, S, "cap"),
        (True, S, "not a number"), (None, S, "not a number"), ([], S, "not a number"), ({"a": 1}, S, "not a number"),
        ("-5", S, "not a number"), ("٣", S, "not a number"), ("１２０", S, "not a number"), ("1_0", S, "not a number"), ("inf", S, "not"),
        ("1e3", S, "not a number"), ("", S, "not a number"), ("9" * 16, S, "not a number"), ("9" * 5000, MS, "not a number"),
        ("2026-11-30T11:59:59Z", AT, "past"), (1796039999, AT, "past"), ("2026-11-30T12:10:01Z", AT, "cap"), (1796040000123, AT, "cap"),
        ("2026-11-30T12:02:00", AT, "not a time"), ("2026-13-30T12:02:00Z", AT, "not a time"), ("9999-12-31T23:59:59-23:00", AT, "not a"),
        ("tomorrow", AT, "not a time"), ("2026-11-30T12:02:00Z", S, "not a number"), (False, AT, "not a time"),
    ],
)  # fmt: skip
def test_W07_bad_hints_are_rejected_with_a_reason(value: object, unit: HintUnit, word: str) -> None:
    """Negative, unparseable, NaN, past and beyond the cap: a short sentence, never a wait."""
    why = read_hint(value, unit, received_at=NOON, cap=CAP)  # type: ignore[arg-type]
    assert isinstance(why, str) and word in why
    assert len(why) < 140


@given(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30)),
    st.sampled_from(list(HintUnit)),
)
def test_W07_any_hint_lies_between_now_and_the_cap(value: object, unit: HintUnit) -> None:
    """No value gives a wait in the past or beyond the cap, and none raises."""
    found = read_hint(value, unit, received_at=NOON, cap=CAP)  # type: ignore[arg-type]
    assert isinstance(found, str) or NOON <= found <= NOON + CAP


def test_quoted_foreign_text_cannot_steer_a_terminal() -> None:
    """Control and direction characters are escaped and the text is cut."""
    assert quoted("a\x1b[31m\u202eb") == '"a\\x1b[31m\\u202eb"'
    assert quoted("x" * 50) == '"' + "x" * 40 + '…"'


def test_W07_an_integer_too_long_to_print_is_rejected() -> None:
    """Python refuses to write out 6,000 digits; the reason names the number instead."""
    assert "an integer of more than 40 digits" in str(read_hint(10**6000, HintUnit.MILLISECONDS, received_at=NOON, cap=CAP))
