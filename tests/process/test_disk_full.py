"""A full disk under real processes: nothing is sent without a durable count, the process stays and says so, and goes on by itself."""

import os
from pathlib import Path

import pytest

from sereno.testing.process.place import Place
from sereno.testing.process.running import PATIENCE_S, Running, sereno, steered, up
from sereno.testing.process.world import World, until

JOBS = {f"run-{number}": 1000 for number in range(10)}
RECOVERS_WITHIN_S = 30.0
"""G18."""
FULL = "the disk is full"


def quiet(running: Running, world: World, log_lines: int = 2) -> None:
    """Waits until the process has told of the full disk this many times: by then no work is in hand and nothing can be claimed."""
    until(lambda: running.said().count(f"trying again error='{FULL}'") >= log_lines, PATIENCE_S, "the warning")


def nothing_while_full(running: Running, world: World) -> None:
    """While two more claims are refused, nothing leaves."""
    before = len(world.entries)
    quiet(running, world, running.said().count(f"trying again error='{FULL}'") + 2)
    assert len(world.entries) == before
    assert running.alive


def all_goes_on(place: Place, world: World) -> float:
    """Each job is looked at again, and each watched document."""
    jobs, docs = {job: world.count("jobs", job) for job in JOBS}, world.count("docs")

    def again() -> bool:
        return world.count("docs") > docs and all(world.count("jobs", job) > count for job, count in jobs.items())

    return until(again, PATIENCE_S, "the work after the full disk")


def nothing_lost(place: Place, world: World) -> None:
    """Each item had its effect once, each request was counted before it left, and the file is whole."""
    wanted = {f"{name}-{number}": 1 for name, count in world.items.items() for number in range(count)}
    until(lambda: world.effects() == wanted, PATIENCE_S, "each item's message")
    assert place.budget_faults(list(JOBS)) == []
    assert place.whole()


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I2_I30_a_database_that_may_not_grow_sends_nothing_and_works_again(place: Place, world: World) -> None:
    """`PRAGMA max_page_count` on a worker's own connection: SQLITE_FULL at each claim and commit, until the limit is taken away."""
    place.settle({"p0": "1s", "p1": "1s"})
    world.add("p0", 3)
    place.register(JOBS)
    with steered(place.folder, "one") as running:
        until(lambda: world.count("jobs") >= 20, PATIENCE_S, "the first looks")
        running.tell("pages 0")
        world.add("p1", 5)
        quiet(running, world)
        nothing_while_full(running, world)
        world.add("p0", 2)
        running.tell("pages -1")
        assert all_goes_on(place, world) <= RECOVERS_WITHIN_S
        nothing_lost(place, world)
        assert running.end() == 0


def fill(path: Path) -> None:
    """Takes all the space there is."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
    try:
        for size in (1 << 16, 1 << 12, 1):
            _write_all(file, b"x" * size)
    finally:
        os.close(file)


def _write_all(file: int, piece: bytes) -> None:
    try:
        while True:
            os.write(file, piece)
    except OSError:
        return


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I2_I30_G18_a_full_volume_stops_the_sending_not_the_process(small_disk: Path, tmp_path: Path, world: World) -> None:
    """A tmpfs without a byte left under `sereno up`: it stays, log and doctor say so without the database (incident 31), and it recovers."""
    place = Place(small_disk, world)
    place.settle({"p0": "1s", "p1": "1s"})
    world.add("p0", 3)
    place.register(JOBS)
    with up(small_disk, log=tmp_path / "up.log") as running:
        until(lambda: world.count("jobs") >= 20, PATIENCE_S, "the first looks")
        fill(small_disk / "filler")
        world.add("p1", 5)
        quiet(running, world)
        nothing_while_full(running, world)
        said = sereno(small_disk, "doctor")
        assert said.returncode == 7
        assert f"can be read but not written: {FULL} — free space on the volume of the database" in said.stdout
        world.add("p0", 2)
        (small_disk / "filler").unlink()
        assert all_goes_on(place, world) <= RECOVERS_WITHIN_S
        assert "can be read and written" in sereno(small_disk, "doctor").stdout
        nothing_lost(place, world)
        assert running.end() == 0


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I30_a_command_on_a_full_volume_fails_and_says_why(small_disk: Path, world: World) -> None:
    """`once`, and a start of `up`, on a full volume: exit code 7 and one sentence, nothing sent; the next start works."""
    place = Place(small_disk, world)
    place.settle({"p0": "1s"})
    world.add("p0")
    assert sereno(small_disk, "apply").returncode == 0
    toml = (small_disk / "sereno.toml").read_text()
    fill(small_disk / "filler")
    for verb in ("once", "up"):
        done = sereno(small_disk, verb)
        assert (done.returncode, FULL in done.stderr, "Traceback" in done.stderr) == (7, True, False), (verb, done)
    assert world.entries == []
    (small_disk / "filler").unlink()
    assert (small_disk / "sereno.toml").read_text() == toml
    assert sereno(small_disk, "once").returncode == 0
    assert world.effects() == {"p0-0": 1}
