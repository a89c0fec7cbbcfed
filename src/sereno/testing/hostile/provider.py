"""The hostile provider: jobs, submits, cancels, faults by the dice, and a book of all that reached it."""

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from urllib.parse import urlsplit

from sereno.core.errors import LeaseLost
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.ports import Clock, Fetch
from sereno.testing.hostile.contracts import KEYED
from sereno.testing.hostile.faults import FAULTS, Page
from sereno.testing.hostile.options import BASE, Hostile
from sereno.testing.hostile.waits import Wait, draw_hint, draw_wait

_ENDINGS = ("done", "done", "done", "failed", "cancelled", "expired", "running")

_LOST = {
    "lost before": Page(lost=NoReplyKind.RESET),
    "lost after": Page(lost=NoReplyKind.TIMEOUT, seconds=None),
    "500 after": Page(500, b"oops", "text/plain"),
}
"""Answers to a submit that leave it in doubt."""
_UNDONE = {
    "lost before": _LOST["lost before"],
    "429": Page(429, b"{}"),
    "denied": Page(403, b"{}"),
    "refused": Page(422, b"{}"),
}
"""Answers to a submit after which no job was started."""
_SUBMIT_FAULTS = (*_LOST, "429", "refused", "denied", "away", "nameless")


@dataclass(slots=True)
class Look:
    """One status request in the book: when it came, when it was answered, and what with."""

    at: datetime
    fault: str | None = None
    stops: bool = False
    ends_as: str | None = None
    answered: datetime | None = None


@dataclass(slots=True)
class Job:
    """One job with its page in the book."""

    id: str
    ref: str
    ends_at: datetime
    word: str
    hostility: float
    looks: list[Look] = field(default_factory=list)
    waits: list[tuple[datetime, datetime]] = field(default_factory=list)
    """(answered, until): a Retry-After that can be believed, and the instant before which no request may come."""
    cancelled: list[datetime] = field(default_factory=list)
    """Cancels that may have been taken."""


@dataclass(slots=True)
class Ordered:
    """One operation's submits in the book."""

    ref: str
    keys: set[str] = field(default_factory=set)
    bodies: set[bytes] = field(default_factory=set)
    arrivals: list[datetime] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    """The jobs that were really started."""
    doubt: datetime | None = None
    """When an answer was first lost: whoever honours no keys may not be asked again after it."""
    waits: list[tuple[datetime, datetime]] = field(default_factory=list)


