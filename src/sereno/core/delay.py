"""Delays: backoff with jitter, Retry-After and body hints; every value comes with its source (W06, W07, W13, W14).

Foreign text never meets `float()` or `int()` before an ASCII pattern has matched it: those take `inf`, `1_0` and the digits of
other scripts.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import isfinite
from random import Random

from sereno.core.contract import Delays, HintUnit
from sereno.core.values import FAR_FUTURE, Json

SANE_SKEW = timedelta(days=1)
"""A `Date` header further than this from our own instant is not used."""


def raw_backoff(delays: Delays, n: int) -> timedelta:
    """The unjittered delay after `n` completed polls: `min(maximum, base · 2^n)`."""
    return timedelta(seconds=min(delays.maximum.total_seconds(), delays.base.total_seconds() * 2.0 ** min(n, 64)))


def jittered(delays: Delays, raw: timedelta, draw: float) -> timedelta:
    """Places `raw` by a draw in [0, 1): 50–100 % of it (0–100 % where the contract wants full jitter), never under `min_gap`."""
    share = draw if delays.jitter == "full" else 0.5 + draw / 2
    return max(delays.min_gap, raw * share)


def backoff(delays: Delays, n: int, rng: Random) -> timedelta:
    """`raw = min(maximum, base · 2^n)`, then uniform in [50 %, 100 %] of raw (full jitter: [0, 100 %]), never under `min_gap`.

    n = completed polls. Golden figures (base 5 s, maximum 120 s): after polls 1, 2 and 4 the ranges are 5–10 s, 10–20 s and
    40–80 s.
    """
    return jittered(delays, raw_backoff(delays, n), rng.random())


def steep_backoff(delays: Delays, n: int, throttles: int, draw: float) -> timedelta:
    """`throttle_backoff` with the draw handed in. Always half jitter: full jitter could undo the growth (W14)."""
    steep = delays.base.total_seconds() * 4.0 ** min(throttles, 32)
    raw = min(4 * delays.maximum.total_seconds(), raw_backoff(delays, n).total_seconds() + steep)
    return max(delays.min_gap, timedelta(seconds=raw * (0.5 + draw / 2)))


def throttle_backoff(delays: Delays, n: int, throttles: int, rng: Random) -> timedelta:
    """429 without Retry-After: `base · 4^throttles` on top of the backoff, at most `maximum · 4`, then 50–100 % of that."""
    return steep_backoff(delays, n, throttles, rng.random())


def first_delay(delays: Delays, draw: float) -> timedelta:
    """The delay before a first look: the contract's `first`, and by a draw in [0, 1) up to half of `base` more. Waits that start in
    one instant do not look in one instant (W29), and none looks before `first`."""
    return delays.first + delays.base * (draw / 2)


def quoted(value: object, limit: int = 40) -> str:
    """Shows a foreign value in a sentence: cut, quoted, everything unprintable escaped."""
    text = value if isinstance(value, str) else str(value) if isinstance(value, float | bool | None) else _shape(value)
    cut = text[:limit] + ("…" if len(text) > limit else "")
    return '"' + "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in cut) + '"'


def _shape(value: object) -> str:
    """Names what is too large or too deep to write out: an integer of more than 4,300 digits cannot even be printed."""
    if isinstance(value, int):
        return str(value) if abs(value) < 10**40 else "an integer of more than 40 digits"
    return type(value).__name__


_DAYS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_LONG_DAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_HTTP_DATES = (
    re.compile(f"(?:{_DAYS}), (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT"),
    re.compile(f"(?:{_LONG_DAYS}), (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(f"(?:{_DAYS}) {_MONTH} (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)
"""IMF-fixdate, RFC 850 and asctime (RFC 9110 §5.6.7). The name of the day is not compared with the date."""


def read_http_date(text: str, *, near: datetime) -> datetime | None:
    """Reads any of the three HTTP-date forms, or None. `near` settles the century of a two-digit year (≤ 50 years ahead)."""
    match = next((found for form in _HTTP_DATES if (found := form.fullmatch(text))), None)
    if match is None:
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        year += near.year // 100 * 100
        year -= 100 if year > near.year + 50 else 0
    month, second = _MONTHS.index(match["month"]) + 1, int(match["second"])
    leap = second == 60
    try:
        moment = datetime(year, month, int(match["day"]), int(match["hour"]), int(match["minute"]), second - leap, tzinfo=UTC)
        return moment + timedelta(seconds=leap)
    except (ValueError, OverflowError):
        return None


_DELTA_SECONDS = re.compile("[0-9]{1,10}")


def read_retry_after(value: str, *, received_at: datetime, date_header: str | None = None) -> datetime | str:
    """Reads Retry-After: 1–10 ASCII digits, or any of the three HTTP-date forms (RFC 9110 §5.6.7), relative to a sane `Date`.

    Returns the instant (never in the past: past or 0 gives `received_at`), or a text saying why it was rejected. An instant
    beyond year 9998 is clamped. Blanks and tabs around the value are no part of it (RFC 9110 §5.5).
    """
    text = value.strip(" \t")
    if _DELTA_SECONDS.fullmatch(text):
        return _later(received_at, timedelta(seconds=int(text)))
    asked = read_http_date(text, near=received_at)
    if asked is None:
        return f"Retry-After {quoted(text)} is neither 1 to 10 digits nor an HTTP date"
    sent = read_http_date(date_header.strip(" \t"), near=received_at) if date_header else None
    sane = sent is not None and abs(sent - received_at) <= SANE_SKEW
    return _later(received_at, asked - (sent if sent is not None and sane else received_at))


def _later(received_at: datetime, delay: timedelta) -> datetime:
    if delay >= FAR_FUTURE - received_at:
        return FAR_FUTURE
    return max(received_at, received_at + delay)


_NUMBER = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?")
_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_hint(value: Json, unit: HintUnit, *, received_at: datetime, cap: timedelta) -> datetime | str:
    """Reads a body or header hint. Negative, unparseable, NaN or beyond `cap`: a text saying why it was rejected (W07).

    An instant that has passed is a negative delay. Numbers may come as JSON numbers or as plain decimal text.
    """
    if isinstance(value, str) and unit is HintUnit.AT and (match := _RFC3339.fullmatch(value)):
        return _instant_hint(match, received_at, cap)
    if unit is HintUnit.HTTP_DATE:
        return _http_date_hint(value, received_at, cap)
    number = _number(value)
    if number is None:
        return f"the hint {quoted(value)} is not a {'time' if unit is HintUnit.AT else 'number'}"
    scale = 1000 if unit is HintUnit.MILLISECONDS else 1
    start = (received_at - _EPOCH).total_seconds() if unit is HintUnit.AT else 0.0
    if number < start * scale:
        return f"the hint {quoted(value)} lies in the past" if unit is HintUnit.AT else f"the hint {quoted(value)} is negative"
    if number > (start + cap.total_seconds()) * scale:
        return _beyond(value, cap)
    return max(received_at, received_at + timedelta(seconds=number / scale - start))


def _number(value: Json) -> int | float | None:
    """The finite number in a hint, or None. True and False are not numbers here."""
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value.strip(" \t"))
        return None if match is None else int(match[1]) + int((match[2] or "0").ljust(9, "0")) / 10**9
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or isfinite(value) else None


def _instant_hint(match: re.Match[str], received_at: datetime, cap: timedelta) -> datetime | str:
    day, clock, fraction, zone = match.groups()
    micros = (fraction or "0")[:6].ljust(6, "0")
    try:
        instant = datetime.fromisoformat(f"{day}T{clock}.{micros}{'+00:00' if zone in 'Zz' else zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return f"the hint {quoted(match[0])} is not a time"
    if instant < received_at:
        return f"the hint {quoted(match[0])} lies in the past"
    return _beyond(match[0], cap) if instant - received_at > cap else instant


def _http_date_hint(value: Json, received_at: datetime, cap: timedelta) -> datetime | str:
    instant = read_http_date(value.strip(" \t"), near=received_at) if isinstance(value, str) else None
    if instant is None:
        return f"the hint {quoted(value)} is not an HTTP date"
    if instant < received_at:
        return f"the hint {quoted(value)} lies in the past"
    return _beyond(value, cap) if instant - received_at > cap else instant


SPANS: Mapping[HintUnit, timedelta] = {
    HintUnit.SECONDS: timedelta(seconds=1),
    HintUnit.MILLISECONDS: timedelta(milliseconds=1),
}
"""The units that a length of time can have; the others name an instant."""


def read_span(value: Json, unit: timedelta) -> timedelta | None:
    """Reads a length of time, or None for what is negative or no number. One that is longer than time itself is cut."""
    number = _number(value)
    if number is None or number < 0:
        return None
    try:
        return number * unit
    except OverflowError:
        return timedelta.max


def _beyond(value: Json, cap: timedelta) -> str:
    return f"the hint {quoted(value)} is beyond the contract's cap of {cap.total_seconds():g}s"
