"""kill -9: real workers die at random moments and at named points; the books of the others are compared with the database (W09, W22, I1–I3)."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest


def campaign(folder: Path, *, cycles: int, seconds: int, more: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Runs one campaign in processes of its own and returns its figures, which are printed too."""
    command = [sys.executable, "-m", "sereno.testing.killing", "--cycles", str(cycles), "--folder", str(folder), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    lines = done.stdout.splitlines()
    assert lines, done.stderr[-4000:]
    print(lines[-1])
    found: Mapping[str, Any] = json.loads(lines[-1])
    assert (done.returncode == 0) is (found["violations"] == 0 and not found["shortfalls"]), (done.returncode, found)
    return found


@pytest.mark.timeout(400)
def test_W09_W22_P07_P16_workers_that_are_killed_hide_no_request_and_repeat_no_effect(tmp_path: Path) -> None:
    """Twelve kills: requests on the wire ≤ persisted ≤ allowed, each key one effect, all lost work taken up again in time."""
    found = campaign(tmp_path, cycles=12, seconds=380, more=("--lost-answers", "0"))
    assert found["first_violations"] == []
    assert found["shortfalls"] == []
    assert found["kills"] == 12
    assert found["kills_on_open_requests"] >= 6


@pytest.mark.full
@pytest.mark.timeout(900)
def test_W09_W22_P07_P16_two_hundred_kills(tmp_path: Path) -> None:
    """Two hundred kills, a hundred of them in the middle of a request by the provider's books, each named point at least three times."""
    found = campaign(tmp_path, cycles=200, seconds=800)
    assert found["first_violations"] == []
    assert found["shortfalls"] == []
    assert found["kills"] == 200
    assert found["kills_on_open_requests"] >= 100
    assert min(found["kills_at_points"].values()) >= 3
    assert found["repeated_keys"] > 0
    assert found["wasted_counts"] > 0
    assert found["stale_commits_refused"] > 0


PLANTED = {"count-after-send": "I1 ", "no-fence": "I8 "}


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", sorted(PLANTED))
def test_the_harness_finds_the_planted_bug(tmp_path: Path, mutant: str) -> None:
    """A harness that does not find a planted bug proves nothing: counting after the send, and commits without a fence."""
    found = campaign(tmp_path, cycles=24, seconds=250, more=("--mutant", mutant))
    assert found["violations"] > 0
    assert any(text.startswith(PLANTED[mutant]) for text in found["first_violations"]), found["first_violations"]
