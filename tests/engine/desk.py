"""One piece of work on the desk: the real store in memory, a clock moved by hand, and plug-ins that do what the test says."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sereno.builtin.providers.http import HttpProvider
from sereno.core.change import FailedReading, Reading, SourceObject
from sereno.core.contract import Via
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.effect import ActionRef, Policy
from sereno.core.errors import Fault
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.values import Json, canonical
from sereno.core.work import Work
from sereno.engine.guard import Moment, SendGuard
from sereno.engine.kit import Kit
from sereno.engine.perform import perform, send_guard
from sereno.ports import Fetch, Guarded, Place, Provider
from sereno.testing.virtual import HandClock
from tests.drivers.stage import HOST, Stage


class Source:
    """Gives the reading it was told to give, or raises."""

    type = "scripted"

    def __init__(self) -> None:
        self.gives: Reading | FailedReading | BaseException = Reading([SourceObject("a", "1", {"n": 1})], cursor="c1", requests=1)
        self.calls = 0

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        return ()

    def place(self, options: Mapping[str, Json]) -> Place:
        return Place(HOST, "scripted")

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        assert guarded.before_first_byte is not None
        await guarded.before_first_byte()
        self.calls += 1
        if isinstance(self.gives, BaseException):
            raise self.gives
        return self.gives


class Action:
    """Asks the send guard before it acts; gives the outcome it was told to give, or raises."""

    type = "scripted"
    default_policy = Policy.KEYED

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self.seconds_before = 0.0
        """Preparing takes so long."""
        self.gives: Outcome | BaseException = Outcome(OutcomeKind.DONE, "taken", receipt="r1")
        self.calls = 0

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        return ()

    def place(self, options: Mapping[str, Json]) -> Place:
        return Place("local:scripted", "scripted")

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        self._clock.advance(self.seconds_before)
        assert guarded.before_first_byte is not None
        await guarded.before_first_byte()
        self.calls += 1
        if isinstance(self.gives, BaseException):
            raise self.gives
        return self.gives


class Transport:
    """Lets the send guard judge as the gate does, then takes `seconds` and answers; keeps what was asked."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self.sent: list[Fetch] = []
        self.seconds_before = 0.0
        """Connecting takes so long."""
        self.seconds = 0.0
        self.gives: Reply | BaseException = answer("running")
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None

    async def fetch(self, request: Fetch) -> Reply:
        self._clock.advance(self.seconds_before)
        assert request.before_first_byte is not None
        try:
            await request.before_first_byte()
        except Exception as error:
            return NoReply(NoReplyKind.CANCELLED, str(error), sent=False)
        self.sent.append(request)
        self._clock.advance(self.seconds)
        if self.meanwhile is not None:
            await self.meanwhile()
        if isinstance(self.gives, BaseException):
            raise self.gives
        return self.gives

    async def close(self) -> None:
        return None


def answer(word: str, *headers: tuple[str, str], status: int = 200) -> HttpReply:
    """A status answer about job-1."""
    document: dict[str, Json] = {"id": "job-1", "status": word, "result": "https://example.com/result"}
    kept = (("content-type", "application/json"), *headers)
    return HttpReply(status, kept, canonical(document), "https://example.com/jobs/job-1", timedelta(seconds=0))


class Desk(Stage):
    """A stage whose clock stands still until the test moves it."""

    def __init__(self) -> None:
        self.hand = HandClock()
        super().__init__(clock=self.hand)
        self.read, self.act, self.wire = Source(), Action(self.hand), Transport(self.hand)
        self.changes: dict[str, Any] = {}
        """Fields of the kit to replace."""
        self.looks = 0
        self.releases = 0
        self.carriers: Mapping[Via, Provider] = {Via.HTTP: HttpProvider()}

    def kit(self, *_: Any, **__: Any) -> Kit:
        """The kit over the plug-ins of the desk; the store counts how often the fence is looked at and work is given back."""
        made = super().kit()
        plugins = replace(made.plugins, sources={"scripted": self.read}, actions={"scripted": self.act}, providers=self.carriers)
        return replace(made, **{"store": _Counted(self), "plugins": plugins, "transport": self.wire, **self.changes})

    async def claim(self) -> Work:
        """Claims the one thing that is due."""
        (work,) = (await self.store.work.claim(worker="w", limit=5, times=self.times)).works
        return work

    def sender(self, work: Work) -> SendGuard:
        """The send guard of work that was claimed now."""
        return send_guard(self.kit(), work, Moment.of(self.hand))

    async def perform(self, work: Work | None = None, *, seconds: float = 0.0) -> None:
        """Claims and performs, `seconds` after the claim."""
        work = work or await self.claim()
        sender = self.sender(work)
        self.hand.advance(seconds)
        await perform(self.kit(), work, sender)

    async def delivery(self, policy: Policy = Policy.KEYED) -> None:
        """Makes one delivery due, by a poll's first run."""
        await self.polls(1, actions=(ActionRef("tell", "scripted", {}, policy, pool="local:scripted"),))
        await self.perform()

    async def one(self, statement: str) -> dict[str, Any]:
        """The one row of a question."""
        (row,) = await self.sql(statement)
        return row


class _Counted:
    """The desk's store; counts looks at the fence, and what is given back."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def __getattr__(self, name: str) -> Any:
        if name == "check":
            self._desk.looks += 1
        self._desk.releases += name == "release"
        return getattr(self._desk.store.work, name)
