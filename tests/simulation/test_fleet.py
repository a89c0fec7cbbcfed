"""The fleet: operations that start together, or wake together, share one provider's limit and do not look together (W29, I7, G12)."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sereno.core.contract import Delays
from sereno.core.delay import first_delay
from sereno.ports import WorkStore
from sereno.testing.fleet.__main__ import free_fleet
from sereno.testing.fleet.checks import figures, violations
from sereno.testing.fleet.mutants import MUTANTS
from sereno.testing.fleet.options import Fleet
from sereno.testing.fleet.run import sail
from sereno.testing.planted import SameDraw

SMALL = Fleet(operations=120)
CALM = replace(
    SMALL,
    operations=60,
    outages=(),
    asleep=None,
    short_s=(60.0, 600.0),
    long_s=(60.0, 600.0),
    throttle_share=0.2,
    hours=1.0,
    rate=0.5,
    burst=2,
)


def test_W29_I4_I6_I7_a_small_fleet_keeps_the_limit_after_an_outage_and_a_sleep() -> None:
    """A hundred and twenty operations, an outage and a sleep of an hour each: the provider's own book shows no burst
    (incident 15)."""
    sailed = sail(SMALL)
    found = figures(sailed)
    assert violations(sailed) == []
    assert found["unanswered"] > 0 and found["throttled"] > 0
    assert found["requests"] == found["counted"]


def test_W29_a_pool_without_a_limit_is_spread_by_the_jitter_alone() -> None:
    """Registered in one instant, the looks of 250 operations are planned apart: the first ones and all later ones."""
    sailed = sail(free_fleet(replace(SMALL, operations=250)))
    assert violations(sailed) == []
    assert figures(sailed)["first_looks_planned_for_one_second"] < 25


def test_W29_a_first_look_is_never_before_the_contracts_own() -> None:
    """The draw moves it later, by less than half of the base delay."""
    delays = Delays(first=timedelta(seconds=2), base=timedelta(seconds=5))
    assert first_delay(delays, 0.0) == timedelta(seconds=2)
    assert timedelta(seconds=4.4) < first_delay(delays, 0.999) < timedelta(seconds=4.5)


@pytest.mark.parametrize(("mutant", "finds"), sorted(MUTANTS.items()))
def test_the_fleet_finds_the_planted_bug(mutant: str, finds: tuple[Any, str]) -> None:
    """A proof that does not find a planted bug proves nothing."""
    wrap, says = finds

    def planted(store: WorkStore) -> WorkStore:
        return wrap(store)  # type: ignore[no-any-return]  # a proxy of the same methods

    found = violations(sail(CALM, planted))
    assert any(text.startswith(says) for text in found), found


def test_the_fleet_finds_looks_without_jitter() -> None:
    """Where every decision draws the same, the looks of a fleet fall into one second, and the fleet says so."""
    found = violations(sail(free_fleet(replace(SMALL, operations=250)), dice=SameDraw))
    assert any(text.startswith("W29") for text in found), found


@pytest.mark.full
@pytest.mark.timeout(600)
def test_W29_I7_G12_thousands_of_operations_at_one_provider() -> None:
    """3,000 on virtual time, as `make fleet` runs with 10,000: `sends(Δ) ≤ burst + rate·Δ` on the provider's book, and each ends
    (incident 15)."""
    found = fleet("--operations", "3000", "--real", "0")
    assert found["operations"] == 3000
    assert found["sends_over_the_limit"] <= 0.001
    assert found["first_looks_planned_for_one_second"] < 300
    assert found["requests"] == found["counted"] > 3000


@pytest.mark.full
@pytest.mark.timeout(600)
def test_W29_I7_two_processes_share_the_limit_on_real_time() -> None:
    """300 operations due in one instant, two processes on one file: claims keep the limit exactly, arrivals within the wire's slack."""
    found = fleet("--operations", "20", "--real", "300")["on_real_time"]
    assert found["requests"] >= 600
    assert found["claims_over_the_limit"] <= 0.001
    assert min(found["by_worker"]) > 0


def fleet(*arguments: str) -> Any:
    """Runs the command in a process of its own; its line is printed too."""
    command = [sys.executable, "-m", "sereno.testing.fleet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=550)
    assert done.stdout, done.stderr[-4000:]
    print(done.stdout)
    found = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, found["first_violations"]
    return found
