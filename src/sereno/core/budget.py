"""Budgets: the limits stored before the first look, and what has been spent of them (W09, W41)."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one wait. `deadline_s` is seconds from registration; counts are ≥ 1 (failures ≥ 0)."""

    deadline_s: float
    max_status_requests: int
    max_transport_failures: int
    max_throttles: int


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
