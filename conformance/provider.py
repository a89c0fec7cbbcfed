"""The scripted provider: an HTTP server on loopback that plays a scenario in a dialect, and keeps a book of every request.

It runs in the process of the waiter and in its virtual time. `quiet` and `due` say exactly whether it has anything to do, so that the
clock can jump without a guess. The second server, on another address, plays the host that nobody should be led to.
"""

import json
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conformance.bodies import HUGE, body_of, header_value, http_date
from conformance.clock import CLOCK
from conformance.dialects.speech import Answer, Dialect, Moment, Request
from conformance.scenario import Scenario, Step

MAIN, OTHER = "127.0.0.1", "127.0.0.2"
PHRASES = {
    200: "OK",
    201: "Created",
    202: "Accepted",
    204: "No Content",
    302: "Found",
    404: "Not Found",
    429: "Too Many Requests",
}
LONGEST_REQUEST = 1 << 20
DRIP_S = 20.0
"""Virtual seconds between two bytes of a dripping answer."""
DRIPS = 60
"""Blanks that a dripping answer begins with."""


class Gone(Exception):
    """The connection is to be dropped without a further word."""


@dataclass(slots=True)
class Progress:
    """How far the script has come; written down with the book, so that it survives the waiter's process."""

    step: int = 0
    served: int = 0
    looks: int = 0
    jobs: dict[str, str] | None = None


