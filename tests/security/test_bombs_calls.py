"""Bombs at the carriers of calls and at copies of results: a child process meets each; memory, time and stall stay bounded (I28, G21)."""

import asyncio
import json
import os
import sys
import tempfile
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sereno.builtin.actions.keep_result import KeepResultAction
from sereno.builtin.awsservice import service
from sereno.builtin.providers.aws import AwsProvider
from sereno.builtin.providers.catalogue import Catalogue
from sereno.builtin.providers.http import HttpProvider
from sereno.builtin.providers.mcp import McpProvider
from sereno.core.call import CallKind, CallState, ProviderCall
from sereno.core.contract import Contract
from sereno.core.observation import HttpReply, Reply
from sereno.core.operation import Operation, read_call
from sereno.core.reading.calls import Via
from sereno.core.values import Json
from sereno.outside.artifacts.files import FileArtifacts
from sereno.outside.egress.gate import Gate
from sereno.ports import CredentialConfig, Guarded, SecretPlace
from tests.core.waiting import make_operation
from tests.outside.rawserver import RawServer, make_gate, ok
from tests.outside.test_bombs import CHUNKED, GZIP, Ticker, memory, packed
from tests.security.places import delivery

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
JSON = b"Content-Type: application/json\r\n"
STREAM = b"Content-Type: text/event-stream\r\n"
DONE = ok(b'{"status": "done", "id": "1"}', headers=JSON)


@dataclass(frozen=True)
class Bomb:
    """`first` is said once, `then` for ever."""

    name: str
    first: bytes
    then: bytes = b""


def bombs() -> list[Bomb]:
    """What a provider may answer with instead; of those that the gate lets through some are as large as it allows."""
    big, wide = packed(100 << 20), b'{"result": {"status": "working", "all": [' + b"0," * 3_000_000 + b"0]}}"
    return [
        Bomb("gzip 1000:1", GZIP + big),
        Bomb("endless chunks", CHUNKED, b"10000\r\n" + bytes(65_536) + b"\r\n"),
        Bomb("events without end", b"HTTP/1.1 200 OK\r\n" + STREAM + b"\r\n", b"data: {}\n\n" * 6_000),
        Bomb("a stream of line ends", ok(b"\n" * 9_900_000, headers=STREAM)),
        Bomb("a stream of a million events", ok(b"data: 1\n\n" * 1_000_000, headers=STREAM)),
        Bomb("a stream of a million lines of data", ok(b"data:\n" * 1_600_000 + b"\n", headers=STREAM)),
        Bomb("an event of 9 MB", ok(b"data: " + b"[" * 9_000_000 + b"\n\n", headers=STREAM)),
        Bomb("JSON 9.9 million deep", ok(b"[" * 9_900_000, headers=JSON)),
        Bomb("JSON that is deep and closed", ok(b'{"a":' * 900_000 + b"1" + b"}" * 900_000, headers=JSON)),
        Bomb("a list of 3 million", ok(wide, headers=JSON)),
    ]


PLACES = ("http look", "http submit", "http cancel", "mcp look", "mcp session", "mcp submit", "aws look", "kept url", "kept call")
SMALL = {"aws look": 5_000_000}
"""Places with another size cap than the others."""


def _contract(base: str) -> Contract:
    document: dict[str, Json] = {
        **{"format": 1, "contract": "own", "version": 1, "title": "Own", "source": "a test", "verified": "verified"},
        "status": {"url": "{base}/{job_id}", "observational": "a test"},
        "state": {"path": "status"},
        "states": {"success": ["done"], "failure": ["failed"]},
        "submit": {"url": "{base}/jobs", "effects": "starts", "job_id": "id"},
        "cancel": {"url": "{base}/{job_id}/c", "effects": "ends"},
        "result": {"keep": {"from": "call", "url": "{base}/out", "max_bytes": 5_000_000}},
    }
    return Catalogue(()).contract(document)


class Child:
    """Everything that meets the bombs, over one gate."""

    def __init__(self, port: int, folder: Path) -> None:
        os.environ["BOMB_AWS"] = "AKIDEXAMPLE:secret-of-the-bombs"
        self.base = f"http://127.0.0.1:{port}"
        aws = CredentialConfig(self.base, SecretPlace(env="BOMB_AWS"), scheme="AWS4-HMAC-SHA256")
        self.gate: Gate = make_gate("127.0.0.1", credentials={"aws": aws}, environment=dict(os.environ))
        self.shipped = Catalogue(())
        self.contract = _contract(self.base)
        self.files = FileArtifacts(folder)

    def operation(self, number: int, kind: CallKind | None = None, **more: str) -> Operation:
        """An operation whose every address leads to the bomb of that number."""
        call = None if kind is None else ProviderCall("c", kind, "op_1:c", "k", {"name": "t"}, CallState.SENDING, NOW, attempts=1)
        base = f"{self.base}/{number}"
        return make_operation(url=base, account="", job_id="1", parameters={"base": base, **more}, call=call)

    async def meet(self, place: str, number: int, seconds: float) -> object:
        """Asks one place once, and reads what came as the engine would."""
        means = Guarded(self.gate, NOW, timedelta(seconds=seconds))
        kinds = {"submit": CallKind.SUBMIT, "cancel": CallKind.CANCEL}
        carrier, what = place.split(" ")
        if carrier == "kept":
            return await self._kept(what, number, means)
        name = {"mcp": "mcp-task" if what == "session" else "mcp-task-extension", "aws": "aws-batch"}.get(carrier)
        contract = self.contract if name is None else self.shipped.contract(self.shipped.document(name))
        provider = {"http": HttpProvider(), "mcp": McpProvider(), "aws": AwsProvider()}[carrier]
        operation = self.operation(number, kinds.get(what), region="us-east-1", session="new")
        if carrier == "aws":
            operation = replace(operation, account="aws")
        if operation.call is None:
            return await provider.look(operation, contract, means)
        reply: Reply = await provider.send(operation, contract, operation.call, means)
        return read_call(contract, operation, operation.call, reply, received_at=NOW)

    async def _kept(self, what: str, number: int, means: Guarded) -> object:
        async def pinned(_: str) -> Contract:
            return self.contract

        action = KeepResultAction({Via.HTTP: HttpProvider()}, pinned, self.files, means.total_deadline)
        job: dict[str, Json] = {
            **{"operation": "op_1", "contract_digest": "d" * 64, "account": "", "job_id": "1"},
            **{"url": f"{self.base}/{'done' if what == 'call' else number}", "pins": {}},
            "parameters": {"base": f"{self.base}/{number}"},
        }
        return await action.perform(delivery("keep_result", job), means)


