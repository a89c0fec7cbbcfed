"""SIGSTOP on real processes: past the lease between claim and send, past the lease with a request open, and over several due instants."""

import json
import time

import pytest

from sereno.testing.process.place import LEASE_S, MIN_GAP_S, Place
from sereno.testing.process.running import PATIENCE_S, steered, up
from sereno.testing.process.world import World, until

BUDGET = 5


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("opened", [False, True], ids=["between claim and send", "with a request open"])
def test_I1_I8_I9_I24_a_worker_stopped_past_its_lease_sends_nothing_more_and_writes_nothing(
    place: Place, world: World, opened: bool
) -> None:
    """Two workers: the one that sleeps past its lease, before its request left or while it was open, wakes and does no harm."""
    place.settle()
    world.slow_s = 1.2
    with steered(place.folder, "sleeper") as sleeper:
        if not opened:
            sleeper.tell("stop operation.before_send")
        place.register({"run-0": BUDGET})
        if opened:
            until(lambda: world.count("jobs") >= 1, PATIENCE_S, "the first request", every=0.002)
            sleeper.tell("halt")
        sleeper.await_stop()
        sent = world.seen("jobs", worker="sleeper")
        (run,) = place.rows("SELECT * FROM run WHERE status = 'running'")
        with steered(place.folder, "other") as other:
            until(lambda: len(world.seen("jobs", worker="other")) >= 2, PATIENCE_S, "the take-over")
            sleeper.go_on()
            assert sleeper.process.wait(timeout=PATIENCE_S) == 0
            until(lambda: place.operation("run-0")["state"] != "waiting", PATIENCE_S, "the end of the budget")
            assert other.end() == 0
    assert world.seen("jobs", worker="sleeper") == sent, "nothing left after the sleep"
    assert bool(sent) == opened
    row = place.operation("run-0")
    assert (row["state"], row["category"]) == ("escalated", "request_budget_exhausted")
    assert place.budget_faults(["run-0"]) == []
    assert row["status_requests_used"] == BUDGET
    (after,) = place.rows("SELECT * FROM run WHERE subject = ? AND number = ?", run["subject"], run["number"])
    assert after["status"] == "abandoned"
    written = place.rows("SELECT facts FROM journal WHERE subject = ? AND run = ? AND kind <> 'intent'", row["id"], run["number"])
    assert [json.loads(one["facts"]) for one in written] == []
    others = [one.at for one in world.seen("jobs", worker="other")]
    assert all(second - first >= MIN_GAP_S - 0.1 for first, second in zip(others, others[1:], strict=False))
    assert others[0] - (sent[-1].at if sent else 0) >= LEASE_S - world.slow_s


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I17_I19_I24_a_worker_stopped_before_an_at_most_once_message_never_sends_it(place: Place, world: World) -> None:
    """The other worker cannot know whether it left: it shows it as unknown. The sleeper wakes and lets it be."""
    place.settle({"once": "1s"}, policies={"once": "at_most_once"})
    with steered(place.folder, "sleeper") as sleeper:
        sleeper.tell("stop delivery.before_act")
        world.add("once")
        sleeper.await_stop()
        with steered(place.folder, "other") as other:
            until(lambda: place.rows("SELECT state FROM delivery") == [{"state": "ambiguous"}], PATIENCE_S, "the doubt")
            sleeper.go_on()
            assert sleeper.process.wait(timeout=PATIENCE_S) == 0
            assert other.end() == 0
    assert world.seen("hook") == []
    assert place.rows("SELECT state FROM delivery") == [{"state": "ambiguous"}]


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_I7_I31_a_process_stopped_over_several_due_instants_makes_one_run_of_them(place: Place, world: World) -> None:
    """`sereno up` sleeps over four instants of a poll: they become one run that says how many it missed (incident 8)."""
    every = 2.0
    place.settle({"p0": f"{every:g}s"})
    world.add("p0")
    with up(place.folder) as running:
        until(lambda: world.count("docs") >= 2, PATIENCE_S, "the second run")
        running.stop()
        asleep, before = time.time(), world.count("docs")
        # Wakes in the middle between two instants, so that the run that makes up for them is a request of its own.
        due = place.rows("SELECT coalesce(scheduled_for, due) AS at FROM poll")[0]["at"] / 1e6
        wake = due + 4.5 * every
        until(lambda: time.time() >= wake, PATIENCE_S, "the time to wake")
        awake = time.time()
        running.go_on()
        until(lambda: world.count("docs") >= before + 3, PATIENCE_S, "two more runs after the one that makes up")
        assert running.end() == 0
    runs = place.rows("SELECT * FROM run WHERE started_at > ? AND status = 'ok' ORDER BY number", int(awake * 1e6))
    made_up = [run for run in runs if run["missed"]]
    assert len(made_up) == 1, [(run["number"], run["missed"]) for run in runs]
    slept = (made_up[0]["started_at"] / 1e6 - asleep) / every
    assert 3 <= made_up[0]["missed"] <= slept + 1
    assert made_up[0] == runs[0]
    woken = [one.wall for one in world.seen("docs") if one.wall > asleep + every / 2]
    assert woken[0] >= awake - 0.1
    assert len(woken) <= 2 + (woken[-1] - awake) / every
    assert world.effects() == {"p0-0": 1}
