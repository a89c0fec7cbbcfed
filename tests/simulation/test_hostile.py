"""A hostile provider: whatever it answers, each wait ends or asks a person within its limits, and the report says so (I1–I17, G13, W28)."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from sereno.core.delay import read_retry_after
from sereno.ports import WorkStore
from sereno.testing.hostile.checks import figures, violations
from sereno.testing.hostile.faults import FAULTS
from sereno.testing.hostile.mutants import CONTRACTS, STORES
from sereno.testing.hostile.options import Hostile
from sereno.testing.hostile.run import live
from sereno.testing.hostile.waits import draw_wait

SMALL = Hostile(operations=60, hours=4.0)
SEEDS = range(1, 9)
"""Seeds within which each planted bug must be found."""


def test_W28_I10_I13_sixty_operations_at_a_hostile_provider_end_within_their_limits() -> None:
    """Each ends or asks a person in time; provider, people and `report waiting` agree; every decision is reached again."""
    lived = live(SMALL)
    found = figures(lived)
    assert violations(lived) == []
    assert found["books"]["ended_or_asked_within_limits"] == 60
    assert found["status_requests"]["on_the_wire"] == found["status_requests"]["counted"] > 0
    assert found["submits"]["answers_lost"] > 0 and found["submits"]["repeated_under_their_key"] > 0


def test_W13_the_book_and_the_core_read_each_form_of_a_wait_alike() -> None:
    """What the provider writes into its book for a Retry-After is what the core waits for, and nonsense is nothing to both."""
    dice, now = Random(7), datetime(2026, 6, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    for _ in range(500):
        wait = draw_wait(dice, now)
        headers = dict(wait.headers)
        if "retry-after" not in headers:
            continue
        read = read_retry_after(headers["retry-after"], received_at=now, date_header=headers.get("date"))
        assert isinstance(read, datetime) is wait.read, headers
        if wait.until is not None:
            assert isinstance(read, datetime) and read >= wait.until - timedelta(microseconds=1), headers


def _found(says: str, worlds: Sequence[list[str]]) -> bool:
    return any(text.startswith(says) for world in worlds for text in world)


@pytest.mark.parametrize("mutant", sorted(STORES))
def test_the_hostile_world_finds_a_planted_bug_of_the_store(mutant: str) -> None:
    """A provider's wait that is ignored, and a request that is given back, are found in the provider's book."""
    wrap, says = STORES[mutant]

    def planted(store: WorkStore) -> WorkStore:
        return wrap(store)  # type: ignore[no-any-return]  # a proxy of the same methods

    for seed in SEEDS:
        if _found(says, [violations(live(replace(SMALL, seed=seed), planted))]):
            return
    pytest.fail(f"{mutant} was not found")


@pytest.mark.parametrize("mutant", sorted(CONTRACTS))
def test_the_hostile_world_finds_a_planted_bug_of_reading(mutant: str) -> None:
    """An unknown word that is taken as pending, and keys that nobody honours, are found in the provider's book."""
    contracts, says = CONTRACTS[mutant]
    for seed in SEEDS:
        if _found(says, [violations(live(replace(SMALL, seed=seed), contracts=contracts))]):
            return
    pytest.fail(f"{mutant} was not found")


@pytest.mark.full
@pytest.mark.timeout(600)
def test_W28_G13_of_a_thousand_operations_all_end_or_ask_within_their_limits() -> None:
    """1,000 operations, every fault met: `report waiting` says 1,000, and so do the books of provider and people."""
    command = [sys.executable, "-m", "sereno.testing.hostile", "--operations", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=550)
    assert done.stdout, done.stderr[-4000:]
    print(done.stdout)
    found = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, (found["first_violations"], found["faults_not_met"])
    assert found["report_waiting"]["ended_or_asked_within_limits"] == found["books"]["ended_or_asked_within_limits"] == 1000
    assert found["report_waiting"]["decisions_same"] == found["report_waiting"]["decisions"]
    assert found["kinds_of_faults"] >= len(FAULTS)
