"""Every form of a wait that a provider can put into an answer, with what it really asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

Headers = Sequence[tuple[str, str]]
HUGE_S = 9_999_999_999


@dataclass(frozen=True, slots=True)
class Wait:
    """Headers to add, and the instant before which no request may come; None where they ask for nothing that can be believed."""

    headers: Headers
    until: datetime | None = None
    read: bool = True
    """It can be read, even where it asks for nothing."""


_NONSENSE = (
    "-5", "inf", "1e400", "nan", "120, 240", "٣", "１２０", "1_0", "12.5", "", "soon", "99999999999999999999", "0x10", "Mon, 99 Jun 2026",
)  # fmt: skip
_FORMS = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y")
"""IMF-fixdate, RFC 850, asctime."""


WAITS = ("seconds", "padded", "date", "skewed", "past", "zero", "huge", "nonsense")
"""Every kind of wait that says anything."""
DATES = ("date", "skewed", "past")
"""Those of them that name an instant of the provider's own clock."""
_OFTEN = ("none", "seconds", "seconds", "padded", "date", "date", "skewed", "past", "zero", "huge", "nonsense", "nonsense")


def draw_wait(dice: Random, now: datetime) -> Wait:
    """Draws a Retry-After: none, seconds, dates in all three forms against a true or skewed `Date`, the past, too long, or nonsense."""
    return wait_of(dice.choice(_OFTEN), dice, now)


def wait_of(kind: str, dice: Random, now: datetime) -> Wait:
    """One kind of wait; the dice say how long, and in which form."""
    seconds = dice.choice((1, 7, 30, 120))
    whole = now.replace(microsecond=0)
    match kind:
        case "seconds":
            return Wait([("retry-after", str(seconds))], now + timedelta(seconds=seconds))
        case "padded":
            return Wait([("retry-after", f" {seconds}\t")], now + timedelta(seconds=seconds))
        case "date":
            at = whole + timedelta(seconds=seconds)
            return Wait([("retry-after", at.strftime(dice.choice(_FORMS)))], at)
        case "skewed":
            sent = whole + timedelta(hours=dice.choice((-3, -1, 2)))
            date = sent.strftime(_FORMS[0])
            return Wait(
                [("date", date), ("retry-after", (sent + timedelta(seconds=seconds)).strftime(dice.choice(_FORMS)))],
                now + timedelta(seconds=seconds),
            )
        case "past":
            return Wait([("retry-after", (whole - timedelta(days=30)).strftime(dice.choice(_FORMS)))])
        case "zero":
            return Wait([("retry-after", "0")])
        case "huge":
            return Wait([("retry-after", str(HUGE_S))], now + timedelta(days=36500))
        case "nonsense":
            return Wait([("retry-after", dice.choice(_NONSENSE))], read=False)
        case _:
            return Wait([], read=False)


HINTS: Mapping[str, dict[str, object]] = {
    "negative": {"poll_after": -1},
    "1e300": {"poll_after": 1e300},
    "NaN": {"poll_after": "NaN"},
    "true": {"poll_after": True},
    "10**60": {"poll_after": 10**60},
    "1970": {"next_check_at": "1970-01-01T00:00:00Z"},
    "9999": {"next_check_at": "9999-12-31T23:59:59Z"},
    "list": {"next_check_at": ["soon"]},
    "0": {"poll_after": 0},
}
"""Body hints that must not be believed, or that ask for nothing, by name."""


def draw_hint(dice: Random) -> dict[str, object]:
    """Draws one of HINTS."""
    return HINTS[dice.choice(list(HINTS))]
