"""Sources of a world: feeds whose objects appear, change and vanish by a script in true time; and the book of what could be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from sereno.core.change import FailedReading, ReadFailure, Reading, SourceObject
from sereno.core.errors import Fault, LeaseLost
from sereno.core.values import Json, digest
from sereno.ports import Guarded, Place
from sereno.testing.simulation.outside.seam import Seam
from sereno.testing.simulation.terms import Group

HOST = "feeds.example"
POOL = f"host:{HOST}"
LOG, LIST = "sim-log", "sim-list"
"""Types: an incremental feed with a cursor, which gives what changed since; and a full list of what is there."""
FAILURES: Mapping[str, ReadFailure] = {
    "unreachable": ReadFailure.UNREACHABLE,
    "throttled": ReadFailure.THROTTLED,
    "auth": ReadFailure.AUTH,
    "bad content": ReadFailure.BAD_CONTENT,
    "refused": ReadFailure.REFUSED,
    "missing": ReadFailure.MISSING,
}
ODD = ("raises", "late", "after the deadline", "repeated", "huge", "doubled", "more without moving", "page by page")
READ_KINDS: Sequence[str] = (*FAILURES, *ODD)
PAGE = 3
"""Objects of one page of a reading that comes page by page."""
_HUGE = "x" * 50_000


@dataclass(frozen=True, slots=True)
class Version:
    """One state of one object: readable from `at` until `until` (None = still). `seq` counts the changes of the feed."""

    feed: str
    seq: int
    object: str
    content_hash: str
    """"" where the object vanished."""
    at: datetime
    until: datetime | None = None

    def readable(self, at: datetime) -> bool:
        """True where a reading at that instant showed this."""
        return self.at <= at and (self.until is None or at < self.until)


@dataclass(slots=True)
class ReadingTaken:
    """One reading that reached the feed, and what it gave."""

    number: int
    feed: str
    process: str
    at: datetime
    host_at: datetime
    """The wall clock of the database's host at that instant."""
    cursor: str | None
    """The cursor that came with it."""
    fault: str | None = None
    failed: bool = False
    given: Sequence[tuple[str, str]] = ()
    """(object, content hash) in the order in which they were given."""
    next_cursor: str | None = None
    unchanged: bool = False
    complete: bool = False
    more: bool = False
    waits_until: datetime | None = None
    """The feed asked not to be read before that instant of its own clock."""
    answered: datetime | None = None
    """None = the process did not live to see it."""


@dataclass(slots=True)
class Feed:
    """One feed with its script and its book. Poll and feed have the same name."""

    name: str
    type: str
    versions: Sequence[Version]
    """In order of time; all that was ever readable, and all that will be."""
    readings: list[ReadingTaken] = field(default_factory=list)

    def shown(self, at: datetime) -> list[Version]:
        """What is readable at an instant: the present version of each object, in order of change; vanished ones among them."""
        return [version for version in self.versions if version.readable(at)]

    def last(self, at: datetime) -> int:
        """The number of the last change up to an instant; 0 = none."""
        return max((version.seq for version in self.versions if version.at <= at), default=0)


def script(name: str, kind: str, dice: Random, *, began: datetime, hours: float) -> Feed:
    """Draws what will happen in a feed. A log never forgets an object; in a list they vanish and may come back."""
    changes = dice.randint(4, 16)
    instants = sorted(began + timedelta(hours=dice.uniform(-0.5, hours * 0.95)) for _ in range(changes))
    alive: dict[str, int] = {}
    drawn: list[tuple[str, str, datetime]] = []
    for number, at in enumerate(instants):
        known = list(alive)
        name_of = dice.choice(known) if known and dice.random() < 0.5 else f"{name}-o{number}"
        gone = kind == LIST and name_of in alive and dice.random() < 0.3
        alive[name_of] = alive.get(name_of, 0) + 1
        drawn.append((name_of, "" if gone else digest(f"{name_of} {alive[name_of]}".encode()), at))
    versions = []
    for seq, (thing, content, at) in enumerate(drawn, start=1):
        until = next((later for other, _, later in drawn[seq:] if other == thing), None)
        versions.append(Version(name, seq, thing, content, at, until))
    return Feed(name, kind, versions)


