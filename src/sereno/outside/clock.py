"""Seam 1: the host's clock. The only place that reads it."""

import asyncio
import time
from datetime import UTC, datetime

LONGEST_SLEEP = 86_400.0


class SystemClock:
    """Wall time, monotonic time and sleep of this host."""

    def now(self) -> datetime:
        """The host's wall clock, aware UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleeps; NaN and negative count as 0, more than a day as a day."""
        await asyncio.sleep(min(seconds, LONGEST_SLEEP) if seconds > 0 else 0)
