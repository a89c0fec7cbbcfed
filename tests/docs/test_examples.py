"""Every file of examples/ runs against the playground and does what its text says."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from sereno.outside.clock import SystemClock
from sereno.settings import load_settings

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
RUN_HERE = {
    "python_api.py",
    "wait_for_job.py",
    "wait_for_job.sh",
    "watch_a_price.toml",
    "settings.toml",
    "README.md",
    "contracts",
}
PATIENCE = 300.0


@pytest.fixture(scope="module")
def playground() -> Iterator[str]:
    """The address of a playground in which nothing changes by itself."""
    command = [sys.executable, "-m", "sereno.testing.playground", "--still"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["base"])
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(300) == 0


@pytest.fixture
def folder(tmp_path: Path, playground: str) -> Path:
    """A copy of the examples that speaks to this playground instead of the one on port 8765."""
    place = tmp_path / "examples"
    shutil.copytree(EXAMPLES, place, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    for file in (file for file in place.iterdir() if file.is_file()):
        file.write_text(file.read_text().replace("127.0.0.1:8765", playground.removeprefix("http://")))
    return place


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs one command in the folder, with our `sereno` and `python` first on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SERENO_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**kept, "PATH": path, "HOME": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE)


def control(playground: str, what: str) -> None:
    """Changes the playground."""
    urllib.request.urlopen(f"{playground}/control/{what}", data=b"").close()


def test_no_example_goes_unrun() -> None:
    """A new example needs a test here, and a line in the README."""
    files = {file.name for file in EXAMPLES.iterdir() if not file.name.startswith((".", "__"))}
    assert files == RUN_HERE
    readme = (EXAMPLES / "README.md").read_text()
    assert set(re.findall(r"\]\(([\w.]+)\)", readme)) == RUN_HERE - {"README.md", "settings.toml"}


def test_python_api_tells_a_new_entry_once(folder: Path) -> None:
    """A baseline, one entry told, a third run that tells nothing."""
    done = run(folder, "python", "python_api.py")
    assert done.returncode == 0, done.stderr
    added, told, *runs = done.stdout.splitlines()
    assert re.fullmatch(r"added notes: \d+ entries are there", added)
    assert re.fullmatch(r"told notes: Harbour note \d+: delivered", told)
    assert [line.partition(": ")[2].partition(" ")[0] for line in runs] == ["baseline", "1", "unchanged"]
    assert done.stderr.count("Harbour note") >= 1
    assert len(done.stderr.splitlines()) == 1


def test_W26_wait_for_job_obeys_retry_after_and_tells_its_story(folder: Path) -> None:
    """The job succeeds after a 503; the story names why each look came when it did."""
    done = run(folder, "python", "wait_for_job.py")
    assert done.returncode == 0, done.stderr
    assert "succeeded, 2 requests" in done.stdout
    assert "HTTP 503" in done.stdout
    assert "provider_retry_after" in done.stdout


def test_wait_for_job_in_a_shell_ends_with_the_exit_code_of_the_job(folder: Path) -> None:
    """A job that fails is exit code 3."""
    done = run(folder, "sh", "wait_for_job.sh")
    assert done.returncode == 3, done.stderr
    assert "It failed: do not go on." in done.stdout


def test_P05_P07_watch_a_price_tells_a_fall_and_an_entry_once(folder: Path, playground: str) -> None:
    """Nothing on the first run; after the price fell and the feed grew each is told once, however often it is run."""
    once = ("sereno", "once", "--config", "watch_a_price.toml")
    control(playground, "price?value=49.00")
    first = run(folder, *once)
    assert first.returncode == 0, first.stderr
    assert "3 created" in first.stderr
    assert "—" not in first.stdout, "the first run takes a baseline"
    control(playground, "price?value=39.00")
    control(playground, "feed?add=1")
    said, clock = "", SystemClock()
    ends = clock.monotonic() + PATIENCE
    while not ("notes: " in said and "kettle: " in said):
        assert clock.monotonic() < ends, said
        said += run(folder, *once).stdout
    said += run(folder, *once).stdout
    assert said.count("  notes: ") == 1
    assert said.count("  kettle: 39.00") == 1
    assert "harbour" not in said


def test_settings_of_the_examples_open_only_the_playground() -> None:
    """The example settings are right, and open one port."""
    for name, polls in (("settings.toml", 0), ("watch_a_price.toml", 3)):
        settings = load_settings(str(EXAMPLES / name), {}, ROOT).settings
        assert settings.egress.allow == ("127.0.0.1:8765",)
        assert len(settings.poll) == polls


@pytest.mark.parametrize("contract", sorted(file.name for file in (EXAMPLES / "contracts").glob("*.toml")))
def test_W03_an_example_contract_is_valid_and_its_cases_hold(folder: Path, contract: str) -> None:
    """Checked and tested as its README line says: each word has a case, and each answer is read as expected."""
    for verb in ("check", "test"):
        done = run(folder, "sereno", "contract", verb, f"contracts/{contract}")
        assert done.returncode == 0, done.stdout + done.stderr
