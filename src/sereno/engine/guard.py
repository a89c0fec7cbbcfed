"""The two guards round every call outside: what may leave, and what comes back as an exception."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from sereno.core.errors import LeaseLost, SerenoError, Unavailable
from sereno.core.work import Work
from sereno.engine.kit import Kit
from sereno.ports import Boot, Clock, Guarded

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Broken:
    """Our code or a plug-in raised: a value, so that the core can decide on it. The text names the class and its message, cut."""

    message: str


async def call(awaitable: Awaitable[T]) -> T | Broken:
    """Awaits a plug-in; what it raises becomes a value. LeaseLost and an unavailable store pass through to the driver."""
    try:
        return await awaitable
    except (LeaseLost, Unavailable):
        raise
    except Exception as error:
        return Broken(_describe(error))


def decide(rule: Callable[[], T]) -> T | Broken:
    """Runs a pure decision; what it raises becomes a value, so that the facts of the reply are still committed (W43)."""
    try:
        return rule()
    except Exception as error:
        return Broken(_describe(error))


def _describe(error: Exception) -> str:
    text = str(error) if isinstance(error, SerenoError | ValueError) else ""
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__


@dataclass(frozen=True, slots=True)
class Moment:
    """What this worker's clocks show at one moment. Only differences between two of them mean anything: no clock has to be right."""

    boot: Boot
    wall: datetime
    mono: float

    @classmethod
    def of(cls, clock: Clock) -> "Moment":
        """Now. What goes on while the machine sleeps is read first, so that no sleep falls between the readings unseen."""
        return cls(clock.boot(), clock.now(), clock.monotonic())

    def stopped(self, now: "Moment") -> float:
        """Seconds until `now`, those included that the machine slept; the wall clock has no say."""
        passed = now.mono - self.mono
        return max(passed, now.boot.seconds - self.boot.seconds) if now.boot.id == self.boot.id else passed

    def longest(self, now: "Moment") -> float:
        """Seconds until `now` by the clock that has run longest: what a lease is trusted by."""
        return max(self.stopped(now), (now.wall - self.wall).total_seconds())


class SendGuard:
    """Judges, right before bytes leave, whether this worker may still send (I24).

    A lease is trusted for its length less `guard`, counted from before it was asked for: by monotonic time, by time since the start of
    the host (the machine may have slept) and by the change of the wall clock, whichever has run longest. What the wall clock shows is
    compared with nothing: it may be years off. After more than `guard` since the last look, the fence is read again.
    """

    __slots__ = (
        "_guard_s",
        "_kit",
        "_leased",
        "_looked",
        "_passed",
        "_refused",
        "_stop_at",
        "_trusted_s",
        "_work",
        "claimed",
    )

    def __init__(self, kit: Kit, work: Work, claimed: Moment, stop_at: datetime | None = None):
        self._kit = kit
        self._work = work
        self.claimed = claimed
        """Before the claim was asked for."""
        self._leased = self._looked = claimed
        self._guard_s = kit.times.guard.total_seconds()
        self._trusted_s = (work.lease.until - work.lease.claimed_at).total_seconds() - self._guard_s
        self._stop_at = stop_at
        self._passed = 0
        self._refused = False

    @property
    def nothing_left(self) -> bool:
        """True when a send was stopped here and none was let through before: then the work is given back whole."""
        return self._refused and self._passed == 0

    def now(self) -> datetime:
        """The database's instant as this worker knows it: the instant of the claim and what has passed since, by no wall clock."""
        return self._work.lease.claimed_at + timedelta(seconds=self.claimed.stopped(Moment.of(self._kit.clock)))

    async def before_first_byte(self) -> None:
        """Raises LeaseLost where nothing may be sent any more."""
        await self._judge()
        self._passed += 1

    async def _judge(self) -> None:
        now = Moment.of(self._kit.clock)
        if self._looked.longest(now) > self._guard_s:
            await self._look_again()
            now = Moment.of(self._kit.clock)
        if self._leased.longest(now) >= self._trusted_s:
            self._refuse("the lease may have run out")
        if self._stop_at is not None and self.now() >= self._stop_at:
            self._refuse("the deadline has passed")

    async def may_act(self) -> bool:
        """The same judgement as a value, before an action starts; what it sends is judged again at its first byte."""
        try:
            await self._judge()
        except LeaseLost:
            return False
        return True

    async def _look_again(self) -> None:
        try:
            await self._kit.store.check(self._work, self._kit.times)
        except LeaseLost:
            self._refuse("the lease was lost")
        self._looked = Moment.of(self._kit.clock)

    def _refuse(self, reason: str) -> None:
        self._refused = True
        raise LeaseLost(f"nothing was sent: {reason}", subject=None)

    def stop_at(self, instant: datetime) -> None:
        """Nothing leaves at or after this instant of the database's clock, from now on."""
        self._stop_at = instant

    def extended(self, asked: Moment) -> None:
        """The lease was prolonged: it has its whole length again, counted from before that was asked for."""
        self._leased = asked
        self._trusted_s = self._kit.times.lease.total_seconds() - self._guard_s

    def guarded(self, *, total_deadline: timedelta) -> Guarded:
        """What the plug-in gets for this one call."""
        return Guarded(
            transport=self._kit.transport,
            now=self.now(),
            total_deadline=total_deadline,
            before_hop=self._before_hop,
            before_first_byte=self.before_first_byte,
        )

    async def _before_hop(self, origin: str) -> bool:
        await self.before_first_byte()
        return await self._kit.store.reserve_hop(self._work, origin)