class Provider:
    """Plays one scenario. `on_look` runs when a look was written into the book, before it is answered."""

    def __init__(self, scenario: Scenario, dialect: Dialect, *, key: str, book: Path, on_look: Callable[[int], None]) -> None:
        self._scenario, self._dialect, self._key, self._book, self._on_look = scenario, dialect, key, book, on_look
        self._lock = threading.RLock()
        self._busy = 0
        self._dues: dict[int, float] = {}
        self._open: list[socket.socket] = []
        self._listeners: list[socket.socket] = []
        self.progress = self._recall()
        self.job = "job-41"

    def _recall(self) -> Progress:
        progress = Progress(jobs={})
        if self._book.exists():
            for line in self._book.read_text().splitlines():
                entry = json.loads(line)
                if entry["kind"] == "look":
                    progress.step, progress.served, progress.looks = entry["step"], entry["served"] + 1, entry["n"]
        return progress

    def open(self, ports: tuple[int, int] = (0, 0)) -> tuple[int, int]:
        """Listens on both addresses; answers their ports."""
        found = []
        for address, port in zip((MAIN, OTHER), ports, strict=True):
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(64)
            self._listeners.append(listener)
            found.append(listener.getsockname()[1])
            threading.Thread(target=self._accept, args=(listener, address), daemon=True).start()
        self.bases = f"http://{MAIN}:{found[0]}", f"http://{OTHER}:{found[1]}"
        return found[0], found[1]

    def quiet(self) -> bool:
        """Nothing came that is not read, and nothing was read that is not answered, but for answers that are owed later."""
        with self._lock:
            if self._busy > len(self._dues) or any(due <= CLOCK.now() for due in self._dues.values()):
                return False
            return not select.select([*self._open, *self._listeners], [], [], 0)[0]

    def due(self) -> float | None:
        """The instant of the next answer that is owed."""
        with self._lock:
            return min(self._dues.values(), default=None)

    # --- connections ---

    def _accept(self, listener: socket.socket, address: str) -> None:
        while True:
            select.select([listener], [], [])
            with self._lock:
                peer, _ = listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.append(peer)
            threading.Thread(target=self._serve, args=(peer, address), daemon=True).start()

    def _serve(self, peer: socket.socket, address: str) -> None:
        kept = b""
        while True:
            select.select([peer], [], [])
            with self._lock:
                self._busy += 1
                self._open.remove(peer)
            try:
                request, kept = self._read(peer, kept)
                self._answer(peer, request, address)
            except (Gone, OSError):
                with self._lock:
                    peer.close()
                    self._busy -= 1
                return
            with self._lock:
                self._open.append(peer)
                self._busy -= 1

    def _read(self, peer: socket.socket, kept: bytes) -> tuple[Request, bytes]:
        while b"\r\n\r\n" not in kept:
            kept += _more(peer)
        head, _, rest = kept.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body, rest = _chunks(peer, rest)
        else:
            length = int(headers.get("content-length", "0"))
            while len(rest) < length:
                rest += _more(peer)
            body, rest = rest[:length], rest[length:]
        method, path, _ = first.split(" ", 2)
        return Request(method, path, headers, body), rest

    # --- answers ---

    def _answer(self, peer: socket.socket, request: Request, address: str) -> None:
        kind = self._dialect.kind(request) if address == MAIN else "other-host"
        step, number = self._note(kind, request)
        if kind == "look":
            self._on_look(number)
            self._look(peer, request, step, number)
        elif kind == "submit":
            self._submit(peer, request, step)
        elif kind == "other-host":
            lure = Step(say="succeeded")
            self._send(peer, self._dialect.look(self._moment(request, lure)), lure)
        else:
            calm = Step(say="running")
            self._send(peer, self._dialect.other(self._moment(request, calm)), calm)

    def _note(self, kind: str, request: Request) -> tuple[Step, int]:
        """Writes the book and moves the script on. The line is on disk before anything is answered."""
        with self._lock:
            now, steps, progress = CLOCK.now(), self._scenario.steps, self.progress
            moved = True
            while moved:
                step = steps[progress.step]
                moved = (step.until is not None and now >= step.until) or (
                    step.looks is not None and kind == "look" and progress.served >= step.looks
                )
                if moved:
                    progress.step, progress.served = progress.step + 1, 0
            carried = " ".join([*request.headers.values(), request.path, request.body.decode("latin-1")])
            entry: dict[str, Any] = {"t": round(now, 3), "kind": kind, "credential": self._key in carried}
            if kind == "look":
                progress.looks += 1
                entry |= {"n": progress.looks, "step": progress.step, "served": progress.served}
                progress.served += 1
            if kind in ("other", "other-host"):
                entry["path"] = request.path[:200]
            if kind == "submit":
                entry["key"] = self._dialect.submit_key(request)
            with self._book.open("a") as book:
                book.write(json.dumps(entry) + "\n")
            return steps[progress.step], progress.looks

    def _moment(self, request: Request, step: Step) -> Moment:
        return Moment(self.job, self.bases[0], CLOCK.now(), step, request)

    def _look(self, peer: socket.socket, request: Request, step: Step, number: int) -> None:
        if step.late:
            self._owe(peer, step.late)
        if step.fault in ("reset", "close"):
            _drop(peer, hard=step.fault == "reset")
        moment = self._moment(request, step)
        if step.redirect:
            places = {
                "other-host": f"{self.bases[1]}{request.path}",
                "loop": f"{self.bases[0]}{request.path.split('?')[0]}?hop={number}",
                "same-host": f"{self.bases[0]}{request.path.split('?')[0]}?moved=1",
            }
            self._send(peer, Answer({}, {"Location": places[step.redirect]}, 302), step)
        elif step.say is None and step.status is not None and step.status >= 400:
            self._send(peer, self._dialect.failure(moment, step.status), step)
        else:
            answer = self._dialect.look(moment)
            self._send(peer, replace(answer, status=step.status or answer.status), step)

    def _submit(self, peer: socket.socket, request: Request, step: Step) -> None:
        trouble = self._scenario.submit
        if trouble == "slow":
            self._owe(peer, 1200.0)
        if trouble == "lost":
            _drop(peer, hard=True)
        moment = self._moment(request, Step(say="running"))
        if trouble == "refused":
            self._send(peer, self._dialect.failure(moment, 403), Step(say="running"))
            return
        if self._scenario.status_host:
            moment = replace(moment, base=self.bases[1])
        self._send(peer, self._dialect.submit(moment), Step(say="running"))

    def _owe(self, peer: socket.socket, seconds: float) -> None:
        """Holds the answer back for so long, in virtual time; gives up when the other side does."""
        me, due = threading.get_ident(), CLOCK.now() + seconds
        with self._lock:
            self._dues[me] = due
        try:
            while CLOCK.now() < due:
                if select.select([peer], [], [], 0.0005)[0] and not peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    raise Gone
        finally:
            with self._lock:
                del self._dues[me]

    def _send(self, peer: socket.socket, answer: Answer, step: Step) -> None:
        headers = {"Content-Type": "application/json", "Date": http_date(CLOCK.now()), **answer.headers}
        body = json.dumps(answer.body).encode()
        if step.body is not None:
            body, spoiled = body_of(step.body, answer.body) if step.body != "duplicate" else (_doubled(body), {})
            headers |= spoiled
        if step.fault == "drip":
            body = b" " * DRIPS + body
        if answer.status in (204, 304):
            body = b""
        headers |= {name: header_value(value, CLOCK.now()) for name, value in step.headers.items()}
        length = len(body) + 200 if step.fault == "cut" else len(body)
        head = f"HTTP/1.1 {answer.status} {PHRASES.get(answer.status, 'Answer')}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + f"Content-Length: {length}\r\n\r\n"
        if step.body == "huge":
            self._flood(peer, head.replace(f"Content-Length: {length}", f"Content-Length: {HUGE}"))
            return
        self._write(peer, head.encode("utf-8"))
        if step.fault == "drip":
            for place in range(len(body)):
                self._write(peer, body[place : place + 1])
                self._owe(peer, DRIP_S)
            return
        self._write(peer, body)
        if step.fault == "cut":
            _drop(peer, hard=False)

    def _flood(self, peer: socket.socket, head: str) -> None:
        """A huge answer, piece by piece, so that it is the waiter that has to hold it."""
        start, end, piece = b'{"log": "', b'"}', b"x" * (1 << 16)
        self._write(peer, head.encode() + start)
        left = HUGE - len(start) - len(end)
        while left:
            self._write(peer, piece[:left])
            left -= min(left, len(piece))
        self._write(peer, end)

    def _write(self, peer: socket.socket, text: bytes) -> None:
        view = memoryview(text)
        while view:
            view = view[os.write(peer.fileno(), view[: 1 << 16]) :]


