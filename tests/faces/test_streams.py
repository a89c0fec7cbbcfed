"""Standard streams that are closed, full, or cannot take the answer."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

SERENO = f"exec {sys.executable} -m sereno.faces.cli.main"


def shell(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Runs one command line in a folder that has settings."""
    (folder / "sereno.toml").touch()
    return subprocess.run(["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_ends_nothing(tmp_path: Path, closed: str) -> None:
    """A daemon's wrapper closes them: the next file must not take their number, nor the event loop end the process."""
    done = shell(f"{SERENO} once {closed}", tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_answer_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A full disk under standard output is no fault of ours, and what was done stays done."""
    done = shell(f"{SERENO} contract list > /dev/full", tmp_path)
    assert done.returncode == 7 and "standard output cannot be written" in done.stderr


@pytest.mark.parametrize("count", ["9223372036854775807", "99999999999999999999999"])
def test_W41_a_limit_beyond_all_sense_is_refused(tmp_path: Path, count: str) -> None:
    """A count that no database column holds is refused like any other wrong limit."""
    limits = f"--deadline 1h --max-requests {count} --max-failures 3 --max-throttles 3"
    done = shell(
        f"{SERENO} wait generic-status https://example.com/j --state-path s --success done --pending p {limits} --detach",
        tmp_path,
    )
    assert done.returncode == 2 and "at most 1,000,000,000" in done.stderr, done.stderr
