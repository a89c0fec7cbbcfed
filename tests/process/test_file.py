"""The database file taken away, replaced or not writable under real processes: they say so and end, or never start (I30)."""

import contextlib
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sereno.app.home import OWNER
from sereno.testing.process.place import Place
from sereno.testing.process.running import PATIENCE_S, SERENO, sereno, started, up
from sereno.testing.process.world import World, until

JOBS = {f"run-{number}": 1000 for number in range(5)}
READ_ONLY = "the database file is read-only"
LEAST_LENGTH = 1 << 16
"""Below it lies what the process logs; beyond it lies the database's log."""
SET_ASIDE = "it was set aside"
GONE = "the database was taken away while it was in use"


def removed(place: Place) -> None:
    """The file and its side files are deleted."""
    for file in place.folder.glob("sereno.db*"):
        file.unlink()


def replaced(place: Place) -> None:
    """Another whole database is moved over it, as a careless copy back would."""
    other = place.folder / "other.db"
    shutil.copy(place.folder / "empty.db", other)
    os.replace(other, place.database)


def moved(place: Place) -> None:
    """It is renamed."""
    place.database.rename(place.folder / "elsewhere.db")


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("take", [removed, replaced, moved], ids=["removed", "replaced", "moved"])
def test_I30_a_process_whose_database_is_taken_away_says_so_and_ends(
    place: Place, world: World, take: Callable[[Place], None]
) -> None:
    """Within a tick nothing more is begun: each wait is asked about at most once more; exit code 7, one sentence, no traceback."""
    place.settle()
    assert sereno(place.folder, "apply").returncode == 0
    shutil.copy(place.database, place.folder / "empty.db")
    place.register(JOBS)
    with up(place.folder) as running:
        until(lambda: world.count("jobs") >= 2 * len(JOBS), PATIENCE_S, "the first looks")
        before = {job: world.count("jobs", job) for job in JOBS}
        take(place)
        code = running.process.wait(timeout=PATIENCE_S)
        said = running.said()
    assert (code, GONE in said, "Traceback" in said) == (7, True, False), said[-2000:]
    after = {job: world.count("jobs", job) for job in JOBS}
    print({job: after[job] - before[job] for job in JOBS})
    assert all(after[job] - before[job] <= 1 for job in JOBS)
    if take is moved:
        (place.folder / "elsewhere.db").rename(place.database)
        assert all(place.operation(job)["status_requests_used"] >= after[job] for job in JOBS), (
            "put back, it is whole with its log"
        )
    else:
        taken = len(world.entries)
        assert (sereno(place.folder, "once").returncode, len(world.entries)) == (0, taken), (
            "a new start begins with what is there"
        )
    assert (place.folder / "sereno.db-wal.replaced").exists() == (take is replaced)
    assert place.whole()