def _more(peer: socket.socket) -> bytes:
    got = os.read(peer.fileno(), 65536)
    if not got:
        raise Gone
    return got


def _chunks(peer: socket.socket, rest: bytes) -> tuple[bytes, bytes]:
    body = b""
    while True:
        while b"\r\n" not in rest:
            rest += _more(peer)
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        while len(rest) < length + 2:
            rest += _more(peer)
        body, rest = body + rest[:length], rest[length + 2 :]
        if length == 0:
            return body, rest


def _drop(peer: socket.socket, *, hard: bool) -> None:
    if hard:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise Gone


def _doubled(body: bytes) -> bytes:
    """The same object with the state said a second time, differently, so that the last one wins in a careless parser."""
    text = body.decode()
    for mark in ("succeeded", "Succeeded", "COMPLETED", "completed", "JOB_STATE_SUCCEEDED"):
        if f'"{mark}"' in text:
            place = text.rindex(f'"{mark}"')
            name = text[: place - 2].rsplit('"', 2)[1]
            return (text[:place] + f'"nothing", "{name}": "{mark}"' + text[place + len(mark) + 2 :]).encode()
    return body[:-1] + b', "done": false, "done": true}'


def lines(book: Path) -> list[Mapping[str, Any]]:
    """The book as it was written."""
    return [json.loads(line) for line in book.read_text().splitlines()] if book.exists() else []
