"""Real processes: `up` drains, `wait` can be left and come back to, several on one database are safe."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.faces.conftest import Cli, FeedServer

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

Job = Callable[[str], str]
SERENO = [sys.executable, "-m", "sereno.faces.cli.main"]
WAIT = (
    "--state-path", "status", "--success", "succeeded", "--failure", "failed", "--pending", "queued,running", "--deadline", "10m",
    "--max-requests", "50", "--max-failures", "3", "--max-throttles", "3",
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


def read_until(stream: object, part: str) -> str:
    """Reads lines until one holds the text; the end of the stream fails the test."""
    read = ""
    for line in stream:  # type: ignore[attr-defined]
        read += line
        if part in line:
            return read
    raise AssertionError(f"{part!r} never came; there was: {read}")


def running_commands() -> Iterator[bytes]:
    """The command lines of all processes there are now."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()


def test_up_says_what_it_watches_and_drains_on_sigterm(cli: Cli, folder: Path, feed: FeedServer) -> None:
    """One calm line at the start; the notices; one line at the end; exit 0."""
    (folder / "sereno.toml").write_text(
        (folder / "sereno.toml").read_text()
        + f'[[poll]]\nname = "notes"\nevery = "1s"\njitter = "0s"\nsource = {{ type = "feed", url = "{feed.url}" }}\n'
    )
    with sereno(folder, "up", "--log-level", "info", "--log-format", "json") as up:
        assert up.stdout is not None and up.stderr is not None
        first = up.stdout.readline()
        assert first == f"Watching 1 poll, waiting on 0 jobs; database {folder / '.sereno' / 'sereno.db'}. Ctrl-C ends.\n"
        assert up.stderr.readline() == "polls of the settings file: 1 created\n"
        while "ok" not in {run["status"] for run in cli("run", "list", "notes", "--json").json["runs"]}:
            pass
        feed.entries["entry-300"] = "A new one."
        assert "entry-300" in read_until(up.stdout, "entry-300")
        up.send_signal(signal.SIGTERM)
        rest = up.stdout.read()
        assert up.wait(timeout=300) == 0, up.stderr.read()
        assert rest.splitlines()[-1].startswith("Ended. ")
        for line in up.stderr.read().splitlines():
            assert {"event", "level", "timestamp"} <= json.loads(line).keys()
    runs = cli("run", "list", "notes", "--json").json["runs"]
    assert {run["status"] for run in runs} == {"ok"}, "nothing was left half done"


def test_up_runs_commands_and_ends_them_whole(cli: Cli, folder: Path) -> None:
    """Under the loop that `up` uses, a command is read, and a hanging one is ended with all that it started."""
    (folder / "sereno.toml").write_text(
        """
        [[poll]]
        name = "quick"
        every = "1s"
        source = { type = "command", argv = ["printf", "hello"] }
        [[poll]]
        name = "hanging"
        every = "1h"
        source = { type = "command", argv = ["sh", "-c", "sleep 987654 & sleep 987654"], timeout = "1s" }
        """
    )
    with sereno(folder, "up") as up:
        assert up.stdout is not None and up.stdout.readline().startswith("Watching 2 polls")
        for name, status in (("hanging", "failed"), ("quick", "ok")):
            while status not in {run["status"] for run in cli("run", "list", name, "--json").json["runs"]}:
                pass
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=300) == 0
    assert not [command for command in running_commands() if b"987654" in command]


def test_a_left_wait_says_that_nobody_drives_it(folder: Path, cli: Cli, job: Job) -> None:
    """Ctrl-C exits 130, says how to come back, and the operation is still open."""
    with sereno(folder, "wait", "generic-status", job("endless"), *WAIT) as waiting:
        assert waiting.stderr is not None and waiting.stdout is not None
        operation = waiting.stderr.readline().split(":")[0]
        read_until(waiting.stderr, "no answer yet, 0/50 requests")
        waiting.send_signal(signal.SIGINT)
        said = waiting.stderr.read()
        assert waiting.wait(timeout=300) == 130, said
    assert f"Interrupted; {operation} is still open. No process drives it now" in said
    assert f"Come back: sereno wait {operation}" in said
    assert cli("operation", "show", operation, "--json").json["status"] == "waiting"


def test_a_left_wait_says_that_up_goes_on_with_it(folder: Path, cli: Cli, job: Job) -> None:
    """A running `sereno up` drives it on."""
    with sereno(folder, "up") as up:
        assert up.stdout is not None and up.stdout.readline().startswith("Watching ")
        with sereno(folder, "wait", "generic-status", job("endless"), *WAIT, "--json") as waiting:
            assert waiting.stdout is not None
            while not (open_ones := cli("operation", "list", "--state", "waiting", "--json").json["operations"]):
                pass
            operation = open_ones[0]["operation_id"]
            waiting.send_signal(signal.SIGINT)
            assert waiting.wait(timeout=300) in (130, 0)
        with sereno(folder, "wait", operation) as waiting:
            assert waiting.stderr is not None
            read_until(waiting.stderr, "requests")
            waiting.send_signal(signal.SIGINT)
            said = waiting.stderr.read()
            assert waiting.wait(timeout=300) == 130, said
            assert "A running `sereno up` goes on with it." in said
        assert f"{operation}" in cli("operation", "show", operation).out
        up.send_signal(signal.SIGINT)
        assert up.stdout.read().endswith("1 wait stays open until the next start.\n") and up.wait(timeout=300) == 0


def test_two_processes_on_one_database_look_once(folder: Path, cli: Cli, feed: FeedServer) -> None:
    """Two `once` at the same time: one run of the due instant, one request."""
    assert cli("poll", "add", "notes", feed.url).code == 0
    asked = feed.asked
    with sereno(folder, "once", "--json") as one, sereno(folder, "once", "--json") as two:
        done = [json.loads(process.communicate(timeout=300)[0])["tally"]["done"] for process in (one, two)]
    assert sum(done) == 1
    assert feed.asked == asked + 1
    assert len(cli("run", "list", "notes", "--json").json["runs"]) == 1
