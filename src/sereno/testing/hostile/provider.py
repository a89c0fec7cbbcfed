"""The hostile provider: jobs, submits, cancels, faults, and a book of all that reached it."""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from urllib.parse import urlsplit

from sereno.core.errors import LeaseLost
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.ports import Clock, Fetch
from sereno.testing.hooks import Hooks
from sereno.testing.hostile.book import Job, Look, Ordered, Request
from sereno.testing.hostile.contracts import is_keyed, rejects
from sereno.testing.hostile.fates import NO_WAIT, DicedFates, Fates
from sereno.testing.hostile.faults import FAULTS, Page
from sereno.testing.hostile.more import MORE, TOLERABLE
from sereno.testing.hostile.options import BASE, Hostile

__all__ = ["HostileProvider", "Job", "Line", "Look", "Ordered", "Request", "is_keyed"]

_ENDINGS = ("done", "done", "done", "failed", "cancelled", "expired", "running")

_LOST = {
    "lost before": Page(lost=NoReplyKind.RESET),
    "lost after": Page(lost=NoReplyKind.TIMEOUT, seconds=None),
    "500 after": Page(500, b"oops", "text/plain"),
    "unreadable": Page(202, b"<html>thanks</html>", "text/html"),
}
"""Answers to a submit that leave it in doubt."""
_UNDONE = {
    "lost before": _LOST["lost before"],
    "429": Page(429, b"{}"),
    "denied": Page(403, b"{}"),
    "refused": Page(422, b"{}"),
}
"""Answers to a submit after which no job was started."""
_AWAY = Page(503, b"<html>we are back soon</html>", "text/html")
_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class _Call:
    """One request as it comes in: who sent it, and the word that its crash points begin with."""

    fetch: Fetch
    hooks: Hooks
    word: str
    whose: Job | Ordered
    skew: timedelta
    """How far the wall clock of the asker's database was ahead when the call began."""
    began: datetime

    def left(self, now: datetime) -> float:
        """Seconds until the total deadline, in which connecting counts."""
        return max(0.0, (self.began + self.fetch.total_deadline - now).total_seconds())

    def point(self, name: str) -> None:
        self.hooks.point(f"{self.word}.{name}")


class Line:
    """The wire as one life of a process has it."""

    def __init__(self, provider: "HostileProvider", hooks: Hooks) -> None:
        self._provider, self._hooks = provider, hooks

    async def fetch(self, request: Fetch) -> Reply:
        """Sends it to the provider, in the name of this process."""
        return await self._provider.serve(request, self._hooks)

    async def close(self) -> None:
        """Nothing to close."""


