"""What the tests of the command line share: a folder of its own, a way to run commands in it, loopback servers, and quick time."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import sereno.app
from sereno.faces.cli.commands import run_command
from sereno.faces.cli.verbs import wait as verbs_wait
from sereno.outside.clock import SystemClock
from sereno.ports import Boot
from tests.faces.provider import CANCEL, CONTRACT, IDEMPOTENT, PUSHED, Provider
from tests.loopback import LoopbackServer

SETTINGS = '[egress]\nallow = ["127.0.0.1"]\n[lease]\ntick = "50ms"\n'


@dataclass(frozen=True)
class Result:
    """What one command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one document on standard output."""
        found: dict[str, Any] = json.loads(self.out)
        return found


Cli = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a home of its own; the settings open loopback."""
    monkeypatch.chdir(tmp_path)
    for name in ("SERENO_CONFIG", "XDG_CONFIG_HOME", "SERENO_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("USER", "ada")
    (tmp_path / "sereno.toml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture
def cli(folder: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process, as `sereno ARGUMENTS` would."""

    def run(*arguments: str) -> Result:
        capsys.readouterr()
        code = run_command(arguments)
        said = capsys.readouterr()
        return Result(code, said.out, said.err)

    return run


LONGEST_GAP = 0.02
"""Real seconds between two looks at the quick clock that count at most. A driver looks ten times as often; what is longer is a machine
that stalls or is busy with others, or nobody asked."""


@dataclass
class QuickClock(SystemClock):
    """The real clock, thirty times as fast: pauses of a contract pass in a moment, in their order.

    A machine that stalls for a second does not cost half a minute of a deadline or a lease: a stall counts as `LONGEST_GAP`.
    """

    speed: float = 30.0
    start: datetime = field(default_factory=lambda: datetime(2026, 11, 30, 12, tzinfo=UTC))

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._seen, self._passed = super().monotonic(), 0.0

    def monotonic(self) -> float:
        """Seconds of the quick time."""
        with self._lock:
            real = super().monotonic()
            self._passed += min(real - self._seen, LONGEST_GAP) * self.speed
            self._seen = real
            return self._passed

    def boot(self) -> Boot:
        """The same, since the start of this clock: it does not sleep."""
        return Boot("quick", self.monotonic())

    def now(self) -> datetime:
        """The instant of the quick time."""
        return self.start + timedelta(seconds=self.monotonic())

    async def sleep(self, seconds: float) -> None:
        """Sleeps the thirtieth part; the whole of it has passed then, though nobody looked meanwhile."""
        end = self.monotonic() + seconds
        await super().sleep(seconds / self.speed)
        with self._lock:
            self._passed = max(self._passed, end)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> QuickClock:
    """Lets every command of the test run in quick time."""
    clock, opened = QuickClock(), sereno.app.open_app

    def open_quick(*arguments: Any, **named: Any) -> Any:
        return opened(*arguments, **named, seams=sereno.app.Seams(clock=clock))

    monkeypatch.setattr(sereno.app, "open_app", open_quick)
    monkeypatch.setattr(verbs_wait, "LOOK_EVERY", 0.01)
    return clock


class FeedServer:
    """A feed on loopback whose entries the test edits; `asked` counts the requests."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {f"entry-{number:03}": f"Text of entry {number}." for number in range(300)}
        self.asked = 0
        self.status = 200
        served = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.asked += 1
                body = served.body()
                self.send_response(served.status)
                self.send_header("Content-Type", "application/rss+xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Keeps quiet."""

        self._server = LoopbackServer(Answers)
        self.url = f"http://127.0.0.1:{self._server.port}/notes.rss"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def body(self) -> bytes:
        """The feed, newest entry first."""
        items = "".join(
            f"<item><guid isPermaLink='false'>{guid}</guid><title>{guid}</title><link>https://notes.example/{guid}</link>"
            f"<description>{text}</description></item>"
            for guid, text in reversed(self.entries.items())
        )
        return f'<?xml version="1.0"?><rss version="2.0"><channel><title>Notes</title>{items}</channel></rss>'.encode()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def feed() -> Iterator[FeedServer]:
    """A feed of 300 entries."""
    server = FeedServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def playground() -> Iterator[str]:
    """The base URL of a playground in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "sereno.testing.playground"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["base"]
        process.terminate()


@pytest.fixture
def job(playground: str) -> Callable[[str], str]:
    """Submits a job that follows a script of the playground; answers its status URL."""
    import urllib.request

    def submit(script: str) -> str:
        body = json.dumps({"script": script}).encode()
        request = urllib.request.Request(f"{playground}/jobs", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return f"{playground}/jobs/{json.load(answer)['id']}"

    return submit


@pytest.fixture
def provider(folder: Path) -> Iterator[Provider]:
    """A provider that takes jobs, with its contract `acme` (and `caller`, which calls back) in the folder."""
    (folder / "sereno.toml").write_text('contracts = ["contracts"]\n' + SETTINGS)
    (folder / "contracts").mkdir()
    (folder / "contracts/acme.toml").write_text(CONTRACT + IDEMPOTENT + CANCEL)
    (folder / "contracts/caller.toml").write_text(PUSHED)
    server = Provider()
    yield server
    server.close()
