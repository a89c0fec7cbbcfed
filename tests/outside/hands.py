"""The clock and timers of an event loop, moved by hand: no test waits for time to pass."""

import asyncio
from collections.abc import Callable


class Hands:
    """What a loop offers of its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: dict[Alarm, Callable[[], None]] = {}

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, ring: Callable[[], None]) -> "Alarm":
        return self.call_at(self.now + seconds, ring)

    def call_at(self, when: float, ring: Callable[[], None]) -> "Alarm":
        alarm = Alarm(self, when)
        self.timers[alarm] = ring
        return alarm

    async def move(self, to: float) -> None:
        """Lets each timer ring at its instant, and whoever it wakes run."""
        while due := sorted((alarm for alarm in self.timers if alarm.when <= to), key=lambda alarm: alarm.when):
            self.now = max(self.now, due[0].when)
            self.timers.pop(due[0])()
            await settle()
        self.now = to


class Alarm:
    """One timer."""

    def __init__(self, hands: Hands, when: float) -> None:
        self._hands, self.when = hands, when

    def cancel(self) -> None:
        self._hands.timers.pop(self, None)


async def settle() -> None:
    """Lets whoever can run, run."""
    for _ in range(3):
        await asyncio.sleep(0)
