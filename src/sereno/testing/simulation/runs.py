"""Runs of many worlds: several processes, one line for each failing seed, figures added up."""

import multiprocessing
import signal
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from sereno.testing.simulation.coverage import Coverage, Required
from sereno.testing.simulation.lived import Outcome
from sereno.testing.simulation.world import run_world

REGRESSIONS = Path(__file__).with_name("regressions.toml")
LONGEST_S = 180
"""Seconds of real time after which a world counts as one that never ends."""


def earlier_seeds() -> Sequence[int]:
    """The seeds that failed once, each with what they found, in regressions.toml."""
    return [int(one["seed"]) for one in tomllib.loads(REGRESSIONS.read_text("utf-8")).get("seed", ())]


def fresh_seed(folder: Path) -> int:
    """The first seed of a fresh range: other seeds with each commit, and the same ones for the same commit. 1 outside of a checkout."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return 1
    commit = done.stdout.strip()
    return int(commit[:7], 16) * 1_000 if done.returncode == 0 and commit else 1


@dataclass(frozen=True, slots=True)
class Ran:
    """What one seed came to, as a process hands it back."""

    seed: int
    violations: Sequence[str]
    trace: str
    hours: float
    hours_asleep: float
    steps: int
    requests: int
    wasted: int
    coverage: Coverage
    shown: str = ""
    """Options and last events of a failing world."""


@dataclass(slots=True)
class Total:
    """The sum of many worlds."""

    seeds: int = 0
    hours: float = 0.0
    hours_asleep: float = 0.0
    steps: int = 0
    requests: int = 0
    wasted: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    failing: dict[int, Sequence[str]] = field(default_factory=dict)

    def add(self, ran: Ran) -> None:
        """Adds one world."""
        self.seeds += 1
        self.hours += ran.hours
        self.hours_asleep += ran.hours_asleep
        self.steps += ran.steps
        self.requests += ran.requests
        self.wasted += ran.wasted
        self.coverage.add(ran.coverage)
        if ran.violations:
            self.failing[ran.seed] = ran.violations

    def figures(self) -> dict[str, Any]:
        """How much happened, and what went wrong."""
        seen = self.coverage
        return {
            "seeds": self.seeds,
            "hours": round(self.hours),
            "hours_asleep": round(self.hours_asleep),
            "faults": seen.faults.total(),
            "kinds": len(seen.faults),
            "rarest_kind": min(seen.faults.values(), default=0),
            "crash_points": len(seen.points),
            "crashes": seen.points.total(),
            "cells": len(seen.cells),
            "probes": len(seen.probes),
            "steps": self.steps,
            "requests": self.requests,
            "wasted": self.wasted,
            "violations": sum(len(found) for found in self.failing.values()),
        }


def run_seed(seed: int) -> Ran:
    """Runs one world; one that breaks or never ends is a violation too."""
    try:
        with _limited(LONGEST_S):
            return _ran(seed, run_world(seed))
    except (AssertionError, RuntimeError, TimeoutError) as error:
        text = f"the world broke: {type(error).__name__}: {error}"
        return Ran(seed, [text], "", 0.0, 0.0, 0, 0, 0, Coverage())


def _ran(seed: int, outcome: Outcome) -> Ran:
    shown = "" if not outcome.violations else "\n".join([repr(outcome.options), *outcome.log])
    return Ran(
        seed,
        list(outcome.violations),
        outcome.trace,
        outcome.hours,
        outcome.hours_asleep,
        outcome.steps,
        outcome.requests,
        outcome.wasted,
        outcome.coverage,
        shown,
    )


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"it did not end within {seconds} s of real time")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_seeds(seeds: Sequence[int], *, jobs: int, tell: Callable[[Ran], None]) -> Iterator[Ran]:
    """Runs worlds in so many processes; hands each on as it ends, in no certain order. Ctrl-C ends the
    processes."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, initializer=_quiet, maxtasksperchild=500) as pool:
        for ran in pool.imap_unordered(run_seed, seeds, chunksize=5):
            tell(ran)
            yield ran


def _quiet() -> None:
    """Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def unvisited(total: Total, required: Required, areas: Sequence[str]) -> list[str]:
    """What had to be visited and was not, or too seldom, in these areas."""
    return [line for line in required.unvisited(total.coverage) if line.partition(":")[0] in areas]
