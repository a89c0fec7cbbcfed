"""What is promised once yesterday's database is put back, by `sereno restore` and by hand: each sentence of docs/how-to/backup.md."""

import json
import re
import shutil
from pathlib import Path

import pytest

from sereno.testing.process.place import Place
from sereno.testing.process.running import PATIENCE_S, sereno, up
from sereno.testing.process.world import World, until

PAGE = Path(__file__).parents[2] / "docs/how-to/backup.md"
POLICIES = {"keyed": "keyed", "once": "at_most_once"}
POLLS = dict.fromkeys(POLICIES, "1s")


def told(world: World, number: int) -> bool:
    """Whether the receiver was told of the n-th item of both polls."""
    return all(world.told()[f"{name}-{number}"] for name in POLICIES)


def a_day(place: Place, world: World) -> None:
    """What happens before the backup: an item of each poll is told of, a wait is looked at twice."""
    place.settle(POLLS, policies=POLICIES)
    for name in POLICIES:
        world.add(name)
    place.register({"run-0": 100, "job-0": 100})
    until(lambda: told(world, 0) and world.count("jobs", "run-0") >= 2, PATIENCE_S, "the day before")


def another_day(place: Place, world: World) -> None:
    """What happens since: another item of each, a wait that ends, one that is new."""
    for name in POLICIES:
        world.add(name)
    world.done.add("job-0")
    place.register({"late-0": 100})
    until(
        lambda: told(world, 1) and world.count("jobs", "late-0") >= 2 and place.operation("job-0")["state"] == "succeeded",
        PATIENCE_S,
        "the day after",
    )


def at(path: Path, place: Place) -> Place:
    """Another database file of the same world, to be read."""
    folder = path.parent / f"{path.name}.d"
    folder.mkdir()
    shutil.copy(path, folder / "sereno.db")
    return Place(folder, place.world)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I1_I8_I17_after_sereno_restore_counters_and_keys_hold(place: Place, world: World) -> None:
    """A backup made while all ran, a day, a kill -9, a restore: counted stays counted, keyed takes effect once, at most once is told again."""
    place.settle(POLLS, policies=POLICIES)
    backup = place.folder / "yesterday.db"
    with up(place.folder) as running:
        a_day(place, world)
        assert sereno(place.folder, "backup", str(backup)).returncode == 0
        another_day(place, world)
        running.kill()
    sent, late = world.count("jobs", "run-0"), world.count("jobs", "late-0")
    # While the leases of the killed process have not run out, the restore is refused.
    until(lambda: sereno(place.folder, "restore", str(backup)).returncode == 0, PATIENCE_S, "the restore")
    (kept,) = place.folder.glob("sereno.db.replaced-*")
    assert at(kept, place).operation("late-0")["status_requests_used"] >= late, "what was replaced is kept beside"
    assert place.rows("SELECT 1 FROM operation WHERE job_id = 'late-0'") == [], "what was committed since is gone"
    assert sent <= place.operation("run-0")["status_requests_used"] <= 100, "requests sent since still count"
    (mark,) = place.rows(
        "SELECT facts FROM journal WHERE subject = ? AND facts ->> 'decision' = 'restored'", place.operation("run-0")["id"]
    )
    assert json.loads(mark["facts"])["counters_carried_over"] is True
    assert place.operation("job-0")["state"] == "waiting", "an end that came since is not known"
    assert place.rows("SELECT 1 FROM run WHERE status = 'running'") == [], "runs of the backup are closed"
    with up(place.folder) as running:
        until(lambda: all(world.told()[f"{name}-1"] >= 2 for name in POLICIES), PATIENCE_S, "what was told since, again")
        until(lambda: place.operation("job-0")["state"] == "succeeded", PATIENCE_S, "the same end again")
        until(lambda: world.count("jobs", "run-0") >= sent + 2, PATIENCE_S, "the wait that goes on")
        assert running.end() == 0
    assert world.effects() == {f"{name}-{number}": 1 for name in POLICIES for number in (0, 1)}, "the same keys: one effect each"
    assert (world.told()["keyed-0"], world.told()["once-0"]) == (1, 1), "what the backup knows is not told again"
    assert world.told()["once-1"] == 2, "what was told since is told again, at most once or not"
    assert world.count("jobs", "late-0") == late, "nobody looks at a wait that is gone"
    assert world.count("jobs", "run-0") <= place.operation("run-0")["status_requests_used"]
    assert place.whole()


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I1_I17_a_plain_copy_put_back_spends_again_only_what_was_spent_since(place: Place, world: World) -> None:
    """The file copied and put back while nothing runs: never more than the allowance from the copy on, and the same keys."""
    budget, copy = 7, place.folder / "copy.db"
    place.settle(POLLS, policies=POLICIES)
    with up(place.folder) as running:
        a_day(place, world)
        place.register({"small-0": budget})
        until(lambda: world.count("jobs", "small-0") >= 2, PATIENCE_S, "two looks")
        assert running.end() == 0
    assert not list(place.folder.glob("sereno.db-*")), "a process that ended well leaves one file"
    shutil.copy(place.database, copy)
    then, before = place.operation("small-0")["status_requests_used"], world.count("jobs", "small-0")
    with up(place.folder) as running:
        another_day(place, world)
        until(lambda: place.operation("small-0")["state"] == "escalated", PATIENCE_S, "the end of the budget")
        assert running.end() == 0
    shutil.copy(copy, place.database)
    since = world.count("jobs", "small-0") - before
    assert place.operation("small-0")["status_requests_used"] == then, "the counters are those of the copy"
    with up(place.folder) as running:
        until(lambda: place.operation("small-0")["state"] == "escalated", PATIENCE_S, "the end of the budget, again")
        until(lambda: all(world.told()[f"{name}-1"] >= 2 for name in POLICIES), PATIENCE_S, "what was told since, again")
        assert running.end() == 0
    again = world.count("jobs", "small-0") - before - since
    assert (place.operation("small-0")["status_requests_used"], again <= budget - then) == (budget, True)
    assert world.count("jobs", "small-0") <= budget + since, "in all at most the allowance and what was spent since the copy"
    assert world.effects() == {f"{name}-{number}": 1 for name in POLICIES for number in (0, 1)}
    assert place.whole()


def test_each_promise_of_the_backup_page_names_a_test_that_is_there() -> None:
    """A link that is not `the same` as above it leads to a test function in its file."""
    text = PAGE.read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert len(rows) >= 10
    assert all("](../../tests/" in row for row in rows)
    links = re.findall(r"\[(?!the same)(\w+)\]\((\.\./\.\./tests/[\w/]+\.py)\)", text)
    assert len(links) >= 10
    for name, place in links:
        source = (PAGE.parent / place).resolve().read_text("utf-8")
        assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), (name, place)
