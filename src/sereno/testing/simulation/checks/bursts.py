"""Shared limits and missed ticks: what leaves in any window, and one run for all that a sleep missed (I7, W29)."""

from collections.abc import Iterator, Mapping, Sequence

from sereno.testing.books import burst_over
from sereno.testing.simulation.checks.evidence import Case, Evidence, Facts


def pools(world: Evidence) -> Iterator[str]:
    """I7: the claims that may send keep to burst + rate·Δ in every window, on the clock that the pool counts by; and so do the requests
    in the provider's book, with the longest way from claim to first byte beside Δ."""
    limits = {pool["name"]: pool for pool in world.rows.get("pool", ()) if pool.get("rate")}
    for name, cases in _by_pool(world).items():
        pool = limits.get(name)
        if pool is None:
            continue
        rate, burst = float(pool["rate"]), int(pool["burst"])
        claimed = [claim.row.straight / 1e6 for case in cases for claim in case.claims if claim.asks or claim.call]
        over = burst_over(claimed, rate=rate, burst=burst)
        if over > _ALMOST:
            yield f"I7 {name}: {over:.2f} claims more than {burst} + {rate:g}/s"
        over = _at_the_provider(cases, rate, burst)
        if over > _ALMOST:
            yield f"I7 {name}: {over:.2f} requests more than {burst} + {rate:g}/s reached the provider"


_ALMOST = 1e-3


def _by_pool(world: Evidence) -> Mapping[str, Sequence[Case]]:
    found: dict[str, list[Case]] = {}
    for case in world.cases:
        found.setdefault(case.operation.pool, []).append(case)
    return found


def _at_the_provider(cases: Sequence[Case], rate: float, burst: int) -> float:
    sent, longest = [], 0.0
    for case in cases:
        claims = case.claimed()
        for request in case.sent():
            claim = claims.get(request.number)
            if claim is not None:
                moved = (request.host_at.timestamp()) - claim.row.at / 1e6
                sent.append(claim.row.straight / 1e6 + moved)
                longest = max(longest, moved)
    return burst_over(sent, rate=rate, burst=burst) - rate * max(longest, 0.0)


def ticks(world: Evidence) -> Iterator[str]:
    """I7: missed ticks are one run: what a run of a poll plans is never before that run, but where the source has more to read."""
    runs: dict[str, list[Facts]] = {}
    for run in world.rows.get("run", ()):
        if run["kind"] == "poll" and run["status"] in ("ok", "failed"):
            runs.setdefault(run["subject"], []).append(run)
    edges = _edges(world)
    for poll, kept in runs.items():
        kept.sort(key=_number)
        for run, following in zip(kept, kept[1:], strict=False):
            planned, began = int(following["scheduled_for"]), int(run["started_at"])
            if planned >= began or planned == run["scheduled_for"] or int(following["started_at"]) < began:
                continue
            if not any(began - _EDGE <= edge <= int(following["started_at"]) + _EDGE for edge in edges):
                yield f"I7 {poll}: run {following['number']} makes up a tick that run {run['number']} had passed"


_EDGE = 120_000_000


def _number(run: Facts) -> int:
    return int(run["number"])


def _edges(world: Evidence) -> Sequence[int]:
    """Host instants at which plans were moved."""
    return [row.at for row in world.journal.get("clock", ()) if row.facts.get("moved")]
