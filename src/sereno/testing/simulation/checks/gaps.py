"""The smallest gap between looks, and what a process may send after it slept (I6, I7, I23, I24)."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from sereno.core.values import to_micros
from sereno.testing.simulation.checks.evidence import Evidence
from sereno.testing.simulation.terms import Pause


def smallest(world: Evidence) -> Iterator[str]:
    """I6, I23: two looks of an operation are never closer than its smallest gap, in true time, whoever sends them and
    whatever is done to the host's clock."""
    for case in world.cases:
        for first, second in zip(case.looks, case.looks[1:], strict=False):
            gone = world.planned(first.at, second.at)
            if gone < case.min_gap - world.rounding:
                yield f"I6 {case.id}: two looks within {gone} (requests {first.number}, {second.number})"


def after_a_pause(world: Evidence) -> Iterator[str]:
    """I7: in the first gap after a process, or the host, slept, an operation is looked at once at most."""
    pauses = sorted(world.processes.pauses, key=lambda pause: pause.until)
    for case in world.cases:
        looks, at = case.looks, 0
        for pause in pauses:
            while at < len(looks) and looks[at].at < pause.until:
                at += 1
            upto = at
            while upto < len(looks) and looks[upto].at < pause.until + case.min_gap - world.rounding:
                upto += 1
            if upto - at > 1:
                yield f"I7 {case.id}: {upto - at} looks in the first {case.min_gap} after a pause"


def asleep(world: Evidence) -> Iterator[str]:
    """I24: what sleeps sends nothing, and nothing leaves under a lease that has ended, but for the guard's second."""
    pauses = sorted(world.processes.pauses, key=lambda pause: pause.at)
    for case in world.cases:
        committed = {number: row.run for number, row in case.committed().items()}
        ends = {int(run["number"]): int(run["claim_expires_at"]) for run in case.runs}
        for request in case.sent():
            for pause in pauses:
                if pause.at < request.at < _until(world, pause) and pause.process in ("", request.process):
                    yield f"I24 {case.id}: request {request.number} came from {request.process or 'a host'} that slept"
            end = ends.get(committed.get(request.number, -1))
            since = request.at - world.times.lease
            if end is not None and not world.stepped(since, request.at) and to_micros(request.host_at) > end + _guard(world):
                over = timedelta(microseconds=to_micros(request.host_at) - end)
                yield f"I24 {case.id}: request {request.number} left {over} after its lease"


def _until(world: Evidence, pause: Pause) -> datetime:
    """A stopped process goes on when the faults end; who sleeps does not."""
    return min(pause.until, world.calm) if pause.process else pause.until


def _guard(world: Evidence) -> int:
    return round(world.times.guard.total_seconds() * 1_000_000)
