"""The journal: it alone gives every decision again, and shows no fault (W28, W33, W43, W44, I12)."""

from collections.abc import Iterator
from datetime import timedelta

from sereno.core.operation import LIVE
from sereno.testing.simulation.checks.evidence import Evidence

KEEP_RUNS = timedelta(hours=6)
"""How long the processes of a world keep closed runs."""


def replayed(world: Evidence) -> Iterator[str]:
    """W28, W44: what replaying and checking the journal came to."""
    yield from (line if line[:1] in "WI" else f"W28 journal: {line}" for line in world.replayed)


def in_order(world: Evidence) -> Iterator[str]:
    """W26, I2: a claim that sends is written before its decision, and every decision of a step belongs to a claim."""
    for case in world.cases:
        claimed = set[int]()
        for row in case.rows:
            if row.kind == "intent" and "claimed_at" in row.facts:
                claimed.add(row.run)
            elif "draw" in row.facts and row.run not in claimed:
                yield f"I25 {case.id}: run {row.run} was decided, and no intent was written"


def sources(world: Evidence) -> Iterator[str]:
    """W26: each plan of a wait that goes on names where its instant comes from."""
    for case in world.cases:
        for row in case.rows:
            if "draw" in row.facts and row.facts.get("state") in LIVE and not row.facts.get("delay_source"):
                yield f"W26 {case.id}: the plan of run {row.run} names no source"


def kept_runs(world: Evidence) -> Iterator[str]:
    """P06: each run has its record, from its claim until it was over for as long as such records are kept."""
    if world.set_back:
        return
    since = world.end_us - round(KEEP_RUNS.total_seconds() * 1_000_000)
    kept = {(str(run["subject"]), int(run["number"])) for run in world.rows.get("run", ())}
    for subject, claims in world.claims.items():
        for claim in claims:
            if claim.row.at > since and (subject, claim.row.run) not in kept:
                yield f"P06 {subject}: there is no record of run {claim.row.run}"
