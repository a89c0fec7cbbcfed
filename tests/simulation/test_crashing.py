"""A death at every crash point of every scenario (goal G6), and whether the enumeration finds what is planted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sereno.testing.simulation.crashing import __main__ as command
from sereno.testing.simulation.crashing.ends import differences, expected
from sereno.testing.simulation.crashing.plan import Hit, Strike, Variant
from sereno.testing.simulation.crashing.runs import (
    again,
    crash_everywhere,
    judged,
    one,
    quiet,
    rotating,
    run_once,
    sampled,
    strikes,
)
from sereno.testing.simulation.crashing.scenario import scenarios
from sereno.testing.simulation.required import crash_points

SAMPLE = 40
"""The full tier takes every so-many-th run, from a place that the commit chooses."""


def hits_of(*points: str) -> list[Hit]:
    return [Hit(number, "w0.1", point, 0) for number, point in enumerate(points, start=1)]


def test_forty_scenarios_end_as_they_say_and_pass_every_named_point() -> None:
    """G6: without a crash each scenario holds, and together they pass every point at which a process can die."""
    assert len(scenarios()) == 40
    seen, wrong = set[str](), list[str]()
    with quiet():
        for name, scenario in scenarios().items():
            ran = run_once(scenario)
            seen |= {hit.point for hit in ran.hits}
            wrong += [f"{name}: {text}" for text in (*ran.outcome.violations, *expected(scenario, ran.end))]
    assert not wrong
    assert set(crash_points()) - seen == set(command.NOT_HERE)


def test_one_run_is_the_same_run_again() -> None:
    """The hits of a run are the same each time, so a number names one of them."""
    scenario = scenarios()["two-workers"]
    with quiet():
        first, second = run_once(scenario), run_once(scenario)
    assert first.hits == second.hits
    assert first.outcome.trace == second.outcome.trace


def test_only_idle_hits_are_left_out() -> None:
    """Of a stretch in which nothing happened the first and the last hit of each point stay; every other hit stays."""
    idle = ("store.claim.before", "store.claim.after")
    kept = sampled(hits_of("wire.sent", *idle, *idle, *idle, "wire.replied", *idle))
    assert [hit.number for hit in kept] == [1, 2, 3, 6, 7, 8, 9, 10]
    work = hits_of(*["store.commit_operation.before"] * 5)
    assert sampled(work) == work


def test_each_write_is_struck_five_ways_and_each_other_hit_twice() -> None:
    """G6: a commit under way is durable or not when the process dies; and it fails before or after it was executed."""
    write, read = Hit(1, "w0.1", "store.commit_poll.unknown", 1), Hit(2, "w0.1", "read.sent", 0)
    twice = [Variant.DIE, Variant.DIE_TWICE]
    assert [one.variant for one in strikes([write])] == [*twice, Variant.DIE_KEPT, Variant.ERROR, Variant.ERROR_KEPT]
    assert [one.variant for one in strikes([read])] == twice
    assert [one.variant for one in strikes(hits_of("store.claim.before"))] == [Variant.DIE]


@pytest.mark.parametrize("variant", list(Variant))
def test_a_strike_comes_about_where_it_was_to(variant: Variant) -> None:
    """The process dies at exactly that point and is started again; an error of the database kills nobody."""
    scenario = scenarios()["there-done"]
    with quiet():
        whole = run_once(scenario)
        hit = next(hit for hit in whole.hits if hit.point == "store.commit_operation.unknown")
        ran = run_once(scenario, Strike(hit, variant))
        assert judged(scenario, whole, Strike(hit, variant)) == []
    dies = {Variant.DIE: 1, Variant.DIE_KEPT: 1, Variant.DIE_TWICE: 2}.get(variant, 0)
    assert ran.struck == hit
    assert ran.outcome.coverage.points[hit.point] == dies
    assert any(later.process == f"w0.{dies + 1}" for later in ran.hits)
    assert all(later.process <= f"w0.{dies + 1}" for later in ran.hits)


def test_another_end_is_a_difference() -> None:
    """What a scenario does not name as an end is told."""
    with quiet():
        well, badly = run_once(scenarios()["there-done"]), run_once(scenarios()["there-failed"])
    found = list(differences(scenarios()["there-done"], well.end, badly.end))
    assert "END sim-there-1: failed, and without it succeeded" in found
    assert len(found) > 1
    assert list(differences(scenarios()["there-done"], well.end, well.end)) == []


def test_a_failing_run_can_be_repeated_by_its_number() -> None:
    """The command of a failing run names scenario, hit and variant; a hit that is not there is refused."""
    ran, wrong = one("submit-plain-lost", 14, Variant.DIE)
    assert ran.struck is not None and ran.struck.number == 14
    assert wrong == []
    with pytest.raises(ValueError, match="hits 1 to"):
        one("submit-plain-lost", 10_000, Variant.DIE)


def test_the_command_ends_with_its_figures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A part of one scenario: how many runs of how many, and nothing violated."""
    monkeypatch.setattr(sys, "argv", ["crashing", "--only", "there-failed", "--part", "3/50", "--jobs", "1"])
    assert command.main() == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (line["scenarios"], line["part"], line["violations"]) == (1, "3/50", 0)
    assert line["crash_points"] == len(range(2, line["of"], 50))
    monkeypatch.setattr(sys, "argv", ["crashing", "--part", "11/10"])
    with pytest.raises(SystemExit, match="no such part"):
        command.main()


