"""Starts, stops and looks at the processes of a test."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sereno.testing.process.world import until

SERENO = (sys.executable, "-m", "sereno.faces.cli.main")
PATIENCE_S = 90.0
"""How long a step of a real process may take before the test gives up."""
_WITHOUT_OVERRIDE = ("setpriv", "--bounding-set", "-dac_override", "--")


@dataclass(frozen=True, slots=True)
class Running:
    """One process and the file that its standard error goes to."""

    process: "subprocess.Popen[str]"
    log: Path

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def said(self) -> str:
        """What it logged so far."""
        return self.log.read_text(errors="replace")

    def tell(self, command: str) -> None:
        """Gives a steered worker a command, and waits until it was taken."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer == f"ok {command}", (answer, self.said()[-2000:])

    def stopped(self) -> bool:
        """Whether the process is stopped by a signal (proc(5), state T)."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def await_stop(self) -> None:
        """Waits until it has stopped itself."""
        until(self.stopped, PATIENCE_S, "the stop")

    def go_on(self) -> None:
        """Lets a stopped process go on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stops it where it is."""
        self.process.send_signal(signal.SIGSTOP)
        self.await_stop()

    def end(self) -> int:
        """Asks for an end by SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        """Ends it as a crash does."""
        self.process.kill()
        self.process.wait(timeout=PATIENCE_S)


@contextmanager
def steered(folder: Path, name: str, *, log: Path | None = None) -> Iterator[Running]:
    """A steered worker, ready to work."""
    command = [sys.executable, "-m", "sereno.testing.process.steered", str(folder), name]
    with started(command, folder, log or folder / f"{name}.log") as running:
        assert running.process.stdout is not None
        first = running.process.stdout.readline()
        assert first.strip() == "ready", (first, running.said()[-2000:])
        yield running


@contextmanager
def up(folder: Path, *, log: Path | None = None, more: Mapping[str, str] | None = None) -> Iterator[Running]:
    """`sereno up`, once it watches."""
    with started([*SERENO, "up", "--log-level", "info"], folder, log or folder / "up.log", more=more) as running:
        assert running.process.stdout is not None
        first = running.process.stdout.readline()
        assert first.startswith("Watching "), (first, running.said()[-2000:])
        yield running


@contextmanager
def started(
    command: Sequence[str], folder: Path, log: Path, *, more: Mapping[str, str] | None = None, obeys_modes: bool = False
) -> Iterator[Running]:
    """One process; it is killed if the test leaves it behind. `obeys_modes`: file modes hold for it even where it runs as root."""
    with log.open("a") as file:
        process = subprocess.Popen(
            _obeying(command) if obeys_modes else command,
            cwd=folder,
            env={**os.environ, **(more or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    with process:
        try:
            yield Running(process, log)
        finally:
            process.kill()


def _obeying(command: Sequence[str]) -> Sequence[str]:
    """The command without root's right to pass over file modes (capabilities(7)); who is not root has none."""
    return [*_WITHOUT_OVERRIDE, *command] if os.geteuid() == 0 else command


def sereno(folder: Path, *arguments: str, obeys_modes: bool = False) -> "subprocess.CompletedProcess[str]":
    """One command to its end."""
    command = [*SERENO, *arguments]
    return subprocess.run(
        _obeying(command) if obeys_modes else command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
    )
