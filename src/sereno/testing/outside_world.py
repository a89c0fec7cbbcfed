"""The simulated world outside: a provider, a source and a receiver with faults, each with books of its own."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from sereno.core.change import FailedReading, ReadFailure, Reading, SourceObject
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.effect import Policy
from sereno.core.errors import Fault, LeaseLost
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.operation import KEEP_RESULT
from sereno.core.values import Json, canonical, digest
from sereno.ports import Clock, Fetch, Guarded, Place
from sereno.testing.simulated_orders import HOST, Order

ODD: Mapping[str, Json] = {"id": "job-of-another", "status": "done", "result": "https://sim.example/results/other"}
"""An answer about another job: a person is asked."""


class SimulatedCrash(BaseException):
    """A worker's process ended here. Nothing catches it."""


@dataclass
class Job:
    """One job with the provider's own book of the requests that reached it and what it answered."""

    id: str
    words: Sequence[str]
    sent_at: list[datetime] = field(default_factory=list)
    not_before: list[tuple[datetime, datetime]] = field(default_factory=list)
    """(when a Retry-After answer was received, the instant it forbade requests before)."""
    cancelled_at: list[datetime] = field(default_factory=list)
    """Cancels that were taken."""


@dataclass
class Books:
    """What the outside world knows."""

    jobs: dict[str, Job] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    """At the idempotent receiver: how often each key took effect."""
    kept: Counter[str] = field(default_factory=Counter)
    """How often the result of each operation was kept."""
    arrivals: Counter[str] = field(default_factory=Counter)
    """How often each key arrived."""
    rises: int = 0
    faults: Counter[str] = field(default_factory=Counter)


class SimulatedTransport:
    """Seam 3 in the simulation: the provider answers here, with faults."""

    def __init__(self, books: Books, clock: Clock, dice: Random, *, faults: Callable[[], bool], crash: Callable[[str], None]):
        self._books, self._clock, self._dice, self._faults, self._crash = books, clock, dice, faults, crash

    async def fetch(self, request: Fetch) -> Reply:
        """Waits for the network, lets the send guard judge, then writes the book."""
        await self._clock.sleep(self._dice.uniform(0.01, 0.2))
        if request.before_first_byte is not None:
            try:
                await request.before_first_byte()
            except LeaseLost as error:
                return NoReply(NoReplyKind.CANCELLED, error.message, sent=False)
        self._crash("wire.before")
        kind, _, subject = request.url.removeprefix(f"https://{HOST}/").partition("/")
        if kind == "submit":
            return await self._submit(request)
        job = self._books.jobs[subject]
        return await (self._cancel(job, request) if kind == "cancel" else self._look(job, request))

    async def _look(self, job: Job, request: Fetch) -> Reply:
        job.sent_at.append(self._clock.now())
        self._crash("wire.sent")
        fault = self._dice.choice(("reset", "timeout", "busy", "page", "late", "odd")) if self._faults() else None
        if fault is not None:
            self._books.faults[fault] += 1
            return await self._faulty(fault, job, request)
        await self._clock.sleep(self._dice.uniform(0.01, 1.0))
        word = "cancelled" if job.cancelled_at else job.words[min(len(job.sent_at), len(job.words)) - 1]
        body: dict[str, object] = {"id": job.id, "status": word}
        if word == "done":
            body["result"] = f"https://{HOST}/results/{job.id}"
        elif word == "running" and self._dice.random() < 0.1:
            body["moved_to"] = f"/moved/{job.id}"
        return self._answer(200, canonical(body), request)

    async def _submit(self, request: Fetch) -> Reply:
        """Takes a job on, once a key where there is one; the answer may be lost."""
        body = request.body or b""
        ref = str(json.loads(body)["ref"])
        key = next((value for name, value in request.headers.items() if name.lower() == "idempotency-key"), "")
        order = self._books.orders.setdefault(ref, Order(ref))
        order.arrivals.append(self._clock.now())
        order.keys.add(key)
        order.bodies.add(body)
        if not key or not order.jobs:
            job = Job(
                f"{ref}-{len(order.jobs)}", ["queued", "running", "running", self._dice.choice(("done", "broken", "running"))]
            )
            order.jobs.append(job.id)
            self._books.jobs[job.id] = job
        self._crash("submit.took")
        return await self._taken({"id": order.jobs[0]}, request)

    async def _cancel(self, job: Job, request: Fetch) -> Reply:
        job.cancelled_at.append(self._clock.now())
        self._crash("cancel.took")
        return await self._taken({"id": job.id}, request)

    async def _taken(self, body: Mapping[str, object], request: Fetch) -> Reply:
        await self._clock.sleep(self._dice.uniform(0.01, 1.0))
        if self._faults():
            self._books.faults["lost call"] += 1
            return NoReply(NoReplyKind.RESET, "connection reset", sent=True)
        return self._answer(202, canonical(dict(body)), request)

    async def _faulty(self, fault: str, job: Job, request: Fetch) -> Reply:
        if fault == "reset":
            return NoReply(NoReplyKind.RESET, "connection reset", sent=True)
        if fault == "timeout":
            await self._clock.sleep(request.total_deadline.total_seconds())
            return NoReply(NoReplyKind.TIMEOUT, "no answer in time", sent=True)
        if fault == "odd" and job.id.startswith("sim-"):
            return self._answer(200, canonical(dict(ODD)), request)
        if fault in ("page", "odd"):
            return self._answer(502, b"<html>bad gateway</html>", request, ("content-type", "text/html"))
        seconds = self._dice.choice((1, 7, 30))
        now = self._clock.now()
        job.not_before.append((now, now + timedelta(seconds=seconds)))
        return self._answer(503 if fault == "busy" else 429, b"{}", request, ("retry-after", str(seconds)))

    def _answer(self, status: int, body: bytes, request: Fetch, *headers: tuple[str, str]) -> HttpReply:
        kept = headers if any(name == "content-type" for name, _ in headers) else (*headers, ("content-type", "application/json"))
        return HttpReply(status, kept, body, request.url, timedelta(seconds=1))

    async def close(self) -> None:
        """Nothing to close."""