class SimulatedSource:
    """A type of source as one life of a process has it."""

    def __init__(self, type: str, feeds: Mapping[str, Feed], seam: Seam) -> None:
        self.type, self._feeds, self._seam = type, feeds, seam
        self._clock, self._plan, self._hooks = seam.clock, seam.plan, seam.hooks
        self._dice = seam.plan.dice(Group.READ)

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Names a feed that is not there."""
        return () if options.get("feed") in self._feeds else (Fault("feed", "is not there"),)

    def place(self, options: Mapping[str, Json]) -> Place:
        """One host for all."""
        return Place(POOL, str(options.get("feed")))

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        """Lets the send guard judge, writes the book, reads, or fails by the plan."""
        await self._clock.sleep(self._dice.uniform(0.01, 0.2))
        if guarded.before_first_byte is not None:
            try:
                await guarded.before_first_byte()
            except LeaseLost as error:
                return FailedReading(ReadFailure.UNREACHABLE, error.message)
        self._hooks.point("read.before")
        feed = self._feeds[str(options["feed"])]
        fault = self._plan.draw(Group.READ, READ_KINDS, share=self._plan.share(Group.READ, 0.1))
        taken = ReadingTaken(
            len(feed.readings), feed.name, self._hooks.process, self._clock.now(), self._hooks.clock.now(), cursor
        )
        taken.fault = fault
        feed.readings.append(taken)
        self._hooks.point("read.sent")
        found = self._failed(taken, fault, guarded) if fault in FAILURES or fault == "raises" else self._read(feed, taken)
        await self._clock.sleep(self._seconds(fault, guarded.total_deadline.total_seconds()))
        taken.answered = self._clock.now()
        self._hooks.point("read.replied")
        if fault == "raises":
            raise RuntimeError("planted: a source with a bug")
        return found

    def _seconds(self, fault: str | None, longest: float) -> float:
        if fault == "late":
            return max(0.0, longest - 0.05)
        return longest + 1.0 if fault == "after the deadline" else self._dice.uniform(0.01, 0.5)

    def _failed(self, taken: ReadingTaken, fault: str | None, guarded: Guarded) -> FailedReading:
        taken.failed = True
        wait = self._dice.choice((5, 60, 600)) if fault == "throttled" else None
        if wait is not None:
            taken.waits_until = taken.at + timedelta(seconds=wait)
        until = guarded.now + timedelta(seconds=wait + 1) if wait is not None else None
        return FailedReading(FAILURES.get(fault or "", ReadFailure.BROKEN), f"planted: {fault}", 1, until)

    def _read(self, feed: Feed, taken: ReadingTaken) -> Reading:
        now, fault = taken.at, taken.fault
        if feed.type == LOG:
            since = int(taken.cursor or 0)
            since = max(0, since - self._dice.randint(1, 4)) if fault == "repeated" else since
            shown, last = [version for version in feed.shown(now) if version.seq > since], feed.last(now)
        else:
            shown, last = [version for version in feed.shown(now) if version.content_hash], feed.last(now)
        same = taken.cursor == str(last) and fault not in ("repeated", "doubled", "huge")
        more = fault == "page by page" and feed.type == LOG and len(shown) > PAGE
        if more:
            shown = shown[:PAGE]
            last = shown[-1].seq
        if same:
            shown = []
        taken.unchanged, taken.next_cursor, taken.complete = same, str(last), feed.type == LIST
        taken.more = more or fault == "more without moving"
        objects = [_object(version, fault) for version in shown]
        if fault == "doubled" and objects:
            first = objects[0]
            objects.append(SourceObject(first.external_id, digest(b"doubled"), {"version": "doubled"}, first.title))
        taken.given = tuple((one.external_id, one.content_hash) for one in objects)
        return Reading(objects, cursor=str(last), complete=taken.complete, unchanged=same, more=taken.more, requests=1)


def _object(version: Version, fault: str | None) -> SourceObject:
    payload: dict[str, object] = {"feed": version.feed, "seq": version.seq, "object": version.object}
    if fault == "huge":
        payload["note"] = _HUGE
    return SourceObject(version.object, version.content_hash, payload, f"{version.object} #{version.seq}")
