"""Several `sereno` processes on one database file share one wait and double no request (W09, W22)."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.looks import Looks

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

SERENO = [sys.executable, "-m", "sereno.faces.cli.main"]
WAIT = (
    "--state-path", "status", "--success", "succeeded", "--pending", "running", "--deadline", "10m",
    "--max-requests", "50", "--max-failures", "3", "--max-throttles", "3", "--json",
)  # fmt: skip


@contextmanager
def sereno(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Runs a command in a process of its own; it is killed if the test leaves it behind."""
    with subprocess.Popen(
        [*SERENO, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What a command printed as JSON, once it ended well."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_W09_W22_up_and_two_waits_share_one_operation_without_a_doubled_request(tmp_path: Path) -> None:
    """`up` and two `wait` for the same job attach to one operation: it is looked at exactly as often as its answers need."""
    looks = Looks(ends_at=2)
    (tmp_path / "sereno.toml").write_text(f'[egress]\nallow = ["127.0.0.1:{looks.port}"]\n')
    with sereno(tmp_path, "up") as up:
        assert up.stdout is not None and up.stdout.readline().startswith("Watching ")
        job = f"{looks.url}/jobs/shared"
        with (
            sereno(tmp_path, "wait", "generic-status", job, *WAIT) as one,
            sereno(tmp_path, "wait", "generic-status", job, *WAIT) as two,
        ):
            first, second = ended(one)["operation"], ended(two)["operation"]
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=300) == 0
    looks.close()
    assert first["operation_id"] == second["operation_id"]
    assert first["status"] == second["status"] == "succeeded"
    assert looks.by_path() == {"/jobs/shared": 2}
    shown = subprocess.run(
        [*SERENO, "operation", "show", first["operation_id"], "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert json.loads(shown.stdout)["status_requests_used"] == 2
