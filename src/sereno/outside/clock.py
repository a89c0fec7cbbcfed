"""Seam 1: the host's clock. The only place that reads it."""

import asyncio
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from sereno.ports import Boot

LONGEST_SLEEP = 86_400.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_OFFSETS = Path("/proc/self/timens_offsets")
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux: CLOCK_BOOTTIME. macOS has none; its CLOCK_MONOTONIC goes on while the machine sleeps (clock_gettime(3))."""


class SystemClock:
    """Wall time, monotonic time, time since boot and sleep of this host."""

    def now(self) -> datetime:
        """The host's wall clock, aware UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def boot(self) -> Boot:
        """Seconds since the host started, those asleep included. Without a boot id (not on Linux) the id is empty."""
        return Boot(_boot_id(), time.clock_gettime(_SINCE_BOOT) - _namespace_offset())

    async def sleep(self, seconds: float) -> None:
        """Sleeps; NaN and negative count as 0, more than a day as a day."""
        await asyncio.sleep(min(seconds, LONGEST_SLEEP) if seconds > 0 else 0)


@cache
def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text("ascii").strip()[:64]
    except (OSError, ValueError):
        return ""


@cache
def _namespace_offset() -> float:
    """What a time namespace adds to this process's boot time (time_namespaces(7)): the boot id is the same in all of them."""
    try:
        rows = [line.split() for line in _OFFSETS.read_text("ascii").splitlines()]
        return next(int(seconds) + int(nanos) / 1e9 for name, seconds, nanos in rows if name in ("boottime", "7"))
    except (OSError, ValueError, StopIteration):
        return 0.0
