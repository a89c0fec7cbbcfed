"""What one fleet is made of."""

from collections.abc import Sequence
from dataclasses import dataclass

HOST = "fleet.example"
POOL = f"provider:{HOST}"
MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """One fleet on virtual time. Spans are (from, to) in seconds after all were registered together."""

    operations: int = 10_000
    seed: int = 1
    rate: float | None = 20.0
    """Requests per second that the pool allows; None = no limit."""
    burst: int = 20
    short_s: tuple[float, float] = (2 * MINUTE, 20 * MINUTE)
    long_s: tuple[float, float] = (20 * MINUTE, 240 * MINUTE)
    outages: Sequence[tuple[float, float]] = ((40 * MINUTE, 100 * MINUTE),)
    """When the provider answers nothing."""
    asleep: tuple[float, float] | None = (120 * MINUTE, 180 * MINUTE)
    """When no process of ours lives."""
    throttle_share: float = 0.03
    """Share of answers that are 429 with a Retry-After."""
    hours: float = 6.0
    """When everything must be over."""
