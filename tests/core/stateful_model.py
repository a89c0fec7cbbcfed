"""A small model of one wait, written from the requirements alone: numbers, instants and two tables. It knows nothing of how the core decides."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sereno.core.contract import Delays
from sereno.core.escalation import Verb

ENDS = {
    "success": "succeeded",
    "failure": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
}
"""What an answer that ends the job makes of the operation."""
TROUBLE = {
    "needs_input": "needs_input",
    "partial": "partial_result",
    "result_expired": "result_expired",
    "unknown_state": "unknown_state",
    "contradiction": "contradiction",
    "integration_failure": "integration_failure",
    "authorization_denied": "authorization_denied",
    "unknown_operation": "unknown_operation",
}
"""What stops on first sight and asks a person, and under which category (W16, W17, W37, W38)."""
ANSWERED = {
    Verb.STOP: "stopped",
    Verb.TREAT_AS_FAILED: "failed",
    Verb.ACCEPT_PARTIAL: "succeeded",
    Verb.SUBMIT_AGAIN: "submitting",
}
"""What an answer makes of the operation; every other verb waits on."""
TERMINAL = ("succeeded", "failed", "cancelled", "expired", "stopped")


@dataclass
class Wait:
    """One operation as a careful person would keep it in a table."""

    state: str
    deadline: datetime
    business: datetime | None
    max_requests: int
    max_failures: int
    max_throttles: int
    requests: int = 0
    failures: int = 0
    throttles: int = 0
    answered: int = 0
    category: str | None = None
    last_answer: datetime | None = None
    wait_until: datetime | None = None
    """Before that the provider does not want to be asked."""
    granted: dict[str, int] = field(default_factory=dict)
    """Unknown words that a person lets count as pending, and for how many more answers."""

    @property
    def stops_at(self) -> datetime:
        """W10: the earlier of the two."""
        return self.deadline if self.business is None else min(self.deadline, self.business)

    @property
    def deadline_category(self) -> str:
        """Which of the two it was."""
        business = self.business is not None and self.business < self.deadline
        return "business_deadline_exceeded" if business else "deadline_exceeded"

    def spent(self) -> str | None:
        """W34: the budget that leaves no room for one more look. "3 of 3" is used up; none allowed is used up by the first."""
        if self.throttles >= max(1, self.max_throttles):
            return "rate_limited"
        if self.failures >= max(1, self.max_failures):
            return "provider_unreachable"
        return "request_budget_exhausted" if self.requests >= self.max_requests else None

    def step(self, now: datetime) -> str | None:
        """W33, the order before a request: deadline, then budget. Answers the category that closes it unasked; None = ask."""
        return self.deadline_category if now >= self.stops_at else self.spent()

    def look(self, kind: str, word: str, at: datetime, *, http: bool) -> None:
        """One status answer, received at `at`: W32 deadline first, then the state, then the budgets (W34)."""
        self.failures += kind in ("transport", "not_sent")
        self.throttles += kind == "throttled"
        self.requests -= kind == "not_sent"
        self.answered += http or kind not in ("transport", "not_sent")
        self.last_answer = at
        granted = kind == "unknown_state" and self.granted.get(word, 0) > 0
        if granted:
            self.granted[word] -= 1
        if at >= self.stops_at:
            self.ask(self.deadline_category)
        elif kind in ENDS:
            self.state = ENDS[kind]
        elif kind in TROUBLE and not granted:
            self.ask(TROUBLE[kind])
        elif (spent := self.spent()) is not None:
            self.ask(spent)

    def ask(self, category: str) -> None:
        """A person is asked."""
        self.state, self.category = "escalated", category

    def hear(self, waits: list[datetime], at: datetime) -> None:
        """W13: a wait that the provider asked for is a minimum; one that has passed asks for nothing. An answer replaces the wait before."""
        ahead = [until for until in waits if until > at]
        self.wait_until = max(ahead, default=None)

    def gap_ends(self, now: datetime, gap: timedelta) -> datetime:
        """The earliest look that keeps the smallest gap."""
        return now if self.last_answer is None else max(now, self.last_answer + gap)

    def answer(self, verb: Verb, minutes: int, checks: int, now: datetime) -> None:
        """W20: what an answer of a person allows, and nothing more."""
        self.state = ANSWERED.get(verb, "waiting")
        if self.state in TERMINAL:
            return
        until, needed = now + timedelta(minutes=minutes), now + timedelta(minutes=60 if verb is Verb.PAUSE else 0)
        if verb is Verb.EXTEND:
            self.max_requests = self.requests + checks if self.max_requests else 0
            self.deadline = max(now, self.deadline) + timedelta(minutes=minutes)
        else:
            if verb is not Verb.SUBMIT_AGAIN:
                self.max_requests = max(self.max_requests, self.requests + checks)
            self.deadline = until if self.deadline <= needed else self.deadline
        if self.business is not None and self.business <= needed:
            self.business = until
        more = min(2, checks)
        if self.failures >= max(1, self.max_failures):
            self.max_failures = self.failures + more
        if self.throttles >= max(1, self.max_throttles):
            self.max_throttles = self.throttles + more


def backoff_bounds(delays: Delays, n: int) -> tuple[timedelta, timedelta]:
    """W06: raw = min(max, base · 2^n); 50–100 % of it, never under the smallest gap."""
    raw = min(delays.maximum, delays.base * 2 ** min(n, 40))
    return max(delays.min_gap, raw * 0.5), max(delays.min_gap, raw)


def steep_bounds(delays: Delays, n: int, throttles: int) -> tuple[timedelta, timedelta]:
    """W14: grows by 4^throttles on top of the backoff, at most four times the longest delay; 50–100 % of that."""
    raw = min(4 * delays.maximum, min(delays.maximum, delays.base * 2 ** min(n, 40)) + delays.base * 4 ** min(throttles, 20))
    return max(delays.min_gap, raw * 0.5), max(delays.min_gap, raw)
