"""Shared limits and missed ticks: what leaves in any window, and one run for all that a sleep missed (I7, W29)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sereno.testing.books import burst_over
from sereno.testing.simulation.checks.evidence import Case, Claim, Evidence, Facts


def pools(world: Evidence) -> Iterator[str]:
    """I7: the claims that may send keep to burst + rate·Δ in every window, on the clock that the pool counts by; and so do the requests
    in the provider's book, with the longest way from claim to first byte beside Δ. Each while one limit held."""
    for name, cases in _by_pool(world).items():
        claimed = [_instant(claim) for case in cases for claim in case.claims if claim.asks or claim.call]
        sent, longest = _sent(cases)
        for held in _limits(world, name):
            says = f"more than {held.burst} + {held.rate:g}/s"
            over = _over(claimed, held)
            if over > _ALMOST:
                yield f"I7 {name}: {over:.2f} claims {says}"
            over = _over(sent, held) - held.rate * longest
            if over > _ALMOST:
                yield f"I7 {name}: {over:.2f} requests {says} reached the provider"


_ALMOST = 1e-3


@dataclass(frozen=True, slots=True)
class _Held:
    """One limit of a pool and the true seconds in which it held."""

    rate: float
    burst: int
    since: float
    until: float


def _limits(world: Evidence, pool: str) -> Sequence[_Held]:
    """The limits one after the other; where the clock was changed, without a minute at each end."""
    sets = [(at.timestamp(), limits) for at, name, limits in world.people.pools if name == pool]
    ends = [at for at, _ in sets[1:]] + [world.ended.timestamp()]
    slack = 61.0 if world.processes.steps or world.stepped(world.began, world.ended) else 0.001
    held = [(at, end, limits) for (at, limits), end in zip(sets, ends, strict=True) if limits.rate]
    return [_Held(float(limits.rate or 0), limits.burst, at + slack, end - slack) for at, end, limits in held]


Instant = tuple[float, float]
"""True seconds, by which a limit held or did not, and seconds of the clock that the pool counts by."""


def _instant(claim: Claim) -> Instant:
    return claim.row.instant / 1e6, claim.row.straight / 1e6


def _over(instants: Sequence[Instant], held: _Held) -> float:
    inside = [counted for at, counted in instants if held.since <= at <= held.until]
    return burst_over(inside, rate=held.rate, burst=held.burst)


def _by_pool(world: Evidence) -> Mapping[str, Sequence[Case]]:
    found: dict[str, list[Case]] = {}
    for case in world.cases:
        found.setdefault(case.operation.pool, []).append(case)
    return found


def _sent(cases: Sequence[Case]) -> tuple[Sequence[Instant], float]:
    """The instants of the requests whose claim is known, and the longest way of one from its claim."""
    sent, longest = list[Instant](), 0.0
    for case in cases:
        claims = case.claimed()
        for request in case.sent():
            claim = claims.get(request.number)
            if claim is not None:
                way = max(0.0, request.host_at.timestamp() - claim.row.at / 1e6)
                at, counted = _instant(claim)
                sent.append((at + way, counted + way))
                longest = max(longest, way)
    return sent, longest


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
            if not any(before + _EDGE >= began and after - _EDGE <= int(following["started_at"]) for before, after in edges):
                yield f"I7 {poll}: run {following['number']} makes up a tick that run {run['number']} had passed"


_EDGE = 120_000_000


def _number(run: Facts) -> int:
    return int(run["number"])


def _edges(world: Evidence) -> Sequence[tuple[int, int]]:
    """The host's clock before and after each step with which plans were moved."""
    moved = [row for row in world.journal.get("clock", ()) if row.facts.get("moved")]
    return [(row.at - round(row.facts["seconds"] * 1_000_000), row.at) for row in moved]