class HostileProvider:
    """Seam 3: answers on virtual time. Nothing but a crash happens between the send guard and the entry in the book."""

    def __init__(self, options: Hostile, clock: Clock, fates: Fates | None = None) -> None:
        self._clock, self._dice = clock, Random(f"hostile:{options.seed}")
        self.fates: Fates = fates or DicedFates(self._dice)
        self._alone = Hooks("", clock, lambda name: None)
        self.host: Clock = clock
        """The wall clock of the askers' database, where that is another than the provider's."""
        self.requests: list[Request] = []
        """Every request that arrived, in order; `number` is its place."""
        self.jobs: dict[str, Job] = {}
        self.orders: dict[str, Ordered] = {}
        self.faults: Counter[str] = Counter()
        self.waited: Counter[str] = Counter()
        """By operation: waits that could be read, and that another request followed, whenever that came."""
        self._asked_to_wait: set[str] = set()
        self.strangers: list[str] = []
        """Requests to another origin, or about nothing that was ever here."""

    def start(self, ref: str, longest_s: float = 2400.0) -> Job:
        """Starts a job for an operation; it ends within `longest_s`, or never."""
        dice, number, now = self._dice, len(self.jobs), self._clock.now()
        ends_at = now + timedelta(seconds=dice.uniform(1, longest_s))
        job = Job(f"job-{number}", ref, ends_at, dice.choice(_ENDINGS), dice.choice((0.0, 0.05, 0.2, 0.5, 0.9)), now)
        self.jobs[job.id] = job
        return job

    async def fetch(self, request: Fetch) -> Reply:
        """The wire of a world with one process."""
        return await self.serve(request, self._alone)

    async def close(self) -> None:
        """Nothing to close."""

    async def serve(self, request: Fetch, hooks: Hooks) -> Reply:
        """Connects, lets the send guard judge, writes the book, answers."""
        began = self._clock.now()
        skew = self.host.now() - began
        if (seconds := self.fates.connection()) > 0:
            await self._clock.sleep(seconds)
        if request.before_first_byte is not None:
            try:
                await request.before_first_byte()
            except LeaseLost as error:
                return NoReply(NoReplyKind.CANCELLED, error.message, sent=False)
        kind, _, subject = urlsplit(request.url).path.strip("/").partition("/")
        known = request.url.startswith(f"{BASE}/") and (kind == "submit" or subject in self.jobs)
        if known and kind in ("jobs", "moved"):
            return await self._look(self.jobs[subject], _Call(request, hooks, "wire", self.jobs[subject], skew, began))
        if known and kind == "submit":
            order = self.orders.setdefault(ref := _ref_of(request), Ordered(ref))
            return await self._submit(order, _Call(request, hooks, "submit", order, skew, began))
        if known and kind == "cancel":
            return await self._cancel(self.jobs[subject], _Call(request, hooks, "cancel", self.jobs[subject], skew, began))
        self.strangers.append(request.url)
        return NoReply(NoReplyKind.RESET, "nobody is here", sent=True)

    def _follow(self, ref: str) -> None:
        """Counts a wait that is followed by this request."""
        self.waited[ref] += ref in self._asked_to_wait
        self._asked_to_wait.discard(ref)

    def _open(self, kind: str, call: _Call, job: str = "") -> Request:
        """Writes a request into the book, at its first byte."""
        hooks, ref = call.hooks, call.whose.ref
        found = Request(len(self.requests), kind, hooks.process, self._clock.now(), self.host.now(), ref, job)
        found.body = call.fetch.body or b""
        self.requests.append(found)
        return found

    async def _look(self, job: Job, call: _Call) -> Reply:
        call.point("before")
        self._follow(job.ref)
        dice, now = self._dice, self._clock.now()
        ended = now >= job.ends_at
        body = self._honest(job, ended=ended)
        page, fault, stops, ends_as = Page(body=json.dumps(body).encode(), seconds=dice.uniform(0.05, 3.0)), None, False, None
        if self.fates.away(now):
            page, fault = _AWAY, "outage"
        elif (fault := self.fates.look(job, ended=ended)) is not None:
            found = FAULTS[fault] if fault in FAULTS else MORE[fault]
            page, stops = found.page(body, dice), found.stops
            ends_as = job.word if found.tells and ended and job.word != "running" else None
            self.faults[fault] += 1
        elif not ended and (hint := self.fates.hint()) is not None:
            body |= {"moved_to": f"/moved/{job.id}"} if isinstance(hint, str) else hint
            page = Page(body=json.dumps(body).encode())
        elif ended and job.word != "running":
            ends_as = job.word
        if not page.sent:
            return await self._unsent(page, call)
        look = self._open("look", call, job.id)
        look.fault, look.stops, look.ends_as = fault, stops, ends_as
        look.tolerable = stops and fault in TOLERABLE and _is_patient(job.ref)
        job.looks.append(look)
        call.point("sent")
        return await self._answer(page, look, call, waits=True)

    def _honest(self, job: Job, *, ended: bool) -> dict[str, object]:
        word = job.word if ended else "running"
        body: dict[str, object] = {"id": job.id, "status": word, "attempt": 1, "percent": self._dice.randrange(100)}
        return body | ({"result": f"{BASE}/results/{job.id}"} if word == "done" else {})

    async def _submit(self, order: Ordered, call: _Call) -> Reply:
        """Takes a job on, or not, and may lose the answer either way."""
        call.point("before")
        self._follow(order.ref)
        now, key = self._clock.now(), _key_of(call.fetch)
        known = key in order.under
        fault = "outage" if self.fates.away(now) else self.fates.submit(order, known=known)
        if fault is not None:
            self.faults[f"submit: {fault}"] += 1
        if fault == "away":
            return await self._unsent(Page(lost=NoReplyKind.CONNECT, sent=False), call)
        asked = self._open("submit", call)
        asked.key, asked.fault = key, fault
        order.keys.add(key)
        order.bodies.add(asked.body)
        order.arrivals.append(now)
        order.requests.append(asked)
        asked.doubt = fault in _LOST or fault in ("outage", "after the deadline")
        if asked.doubt and order.doubt is None:
            order.doubt = now
        page = self._submitted(order, asked, known=known)
        call.point("sent")
        likely = fault == "outage" or (fault in _UNDONE and fault != "lost before")
        return await self._answer(page, asked, call, waits=likely or page.status == 202, likely=likely)

    def _submitted(self, order: Ordered, asked: Request, *, known: bool) -> Page:
        if asked.fault == "outage":
            return _AWAY
        if asked.fault in _UNDONE:
            return _UNDONE[asked.fault]
        return self._taken(order, asked, known=known)

    def _taken(self, order: Ordered, asked: Request, *, known: bool) -> Page:
        """Starts the job, but for a key that is known; and the answer to that."""
        fault = asked.fault
        if known and rejects(order.ref) and fault != "two jobs":
            asked.job = order.under[asked.key][0]
            return Page(409, json.dumps({"id": asked.job, "error": {"code": "exists"}}).encode())
        if not known or fault == "two jobs":
            order.broke = order.broke or known
            order.jobs.append(self.start(order.ref).id)
            asked.took = True
            if asked.key:
                order.under.setdefault(asked.key, []).append(order.jobs[-1])
        asked.job = order.jobs[-1] if asked.took else order.under[asked.key][0]
        if fault is not None and fault in _LOST:
            return _LOST[fault]
        named = None if fault == "nameless" else self._another(order.ref) if fault == "job of another" else asked.job
        late = _AFTER_S if fault == "after the deadline" else None
        return Page(202, json.dumps({"id": named}).encode(), late=late)

    def _another(self, ref: str) -> str:
        """The id of a running job of another operation under the same contract, which waits for it; else of one that nobody waits for."""
        contract, now = ref.rpartition("-")[0], self._clock.now()
        found = [
            job
            for job in self.jobs.values()
            if job.ref != ref and job.ref.rpartition("-")[0] == contract and now < job.ends_at and job.looks
        ]
        if not found:
            return self.start(ref).id
        other = self._dice.choice(found)
        other.named_for.append(ref)
        return other.id

    async def _cancel(self, job: Job, call: _Call) -> Reply:
        call.point("before")
        self._follow(job.ref)
        now = self._clock.now()
        fault = "outage" if self.fates.away(now) else self.fates.cancel(job)
        self.faults[f"cancel: {fault or 'taken'}"] += 1
        asked = self._open("cancel", call, job.id)
        asked.fault = fault
        job.cancels.append(asked)
        asked.doubt = fault in ("lost before", "lost after", "500 after", "outage", "after the deadline")
        if fault != "429":
            job.cancelled.append(now)
        if fault in (None, "lost after", "500 after", "after the deadline") and now < job.ends_at:
            asked.took = True
            job.ends_at, job.word = now + timedelta(seconds=self._dice.uniform(0, 20)), "cancelled"
        call.point("sent")
        page = _CANCELLED.get(fault or "", Page(202, b"{}"))
        return await self._answer(page, asked, call, waits=fault in ("429", "outage"))

    async def _unsent(self, page: Page, call: _Call) -> Reply:
        """Nothing left: the provider never hears of it."""
        await self._clock.sleep(min(page.seconds or 0.0, call.left(self._clock.now())))
        assert page.lost is not None
        return NoReply(page.lost, f"planted: {page.lost}", sent=False)

    async def _answer(self, page: Page, asked: Request, call: _Call, *, waits: bool, likely: bool | None = None) -> Reply:
        """Takes its time, then answers; a wait is written into the book at the instant of the answer."""
        await self._clock.sleep(_seconds(page, call.left(self._clock.now())))
        now = self._clock.now()
        asked.answered = now
        if page.lost is not None:
            call.point("replied")
            status = page.status if page.lost is NoReplyKind.REDIRECT else None
            return NoReply(page.lost, f"planted: {page.lost}", sent=True, status=status, hops=1)
        asked.status = page.status
        headers = self._wait(asked, call, now, likely=asked.fault is not None if likely is None else likely) if waits else ()
        call.point("replied")
        plain = (("content-type", page.content_type), ("x-request-id", str(asked.number)))
        return HttpReply(page.status, (*plain, *page.headers, *headers), page.body, call.fetch.url, timedelta(seconds=0.1))

    def _wait(self, asked: Request, call: _Call, now: datetime, *, likely: bool) -> tuple[tuple[str, str], ...]:
        skew = max(call.skew, asked.host_at - asked.at, self.host.now() - now, key=abs)
        asked.wait, wait = self.fates.wait(now, skew, likely=likely)
        if wait is NO_WAIT:
            return ()
        asked.waits_until = wait.until
        if wait.until is not None:
            call.whose.waits.append((now, wait.until))
        if wait.read:
            self._asked_to_wait.add(asked.ref)
        return tuple(wait.headers)


_CANCELLED = {
    "429": Page(429, b"{}"),
    "lost before": Page(lost=NoReplyKind.RESET),
    "404": Page(404, b"{}"),
    "lost after": Page(lost=NoReplyKind.TIMEOUT, seconds=None),
    "500 after": _LOST["500 after"],
    "outage": _AWAY,
    "after the deadline": Page(202, b"{}", late=_AFTER_S),
}


def _seconds(page: Page, longest: float) -> float:
    if page.late is not None:
        return max(0.0, longest + page.late)
    return longest if page.seconds is None else min(page.seconds, longest)


def _is_patient(ref: str) -> bool:
    return "-patient-" in ref


def _ref_of(request: Fetch) -> str:
    return str(json.loads(request.body or b"")["ref"])


def _key_of(request: Fetch) -> str:
    return next((value for name, value in request.headers.items() if name.lower() == "idempotency-key"), "")
