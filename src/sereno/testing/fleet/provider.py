"""One provider of many jobs, which keeps its own book: when each job was asked about, and what it answered."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from sereno.core.errors import LeaseLost
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.values import Json
from sereno.ports import Clock, Fetch
from sereno.testing.fleet.options import HOST, Fleet

CONTRACT: dict[str, Json] = {
    "format": 1,
    "contract": "fleet",
    "version": 1,
    "title": "A job of the fleet",
    "source": "the fleet's own provider",
    "verified": "verified: it is written beside this contract",
    "status": {
        "url": f"https://{HOST}/jobs/{{job_id}}",
        "origins": [f"https://{HOST}"],
        "observational": "a look changes nothing there",
    },
    "job": {"id": "id"},
    "state": {"path": "status"},
    "states": {"pending": ["running"], "success": ["done"], "failure": ["failed"]},
    "result": {"ref": "result", "fields": [{"path": "result", "type": "url"}]},
    "delays": {"first": "5s", "base": "2m", "max": "40m", "min_gap": "5s"},
    "limits": {"deadline": "12h", "requests": 500, "transport_failures": 50, "throttles": 100},
}
MIN_GAP_S = 5.0


@dataclass(slots=True)
class Job:
    """One job and its page in the book. Instants are seconds of the provider's clock."""

    id: str
    ends_at: float
    word: str
    looks: list[float] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)
    """(answered, until): when a Retry-After was sent, and the instant it forbade requests before."""
    open: int = 0
    overlaps: int = 0
    told_at: float | None = None
    """When the end was first told."""


class FleetProvider:
    """Seam 3: answers here, on virtual time. Nothing happens between the send guard and the entry in the book."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet, self._clock = fleet, clock
        self._dice = Random(f"provider:{fleet.seed}")
        self.sent: list[float] = []
        self.throttled = self.silences = 0
        self.jobs = {name: Job(name, *self._life()) for name in (f"job-{number}" for number in range(fleet.operations))}

    def _life(self) -> tuple[float, str]:
        """Short and long jobs, and how they end."""
        low, high = self._fleet.short_s if self._dice.random() < 0.6 else self._fleet.long_s
        return self._dice.uniform(low, high), "failed" if self._dice.random() < 0.1 else "done"

    def now(self) -> float:
        """The provider's clock."""
        return self._clock.monotonic()

    async def fetch(self, request: Fetch) -> Reply:
        """Lets the send guard judge, writes the book, answers."""
        if request.before_first_byte is not None:
            try:
                await request.before_first_byte()
            except LeaseLost as error:
                return NoReply(NoReplyKind.CANCELLED, error.message, sent=False)
        job, now = self.jobs[request.url.rpartition("/")[2]], self.now()
        self.sent.append(now)
        job.looks.append(now)
        job.overlaps += job.open > 0
        job.open += 1
        try:
            return await self._answer(job, request)
        finally:
            job.open -= 1

    async def _answer(self, job: Job, request: Fetch) -> Reply:
        if any(start <= self.now() < end for start, end in self._fleet.outages):
            self.silences += 1
            await self._clock.sleep(request.total_deadline.total_seconds())
            return NoReply(NoReplyKind.TIMEOUT, "no answer in time", sent=True)
        await self._clock.sleep(self._dice.uniform(0.05, 0.4))
        now = self.now()
        if self._dice.random() < self._fleet.throttle_share:
            self.throttled += 1
            seconds = self._dice.choice((10, 60, 300))
            job.waits.append((now, now + seconds))
            return _reply(429, {"error": "too many"}, request, ("retry-after", str(seconds)))
        if now < job.ends_at:
            return _reply(200, {"id": job.id, "status": "running"}, request)
        job.told_at = job.told_at if job.told_at is not None else now
        return _reply(200, {"id": job.id, "status": job.word, "result": f"https://{HOST}/results/{job.id}"}, request)

    async def close(self) -> None:
        """Nothing to close."""


def _reply(status: int, body: dict[str, object], request: Fetch, *headers: tuple[str, str]) -> HttpReply:
    kept = (("content-type", "application/json"), *headers)
    return HttpReply(status, kept, json.dumps(body).encode(), request.url, timedelta(seconds=0.1))