class HostileProvider:
    """Seam 3: answers on virtual time. Nothing happens between the send guard and the entry in the book."""

    def __init__(self, options: Hostile, clock: Clock) -> None:
        self._clock, self._dice = clock, Random(f"hostile:{options.seed}")
        self.jobs: dict[str, Job] = {}
        self.orders: dict[str, Ordered] = {}
        self.faults: Counter[str] = Counter()
        self.waited: Counter[str] = Counter()
        """By operation: waits that could be read, and that another request followed, whenever that came."""
        self._asked_to_wait: set[str] = set()
        self.strangers: list[str] = []
        """Requests to another origin, or about nothing that was ever here."""

    def start(self, ref: str) -> Job:
        """Starts a job for an operation."""
        dice, number = self._dice, len(self.jobs)
        ends_at = self._clock.now() + timedelta(seconds=dice.uniform(1, 2400))
        job = Job(f"job-{number}", ref, ends_at, dice.choice(_ENDINGS), dice.choice((0.0, 0.05, 0.2, 0.5, 0.9)))
        self.jobs[job.id] = job
        return job

    async def fetch(self, request: Fetch) -> Reply:
        """Lets the send guard judge, writes the book, answers."""
        if request.before_first_byte is not None:
            try:
                await request.before_first_byte()
            except LeaseLost as error:
                return NoReply(NoReplyKind.CANCELLED, error.message, sent=False)
        kind, _, subject = urlsplit(request.url).path.strip("/").partition("/")
        known = request.url.startswith(f"{BASE}/") and (kind == "submit" or subject in self.jobs)
        if known:
            self._follow(_ref_of(request) if kind == "submit" else self.jobs[subject].ref)
        if known and kind in ("jobs", "moved"):
            return await self._look(self.jobs[subject], request)
        if known and kind == "submit":
            return await self._submit(request)
        if known and kind == "cancel":
            return await self._cancel(self.jobs[subject], request)
        self.strangers.append(request.url)
        return NoReply(NoReplyKind.RESET, "nobody is here", sent=True)

    def _follow(self, ref: str) -> None:
        """Counts a wait that is followed by this request."""
        self.waited[ref] += ref in self._asked_to_wait
        self._asked_to_wait.discard(ref)

    async def _look(self, job: Job, request: Fetch) -> Reply:
        look, dice, now = Look(self._clock.now()), self._dice, self._clock.now()
        ended = now >= job.ends_at
        body: dict[str, object] = {
            "id": job.id,
            "status": job.word if ended else "running",
            "attempt": 1,
            "percent": dice.randrange(100),
        }
        body |= {"result": f"{BASE}/results/{job.id}"} if body["status"] == "done" else {}
        page = Page(body=json.dumps(body).encode(), seconds=dice.uniform(0.05, 3.0))
        if dice.random() < job.hostility:
            look.fault = dice.choice(list(FAULTS))
            fault = FAULTS[look.fault]
            page, look.stops = fault.page(body, dice), fault.stops
            look.ends_as = job.word if fault.tells and ended and job.word != "running" else None
            self.faults[look.fault] += 1
        elif not ended and dice.random() < 0.2:
            body |= draw_hint(dice) if dice.random() < 0.7 else {"moved_to": f"/moved/{job.id}"}
            page = Page(body=json.dumps(body).encode())
        elif ended and job.word != "running":
            look.ends_as = job.word
        if page.sent:
            job.looks.append(look)
        reply = await self._page(page, request, job, wait=look.fault is not None or dice.random() < 0.1)
        look.answered = self._clock.now()
        return reply

    async def _submit(self, request: Fetch) -> Reply:
        """Takes a job on, or not, and may lose the answer either way."""
        order = self.orders.setdefault(ref := _ref_of(request), Ordered(ref))
        fault = self._dice.choice((*_SUBMIT_FAULTS, *[None] * 5))
        if fault is not None:
            self.faults[f"submit: {fault}"] += 1
        if fault == "away":
            return NoReply(NoReplyKind.CONNECT, "connection refused", sent=False)
        key = next((value for name, value in request.headers.items() if name.lower() == "idempotency-key"), "")
        order.keys.add(key)
        order.bodies.add(request.body or b"")
        order.arrivals.append(self._clock.now())
        if fault in _LOST and order.doubt is None:
            order.doubt = self._clock.now()
        if fault in _UNDONE:
            return await self._page(_UNDONE[fault], request, order, wait=fault != "lost before")
        page = self._taken(order, fault, known=bool(key and order.jobs))
        return await self._page(page, request, order, wait=page.status == 202 and self._dice.random() < 0.3)

    def _taken(self, order: Ordered, fault: str | None, *, known: bool) -> Page:
        """Starts the job, but for a key that is known; and the answer to that."""
        if known and order.ref.startswith("hostile-reject"):
            return Page(409, json.dumps({"id": order.jobs[0], "error": {"code": "exists"}}).encode())
        if not known:
            order.jobs.append(self.start(order.ref).id)
        if fault in _LOST:
            return _LOST[fault]
        named = None if fault == "nameless" else order.jobs[0]
        return Page(202, json.dumps({"id": named}).encode())

    async def _cancel(self, job: Job, request: Fetch) -> Reply:
        dice = self._dice
        fault = dice.choice(("429", "lost before", "lost after", "404", None, None, None))
        self.faults[f"cancel: {fault or 'taken'}"] += 1
        if fault == "429":
            return await self._page(Page(429, b"{}"), request, job, wait=True)
        if fault == "lost before":
            job.cancelled.append(self._clock.now())
            return await self._page(Page(lost=NoReplyKind.RESET), request, job, wait=False)
        job.cancelled.append(self._clock.now())
        if fault == "404":
            return await self._page(Page(404, b"{}"), request, job, wait=False)
        if self._clock.now() < job.ends_at:
            job.ends_at, job.word = self._clock.now() + timedelta(seconds=dice.uniform(0, 20)), "cancelled"
        page = Page(lost=NoReplyKind.TIMEOUT, seconds=None) if fault == "lost after" else Page(202, b"{}")
        return await self._page(page, request, job, wait=False)

    async def _page(self, page: Page, request: Fetch, whose: Job | Ordered, *, wait: bool) -> Reply:
        """Takes its time, then answers; a wait is written into the book at the instant of the answer."""
        longest = request.total_deadline.total_seconds()
        await self._clock.sleep(longest if page.seconds is None else min(page.seconds, longest))
        now = self._clock.now()
        if page.lost is not None:
            status = page.status if page.lost is NoReplyKind.REDIRECT else None
            hops = 1 if page.sent else 0
            return NoReply(page.lost, f"planted: {page.lost}", sent=page.sent, status=status, hops=hops)
        asked = draw_wait(self._dice, now) if wait else Wait((), read=False)
        if asked.until is not None:
            whose.waits.append((now, asked.until))
        if asked.read:
            self._asked_to_wait.add(whose.ref)
        headers = (("content-type", page.content_type), *asked.headers)
        return HttpReply(page.status, headers, page.body, request.url, timedelta(seconds=0.1))

    async def close(self) -> None:
        """Nothing to close."""


def _ref_of(request: Fetch) -> str:
    return str(json.loads(request.body or b"")["ref"])


def is_keyed(ref: str) -> bool:
    """True for an operation whose provider honours keys; a reference starts with the name of the contract."""
    return ref.rpartition("-")[0] in KEYED
