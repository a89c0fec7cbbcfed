"""Fences and leases: a stale writer loses, requests overlap no more often than leases end, and nothing stays held (I8, I9, I31)."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sereno.core.values import to_micros
from sereno.testing.simulation.checks.evidence import Case, Evidence, Facts, Row


def stale(world: Evidence) -> Iterator[str]:
    """I8: a run is settled once, by the row's last claim, and never after somebody took it away."""
    for subject, rows in world.journal.items():
        if subject.startswith(("op_", "dlv_")):
            yield from _stale(subject, rows)


def _stale(subject: str, rows: Sequence[Row]) -> Iterator[str]:
    last, settled = 0, set[int]()
    for row in rows:
        if row.kind == "intent" and "claimed_at" in row.facts:
            if row.run <= last:
                yield f"I8 {subject}: run {row.run} was claimed after run {last}"
            last = row.run
        elif row.settles and not row.word:
            if row.run != last:
                yield f"I8 {subject}: run {row.run} was written when run {last} held it"
            if row.run in settled:
                yield f"I8 {subject}: run {row.run} was written twice"
            settled.add(row.run)
        elif row.word:
            last = max(last, row.run)


def overlapping_runs(world: Evidence) -> Iterator[str]:
    """I8: of two runs of a poll that lived at once, one alone was committed; a run that another took over is closed as abandoned."""
    edges = [row.at for row in world.journal.get("clock", ())]
    for subject, runs in _runs(world).items():
        for run, following in zip(runs, runs[1:], strict=False):
            if run["status"] == "running":
                yield f"I8 {subject}: run {run['number']} is still running, and run {following['number']} came after it"
            if run["status"] not in ("ok", "failed") or run["finished_at"] is None:
                continue
            began, ended = int(following["started_at"]), int(run["finished_at"])
            # After a step back an instant that comes later reads earlier.
            back = any(began <= edge <= ended for edge in edges) or world.set_back
            if began < ended and not back:
                yield f"I8 {subject}: run {run['number']} was committed after run {following['number']} had taken it over"


def _runs(world: Evidence) -> Mapping[str, list[Facts]]:
    found: dict[str, list[Facts]] = {}
    for run in world.rows.get("run", ()):
        found.setdefault(run["subject"], []).append(run)
    for runs in found.values():
        runs.sort(key=_number)
    return found


def _number(run: Facts) -> int:
    return int(run["number"])


def overlaps(world: Evidence) -> Iterator[str]:
    """I9: looks that were open at once are no more than the claims of the operation that ran out unsettled."""
    for case in world.cases:
        lost = sum(claim.settled is None for claim in case.claims if claim.asks)
        found = sum(_open_together(case, world.times.total_deadline))
        if found > lost:
            yield f"I9 {case.id}: {found} looks began while another was open, and {lost} leases ran out"


def _open_together(case: Case, longest: timedelta) -> Iterator[bool]:
    ends: datetime | None = None
    for look in case.looks:
        yield ends is not None and look.at < ends
        # A process that was stopped reads its answer late; the provider had given it long before.
        end = look.at + longest if look.answered is None else min(look.answered, look.at + longest)
        ends = end if ends is None or end > ends else ends


_LIVE = {"operation": ("submitting", "waiting"), "poll": ("active",), "delivery": ("queued", "sending")}


def recovered(world: Evidence) -> Iterator[str]:
    """I31: after the calm nothing is due, or held, for longer than a lease, a tick and what its pool makes it wait for."""
    patience = round((world.times.lease * 2 + world.times.tick + timedelta(seconds=60)).total_seconds() * 1_000_000)
    if world.ended < world.calm + timedelta(microseconds=patience):
        return
    for table, states in _LIVE.items():
        for row in world.rows.get(table, ()):
            if row["state"] not in states:
                continue
            due, held = row.get("due"), row.get("lease_until")
            if due is not None and due < world.end_us - patience:
                yield f"I31 {row['id']}: due for {(world.end_us - due) / 1e6:.0f} s, and nobody took it"
            elif held is not None and held < world.end_us - patience:
                yield f"I31 {row['id']}: held by nobody for {(world.end_us - held) / 1e6:.0f} s"


def taken_over(world: Evidence) -> Iterator[str]:
    """I31: what a dead process had in hand is claimed again within a lease and a tick of the end of its lease, once faults are over."""
    late = world.times.lease + world.times.tick + timedelta(seconds=60)
    calm = to_micros(world.calm)
    for subject, claims in world.claims.items():
        for claim, following in zip(claims, claims[1:], strict=False):
            until = claim.row.instant + claim.until - claim.row.at
            if claim.settled is None and until > calm and following.row.facts.get("taken_over"):
                over = timedelta(microseconds=following.row.instant - until)
                if over > late:
                    yield f"I31 {subject}: taken over {over} after the lease of run {claim.row.run} ended"


def given_up(world: Evidence) -> Iterator[str]:
    """I8: what was settled or given back is held by nobody: whoever claims it next takes nothing over."""
    for subject, claims in world.claims.items():
        for claim, following in zip(claims, claims[1:], strict=False):
            if claim.settled is not None and following.row.facts.get("taken_over"):
                yield f"I8 {subject}: run {following.row.run} took over run {claim.row.run}, which had been settled"
