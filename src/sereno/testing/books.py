"""What can be read off a provider's own book: instants of requests, in seconds."""

from collections import Counter
from collections.abc import Sequence


def burst_over(sent: Sequence[float], *, rate: float, burst: int) -> float:
    """By how many sends the worst window of any length goes past `burst + rate·Δ`; 0 or less = the promise of I7 holds."""
    worst, least = float("-inf"), float("inf")
    for number, at in enumerate(sorted(sent)):
        least = min(least, number - rate * at)
        worst = max(worst, number + 1 - rate * at - least - burst)
    return worst


def busiest_second(instants: Sequence[float]) -> int:
    """The most instants that fall into one second of the clock."""
    return max(Counter(int(at) for at in instants).values(), default=0)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, 95th of 100, and the largest, to three places; 0 where there is nothing."""
    ordered = sorted(values) or [0.0]
    last = len(ordered) - 1
    return {"median": round(ordered[last // 2], 3), "p95": round(ordered[last * 95 // 100], 3), "most": round(ordered[last], 3)}
