"""The world outside the workers: a provider, sources and a receiver in one process, which keep their own books."""

import asyncio
import json
import socket
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from sereno.core.values import digest
from sereno.testing.killing.options import Options, life_of

CHANGE_EVERY_S = 0.12
"""How often one of the watched documents gains an item."""
_REASONS = {200: "OK", 304: "Not Modified", 503: "Service Unavailable"}


@dataclass(slots=True)
class Entry:
    """One request in the book: when it was read whole, from which worker's life, and how it ended (`answered`, `broke`, or reset by us)."""

    number: int
    kind: str
    subject: str
    life: int
    at: float
    status: int = 0
    answered: float | None = None
    broke: float | None = None


@dataclass(slots=True)
class Books:
    """What provider, sources and receiver know."""

    entries: list[Entry] = field(default_factory=list)
    items: dict[str, list[float]] = field(default_factory=dict)
    """By watched document: when each of its items appeared."""
    looks: Counter[str] = field(default_factory=Counter)
    keys: dict[str, str] = field(default_factory=dict)
    """By idempotency key: the digest of message id and body that came with it first."""
    repeats: Counter[str] = field(default_factory=Counter)
    started: dict[str, list[str]] = field(default_factory=dict)
    """By what was submitted: the key of each request, in order; without a key ''."""
    jobs: dict[str, list[str]] = field(default_factory=dict)
    """By what was submitted: the jobs that were started for it."""
    effects: Counter[str] = field(default_factory=Counter)
    """By what a message is about: how often it took effect. A key that is known takes no effect."""
    other_bodies: list[str] = field(default_factory=list)
    """Keys that came back with another message."""
    lag_s: float = 0.0
    """By how much this process was woken too late at worst: how starved the machine was."""

    def written(self) -> dict[str, Any]:
        """The books as JSON."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "entries": [asdict(entry) for entry in self.entries]}


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back, or `reset` after reading."""

    status: int = 200
    body: bytes = b""
    headers: str = ""
    reset: bool = False


