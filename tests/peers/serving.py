"""Servers that nobody here wrote, as processes of their own, and Sereno as a program meets them."""

import fcntl
import os
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import sereno
from sereno.core.operation import Operation
from sereno.core.values import Json

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TERMS: Mapping[str, Any] = {
    "deadline": timedelta(minutes=1),
    "max_status_requests": 60,
    "max_transport_failures": 3,
    "max_throttles": 3,
}


def python_of_peers() -> str:
    """The Python of the environment of peers, which is set up here where nobody did."""
    _set_up("scripts/setup.sh", "conformance")
    return str(ROOT / ".venv-conformance/bin/python")


def node_module(path: str) -> tuple[str, str]:
    """Node and a script of an npm package. Skips where node is missing and nobody here may install a distribution's package."""
    python_of_peers()
    if shutil.which("npm") is None and os.geteuid() != 0:
        pytest.skip("needs the distribution packages nodejs and npm, which only root can install")
    _set_up("scripts/setup_node.sh")
    return "node", str(ROOT / ".venv-conformance/node/node_modules" / path)


def _set_up(*command: str) -> None:
    """Runs one of the project's own set-ups, one at a time; a second call does nothing."""
    with (ROOT / ".setup-peers.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["sh", *command], cwd=ROOT, check=True)


@contextmanager
def peer(command: Sequence[str], port: int, **environment: str) -> Iterator[str]:
    """Runs a server until the end of the block; gives its origin once it takes connections."""
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        _connected(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _connected(process: "subprocess.Popen[bytes]", port: int) -> None:
    """Waits until the port takes a connection, a minute and a half at most."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=30).close()
        except OSError:
            process_wait(process, 0.1)
            continue
        return
    raise AssertionError("the server took no connection in time")


def process_wait(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Waits for a process to end, or for a moment."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@asynccontextmanager
async def opened(folder: Path, port: int, *, contracts: Mapping[str, str] | None = None, more: str = "") -> AsyncIterator[Any]:
    """Sereno as a program opens it, with one address on loopback opened and contracts of its own."""
    own = folder / "contracts"
    own.mkdir(exist_ok=True)
    for name, text in (contracts or {}).items():
        (own / f"{name}.toml").write_text(text)
    settings = folder / "sereno.toml"
    settings.write_text(f'contracts = ["contracts"]\n[egress]\nallow = ["127.0.0.1:{port}"]\n{more}')
    async with sereno.open(f"sqlite:///{folder}/sereno.db", config=str(settings)) as app:
        yield app


async def submitted(app: Any, contract: str, given: Json, **terms: Any) -> str:
    """Starts a job through a contract; gives the operation's id."""
    registered = await app.operations.submit(sereno.WantedSubmit(contract, given, **{**TERMS, **terms}))
    return str(registered.record.operation.id)


async def waited(app: Any, operation: str) -> Operation:
    """The operation once it has ended or a person is asked."""
    record = await app.operations.wait(operation)
    found: Operation = record.operation
    return found
