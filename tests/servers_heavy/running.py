"""Heavy servers of others as processes of their own: started with a deadline, and ended with all that they started."""

import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from scripts.servers import environment

MARK = "SERENO_TEST_SERVER"
"""Set in the environment of a server to a value of its own: by it all processes are found that came from it, and no others."""


@contextmanager
def running(command: Sequence[str], *, folder: Path, more: Mapping[str, str], server: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs a program of a server's environment in a folder until the end of the block; its output stands in `FOLDER/NAME.log`.

    Its home is the folder, and nothing of this process's own Python reaches it.
    """
    programs, mark = environment(server), f"{folder}:{os.getpid()}:{command[-1]}"
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "AIRFLOW", "RAY_", "PREFECT"))
    }
    path = f"{programs}{os.pathsep}{kept.get('PATH', '')}"
    given = {**kept, "PATH": path, "HOME": str(folder), MARK: mark, **more}
    with (folder / f"{Path(command[0]).name}-{server}.log").open("ab") as log:
        process = subprocess.Popen(
            [str(programs / command[0]), *command[1:]], cwd=folder, env=given, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        _end(process, mark)


def _end(process: "subprocess.Popen[bytes]", mark: str) -> None:
    """Asks all that came from a server to end, and kills what is left after ten seconds."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        for pid in _started(process, mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signum)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if process.poll() is not None and not _started(process, mark):
                return
            _pause()
    raise AssertionError(f"a server did not end: {_started(process, mark)}")


def _started(process: "subprocess.Popen[bytes]", mark: str) -> list[int]:
    """The processes that came from a server: of its session, or with the mark (some leave the session, some write over the mark)."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        pid = int(place.name)
        with suppress(OSError):
            ended = "\nState:\tZ" in (place / "status").read_text()
            mine = os.getsid(pid) == process.pid or f"{MARK}={mark}\0".encode() in (place / "environ").read_bytes()
            if mine and not ended:
                found.append(pid)
    return found


def _pause() -> None:
    """Lets a moment go by between two looks at a real process."""
    threading.Event().wait(0.2)


def until(process: "subprocess.Popen[bytes]", done: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Looks until something holds. A server that ends or a deadline that passes fails the test."""
    deadline = time.monotonic() + seconds
    while not done():
        if process.poll() is not None:
            raise AssertionError(f"{what}: the server ended with {process.returncode}")
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:.0f} s")
        _pause()


async def begun(app: Any, operation: str, *, seconds: float = 120) -> str:
    """The id of an operation's job, once its submit was taken on; on a busy machine that takes more than one try."""
    deadline = time.monotonic() + seconds
    while not (found := (await app.operations.get(operation)).operation).job_id:
        assert time.monotonic() < deadline, f"not submitted within {seconds:.0f} s; state {found.state}"
        await app.once()
        _pause()
    return str(found.job_id)


def asked(url: str, body: Any = None, method: str | None = None, *, token: str | None = None) -> Any:
    """The JSON document that a server answers with, or None while it does not answer with one."""
    sent = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(url, sent, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None