async def child(port: int, plan: list[tuple[str, int, float]]) -> list[dict[str, object]]:
    """Meets every bomb of the plan in its place and measures itself against its state before the first."""
    facts: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        own = Child(port, Path(folder))
        for place in PLACES:  # models, parsers and the connection are there before the measuring starts
            await own.meet(place, -1, 5.0)
        ticker = Ticker()
        ticking = asyncio.ensure_future(ticker.run())
        start = memory("VmRSS")
        for place, number, seconds in plan:
            Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
            ticker.longest = ticker.passed = 0.0
            result = await own.meet(place, number, seconds)
            took = ticker.passed
            await asyncio.sleep(0.01)  # so that the ticker sees what this one stalled
            growth, status = memory("VmHWM") - start, getattr(result, "status", None)
            facts.append({"place": place, "bomb": number, "growth": growth, "took": took, "stall": ticker.longest})
            facts[-1]["says"] = str(status if isinstance(result, HttpReply) else getattr(result, "kind", result))[:80]
            del result
        left = [path for path in Path(folder).rglob("*") if path.is_file() and path.parent.name == "incoming"]
        assert left == [], left
        ticking.cancel()
        await own.gate.close()
    return facts


def speak(all_bombs: list[Bomb]) -> Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]:
    """Answers with the bomb that the first piece of the path names."""

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        first = request.split(b" ")[1].split(b"/")[1].decode()
        if first in ("done", "-1"):
            writer.write(DONE)
            return
        bomb = all_bombs[int(first)]
        writer.write(bomb.first)
        await writer.drain()
        while bomb.then:
            writer.write(bomb.then)
            await writer.drain()

    return answer


MOST_MEMORY = 64 << 20
"""Bytes: an answer of 10 MB, its largest event, and its JSON."""
MOST_STALL = 0.5
"""Seconds for reading one answer at its cap."""


@pytest.mark.timeout(600)
async def test_I28_bombs_at_calls_and_copies_stay_within_memory_time_and_stall() -> None:
    """Every bomb in every place that calls and copies ask: memory and stall bounded, over within the deadline and a little
    (incident 34)."""
    all_bombs, seconds = bombs(), 2.0
    plan = [(place, number, seconds) for place in PLACES for number in range(len(all_bombs))]
    async with RawServer(speak(all_bombs)) as server:
        environment = {**os.environ, "PYTHONPATH": f"{Path.cwd()}{os.pathsep}{Path.cwd() / 'src'}"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, str(server.port), json.dumps(plan), stdout=asyncio.subprocess.PIPE, env=environment
        )
        out, _ = await asyncio.wait_for(process.communicate(), 580)
    facts = json.loads(out)
    assert len(facts) == len(plan) == 90
    for fact in facts:
        fact["bomb"] = all_bombs[fact["bomb"]].name
        assert fact["growth"] <= MOST_MEMORY and fact["stall"] <= MOST_STALL and fact["took"] <= seconds + 4, fact


_TOKEN = "<r><DescribeStacksResult><NextToken>{}</NextToken></DescribeStacksResult></r>"
_DOCTYPE = '<?xml version="1.0" encoding="{}"?><!DOCTYPE x [<!ENTITY a "b">]>' + _TOKEN.format("&a;")
XML = {
    "5 MB of elements": b"<r>" + b"<a/>" * 1_200_000 + b"</r>",
    "1.6 million deep": b"<a>" * 1_600_000,
    "a DOCTYPE": _DOCTYPE.format("utf-8").encode(),
    "a DOCTYPE in UTF-16": _DOCTYPE.format("utf-16").encode("utf-16"),
    "a DOCTYPE in UTF-16 without mark": _DOCTYPE.format("utf-16be").encode("utf-16-be"),
}


@pytest.mark.parametrize("name", XML)
def test_I28_xml_that_would_grow_is_not_parsed(name: str) -> None:
    """It comes back as it is, at once: parsed, some took half a gigabyte. An ordinary answer is read."""
    about, tracked = service("cloudformation"), [("content-type", "text/xml")]
    reply = HttpReply(200, tracked, XML[name], "https://aws.example", timedelta(0))
    tracemalloc.start()
    try:
        assert about.parse("DescribeStacks", reply) is reply
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert about.parse("DescribeStacks", replace(reply, body=_TOKEN.format("x").encode())).body == b'{"NextToken": "x"}'


if __name__ == "__main__":
    print(json.dumps(asyncio.run(child(int(sys.argv[1]), json.loads(sys.argv[2])))))
