"""One real process whose host sleeps for eight hours: libfaketime moves the wall clock, monotonic time stands still as in a suspend (W08, I7)."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sereno.testing.books import burst_over
from tests.e2e.looks import Looks

POLLS, RATE, BURST = 100, 10.0, 5
SERENO = [sys.executable, "-m", "sereno.faces.cli.main"]
ON_THE_WAY_S = 1.0
"""How much two requests may differ in their way from the claim to the server's book; their tokens are spent at the claim."""


@pytest.fixture(scope="session")
def libfaketime() -> str:
    """The library of the Debian package `faketime`; installed where that is possible, else the test is skipped by name."""
    if _library() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "faketime"]):
            subprocess.run(command, capture_output=True, timeout=300, check=False, env=quiet)
    found = _library()
    if found is None:
        pytest.skip("the Debian package faketime is not installed and could not be installed here")
    return str(found)


def _library() -> Path | None:
    """Where the package puts it: one folder for each machine type."""
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


def until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Polls a condition of a real process, with a deadline."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{what} did not come within {seconds:g} s"
        time.sleep(0.05)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_I7_I23_a_clock_set_eight_hours_forward_moves_the_rounds_with_it(tmp_path: Path, libfaketime: str) -> None:
    """A hundred polls on one host, due every two hours: the host's clock is set eight hours forward while it runs, and nothing is read
    sooner for that (incident 7). That a host which slept reads each once is shown where its time since the start can be handed in."""
    looks, shift = Looks(), tmp_path / "shift"
    shift.write_text("+0\n")
    polls = "".join(
        f'[[poll]]\nname = "p{n}"\nevery = "2h"\njitter = "0s"\nsource = {{ type = "http", url = "{looks.url}/page/{n}" }}\n'
        for n in range(POLLS)
    )
    settings = (
        f'[egress]\nallow = ["127.0.0.1:{looks.port}"]\n[pools."host:127.0.0.1:{looks.port}"]\nrate = {RATE}\nburst = {BURST}\n'
    )
    (tmp_path / "sereno.toml").write_text(settings + polls)
    faked = {
        **os.environ,
        "LD_PRELOAD": libfaketime,
        "FAKETIME_TIMESTAMP_FILE": str(shift),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Else the library stretches the interpreter's own waits, which are on the monotonic clock.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
    command = [*SERENO, "up", "--log-level", "info"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, cwd=tmp_path, env=faked, stdout=log, stderr=log) as up:
        try:
            until(lambda: sum(looks.by_path().values()) >= POLLS, 90, "the first round")
            assert looks.by_path() == Counter({f"/page/{n}": 1 for n in range(POLLS)})
            shift.write_text("+8h\n")
            log_file = tmp_path / "log"
            until(lambda: "the host clock stepped" in log_file.read_text(), 60, "the note of the step")
            up.send_signal(signal.SIGTERM)
            assert up.wait(timeout=60) == 0
        finally:
            up.kill()
    looks.close()
    assert looks.by_path() == Counter({f"/page/{n}": 1 for n in range(POLLS)})
    assert burst_over(looks.since(0), rate=RATE, burst=BURST) <= RATE * ON_THE_WAY_S
    text = (tmp_path / "log").read_text()
    assert text.count("the host clock stepped") == 1, text[-2000:]
