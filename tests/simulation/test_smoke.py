"""Whole worlds: one seed is one world; the real product keeps its promises in it, and nothing but the seed decides what happens."""

import os
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from sereno.testing.simulation import world
from sereno.testing.simulation.lived import Outcome
from sereno.testing.simulation.world import run_world

SEED = int(os.environ.get("SERENO_SEED", "1"))
SEEDS = range(SEED, SEED + 8)
EARLIER = [
    int(one["seed"])
    for one in tomllib.loads(Path(world.__file__).with_name("regressions.toml").read_text("utf-8")).get("seed", ())
]


@cache
def outcome(seed: int) -> Outcome:
    """Each world is run once for all tests."""
    return run_world(seed)


@pytest.mark.parametrize("seed", [*SEEDS, *EARLIER])
def test_I1_I4_I10_I17_W21_W24_W28_W30_W33_W44_world_keeps_its_promises(seed: int) -> None:
    """Crashes, stalls, sleeping hosts, stepping clocks, a failing database and a hostile outside break no invariant."""
    found = outcome(seed)
    assert not found.violations, "\n".join([*found.violations, repr(found.options), *found.log])


def test_worlds_are_not_empty() -> None:
    """The seeds of this test really kill and stop processes, set clocks, fail the database, and send requests."""
    outcomes = [outcome(seed) for seed in SEEDS]
    struck = {kind.partition(".")[0] for found in outcomes for kind in found.coverage.faults}
    assert {"process", "clock", "store", "crash", "look"} <= struck
    assert sum(found.hours for found in outcomes) > len(outcomes)
    assert all(found.requests > 0 and found.steps > 500 for found in outcomes)
    assert len({cell for found in outcomes for cell in found.coverage.cells}) > 30


def test_I34_same_seed_gives_the_same_trace_in_the_same_process() -> None:
    """What ran before changes nothing: caches are of what depends on nothing else."""
    assert run_world(SEED).trace == outcome(SEED).trace
    assert len({outcome(seed).trace for seed in SEEDS}) == len(SEEDS)


def test_I34_same_seed_gives_the_same_trace_under_any_hash_seed() -> None:
    """A world is decided by its seed alone, in whichever process it runs."""
    code = f"from sereno.testing.simulation.world import run_world; print(run_world({SEED + 1}).trace)"
    traces = {outcome(SEED + 1).trace}
    for hash_seed in ("0", "1", "random"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=300
        )
        traces.add(done.stdout.strip().splitlines()[-1])
    assert len(traces) == 1
