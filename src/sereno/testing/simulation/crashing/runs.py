"""Every crash point of a scenario: which runs there are, what each came to, and which hits are left out."""

import gc
import logging
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from sereno.testing.simulation.crashing.ends import differences, expected
from sereno.testing.simulation.crashing.plan import Hit, Strike, Variant
from sereno.testing.simulation.crashing.scenario import Scenario, scenarios
from sereno.testing.simulation.crashing.world import CrashWorld, Ran
from sereno.testing.simulation.runs import fresh_seed

SEED = 4
"""One order of callbacks for all scenarios: what differs between two runs is the strike alone."""
IDLE = ("store.claim.", "claim.done", "store.next_due.", "store.purge.", "store.note_clock_step.")
"""Points of the loop itself. Where nothing else is passed between two of them, nothing happened."""
COLLECT_EVERY = 25


def sampled(hits: Sequence[Hit]) -> list[Hit]:
    """The hits at which a process dies: all, but in a stretch in which nothing but the loop's own points were passed, of each point
    only the first and the last hit of each process. The last claim of a stretch is the one that found something."""
    kept: list[Hit] = []
    stretch: list[Hit] = []
    for hit in hits:
        if hit.point.startswith(IDLE):
            stretch.append(hit)
            continue
        kept += _ends_of(stretch)
        stretch = []
        kept.append(hit)
    return [*kept, *_ends_of(stretch)]


def _ends_of(stretch: Sequence[Hit]) -> list[Hit]:
    first: dict[tuple[str, str], Hit] = {}
    last: dict[tuple[str, str], Hit] = {}
    for hit in stretch:
        first.setdefault((hit.process, hit.point), hit)
        last[hit.process, hit.point] = hit
    numbers = {hit.number for hit in (*first.values(), *last.values())}
    return [hit for hit in stretch if hit.number in numbers]


def strikes(hits: Sequence[Hit]) -> Iterator[Strike]:
    """Every run of a scenario: one death at each hit, two where a write is under way (durable, or not), two errors of each write, and
    two deaths in a row at each hit that is not the loop's own."""
    for hit in sampled(hits):
        yield Strike(hit, Variant.DIE)
        if not hit.point.startswith(IDLE):
            yield Strike(hit, Variant.DIE_TWICE)
        if hit.write:
            yield from (Strike(hit, variant) for variant in (Variant.DIE_KEPT, Variant.ERROR, Variant.ERROR_KEPT))


@contextmanager
def quiet() -> Iterator[None]:
    """No log lines, and no collection of cycles in between."""
    was, logs = gc.isenabled(), structlog.get_config()
    gc.disable()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**logs)
        if was:
            gc.enable()


def run_once(scenario: Scenario, strike: Strike | None = None) -> Ran:
    """Runs a scenario to its end, with one strike or none."""
    world = CrashWorld(scenario, strike, SEED)
    outcome = world.run()
    assert world.end is not None
    return Ran(outcome, world.end, world.plan.hits, world.plan.struck_at)


def judged(scenario: Scenario, whole: Ran, strike: Strike) -> list[str]:
    """What is wrong after one strike."""
    ran = run_once(scenario, strike)
    found = list(ran.outcome.violations)
    if ran.struck is None or ran.struck.point != strike.hit.point:
        found.append(f"the strike did not come about: {ran.struck}")
    deaths = 1 + (strike.variant is Variant.DIE_TWICE)
    return [*found, *differences(scenario, whole.end, ran.end, deaths=deaths)]


@dataclass(slots=True)
class Crashed:
    """One scenario, or a part of it, with all its runs."""

    name: str
    runs: int = 0
    of: int = 0
    """All runs of the scenario."""
    hits: int = 0
    """Points passed in all."""
    left_out: int = 0
    """Those of them that `sampled` leaves out: idle ones."""
    points: set[str] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    """Each with the command that repeats it."""


def crash_everywhere(name: str, *, offset: int = 0, step: int = 1) -> Crashed:
    """Runs a scenario as it is, then every `step`-th of its strikes, from the `offset`-th."""
    scenario, found = scenarios()[name], Crashed(name)
    with quiet():
        whole = run_once(scenario)
        found.violations += [f"{name}: {text}" for text in (*whole.outcome.violations, *expected(scenario, whole.end))]
        every = list(strikes(whole.hits))
        found.hits, found.of = len(whole.hits), len(every)
        found.left_out = found.hits - len(sampled(whole.hits))
        for strike in every[offset::step]:
            found.runs += 1
            found.points.add(strike.hit.point)
            if wrong := judged(scenario, whole, strike):
                found.violations.append(f"{again(name, strike)}: {'; '.join(wrong)}")
            if found.runs % COLLECT_EVERY == 0:
                gc.collect()
    return found


def rotating(folder: Path, parts: int) -> int:
    """The part, from 1, that the commit takes: it moves on by one with each commit. Where only the last commits are there, its name
    chooses."""
    count, shallow = _git(folder, "rev-list", "--count", "HEAD"), _git(folder, "rev-parse", "--is-shallow-repository")
    number = int(count) if count.isdigit() and shallow == "false" else fresh_seed(folder) // 1_000 or 1
    return number % parts + 1


def _git(folder: Path, *words: str) -> str:
    """What git says; "" where it says nothing or is not there."""
    try:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def again(name: str, strike: Strike) -> str:
    """The command that repeats exactly this run."""
    hit = strike.hit
    return (
        f"python -m sereno.testing.simulation.crashing --only {name} --hit {hit.number} --variant {strike.variant} ({hit.point})"
    )


def one(name: str, number: int, variant: Variant) -> tuple[Ran, list[str]]:
    """Repeats one run. Raises ValueError where the scenario has no such hit."""
    scenario = scenarios()[name]
    with quiet():
        whole = run_once(scenario)
        if not 1 <= number <= len(whole.hits):
            raise ValueError(f"{name} has hits 1 to {len(whole.hits)}")
        strike = Strike(whole.hits[number - 1], variant)
        return run_once(scenario, strike), judged(scenario, whole, strike)
