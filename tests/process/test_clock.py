"""Real processes under wrong clocks (libfaketime): hours back, years ahead, set while they run, too quick and too slow, and two at once (I23)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.testing.books import burst_over
from sereno.testing.process.faketime import FakeClock
from sereno.testing.process.place import MIN_GAP_S, Limit, Place
from sereno.testing.process.running import PATIENCE_S, Running, up
from sereno.testing.process.world import World, until

WRONG = ("+0", "-24h", "+1d", "+10y", "+0")
ASKED_S, LITTLE, LONG = 300, 8, timedelta(days=20 * 365)
JOBS: Mapping[str, int] = {**{f"run-{n}": 10_000 for n in range(6)}, "end3-0": 100, f"wait{ASKED_S}-0": 100, "small-0": LITTLE}
ENDED = ("succeeded", "failed", "expired", "cancelled")
LIMIT = Limit(rate=10.0, burst=5)
ON_THE_WAY_S = 2.0
"""How much two requests may differ in their way from the claim to the server's book; their tokens are spent at the claim."""
_ROUNDING_S = 0.05


@pytest.fixture
def place(tmp_path: Path, world: World) -> Place:
    """A deployment with waits that outlive any clock of these tests, and one whose deadline the later ones pass."""
    made = Place(tmp_path, world, LIMIT)
    made.settle({"p0": "2s"})
    world.add("p0")
    made.register(JOBS, deadline=LONG)
    made.register({"short-0": 10_000})
    return made


@contextmanager
def living(place: Place, clock: FakeClock, name: str = "up") -> Iterator[Running]:
    """`sereno up` under this clock."""
    with up(place.folder, log=place.folder / f"{name}.log", more=clock.environment()) as running:
        yield running


def goes_on(world: World, running: Running, looks: int = 2) -> None:
    """Nothing is stuck: each endless wait is looked at so often again, and the poll runs."""
    jobs, docs = {job: world.count("jobs", job) for job in JOBS if job.startswith("run")}, world.count("docs")

    def again() -> bool:
        assert running.alive, running.said()[-3000:]
        return world.count("docs") > docs and all(world.count("jobs", job) >= count + looks for job, count in jobs.items())

    until(again, PATIENCE_S, "the looks after the clock was set")


def ended(place: Place) -> dict[str, str]:
    """The waits that have come to an end."""
    return {row["job_id"]: row["state"] for row in place.rows("SELECT job_id, state FROM operation") if row["state"] in ENDED}


def faults(place: Place, world: World, *, quickest: float = 1.0) -> list[str]:
    """What the books of the provider say against the rules, by a clock that nobody set. `quickest`: the rate of the quickest clock.

    Under a clock of another rate the smallest gap is not judged: what passes between claim and answer is counted by the clock that is
    right, so that a wait of a second can come out shorter there than the rate alone would make it.
    """
    found = []
    for job in (*JOBS, "short-0"):
        row, sent = place.operation(job), [one.at for one in world.seen("jobs", job)]
        used, most = row["status_requests_used"], row["max_status_requests"]
        if not len(sent) <= used <= most:
            found.append(f"I1 {job}: {len(sent)} on the wire, {used} persisted, {most} allowed")
        floor = (ASKED_S if job.startswith("wait") else MIN_GAP_S if quickest == 1.0 else 0.0) / quickest - _ROUNDING_S
        gaps = [second - first for first, second in zip(sent, sent[1:], strict=False)]
        found += [f"I4, I6 {job}: {gap:.3f} s between two looks, at least {floor:g}" for gap in gaps if gap < floor]
    over = burst_over([one.at for one in world.seen("jobs")], rate=LIMIT.rate * quickest, burst=LIMIT.burst)
    if over > LIMIT.rate * quickest * ON_THE_WAY_S:
        found.append(f"I7: {over:.1f} requests more than the pool allows")
    return found


def finished(place: Place, world: World) -> None:
    """What has an end has come to it, once."""
    until(lambda: place.operation("small-0")["state"] != "waiting", PATIENCE_S, "the end of the small budget")
    assert world.count("jobs", "small-0") <= LITTLE
    assert ended(place)["end3-0"] == "succeeded"
    assert world.count("jobs", f"wait{ASKED_S}-0") == 1
    assert world.effects() == {"p0-0": 1}
    assert place.whole()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_I1_I4_I6_I7_I11_I23_lives_under_wrong_clocks_share_one_database(place: Place, world: World, libfaketime: Path) -> None:
    """One `sereno up` after the other: right, a day back, a day ahead, ten years ahead, right again."""
    over: dict[str, str] = {}
    for life, said in enumerate(WRONG):
        clock = FakeClock(libfaketime, place.folder / f"clock-{life}")
        clock.set(said)
        with living(place, clock, f"up-{life}") as running:
            goes_on(world, running, looks=1)
            assert running.end() == 0
        now = ended(place)
        assert {job: now.get(job) for job in over} == over, f"I11: an end was undone under the clock {said}"
        over = now
        assert faults(place, world) == [], said
    clock.set("+0")
    with living(place, clock) as running:
        finished(place, world)
        assert running.end() == 0


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_I1_I4_I6_I7_I11_I23_a_clock_that_is_set_while_a_process_runs(place: Place, world: World, libfaketime: Path) -> None:
    """The same process sees its clock go a day back, a day ahead, ten years ahead, and right again."""
    clock, over = FakeClock(libfaketime, place.folder / "clock"), dict[str, str]()
    clock.set(WRONG[0])
    with living(place, clock) as running:
        for said in WRONG:
            clock.set(said)
            goes_on(world, running)
            now = ended(place)
            assert {job: now.get(job) for job in over} == over, f"I11: an end was undone under the clock {said}"
            over = now
            assert faults(place, world) == [], said
        finished(place, world)
        assert running.end() == 0
    steps = place.rows("SELECT 1 FROM journal WHERE facts ->> 'event' = 'clock_step'")
    assert len(steps) >= len(WRONG) - 1, "each step is on record"


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("rate", [2.0, 0.5], ids=["twice as quick", "half as quick"])
def test_I1_I7_I11_I23_a_clock_of_another_rate(place: Place, world: World, libfaketime: Path, rate: float) -> None:
    """The wall clock runs twice or half as quick as time: budgets and the pool hold, nothing is stuck, an end is an end."""
    clock = FakeClock(libfaketime, place.folder / "clock")
    with clock.drifting(rate), living(place, clock) as running:
        goes_on(world, running, looks=4)
        assert faults(place, world, quickest=2.0) == []
        finished(place, world)
        assert running.end() == 0


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I1_I4_I6_I11_I23_two_processes_with_different_clocks_at_once(place: Place, world: World, libfaketime: Path) -> None:
    """One is right, one is a day ahead, on one database: budgets, floors and ends hold all the same."""
    right, wrong = (FakeClock(libfaketime, place.folder / name) for name in ("right", "wrong"))
    right.set("+0")
    wrong.set("+1d")
    with living(place, right, "up-right") as one, living(place, wrong, "up-wrong") as two:
        goes_on(world, one, looks=4)
        over = ended(place)
        goes_on(world, two, looks=4)
        assert (one.end(), two.end()) == (0, 0)
    now = ended(place)
    assert {job: now.get(job) for job in over} == over
    assert faults(place, world) == []
    with living(place, right) as running:
        finished(place, world)
        assert running.end() == 0