@pytest.fixture
def marks(tmp_path: Path) -> None:
    """Skipped where the log of a database cannot say whose it is."""
    try:
        (tmp_path / "try").touch()
        os.setxattr(tmp_path / "try", OWNER, b"1")
    except (OSError, AttributeError) as error:
        pytest.skip(f"the filesystem of this test keeps no extended attributes: {error}")


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I30_who_starts_on_another_file_reads_no_log_of_the_old_one(place: Place, marks: None) -> None:
    """The old `up` is stopped and has noticed nothing, twice: each log is kept under a name of its own, and the file stays whole."""
    place.settle({"p0": "1s"})
    assert sereno(place.folder, "apply").returncode == 0
    shutil.copy(place.database, place.folder / "empty.db")
    place.register(JOBS)
    kept = [place.folder / "sereno.db-wal.replaced", place.folder / "sereno.db-wal.replaced-2"]
    with up(place.folder) as first, up(place.folder, log=place.folder / "second.log") as second:
        first.stop()
        second.stop()
        replaced(place)
        done = sereno(place.folder, "once")
        assert (done.returncode, SET_ASIDE in done.stderr, [one.exists() for one in kept]) == (0, True, [True, False]), done
        assert place.whole()
        with up(place.folder, log=place.folder / "third.log") as third:
            third.stop()
            size = kept[0].stat().st_size
            replaced(place)
            done = sereno(place.folder, "once")
            assert (done.returncode, [one.exists() for one in kept]) == (0, [True, True]), done
            assert kept[0].stat().st_size == size > 0
            for running in (first, second, third):
                running.go_on()
                assert running.process.wait(timeout=PATIENCE_S) == 7
                assert GONE in running.said()
    done = sereno(place.folder, "doctor")
    assert (done.returncode, "and is whole" in done.stdout) == (0, True), done
    assert place.whole()


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I30_a_log_that_does_not_say_whose_it_is_makes_the_damage_known(place: Place) -> None:
    """Where no attribute is kept, SQLite reads the old log: `once`, `up` and `doctor` name the damage and end with exit code 7."""
    place.settle({"p0": "1s"})
    assert sereno(place.folder, "apply").returncode == 0
    shutil.copy(place.database, place.folder / "empty.db")
    place.register(JOBS)
    with up(place.folder) as running:
        until(lambda: place.world.count("jobs") >= 2 * len(JOBS), PATIENCE_S, "the first looks")
        running.stop()
        with contextlib.suppress(OSError, AttributeError):
            os.removexattr(place.folder / "sereno.db-wal", OWNER)
        replaced(place)
        for verb in ("once", "up", "doctor"):
            done = sereno(place.folder, verb)
            said = done.stdout if verb == "doctor" else done.stderr
            assert (done.returncode, "the database file is damaged" in said, "sereno restore FILE" in said) == (7, True, True), (
                done
            )
            assert "Traceback" not in done.stderr


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", ["file", "folder"])
def test_I30_nothing_is_sent_on_a_database_that_cannot_be_written(
    tmp_path_factory: pytest.TempPathFactory, place: Place, world: World, what: str
) -> None:
    """A file, or a folder, without the right to write: `up` says so in one sentence, ends with exit code 7, and sends nothing."""
    place.settle({"p0": "1s"})
    world.add("p0")
    place.register(JOBS)
    assert sereno(place.folder, "apply").returncode == 0
    path = place.database if what == "file" else place.folder
    path.chmod(path.stat().st_mode & ~0o222)
    log = tmp_path_factory.mktemp("log") / "up.log"
    with started([*SERENO, "up"], place.folder, log, obeys_modes=True) as running:
        assert running.process.wait(timeout=PATIENCE_S) == 7
        assert (READ_ONLY in running.said(), "Traceback" in running.said()) == (True, False), running.said()[-2000:]
    assert world.entries == []
    for one in (place.folder, *place.folder.glob("sereno.db*")):  # SQLite gives its side files the mode of the file
        one.chmod(0o700)
    assert sereno(place.folder, "once", obeys_modes=True).returncode == 0
    assert world.count("jobs") == len(JOBS)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I2_I30_a_disk_that_reports_errors_stops_the_sending_not_the_process(place: Place, world: World) -> None:
    """Every write beyond 64 kB of a file fails (RLIMIT_FSIZE, EFBIG): SQLite's I/O error, no send; and on again once it ends."""
    place.settle()
    place.register(JOBS)
    with up(place.folder) as running:
        until(lambda: world.count("jobs") >= 2 * len(JOBS), PATIENCE_S, "the first looks")
        _, most = resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (LEAST_LENGTH, most))
        until(lambda: running.said().count("trying again error=") >= 2, PATIENCE_S, "the warning")
        before = len(world.entries)
        until(lambda: running.said().count("trying again error=") >= 4, PATIENCE_S, "two more refusals")
        assert (len(world.entries), running.alive) == (before, True), running.said()[-2000:]
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (most, most))
        counts = {job: world.count("jobs", job) for job in JOBS}
        until(lambda: all(world.count("jobs", job) > counts[job] for job in JOBS), PATIENCE_S, "the looks after it")
        assert running.end() == 0
    assert place.budget_faults(list(JOBS)) == []
    assert place.whole()
