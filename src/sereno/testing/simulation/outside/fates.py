"""What goes wrong at the provider of a world: by its plan, which counts what struck."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from sereno.testing.hostile.book import Job, Ordered
from sereno.testing.hostile.contracts import is_keyed
from sereno.testing.hostile.fates import (
    CANCEL_FAULTS,
    HANDED_OVER,
    LOOKS,
    MORE_CANCEL_FAULTS,
    MORE_SUBMIT_FAULTS,
    NO_WAIT,
    REPEATED,
    SUBMIT_FAULTS,
    WAIT_KINDS,
)
from sereno.testing.hostile.more import ENDED, LASTING
from sereno.testing.hostile.waits import DATES, HINTS, WAITS, Headers, Wait, wait_of
from sereno.testing.simulation.plan import Plan
from sereno.testing.simulation.terms import Group

BELIEVED_SKEW = timedelta(hours=20)
"""How far the clocks may stand apart where a date is still read against the `date` header (1 day, less 3 hours of a planted skew)."""
_RIGHT = timedelta(seconds=2)


class _Turns:
    """Kinds that take turns: a world begins where its seed says, so that over many worlds each strikes about as often as any other."""

    def __init__(self, kinds: Sequence[str], seed: int) -> None:
        self._kinds = list(kinds)
        Random(f"turns:{seed % _ORDERS}").shuffle(self._kinds)
        self._next = int(seed // _ORDERS * _GOLDEN * len(self._kinds))

    def present(self) -> Sequence[str]:
        """Whose turn it is; empty where there are no kinds."""
        return self._kinds[self._next % len(self._kinds) :][:1] if self._kinds else ()

    def over(self) -> None:
        """It has struck."""
        self._next += 1


_ORDERS = 8
_GOLDEN = 0.6180339887498949
"""Multiples of it leave even gaps on a circle."""


class PlannedFates:
    """By the plan of a world, which counts what struck and ends it all when it is calm. `least` is the smallest share of looks with a
    fault, in a world that has any: there are many kinds, and few looks."""

    def __init__(
        self, plan: Plan, dice: Random, outages: Sequence[tuple[datetime, datetime]], *, least: float = 0.0, seed: int = 0
    ) -> None:
        self._plan, self._dice, self._least = plan, dice, least
        self._turns = _Turns([name for name in LOOKS if name not in ENDED and plan.knows(Group.LOOK, name)], seed)
        submits = (*SUBMIT_FAULTS, *MORE_SUBMIT_FAULTS)
        self._submits = _Turns([name for name in submits if name != "two jobs" and plan.knows(Group.SUBMIT, name)], seed)
        self.outages = list(outages)
        """Windows in which the host may answer nobody; one that does not come about is taken out when it begins."""
        self.struck: list[tuple[datetime, datetime]] = []
        """Outages that came about. They end with the faults."""

    def connection(self) -> float:
        """Mostly a moment; now and then longer than the guard lasts."""
        slow = self._plan.draw(Group.LOOK, ("slow connection",), share=0.02)
        return self._dice.uniform(1.2, 6.0) if slow else self._dice.uniform(0.01, 0.2)

    def away(self, now: datetime) -> bool:
        """True in an outage."""
        while self.outages and self.outages[0][0] <= now:
            window = self.outages.pop(0)
            if window[1] > now and self._plan.draw(Group.LOOK, ("outage",), share=0.9):
                self.struck.append(window)
        return not self._plan.calm and any(begins <= now < ends for begins, ends in self.struck)

    def look(self, job: Job, *, ended: bool) -> str | None:
        """By the plan; a lasting fault goes on, and a job that ended has faults of its own."""
        if job.lasting is not None and not self._plan.calm:
            name, left = job.lasting
            job.lasting = (name, left - 1) if left > 1 else None
            self._plan.struck[f"{Group.LOOK}.{name}"] += 1
            return name
        share = self._plan.share(Group.LOOK, self._least)
        if ended and job.word != "running" and self._dice.random() < 0.4:
            fault = self._plan.draw(
                Group.LOOK, [name for name in ENDED if name != "result later" or job.word == "done"], share=share
            )
        elif (fault := self._plan.draw(Group.LOOK, self._turns.present(), share=share)) is not None:
            self._turns.over()
        if fault is not None and fault in LASTING:
            more = self._dice.randrange(LASTING[fault])
            job.lasting = (fault, more) if more else None
        return fault

    def hint(self) -> dict[str, object] | str | None:
        """By the plan."""
        kind = self._plan.draw(Group.WAIT, WAIT_KINDS[len(WAITS) :], share=self._plan.share(Group.WAIT, 0.3))
        if kind is None or kind == HANDED_OVER:
            return kind
        return HINTS[kind.removeprefix("hint ")]

    def submit(self, order: Ordered, *, known: bool) -> str | None:
        """By the plan, and often: there are few submits in a world."""
        if known and self._dice.random() < 0.9:
            return self._plan.draw(Group.SUBMIT, ("two jobs",), share=0.6)
        if is_keyed(order.ref) and self._dice.random() < 0.15:
            return self._plan.draw(Group.SUBMIT, REPEATED, share=0.6)
        fault = self._plan.draw(Group.SUBMIT, self._submits.present(), share=0.6)
        if fault is not None:
            self._submits.over()
        return fault

    def cancel(self, job: Job) -> str | None:
        """By the plan, and often: there are few cancels in a world."""
        return self._plan.draw(Group.CANCEL, (*CANCEL_FAULTS, *MORE_CANCEL_FAULTS), share=0.6)

    def wait(self, now: datetime, skew: timedelta, *, likely: bool) -> tuple[str | None, Wait]:
        """By the plan. A date comes with the provider's `date`, but where the clocks are right; it counts as believed only where
        that `date` can be."""
        kind = self._plan.draw(Group.WAIT, WAITS, share=0.6 if likely else 0.05)
        if kind is None:
            return None, NO_WAIT
        wait = wait_of(kind, self._dice, now)
        return kind, _dated(wait, now, skew, undated=self._dice.random() < 0.3) if kind in DATES else wait


def _dated(wait: Wait, now: datetime, skew: timedelta, *, undated: bool) -> Wait:
    if abs(skew) > BELIEVED_SKEW:
        wait = replace(wait, until=None)
    if any(name == "date" for name, _ in wait.headers):
        return wait
    if undated and abs(skew) < _RIGHT:
        return wait if wait.until is None else replace(wait, until=wait.until - _RIGHT)
    sent: Headers = [("date", now.strftime("%a, %d %b %Y %H:%M:%S GMT")), *wait.headers]
    return replace(wait, headers=sent)
