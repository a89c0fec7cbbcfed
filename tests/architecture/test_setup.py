"""Set-up on machines that lack something, the list of targets, and the rule that a skip fails in CI."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "sed", "dirname", "cat", "cksum", "tr", "id", "rm", "env")


def script(path: Path, body: str) -> None:
    """Writes an executable shell script."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkout and a PATH with the plainest tools only."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "scripts/setup.sh", tmp_path / "scripts")
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, tool
        (tmp_path / "bin" / tool).symlink_to(found)
    return tmp_path


def set_up(root: Path, want: str = "core") -> subprocess.CompletedProcess[str]:
    """Runs the set-up with an empty home and nothing but the bare PATH."""
    environment = {"PATH": str(root / "bin"), "HOME": str(root / "home")}
    command = ["sh", "scripts/setup.sh", want]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300)


def test_without_python_it_says_what_to_install(bare: Path) -> None:
    """No Python on PATH: one clear message, exit 2, nothing made."""
    done = set_up(bare)
    assert done.returncode == 2
    assert "needs Python 3.11, 3.12, 3.13 or 3.14" in done.stderr
    assert not (bare / ".venv").exists()


def test_an_old_python_is_passed_over(bare: Path) -> None:
    """A python3 that is too old does not count, and a newer one beside it is taken."""
    script(bare / "bin/python3", "exit 1")
    assert set_up(bare).returncode == 2
    script(bare / "bin/python3.12", f'case "$*" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"')
    script(bare / "bin/id", "echo 1000")
    assert f"with {bare}/bin/python3.12" in set_up(bare).stderr


def test_without_venv_a_user_is_told_the_one_command(bare: Path) -> None:
    """Debian's python3 without python3-venv, not root: the command to run, exit 2."""
    script(bare / "bin/python3", f'case "$*" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"')
    script(bare / "bin/id", "echo 1000")
    done = set_up(bare)
    assert done.returncode == 2
    assert f"sudo apt-get install -y python{sys.version_info[0]}.{sys.version_info[1]}-venv" in done.stderr


def test_without_venv_root_installs_it(bare: Path) -> None:
    """The same as root: the package is installed, without a question."""
    script(bare / "bin/python3", f'case "$*" in *ensurepip*) exit 1;; *venv*) exit 7;; esac\nexec {sys.executable} "$@"')
    script(bare / "bin/id", "echo 0")
    script(bare / "bin/apt-get", 'echo "apt-get $*" >&2')
    done = set_up(bare)
    assert f"apt-get install -y -qq python{sys.version_info[0]}.{sys.version_info[1]}-venv" in done.stderr
    assert done.returncode == 7, "it goes on to make the environment"


def test_a_finished_setup_is_not_repeated(bare: Path) -> None:
    """With the stamp of the same lock nothing runs, not even Python; after a change of the lock it does."""
    digest = "sed '/^\\[tool/,$d' pyproject.toml | cat requirements/dev.txt scripts/setup.sh - | cksum | tr -d ' '"
    stamp = subprocess.run(digest, shell=True, cwd=bare, capture_output=True, text=True, timeout=300).stdout
    (bare / ".venv/bin").mkdir(parents=True)
    script(bare / ".venv/bin/sereno", "exit 9")
    (bare / ".venv/.ready-dev").write_text(stamp)
    assert set_up(bare, "dev").returncode == 0
    assert set_up(bare, "core").returncode == 0, "what the tests need holds what running needs"
    with (bare / "pyproject.toml").open("a") as project:
        project.write("# the settings of tools do not matter\n")
    assert set_up(bare, "dev").returncode == 0
    with (bare / "requirements/dev.txt").open("a") as lock:
        lock.write("# changed\n")
    assert set_up(bare, "dev").returncode == 2, "it looks for Python again, and there is none"


def test_make_alone_lists_every_target() -> None:
    """`make` prints each target with a line about it."""
    done = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    listed = [line.split()[1] for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert {"run", "test", "test-all", "check", "bench", "sim", "docs", "nightly", "lock", "clean"} <= set(listed)
    assert all(len(line.split()) > 3 for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    "text",
    ["import pytest\n\ndef test_x():\n    pytest.skip('no tool')\n", "import pytest\n\npytest.importorskip('no_such_module')\n"],
    ids=["while running", "at collection"],
)
def test_a_skip_is_a_failure_in_ci(tmp_path: Path, text: str) -> None:
    """With SERENO_NO_SKIPS=1 a skipped test fails the run; without it does not."""
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "test_skips.py").write_text(text + "\ndef test_other():\n    assert True\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    codes = []
    for value in ("1", "0"):
        environment = {**os.environ, "SERENO_NO_SKIPS": value, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        codes.append(done.returncode)
    assert codes[0] == 1
    assert codes[1] in (0, 5)