class Outside:
    """The rules behind the routes. Once `calm`, there are no faults and no changes."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.books = Books()
        self.dice = Random(f"outside:{options.seed}")
        self.calm = False
        for number in range(options.polls):
            self.books.items[f"p{number}"] = [time.time()]

    def delay(self) -> float:
        """Seconds until the answer; quick once calm."""
        return self.dice.uniform(0.0, 0.05 if self.calm else self.options.slowest_s)

    def change(self) -> None:
        """Adds an item to one document."""
        self.books.items[self.dice.choice(list(self.books.items))].append(time.time())

    def answer(self, kind: str, subject: str, headers: dict[str, str], body: bytes) -> Answer:
        """Decides the answer of one request that was read whole."""
        if kind == "hook":
            return self._receive(headers, body)
        if kind == "submit":
            return self._start(headers, body)
        if not self.calm and self.dice.random() < 0.03:
            return Answer(reset=True)
        if not self.calm and self.dice.random() < (0.06 if kind == "jobs" else 0.01):
            return Answer(503, b"busy", "retry-after: 1\r\n")
        return self._job(subject) if kind == "jobs" else self._document(subject, headers)

    def _start(self, headers: dict[str, str], body: bytes) -> Answer:
        """Starts a job; a known key is answered with the job it has. Now and then the answer is lost after that."""
        name, key = str(json.loads(body)["name"]), headers.get("idempotency-key", "")
        known, jobs = self.books.started.setdefault(name, []), self.books.jobs.setdefault(name, [])
        if not key or key not in known:
            jobs.append(f"end2-{name}.{len(jobs)}")
        known.append(key)
        if not self.calm and self.dice.random() < self.options.lost_answers:
            return Answer(reset=True)
        return Answer(body=json.dumps({"id": jobs[-1], "status": "running"}).encode())

    def _job(self, subject: str) -> Answer:
        """Jobs are named by what they do: `end5-3` succeeds at the fifth look, all others run on for ever."""
        self.books.looks[subject] += 1
        ends = subject.startswith("end") and self.books.looks[subject] >= int(subject[3:].partition("-")[0])
        document: dict[str, Any] = {"id": subject, "status": "done" if ends else "running"}
        if ends:
            document["result"] = f"http://127.0.0.1/results/{subject}"
        return Answer(body=json.dumps(document).encode())

    def _document(self, subject: str, headers: dict[str, str]) -> Answer:
        items = self.books.items[subject]
        tag = f'"{len(items)}"'
        if headers.get("if-none-match") == tag:
            return Answer(304, headers=f"etag: {tag}\r\n")
        document = {"items": [{"id": f"{subject}-{number}", "note": f"note {number}"} for number in range(len(items))]}
        return Answer(body=json.dumps(document).encode(), headers=f"etag: {tag}\r\n")

    def _receive(self, headers: dict[str, str], body: bytes) -> Answer:
        """An idempotent receiver: the first arrival of a key takes effect, every later one is answered and does nothing."""
        key, message = headers.get("idempotency-key", ""), digest(headers.get("webhook-id", "").encode() + body)
        if key in self.books.keys:
            self.books.repeats[key] += 1
            if self.books.keys[key] != message:
                self.books.other_bodies.append(key)
            return Answer(body=b"{}")
        self.books.keys[key] = message
        data = json.loads(body)["data"]
        self.books.effects[f"{data['subject']} {data['object'] or data['title']}"] += 1
        lost = not self.calm and self.dice.random() < self.options.lost_answers
        return Answer(reset=True) if lost else Answer(body=b"{}")


class Line(asyncio.Protocol):
    """One connection: HTTP/1.1 with keep-alive, as little of it as our own client needs."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._received = b""
        self._open: list[Entry] = []
        self._life = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Notes which worker's life this is."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._life = life_of(transport.get_extra_info("peername")[0])

    def connection_lost(self, error: Exception | None) -> None:
        """Writes into the book what was still open."""
        for entry in self._open:
            entry.broke = time.time()
        self._open.clear()

    def data_received(self, data: bytes) -> None:
        """Takes whole requests off what has come."""
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, rest = self._received.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            length = int(headers.get("content-length", "0"))
            if len(rest) < length:
                return
            self._received = rest[length:]
            self._take(first.split(" ")[1], headers, rest[:length])

    def _take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        kind, _, subject = path.strip("/").partition("/")
        books = self._outside.books
        entry = Entry(len(books.entries), kind, subject or headers.get("idempotency-key", ""), self._life, time.time())
        books.entries.append(entry)
        answer = self._outside.answer(kind, subject, headers, body)
        self._open.append(entry)
        asyncio.get_running_loop().call_later(self._outside.delay(), self._send, entry, answer)

    def _send(self, entry: Entry, answer: Answer) -> None:
        if entry not in self._open:
            return
        self._open.remove(entry)
        if answer.reset:
            self._transport.abort()
            return
        head = f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\ncontent-type: application/json\r\nx-request-id: {entry.number}\r\n"
        length = "" if answer.status == 304 else f"content-length: {len(answer.body)}\r\n"
        self._transport.write(f"{head}{length}{answer.headers}\r\n".encode() + answer.body)
        entry.status, entry.answered = answer.status, time.time()


async def serve(options: Options, listening: socket.socket, control: socket.socket) -> None:
    """Serves until the control line ends. `calm` ends all faults; `books` answers one line of JSON."""
    outside = Outside(options)
    server = await asyncio.get_running_loop().create_server(lambda: Line(outside), sock=listening, backlog=500)
    changes = asyncio.get_running_loop().create_task(_changes(outside))
    reader, writer = await asyncio.open_unix_connection(sock=control)
    while word := (await reader.readline()).strip():
        if word == b"calm":
            outside.calm = True
            writer.write(b"ok\n")
        else:
            writer.write(json.dumps(outside.books.written()).encode() + b"\n")
        await writer.drain()
    changes.cancel()
    server.close()


async def _changes(outside: Outside) -> None:
    while not outside.calm:
        before = time.monotonic()
        await asyncio.sleep(CHANGE_EVERY_S)
        outside.books.lag_s = max(outside.books.lag_s, time.monotonic() - before - CHANGE_EVERY_S)
        outside.change()
