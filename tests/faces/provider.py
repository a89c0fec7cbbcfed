"""A provider on loopback with books of its own: takes jobs under a key, answers looks by a script, cancels."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import LoopbackServer

CONTRACT = """
format = 1
contract = "acme"
version = 1
title = "Acme render"
source = "a test"
verified = "verified: all of it, by its own test"

[status]
url = "{base}/jobs/{job_id}"
observational = "the test's own server only reads"

[state]
path = "status"

[states]
pending = ["queued", "running"]
success = ["done"]
failure = ["failed"]
cancelled = ["canceled"]

[job]
id = "id"

[error]
text = "error"

[delays]
first = "1s"
base = "2s"
max = "4s"
answer_within = "1s"

[limits]
deadline = "10h"
requests = 20
transport_failures = 3
throttles = 3

[submit]
method = "POST"
url = "{base}/jobs"
effects = "starts a render; billed by the minute"
job_id = "id"
first = "1s"
"""
IDEMPOTENT = """
[submit.idempotency]
place = "header"
name = "Idempotency-Key"
duplicate = "replay"
window = "24h"
"""
CANCEL = """
[cancel]
method = "POST"
url = "{base}/jobs/{job_id}/cancel"
effects = "ends as canceled; what ran is billed"
"""
PUSHED = """
format = 1
contract = "caller"
version = 1
title = "Calls back"
source = "a test"
verified = "verified: all of it, by its own test"

[status]
via = "push"

[state]
path = "status"

[states]
pending = ["queued"]
success = ["done"]
failure = ["failed"]

[job]
id = "id"

[limits]
deadline = "10h"
"""


@dataclass
class Books:
    """What reached the provider, in order, and what it answers."""

    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and idempotency key."""
    bodies: list[Any] = field(default_factory=list)
    script: list[str] = field(default_factory=lambda: ["queued", "running", "done"])
    """The words of the looks at each job; the last one stays."""
    extra: list[dict[str, str]] = field(default_factory=list)
    """More fields of the answer, look by look; the last ones stay."""
    submit_status: int = 201
    looks: dict[str, int] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    keys: dict[str, str] = field(default_factory=dict)
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Sent with the answer to each look."""

    def sent(self, method: str) -> list[tuple[str, str, str | None]]:
        """The requests of one method."""
        return [request for request in self.requests if request[0] == method]


class _Answers(BaseHTTPRequestHandler):
    """Answers by the books of its provider."""

    books: Books

    def do_GET(self) -> None:
        self.books.requests.append(("GET", self.path, None))
        job = self.path.rpartition("/")[2]
        look = self.books.looks.get(job, 0)
        self.books.looks[job] = look + 1
        word = "canceled" if job in self.books.cancelled else self.books.script[min(look, len(self.books.script) - 1)]
        more = self.books.extra[min(look, len(self.books.extra) - 1)] if self.books.extra else {}
        self._answer(200, {"id": job, "status": word, "error": "out of paper" if word == "failed" else None, **more})

    def do_POST(self) -> None:
        key = self.headers.get("Idempotency-Key")
        self.books.requests.append(("POST", self.path, key))
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path.endswith("/cancel"):
            self.books.cancelled.add(self.path.split("/")[-2])
            return self._answer(202, {})
        self.books.bodies.append(json.loads(body))
        if self.books.submit_status >= 300:
            return self._answer(self.books.submit_status, {"error": "not this one"})
        job = self.books.keys.setdefault(key or f"none-{len(self.books.keys)}", f"job-{len(self.books.keys) + 1}")
        return self._answer(self.books.submit_status, {"id": job, "status": "queued"})

    def _answer(self, status: int, body: object) -> None:
        sent = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        for name, value in self.books.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps quiet."""


class Provider:
    """The server."""

    def __init__(self) -> None:
        self.books = Books()
        answers = type("Answers", (_Answers,), {"books": self.books})
        self._server = LoopbackServer(answers)
        self.base = f"http://127.0.0.1:{self._server.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
