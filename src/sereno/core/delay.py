"""Delays: backoff with jitter, Retry-After and body hints; every value comes with its source (W06, W07, W13, W14)."""

from datetime import datetime, timedelta
from random import Random

from sereno.core.contract import Delays, HintUnit
from sereno.core.values import Json


def backoff(delays: Delays, n: int, rng: Random) -> timedelta:
    """`raw = min(maximum, base · 2^n)`, then uniform in [50 %, 100 %] of raw (or [0, 100 %] for full jitter), never under `min_gap`.

    Golden figures (base 5 s, maximum 120 s): after polls 1, 2 and 4 the ranges are 5–10 s, 10–20 s and 40–80 s. (n = completed polls.)
    """
    raise NotImplementedError


def throttle_backoff(delays: Delays, n: int, throttles: int, rng: Random) -> timedelta:
    """429 without Retry-After: `base · 4^throttles` on top of the ordinary backoff, at most `maximum · 4`."""
    raise NotImplementedError


def read_retry_after(value: str, *, received_at: datetime, date_header: str | None = None) -> datetime | str:
    """Reads Retry-After: 1–10 ASCII digits, or any of the three HTTP-date forms (RFC 9110 §5.6.7), relative to a sane `Date` header.

    Returns the instant (never in the past: past or 0 gives `received_at`), or a text saying why it was rejected. An instant beyond year 9998 is clamped.
    """
    raise NotImplementedError


def read_hint(value: Json, unit: HintUnit, *, received_at: datetime, cap: timedelta) -> datetime | str:
    """Reads a body or header hint. Negative, unparseable, NaN or beyond `cap`: a text saying why it was rejected (W07)."""
    raise NotImplementedError
