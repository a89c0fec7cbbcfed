"""The other side of a process test: provider, source and receiver on loopback, with books of their own and a clock that nobody fakes."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One request that was read whole: monotonic and wall time, what it was about, which worker sent it (`X-Worker`), its key."""

    at: float
    wall: float
    kind: str
    subject: str
    worker: str
    key: str = ""
    body: bytes = b""


class World:
    """`GET /docs/NAME` lists items, `GET /jobs/NAME` says how a job stands, `POST /hook` takes a message, `POST /start` a new job.

    A job named `end3-…` is done at its third look, one named `wait5-…` asks for five seconds between two looks, all others run on until
    they are in `done`.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.items: dict[str, int] = {}
        self.done: set[str] = set()
        self.slow_s = 0.0
        """How long an answer about a job takes."""
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _answering(self))
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Ends the server."""
        self._woken.set()
        self._server.shutdown()
        self._server.server_close()

    def add(self, name: str, count: int = 1) -> None:
        """Adds items to a document."""
        with self._lock:
            self.items[name] = self.items.get(name, 0) + count

    def seen(self, kind: str, subject: str | None = None, *, worker: str | None = None) -> list[Entry]:
        """The requests of one kind, in order; about one subject, from one worker."""
        with self._lock:
            return [
                one
                for one in self.entries
                if one.kind == kind and subject in (None, one.subject) and worker in (None, one.worker)
            ]

    def count(self, kind: str, subject: str | None = None) -> int:
        """How many of them there are."""
        return len(self.seen(kind, subject))

    def effects(self) -> Counter[str]:
        """What a receiver that honours keys did: each thing told, counted once a key."""
        first: dict[str, str] = {}
        for one in self.seen("hook"):
            first.setdefault(one.key, one.subject)
        return Counter(first.values())

    def told(self) -> Counter[str]:
        """What a receiver without keys did: each thing told, counted for each arrival."""
        return Counter(one.subject for one in self.seen("hook"))

    def note(self, entry: Entry) -> int:
        """Writes the book; answers how many requests about the same there were by now."""
        with self._lock:
            self.entries.append(entry)
            return sum(one.kind == entry.kind and one.subject == entry.subject for one in self.entries)

    def pause(self) -> None:
        """Lets an answer about a job take its time."""
        self._woken.wait(self.slow_s)

    def document(self, name: str) -> dict[str, Any]:
        """A watched document as it stands now."""
        with self._lock:
            count = self.items.get(name, 0)
        return {"items": [{"id": f"{name}-{number}", "note": f"note {number}"} for number in range(count)]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 200

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A process that was killed or stopped in the middle of its request is what these tests are about."""


def _job(name: str, looks: int, done: set[str]) -> tuple[dict[str, Any], dict[str, str]]:
    word, _, _ = name.partition("-")
    over = name in done or (word.startswith("end") and looks >= int(word[3:]))
    headers = {"retry-after": word[4:]} if word.startswith("wait") else {}
    document = {"id": name, "status": "done" if over else "running"}
    return ({**document, "result": "http://127.0.0.1/results/x"} if over else document), headers


def _subject(kind: str, rest: str, body: bytes) -> str:
    """What a request is about: the path, or what the message says."""
    if kind != "hook":
        return rest
    try:
        said = json.loads(body)
    except ValueError:
        return "?"
    about = said["data"]
    return str(about["object"] or about["subject"])


def _answering(world: World) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            kind, name, looks = self._entered(b"")
            if kind == "jobs":
                world.pause()
                self._send(*_job(name, looks, world.done))
            else:
                self._send(world.document(name), {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            self._entered(body)
            self._send({"id": "run-started", "status": "running"}, {})

        def _entered(self, body: bytes) -> tuple[str, str, int]:
            kind, _, rest = self.path.strip("/").partition("/")
            key, worker = self.headers.get("idempotency-key", ""), self.headers.get("x-worker", "")
            subject = _subject(kind, rest, body)
            looks = world.note(Entry(time.monotonic(), time.time(), kind, subject, worker, key, body))
            return kind, rest, looks

        def _send(self, document: dict[str, Any], headers: dict[str, str]) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            for name, value in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            return None

    return Answering


def until(holds: Callable[[], bool], seconds: float, what: str, *, every: float = 0.05) -> float:
    """Polls a condition of a real process; answers how long it took. Raises AssertionError at the deadline."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"{what} did not come within {seconds:g} s")
        time.sleep(every)
    return time.monotonic() - began
