"""The work in hand of one process: starts it, prolongs its leases, cancels what is lost, counts how it ended."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from sereno.core.errors import LeaseLost, SerenoError
from sereno.core.work import Work, subject_of
from sereno.engine.guard import Moment, SendGuard
from sereno.engine.kit import Kit
from sereno.engine.perform import perform, send_guard

log = structlog.get_logger("sereno.drivers")


@dataclass(slots=True)
class InHand:
    """One piece of work being performed."""

    work: Work
    sender: SendGuard
    leased: Moment
    """Before its lease was asked for, or last prolonged."""
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Tally:
    """How the work of this process ended."""

    done: int = 0
    lost: int = 0
    unavailable: int = 0
    broken: int = 0


@dataclass(slots=True)
class Crew:
    """Holds at most `slots` pieces of work. `on_done` is called after each end (the driver's wake-up)."""

    kit: Kit
    slots: int
    on_done: Callable[[], None]
    tally: Tally = field(default_factory=Tally)
    _in_hand: dict[str, InHand] = field(default_factory=dict)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def busy(self) -> int:
        """How much is in hand."""
        return len(self._in_hand)

    @property
    def free(self) -> int:
        """How much more can be taken."""
        return self.slots - len(self._in_hand)

    def start(self, works: Sequence[Work], claimed: Moment) -> None:
        """Starts performing; `claimed` is the moment before the claim query."""
        for work in works:
            sender = send_guard(self.kit, work, claimed)
            held = InHand(work, sender, claimed)
            # A takeover of our own lost work may be claimed while the old task still winds down: keys carry the run.
            key = f"{subject_of(work)}.{work.lease.run}"
            self._in_hand[key] = held
            held.task = asyncio.get_running_loop().create_task(self._perform(key, held), name=key)

    async def _perform(self, key: str, held: InHand) -> None:
        try:
            await perform(self.kit, held.work, held.sender)
            self.tally.done += 1
        except LeaseLost as error:
            self.tally.lost += 1
            log.info("lease lost", run_id=key, reason=error.message)
        except SerenoError as error:
            self.tally.unavailable += 1
            log.warning(
                "work not committed; it falls due again when its lease ends", run_id=key, code=error.code, error=error.message
            )
        finally:
            del self._in_hand[key]
            self._ended.set()
            self.on_done()

    async def extend(self) -> None:
        """Prolongs each lease that is a third through; cancels work whose lease is gone."""
        third = self.kit.times.lease.total_seconds() / 3
        for held in list(self._in_hand.values()):
            asked = Moment.of(self.kit.clock)
            if held.leased.longest(asked) < third:
                continue
            try:
                await self.kit.store.extend(held.work, self.kit.times)
                held.leased = asked
                held.sender.extended(asked)
            except LeaseLost:
                if held.task is not None:
                    held.task.cancel()
            except SerenoError as error:
                log.warning("lease not extended", error=error.message)

    async def drain(self, seconds: float) -> None:
        """Waits for what is in hand, at most `seconds` or until cancelled; then cuts it off: its leases run out and it falls due again."""
        try:
            async with asyncio.timeout(seconds):
                while self._in_hand:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            log.warning("work was still in hand at the end; it falls due again when its lease ends", count=self.busy)
        finally:
            await self._cut_off()

    async def _cut_off(self) -> None:
        tasks = [held.task for held in list(self._in_hand.values()) if held.task is not None]
        for task in tasks:
            task.cancel()
        for task in tasks:
            await asyncio.gather(task, return_exceptions=True)
