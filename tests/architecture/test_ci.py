"""CI runs the project's own commands from nothing, fails when any of them fails, and goes on to the others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

ROOT = Path(__file__).parents[2]
ALL = ["run", "check", "test", "test-full", "sim", "crashes", "mutants", "conformance"]
MAKE = """#!/bin/sh
echo "$1" >>"$BOOK"
[ "$SERENO_NO_SKIPS" = 1 ] || exit 8
[ "$1" = "$BAD" ] && exit 3
[ "$1" = run ] && echo "$LAST"
exit 0
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a stub in place of make that keeps a book of what it was asked."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/make").write_text(MAKE)
    (tmp_path / "bin/make").chmod(0o755)
    return tmp_path


def ci(checkout: Path, *, bad: str = "", last: str = '{"ok": true}') -> tuple[int, list[str], str]:
    """Runs .ci/run; gives its status, the targets it asked for and its output."""
    book = checkout / "book"
    environment = {**os.environ, "PATH": f"{checkout}/bin:{os.environ['PATH']}", "BOOK": str(book), "BAD": bad, "LAST": last}
    done = subprocess.run(["bash", ".ci/run"], cwd=checkout, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, book.read_text().split(), done.stdout


def test_ci_runs_the_main_job_the_checks_and_all_tests(checkout: Path) -> None:
    """All commands run, and all green is exit 0."""
    status, asked, output = ci(checkout)
    assert (status, asked) == (0, ALL)
    assert output.endswith("::: passed\n")


@pytest.mark.parametrize("bad", ALL)
def test_ci_fails_when_any_command_fails_and_still_runs_the_others(checkout: Path, bad: str) -> None:
    """One failure is enough for a non-zero exit, and hides no other."""
    status, asked, output = ci(checkout, bad=bad)
    assert status == 1
    assert asked == ALL
    assert "::: failed: " in output


def test_ci_fails_when_the_main_job_does_not_end_with_json(checkout: Path) -> None:
    """A demo that exits 0 without its closing line of JSON has not done its job."""
    status, _, output = ci(checkout, last="all is well")
    assert status == 1
    assert "::: failed: bash -c main_job" in output


def test_ci_leaves_itself_time(checkout: Path) -> None:
    """The limits of all steps together are 55 minutes at most."""
    text = (checkout / ".ci/run").read_text()
    limits = [int(line.split()[1]) for line in text.splitlines() if line.startswith("step ")]
    assert len(limits) == len(ALL)
    assert sum(limits) <= 55 * 60
