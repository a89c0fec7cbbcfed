"""The suite's own machinery at work: planted waiters are told apart, processes are really killed, time is virtual for everybody."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.judge import Verdict, judge
from conformance.scenario import read_all

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

ROOT = Path(__file__).parents[2]
SCENARIOS = {scenario.id: scenario for scenario in read_all()}


def play(folder: Path, waiter: str, *scenarios: str, wrong: str = "") -> dict[str, Verdict]:
    """Runs a waiter through scenarios in a process of its own, as `make conformance` does."""
    surroundings = {**os.environ, "WRONG": wrong, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    out = folder / "runs.jsonl"
    command = [sys.executable, "-m", "conformance.child", waiter, str(out), *scenarios]
    done = subprocess.run(command, env=surroundings, cwd=ROOT, capture_output=True, text=True, timeout=590)
    assert done.returncode == 0, done.stderr
    _, *runs = (json.loads(line) for line in out.read_text().splitlines())
    return {name: judge(SCENARIOS[name], [run for run in runs if run["scenario"] == name]) for name in scenarios}


def planted(folder: Path, wrong: str, scenario: str) -> Verdict:
    """One planted waiter in one scenario."""
    return play(folder, "tests.conformance.planted", scenario, wrong=wrong)[scenario]


@pytest.mark.parametrize(
    ("wrong", "scenario", "outcome", "fault"),
    [
        ("liar", "fails", "succeeded", "said succeeded; right is failed"),
        ("tight", "endless-running", "never", "said never; right is timed out or stopped"),
        ("sleeper", "succeeds", "never", "said never; right is succeeded"),
        ("forgetful", "killed-again-and-again", "timed_out", "12 looks, 8 at most"),
        ("patient", "answer-that-never-comes", "succeeded", "ended after 10.0 h, not within 61 min"),
    ],
)
def test_a_planted_fault_is_caught(tmp_path: Path, wrong: str, scenario: str, outcome: str, fault: str) -> None:
    """Each wrong waiter fails, with the reason in words."""
    verdict = planted(tmp_path, wrong, scenario)
    assert (verdict.outcome, fault in verdict.faults) == (outcome, True), verdict


@pytest.mark.parametrize(
    "scenario",
    ["succeeds", "fails", "unknown-word", "killed-again-and-again", "down-past-the-deadline", "answer-that-never-comes"],
)
def test_a_waiter_that_is_right_passes(tmp_path: Path, scenario: str) -> None:
    """Forty lines that count before they send pass, through real kills too."""
    assert planted(tmp_path, "right", scenario).faults == ()


@pytest.mark.full
def test_a_waiter_that_only_burns_the_processor_is_ended(tmp_path: Path) -> None:
    """The bound is processor time, so that a busy machine judges alike."""
    verdict = planted(tmp_path, "spinner", "succeeds")
    assert (verdict.outcome, verdict.detail) == ("never", "10 s of processor time")


def test_two_runs_are_the_same(tmp_path: Path) -> None:
    """Seeds are fixed: what was told and the provider's book come out alike."""
    names = ("outage-of-two-minutes", "killed-while-waiting")
    assert play(tmp_path, "sereno_app", *names) == play(tmp_path, "sereno_app", *names)


QUICK = (
    "succeeds", "unknown-word", "success-without-result", "retry-after-beyond-the-deadline", "storm-of-429", "forbidden-midway",
    "redirect-to-another-host", "killed-during-a-look", "submit-answer-lost",
)  # fmt: skip


def test_sereno_passes_one_scenario_of_most_groups(tmp_path: Path) -> None:
    """The whole suite is `make conformance`; this much runs with every test run (W03, W04, W13, W14, W17, W21, W22)."""
    faults = {name: verdict.faults for name, verdict in play(tmp_path, "sereno_app", *QUICK).items() if not verdict.passed}
    assert faults == {}


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("share", range(4))
def test_sereno_passes_every_scenario(tmp_path: Path, share: int) -> None:
    """All of them, in four shares."""
    names = list(SCENARIOS)[share::4]
    faults = {name: verdict.faults for name, verdict in play(tmp_path, "sereno_app", *names).items() if not verdict.passed}
    assert faults == {}


CLOCKS = """
from conformance import clock
clock.install()
import asyncio, datetime, threading, time
from conformance.loop import run
clock.CLOCK.start(0.0)
before = time.monotonic()
time.sleep(3600)
run(asyncio.sleep(3600))
threading.Event().wait(3600)
asleep = threading.Thread(target=lambda: time.sleep(1800))
asleep.start()
asleep.join(3600)
assert time.monotonic() - before == time.perf_counter() - before == 3 * 3600 + 1800, time.monotonic()
assert datetime.datetime.now(datetime.timezone.utc).isoformat() == "2026-06-01T03:30:00+00:00"
assert time.time() == datetime.datetime.now(datetime.timezone.utc).timestamp()
for wrong, error in ((-1, ValueError), (float("nan"), ValueError), (float("inf"), OverflowError)):
    try:
        time.sleep(wrong)
    except error:
        continue
    raise AssertionError(wrong)
"""


def test_every_clock_and_sleep_of_the_process_is_virtual() -> None:
    """Hours pass at once, all clocks agree, and a sleep refuses what the real one refuses."""
    done = subprocess.run([sys.executable, "-c", CLOCKS], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
