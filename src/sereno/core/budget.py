"""Budgets: the limits stored before the first look, and what has been spent of them (W09, W41)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one wait. `deadline_s` is seconds from registration; counts are ≥ 1 (failures ≥ 0)."""

    deadline_s: float
    max_status_requests: int
    max_transport_failures: int
    max_throttles: int

    def starting(self, at: datetime, business_deadline_at: datetime | None = None) -> "Allowance":
        """The limits of a wait that starts now."""
        return Allowance(
            deadline_at=at + timedelta(seconds=self.deadline_s),
            business_deadline_at=business_deadline_at,
            max_status_requests=self.max_status_requests,
            max_transport_failures=self.max_transport_failures,
            max_throttles=self.max_throttles,
        )


@dataclass(frozen=True, slots=True)
class Spend:
    """What was used; each only ever grows. `status_requests` is committed before the request leaves."""

    status_requests: int = 0
    transport_failures: int = 0
    throttles: int = 0
    answered: int = 0
    """Answered requests, 5xx included: the `n` of the backoff."""
    not_found: int = 0
    """404s in a row."""
    tolerated: int = 0
    """Answers in a row that only a count of the contract let pass."""
    steady: int = 0
    """Answers in a row that said success, where the contract wants more than one."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of one operation as instants and counts."""

    deadline_at: datetime
    business_deadline_at: datetime | None
    max_status_requests: int
    max_transport_failures: int
    max_throttles: int

    def stops_at(self) -> tuple[datetime, str]:
        """The earlier of the two deadlines and the category it escalates as (W10)."""
        if self.business_deadline_at is not None and self.business_deadline_at < self.deadline_at:
            return self.business_deadline_at, "business_deadline_exceeded"
        return self.deadline_at, "deadline_exceeded"


def exhausted(used: int, limit: int) -> bool:
    """True when the last allowed one is used up ("3 of 3"). A limit of 0 allows none: the first one exhausts it."""
    return used >= max(limit, 1)


_SECOND_WIND = 2


def with_room(
    allowance: Allowance, spend: Spend, now: datetime, *, minutes: int, checks: int, look_at: datetime | None = None
) -> Allowance:
    """Lifts only the limits that would forbid the very next look; nothing that still has room is touched (W20).

    A deadline that has passed (that comes before `look_at`, where the look is later) moves to `minutes` from now; at least
    `checks` more status requests become possible; a used-up failure or throttle budget gets a few more, never more than `checks`.
    """
    until, business, needed = now + timedelta(minutes=minutes), allowance.business_deadline_at, look_at or now
    return Allowance(
        deadline_at=until if allowance.deadline_at <= needed else allowance.deadline_at,
        business_deadline_at=until if business is not None and business <= needed else business,
        max_status_requests=max(allowance.max_status_requests, spend.status_requests + checks),
        max_transport_failures=_lifted(spend.transport_failures, allowance.max_transport_failures, checks),
        max_throttles=_lifted(spend.throttles, allowance.max_throttles, checks),
    )


def with_extension(allowance: Allowance, spend: Spend, now: datetime, *, minutes: int, checks: int) -> Allowance:
    """Moves the deadline to `minutes` after the later of `now` and its old value; exactly `checks` more requests are left (W20).

    A business deadline that has passed moves to `minutes` from now, since more time for the job alone would end at once.
    """
    return replace(
        with_room(allowance, spend, now, minutes=minutes, checks=checks),
        deadline_at=max(now, allowance.deadline_at) + timedelta(minutes=minutes),
        max_status_requests=spend.status_requests + checks,
    )


def second_wind(checks: int) -> int:
    """How many more throttles or transport failures an answer allows where that budget is used up."""
    return min(_SECOND_WIND, checks)


def _lifted(used: int, limit: int, checks: int) -> int:
    return used + second_wind(checks) if exhausted(used, limit) else limit