class SimulatedSource:
    """A source with one number that rises and falls; the books count its rises above the line."""

    type = "sim"

    def __init__(self, books: Books, clock: Clock, dice: Random, *, faults: Callable[[], bool]):
        self._books, self._clock, self._dice, self._faults = books, clock, dice, faults
        self._number = 0
        self._version = 0

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Everything is right."""
        return ()

    def place(self, options: Mapping[str, Json]) -> Place:
        """One host for all."""
        return Place(f"host:{HOST}", str(options.get("url")))

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        """Reads the number, or fails."""
        await self._clock.sleep(self._dice.uniform(0.01, 0.5))
        if self._faults():
            self._books.faults["read"] += 1
            return FailedReading(ReadFailure.UNREACHABLE, "no route")
        if self._dice.random() < 0.3:
            self._version += 1
        text = f"version {self._version}"
        return Reading(
            [SourceObject("number", digest(text.encode()), {"version": self._version})], cursor=str(self._version), requests=1
        )


class SimulatedReceiver:
    """An action towards a receiver that honours keys; its answers get lost. As `keep_result` it is the place of kept results."""

    type = "sim"
    default_policy = Policy.KEYED

    def __init__(self, books: Books, clock: Clock, dice: Random, *, faults: Callable[[], bool], crash: Callable[[str], None]):
        self._books, self._clock, self._dice, self._faults, self._crash = books, clock, dice, faults, crash

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Everything is right."""
        return ()

    def place(self, options: Mapping[str, Json]) -> Place:
        """Inside."""
        return Place("local:sim", "sim")

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Takes the effect once a key, and may lose the answer."""
        key = delivery.effect.dedupe_key
        self._books.arrivals[key] += 1
        if self._books.arrivals[key] == 1:
            self._books.effects[key] += 1
            self._books.kept[delivery.effect.subject] += delivery.effect.action.type == KEEP_RESULT
        self._crash("receiver.took")
        await self._clock.sleep(self._dice.uniform(0.01, 0.5))
        if self._faults():
            self._books.faults["lost answer"] += 1
            return Outcome(OutcomeKind.UNKNOWN, "the answer was lost")
        return Outcome(OutcomeKind.DONE)
