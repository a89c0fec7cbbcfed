"""A wake-up that can be rung from inside the process."""

import asyncio


class Wakeup:
    """Waits until it is rung or the time is over."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Ends the current wait, or the next one at once."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Returns when rung, or after `seconds` (clamped to 0 … one hour)."""
        seconds = min(max(seconds, 0.0), 3600.0)
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            pass
        self._event.clear()
