"""The ground the demo plays on: a folder of its own with settings and a contract, and the playground as a separate process."""

import asyncio
import json
import shutil
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sereno.core.errors import Unavailable
from sereno.core.observation import HttpReply
from sereno.core.values import Json, parse_json
from sereno.ports import Fetch, Transport
from sereno.settings.load import DATABASE

STARTS_WITHIN = 30.0
ENDS_WITHIN = 5.0
PLAYGROUND = ("-P", "-m", "sereno.testing.playground", "--still")
"""Arguments for Python; `-P` keeps the present folder out of the search for modules."""

SETTINGS = """# The settings of the demo, as you would write your own. All names: sereno config schema

contracts = ["contracts"]           # the folder with the contract of the playground's jobs

[egress]
allow = ["{host}"]       # private addresses are refused; this one port is opened by name

# All requests to one host share its limit. The playground is ours, so it may be asked more often than once a second.
[pools."host:{host}"]
rate = 10.0
burst = 10

[pools."provider:{host}"]
rate = 10.0
burst = 10

# A receiver that keeps its own books. It is on this machine, so the messages go unsigned.
[actions.receiver]
type = "webhook"
url = "{base}/inbox"
unsigned = true

[[poll]]
name = "feed"
source = {{ type = "feed", url = "{base}/feed.xml" }}
every = "2s"
when = "change == 'new'"            # the first run takes a baseline: what is there already is not news
actions = ["console", "receiver"]

[[poll]]
name = "price"
source = {{ type = "http", url = "{base}/shop/kettle", select = "p.price" }}
every = "2s"
when = "double(object.text) < 40.0"
on = "state"                        # told once each time it becomes true
actions = ["console", "receiver"]

[[poll]]
name = "api"
source = {{ type = "http", url = "{base}/api/status" }}
every = "2s"
actions = ["console"]
"""

CONTRACT = """# How the playground runs jobs.
format = 0
contract = "playground-job"
version = 1
title = "Job of the playground"
source = "src/sereno/testing/playground.py"
verified = "verified: the playground is part of Sereno"

[status]
method = "GET"
url = "{base}/jobs/{job_id}"
observational = "GET of a job reads it and writes it into the provider's book; nothing is started"
redirects = false

[job]
id = "id"

[state]
from = "path"
path = "status"

[states]
pending = ["queued", "running"]
success = ["succeeded"]
failure = ["failed"]
# A word that is not here is unknown: Sereno stops asking and asks a person.

[result]
allows = "read_result"
ref = "output.url"

# A success without a result is a contradiction, not a success.
[[result.fields]]
path = "output.url"
type = "url"

[error]
code = "error.code"
text = "error.message"

# A new job may not be known at once.
[[http]]
status = "404"
meaning = "not_found_yet"
grace = "30s"
checks = 3

[delays]
first = "1s"
base = "1s"
max = "3s"
min_gap = "1s"

[limits]
deadline = "2m"
requests = 20
transport_failures = 5
throttles = 5
"""


@dataclass(frozen=True, slots=True)
class Books:
    """What the playground wrote down by itself: the other side of every story."""

    looked_at: Mapping[str, Sequence[float]]
    """Seconds on the provider's clock of each status request, by job id."""
    answered: Mapping[str, int]
    not_modified: Mapping[str, int]
    """Requests, and those answered 304, by path."""
    prices_shown: Sequence[str]
    received: Mapping[str, Sequence[str]]
    """Keys that reached the receiver, repeats included, by subject (poll id)."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the demo runs."""

    folder: Path
    base: str

    @property
    def config(self) -> Path:
        """The settings file."""
        return self.folder / "sereno.toml"

    @property
    def database(self) -> Path:
        """Where the database comes to: the usual place beside the settings."""
        return self.folder / DATABASE

    def lay_out(self) -> None:
        """Writes settings and contract."""
        host = self.base.removeprefix("http://")
        self.config.write_text(SETTINGS.format(base=self.base, host=host), encoding="utf-8")
        contracts = self.folder / "contracts"
        contracts.mkdir()
        (contracts / "playground-job.toml").write_text(CONTRACT, encoding="utf-8")

    async def submit(self, transport: Transport, script: str) -> str:
        """Hands a job to the provider, as somebody else would; answers its id there."""
        return str((await self._ask(transport, "/jobs", {"script": script}))["id"])

    async def control(self, transport: Transport, what: str) -> None:
        """Changes the playground: `feed?add=1`, `price?value=39.00`."""
        await self._ask(transport, f"/control/{what}", {})

    async def books(self, transport: Transport) -> Books:
        """Reads the playground's books."""
        body = await self._ask(transport, "/books", None)
        received: dict[str, list[str]] = {}
        for item in body["received"]:
            received.setdefault(item["body"]["data"]["subject"], []).append(item["key"])
        return Books(
            looked_at={name: job["looked_at"] for name, job in body["jobs"].items()},
            answered={path: page["answered"] for path, page in body["pages"].items()},
            not_modified={path: page["not_modified"] for path, page in body["pages"].items()},
            prices_shown=body["prices_shown"],
            received=received,
        )

    async def _ask(self, transport: Transport, path: str, body: Json) -> dict[str, Any]:
        method, content = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
        reply = await transport.fetch(Fetch(self.base + path, method=method, body=content))
        if not isinstance(reply, HttpReply) or reply.status >= 300:
            raise Unavailable("the playground does not answer", subject=path, hint="run `sereno demo` again")
        found = parse_json(reply.body)
        assert isinstance(found, dict), "the playground answers with objects"
        return found


@asynccontextmanager
async def open_ground(*, keep: bool) -> AsyncIterator[Ground]:
    """Makes the folder and starts the playground; ends the one and, unless `keep`, deletes the other. Raises Unavailable."""
    folder = Path(tempfile.mkdtemp(prefix="sereno-demo-"))
    try:
        async with _playground(folder / "playground.log") as base:
            ground = Ground(folder, base)
            ground.lay_out()
            yield ground
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def _playground(log: Path) -> AsyncIterator[str]:
    """The playground's address while it runs. Its own session keeps a Ctrl-C for us alone; it ends when its input closes."""
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *PLAYGROUND, stdin=PIPE, stdout=PIPE, stderr=errors, start_new_session=True
        )
        try:
            yield await _address(process, log)
        finally:
            await _end(process)


async def _address(process: Process, log: Path) -> str:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(STARTS_WITHIN):
            line = await process.stdout.readline()
        found = parse_json(line)
        assert isinstance(found, dict)
        return str(found["base"])
    except (TimeoutError, ValueError) as error:
        raise Unavailable("the playground did not start", hint=_last_words(log)) from error


def _last_words(log: Path) -> str:
    said = log.read_text(errors="replace").strip().splitlines()
    return said[-1][:200] if said else "run `sereno demo` again"


async def _end(process: Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(ENDS_WITHIN):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def second_process(ground: Ground, *words: str) -> tuple[int, str]:
    """Runs one `sereno …` command in a process of its own, as a person at another terminal would; answers code and output."""
    arguments = ("-P", "-m", "sereno.faces.cli.main", *words, "--config", str(ground.config))
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
    try:
        async with asyncio.timeout(STARTS_WITHIN):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode("utf-8", "replace")
