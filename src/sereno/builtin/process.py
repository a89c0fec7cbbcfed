"""Runs one local command: argv without a shell, clean environment, own process group, time and output caps, killed whole."""

import asyncio
import os
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from sereno.builtin.options import Rule, SecretCheck, texts
from sereno.builtin.text import one_line
from sereno.core.values import Json

GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_STDERR_KEPT = 4096
_PASSED = ("PATH", "HOME", "LANG")


class Ended(StrEnum):
    """How a run ended."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    CAP = "cap"
    NOT_STARTED = "not_started"


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run left: `code` is the exit status (negative: the signal) where it ended by itself; `problem` where it never started."""

    ended: Ended
    code: int | None = None
    output: bytes = b""
    errors: bytes = b""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One command to be: seconds and bytes are caps; `environment` is all the child sees."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    seconds: float
    max_bytes: int
    stdin: bytes = b""


def clean_environment(environ: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """PATH, HOME and LANG, and what is passed on by name; nothing else of ours reaches a child."""
    return {name: environ[name] for name in (*_PASSED, *names) if name in environ}


def argv_rule(secret_check: SecretCheck) -> Rule:
    """A list of 1 to 64 arguments; a URL among them must not carry a secret (arguments are visible to every user)."""

    def item(value: Json) -> str | None:
        if not isinstance(value, str) or len(value) > 4096 or "\x00" in value:
            return "must be a text of at most 4,096 characters without NUL"
        return secret_check(value) if "://" in value else None

    whole = texts(64, item=item)

    def rule(value: Json) -> str | None:
        return "must begin with a program" if isinstance(value, list) and value[:1] == [""] else whole(value)

    return rule


def environment_names(value: Json) -> str | None:
    """Names of variables to pass on; a value belongs to the environment, not here."""

    def item(entry: Json) -> str | None:
        right = isinstance(entry, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", entry)
        return None if right else "must be the name of a variable, without a value"

    return texts(32, item=item)(value)


def last_words(done: Finished, secrets: Sequence[str]) -> str:
    """The last line of standard error, safe and short, without the values that were passed on by name."""
    text = done.errors.decode("utf-8", "replace")
    for secret in secrets:
        text = text.replace(secret, "***")
    lines = text.strip().splitlines()
    return f": {one_line(lines[-1], 200)}" if lines else ""


class _Collector(asyncio.SubprocessProtocol):
    """Gathers output up to the cap and says when the leader ended (`stop`) and when all pipes are closed (`closed`)."""

    def __init__(self, max_bytes: int) -> None:
        self.output = bytearray()
        self.errors = b""
        self.capped = False
        self.stop = asyncio.Event()
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self._max_bytes = max_bytes

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.errors = (self.errors + data)[-_STDERR_KEPT:]
        elif not self.capped:
            self.output += data[: self._max_bytes + 1 - len(self.output)]
            if len(self.output) > self._max_bytes:
                self.capped = True
                self.stop.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.stop.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


async def run(command: Run) -> Finished:
    """Runs a command to its end, or to a cap.

    The child leads its own session and process group. When it ends, on a cap, and on cancellation the whole group is ended, so
    nothing that it started outlives it; only a child that makes a session of its own escapes. Never raises for what the command does.
    """
    loop = asyncio.get_running_loop()
    try:
        transport, collector = await loop.subprocess_exec(
            lambda: _Collector(command.max_bytes),
            *command.argv,
            env=dict(command.environment),
            cwd="/",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Finished(Ended.NOT_STARTED, problem=_why(error))
    ended = Ended.EXIT
    try:
        _feed(transport, command.stdin)
        async with asyncio.timeout(command.seconds):
            await collector.stop.wait()
    except TimeoutError:
        ended = Ended.TIMEOUT
    finally:
        await _end_group(transport, collector)
    if collector.capped:
        ended = Ended.CAP
    code = transport.get_returncode() if ended is Ended.EXIT else None
    return Finished(ended, code, bytes(collector.output[: command.max_bytes]), collector.errors)


def _why(error: Exception) -> str:
    return (error.strerror or "could not be started") if isinstance(error, OSError) else "the arguments cannot be passed on"


def _feed(transport: asyncio.SubprocessTransport, stdin: bytes) -> None:
    # The transports of uvloop are none of asyncio's classes.
    pipe = cast("asyncio.WriteTransport | None", transport.get_pipe_transport(0))
    if pipe is not None:
        if stdin:
            pipe.write(stdin)
        pipe.close()


async def _end_group(transport: asyncio.SubprocessTransport, collector: _Collector) -> None:
    """Ends what is left of the group: SIGTERM and a grace while the leader lives, then SIGKILL for all, also when cancelled again."""
    group = transport.get_pid()
    try:
        if not collector.exited.is_set():
            _signal(group, signal.SIGTERM)
            await _within(GRACE, collector.exited)
    finally:
        _signal(group, signal.SIGKILL)
    try:
        await _within(GRACE, collector.exited)
        await _within(GRACE, collector.closed)
    finally:
        transport.close()


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left; macOS says EPERM for a group of zombies


async def _within(seconds: float, event: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