def test_ten_commits_in_a_row_take_all_ten_parts(tmp_path: Path) -> None:
    """The rotating part moves on with each commit."""
    taken = []
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    for _ in range(10):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], cwd=tmp_path, check=True)
        taken.append(rotating(tmp_path, 10))
    assert sorted(taken) == list(range(1, 11))
    assert rotating(Path("/"), 10) == 2


def test_a_failing_run_names_its_command() -> None:
    """The text of a violation is what repeats exactly that run."""
    text = again("there-done", Strike(Hit(5, "w0.1", "wire.sent", 0), Variant.DIE))
    assert text == "python -m sereno.testing.simulation.crashing --only there-done --hit 5 --variant die (wire.sent)"


PLANTED = """
import json, sys
from sereno.testing.simulation.mutants.planting import mutants, plant
plant(next(one for one in mutants() if one.name == sys.argv[1]))
from sereno.testing.simulation.crashing.runs import judged, quiet, run_once, strikes
from sereno.testing.simulation.crashing.scenario import scenarios
scenario, found, runs = scenarios()[sys.argv[2]], [], 0
with quiet():
    whole = run_once(scenario)
    for strike in strikes(whole.hits):
        runs += 1
        if found := judged(scenario, whole, strike):
            break
print(json.dumps({"without": whole.outcome.violations, "runs": runs, "found": found}))
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("mutant", "scenario", "rule"),
    [
        ("interrupted-delivery-forgotten", "there-failed", "I17"),
        ("at-most-once-repeated", "there-failed", "I17"),
        ("interrupted-submit-forgotten", "submit-plain", "W44"),
        ("cancel-again-and-again", "cancel-once", "W24"),
    ],
)
def test_planted_bugs_show_after_a_death_alone(mutant: str, scenario: str, rule: str) -> None:
    """A bug of recovery does not show while nothing dies, and the enumeration finds it."""
    seen = planted(mutant, scenario)
    assert seen["without"] == []
    assert any(text.startswith((rule, "END")) for text in seen["found"]), seen


@pytest.mark.nightly
@pytest.mark.parametrize(("mutant", "scenario"), [("effects-lost", "there-done"), ("count-after-send", "there-done")])
def test_planted_bugs_of_the_commit_are_found(mutant: str, scenario: str) -> None:
    """A commit that forgets the delivery, and a count that comes after the send."""
    assert planted(mutant, scenario)["found"]


def planted(mutant: str, scenario: str) -> dict[str, list[str]]:
    root = Path(command.__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", PLANTED, mutant, scenario], capture_output=True, text=True, check=False, cwd=root, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.nightly
def test_a_rotating_sample_of_all_runs_holds() -> None:
    """G6: every 40th run, other ones with each commit; `make crashes` takes a tenth and `make nightly` all."""
    offset = rotating(command.HERE, SAMPLE) - 1
    ran = [crash_everywhere(name, offset=offset, step=SAMPLE) for name in scenarios()]
    assert [text for crashed in ran for text in crashed.violations] == []
    assert sum(crashed.runs for crashed in ran) >= 100


@pytest.mark.nightly
def test_a_death_at_every_crash_point_of_every_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    """G6: 40 scenarios × 100 % of their crash points."""
    monkeypatch.setattr(sys, "argv", ["crashing"])
    assert command.main() == 0
