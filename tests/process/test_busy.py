"""A locked database under real processes: a foreign writer that keeps the lock too long, and many writers of our own (incident 30)."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from sereno.store.executor import BUSY_TIMEOUT_S
from sereno.testing.process.place import Place
from sereno.testing.process.running import PATIENCE_S, started, steered
from sereno.testing.process.world import World, until

JOBS = {f"run-{number}": 1000 for number in range(10)}
WRITERS, CLAIMS = 8, 10_000
LOCKED = "the database is locked by another process"


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I2_I30_a_foreign_writer_that_keeps_the_lock_too_long_stops_the_sending_not_the_process(
    place: Place, world: World
) -> None:
    """Twice longer than the busy timeout: each claim is refused and told, nothing is sent uncounted, and the work goes on in between."""
    place.settle({"p0": "1s"})
    world.add("p0", 2)
    place.register(JOBS)
    with steered(place.folder, "one") as running:
        until(lambda: world.count("jobs") >= 20, PATIENCE_S, "the first looks")
        command = [sys.executable, "-m", "sereno.testing.process.foreign", str(place.database), str(BUSY_TIMEOUT_S + 4), "2"]
        with started(command, place.folder, place.folder / "foreign.log") as foreign:
            for time in (1, 2):
                assert foreign.process.stdout is not None and foreign.process.stdout.readline() == "held\n"
                until(lambda time=time: running.said().count(f"error='{LOCKED}'") >= time, PATIENCE_S, "the warning")
                world.add("p0")
            assert foreign.process.wait(timeout=PATIENCE_S) == 0
        before = {job: world.count("jobs", job) for job in JOBS}
        until(lambda: all(world.count("jobs", job) > before[job] for job in JOBS), PATIENCE_S, "the looks after it")
        until(lambda: world.effects() == {f"p0-{number}": 1 for number in range(4)}, PATIENCE_S, "each item's message")
        assert running.end() == 0
    assert place.budget_faults(list(JOBS)) == []
    assert place.whole()


def writers(place: Place, batch: int) -> Counter[str]:
    """Runs the writers at the same time; what they met, together."""
    command = [sys.executable, "-m", "sereno.testing.process.claims", str(place.database)]
    running = [
        subprocess.Popen(
            [*command, f"writer-{number}", str(CLAIMS // WRITERS), str(batch)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(WRITERS)
    ]
    found: Counter[str] = Counter()
    for one in running:
        out, err = one.communicate()
        assert one.returncode == 0, err
        found.update(json.loads(out))
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "batch",
    [pytest.param(5, marks=pytest.mark.nightly), pytest.param(1, marks=pytest.mark.nightly)],
    ids=["five at a time", "alone"],
)
def test_I30_eight_writers_make_ten_thousand_claims_and_none_finds_the_database_busy(place: Place, batch: int) -> None:
    """Eight processes claim and give back in transactions of their own: no SQLITE_BUSY comes through, no process ends
    (incident 30)."""
    place.register({f"run-{number}": 1_000_000 for number in range(4 * WRITERS * batch)})
    found = writers(place, batch)
    print(dict(found))
    assert found["claims"] == CLAIMS
    assert {name for name in found if name not in ("claims", "empty")} == set()
    used = place.rows("SELECT sum(status_requests_used) AS used, sum(run) AS runs FROM operation")
    assert used == [{"used": 0, "runs": CLAIMS}], "what is given back unsent is not counted; each claim is a run"
    assert place.whole()
