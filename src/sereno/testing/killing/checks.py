"""The comparison: the books of provider, sources and receiver, and the kills, against what the database holds at the end."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sereno.testing.killing.campaign import Log
from sereno.testing.killing.options import MIN_GAP_S, POINTS, TIMES, Options, worker_name

_ROUNDING_S = 0.02
IN_DOUBT = ("escalated", "submit_unknown")
RECOVERY_S = 5.0
"""G16: work that was lost is taken up again within so many seconds after its lease: the tick, the writer's turn, the disk, a new worker's start."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the checks read."""

    options: Options
    log: Log
    books: Mapping[str, Any]
    operations: Mapping[str, sqlite3.Row]
    """By job; one whose job is not known by its own id."""
    runs: Sequence[sqlite3.Row]
    deliveries: Sequence[sqlite3.Row]
    polls: Mapping[str, str]
    """Id by name."""
    decisions: Sequence[tuple[str, int, Mapping[str, Any]]]
    intents: Mapping[str, Sequence[float]]
    """By operation: when a request was counted, in seconds."""
    arrivals: Mapping[str, Sequence[Mapping[str, Any]]]
    """By job: the requests that reached the provider, in order."""

    def allowed_late_s(self) -> float:
        """G16: the lease and five seconds, and what the machine itself was late by, as another process measured it."""
        return TIMES.lease.total_seconds() + RECOVERY_S + float(self.books["lag_s"])

    def abandoned(self) -> Counter[str]:
        """How many runs of each subject lost their lease."""
        return Counter(run["subject"] for run in self.runs if run["status"] == "abandoned")


def gather(options: Options, log: Log, books: Mapping[str, Any]) -> Evidence:
    """Reads the database once, after the last worker is gone."""
    database = sqlite3.connect(f"file:{options.database}?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    journal = database.execute("SELECT subject, run, kind, at, facts FROM journal ORDER BY seq").fetchall()
    facts = [(row, json.loads(row["facts"])) for row in journal]
    intents: dict[str, list[float]] = defaultdict(list)
    for row, said in facts:
        if row["kind"] == "intent" and said.get("asks"):
            intents[row["subject"]].append(row["at"] / 1e6)
    arrivals: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in books["entries"]:
        if entry["kind"] == "jobs":
            arrivals[entry["subject"]].append(entry)
    evidence = Evidence(
        options=options,
        log=log,
        books=books,
        operations={row["job_id"] or row["id"]: row for row in database.execute("SELECT * FROM operation")},
        runs=database.execute("SELECT * FROM run ORDER BY subject, number").fetchall(),
        deliveries=database.execute("SELECT * FROM delivery").fetchall(),
        polls={row["name"]: row["id"] for row in database.execute("SELECT name, id FROM poll")},
        decisions=[(row["subject"], row["run"], said) for row, said in facts if row["kind"] == "decision" and row["run"]],
        intents=intents,
        arrivals=arrivals,
    )
    database.close()
    return evidence


def budgets(evidence: Evidence) -> Iterator[str]:
    """I1, I3: on the wire ≤ persisted ≤ allowed for each operation; what was counted in vain has a lost lease behind it."""
    lost = evidence.abandoned()
    for job, row in evidence.operations.items():
        wire, counted, allowed = len(evidence.arrivals.get(job, ())), row["status_requests_used"], row["max_status_requests"]
        if not wire <= counted <= allowed:
            yield f"I1 {job}: {wire} on the wire, {counted} persisted, {allowed} allowed"
        elif counted - wire > lost[row["id"]]:
            yield f"I3 {job}: {counted - wire} counted in vain, but only {lost[row['id']]} leases were lost"


def counted_first(evidence: Evidence) -> Iterator[str]:
    """I2: when the j-th request arrived, j requests had been counted durably."""
    for job, arrivals in evidence.arrivals.items():
        counted = evidence.intents.get(evidence.operations[job]["id"], ())
        for number, entry in enumerate(arrivals, 1):
            if len(counted) < number or counted[number - 1] > entry["at"]:
                yield f"I2 {job}: request {number} arrived before it was counted"
                break


def paced(evidence: Evidence) -> Iterator[str]:
    """W35: two requests about one job are never closer than the contract's smallest gap."""
    for job, arrivals in evidence.arrivals.items():
        for first, second in zip(arrivals, arrivals[1:], strict=False):
            if second["at"] - first["at"] < MIN_GAP_S - _ROUNDING_S - evidence.books["lag_s"]:
                yield f"W35 {job}: two requests within {second['at'] - first['at']:.3f} s"


def overlaps(evidence: Evidence) -> Iterator[str]:
    """I9: requests about one job overlap at most as often as a lease of it was lost."""
    lost = evidence.abandoned()
    for job, arrivals in evidence.arrivals.items():
        ends = [entry["answered"] or entry["broke"] or entry["at"] for entry in arrivals]
        over = sum(ends[n] > arrivals[n + 1]["at"] for n in range(len(arrivals) - 1))
        if over > lost[evidence.operations[job]["id"]]:
            yield f"I9 {job}: {over} overlaps, {lost[evidence.operations[job]['id']]} lost leases"


def owners(evidence: Evidence) -> Iterator[str]:
    """I8: each accepted decision was made by the owner of its run: under that run's claim, on an answer that went to that worker."""
    runs = {(run["subject"], run["number"]): run for run in evidence.runs}
    jobs = {entry["number"]: entry for entry in evidence.books["entries"]}
    for subject, number, facts in evidence.decisions:
        run = runs[subject, number]
        if facts.get("claimed_at") not in (None, run["started_at"]):
            yield f"I8 {subject}.{number}: a decision of an older claim was accepted"
        asked = (facts.get("observation") or {}).get("provider_request_id")
        if asked is not None and worker_name(jobs[int(asked)]["life"]) != run["claimed_by"]:
            yield f"I8 {subject}.{number}: it rests on an answer that went to another worker than its owner {run['claimed_by']}"
    many = Counter((subject, number) for subject, number, _ in evidence.decisions)
    yield from (f"I8 {subject}.{number}: {count} decisions" for (subject, number), count in many.items() if count > 1)


def effects(evidence: Evidence) -> Iterator[str]:
    """I17: each key at most one effect, whatever arrived how often; one thing has one key; a key always brings the same message."""
    for what, count in evidence.books["effects"].items():
        if count != 1:
            yield f"I17 {what}: {count} effects"
    yield from (f"I17 {key}: came back with another message" for key in evidence.books["other_bodies"])


def delivered(evidence: Evidence) -> Iterator[str]:
    """Every change of every watched document, and the end of every operation that ended, took effect."""
    took = evidence.books["effects"]
    for name, items in evidence.books["items"].items():
        missing = [n for n in range(len(items)) if f"{evidence.polls[name]} {name}-{n}" not in took]
        if missing:
            yield f"I18 {name}: items {missing[:5]} of {len(items)} were never delivered"
    for row in evidence.deliveries:
        if row["state"] != "delivered":
            yield f"I31 {row['id']}: the delivery ended {row['state']}: {row['last_outcome']}"
    told = {row["subject"] for row in evidence.deliveries}
    for job, row in evidence.operations.items():
        if job.startswith("end") and row["state"] != "succeeded":
            yield f"I10 {job}: {row['state']}, not succeeded"
        if job.startswith("small") and (row["state"], row["category"]) != ("escalated", "request_budget_exhausted"):
            yield f"I10 {job}: {row['state']} {row['category']}, not escalated for its budget"
        if not job.startswith("run") and row["id"] not in told:
            yield f"I18 {job}: nobody was told of its end"


def submits(evidence: Evidence) -> Iterator[str]:
    """W21, I17: one job for each submit at most, one key for all its requests, and a doubt is a question to a person."""
    for name, jobs in evidence.books["jobs"].items():
        keys = evidence.books["started"][name]
        if len(jobs) != 1 or len(set(keys)) != 1:
            yield f"W21 {name}: {len(jobs)} jobs were started by {len(keys)} requests with {len(set(keys))} keys"
        if jobs[0] not in evidence.operations and keys[0]:
            yield f"I31 {name}: its job {jobs[0]} is not known, though the provider honours the key"
    for job, row in evidence.operations.items():
        if row["contract"].startswith("kill-") and not row["job_id"] and (row["state"], row["category"]) != IN_DOUBT:
            yield f"I10 {job}: {row['state']} {row['category']} without a job, and nobody is asked"


def recovery(evidence: Evidence) -> tuple[list[float], list[str]]:
    """I31: how long after the kill (or the end of the lease of a stopped worker) lost work was taken up again, and what took too long."""
    killed = {worker_name(life.number): life.killed for life in evidence.log.lives}
    late, stuck = list[float](), list[str]()
    again = {
        (run["subject"], run["number"] + 1)
        for run in evidence.runs
        if run["status"] == "abandoned" and run["subject"].startswith("poll_")
    }
    """Runs of polls after one that died: where these die too, the poll waits longer on purpose."""
    for run, following in zip(evidence.runs, evidence.runs[1:], strict=False):
        if run["status"] != "abandoned" or following["subject"] != run["subject"] or (run["subject"], run["number"]) in again:
            continue
        died = killed.get(run["claimed_by"])
        after_lease = (following["started_at"] - run["claim_expires_at"]) / 1e6
        after_kill = -1.0 if died is None else following["started_at"] / 1e6 - died
        # Work that was lost while its worker lived on (stopped, or too slow) counts from its claim.
        seconds = after_kill if after_kill >= 0 else after_lease + TIMES.lease.total_seconds()
        late.append(seconds)
        if max(seconds, after_lease) > evidence.allowed_late_s():
            stuck.append(f"I31 {run['subject']}.{run['number']}: taken up again {seconds:.2f} s after its worker was lost")
    stuck += [
        f"I31 {run['subject']}.{run['number']}: still running after the drain"
        for run in evidence.runs
        if run["status"] == "running"
    ]
    return late, stuck


def after_the_lease(evidence: Evidence) -> Iterator[str]:
    """G16: by the database's own instants alone, no lost work waits longer than this after its lease."""
    late = [seconds for seconds in after_lease(evidence) if seconds > RECOVERY_S + evidence.books["lag_s"]]
    yield from (f"G16: lost work was taken up again {seconds:.2f} s after its lease" for seconds in late)


def after_lease(evidence: Evidence) -> list[float]:
    """How long after its lease each lost run was followed by the next. A poll whose runs die again and again waits on purpose."""
    died = {(run["subject"], run["number"]) for run in evidence.runs if run["status"] == "abandoned"}
    found = []
    for run, following in zip(evidence.runs, evidence.runs[1:], strict=False):
        same = run["status"] == "abandoned" and following["subject"] == run["subject"]
        if same and not (run["subject"].startswith("poll_") and (run["subject"], run["number"] - 1) in died):
            found.append((following["started_at"] - run["claim_expires_at"]) / 1e6)
    return found


CHECKS: Sequence[Callable[[Evidence], Iterator[str]]] = (
    budgets,
    counted_first,
    paced,
    overlaps,
    owners,
    effects,
    delivered,
    submits,
    after_the_lease,
)


def violations(evidence: Evidence) -> list[str]:
    """All that must not have happened."""
    return [*evidence.log.faults, *recovery(evidence)[1], *(found for check in CHECKS for found in check(evidence))]


def figures(evidence: Evidence) -> dict[str, Any]:
    """How much happened."""
    entries, log = evidence.books["entries"], evidence.log
    killed = {life.number for life in log.lives if life.killed is not None}
    late = sorted(recovery(evidence)[0])
    gaps = [b["at"] - a["at"] for found in evidence.arrivals.values() for a, b in zip(found, found[1:], strict=False)]
    persisted, wire = (
        sum(row["status_requests_used"] for row in evidence.operations.values()),
        sum(map(len, evidence.arrivals.values())),
    )
    span = (log.calm_at - log.lives[0].started) or 1.0
    return {
        "cycles": evidence.options.cycles,
        "kills": len(killed),
        "kills_at_random": log.random_kills,
        "kills_at_points": {point: log.points[point] for point in POINTS},
        "kills_on_open_requests": len(killed & {entry["life"] for entry in entries if entry["broke"] is not None}),
        "stops_past_the_lease": log.pauses,
        "stale_commits_refused": evidence.options.log.read_text(errors="replace").count("lease lost"),
        "requests": len(entries),
        "requests_per_second": round(sum(entry["at"] < log.calm_at for entry in entries) / span, 1),
        "open_requests_broken": sum(entry["broke"] is not None for entry in entries),
        "status_requests_on_wire": wire,
        "status_requests_persisted": persisted,
        "wasted_counts": persisted - wire,
        "smallest_gap_s": round(min(gaps, default=0.0), 3),
        "keys": len(evidence.books["keys"]),
        "repeated_keys": len(evidence.books["repeats"]),
        "changes": sum(map(len, evidence.books["items"].values())),
        "effects": sum(evidence.books["effects"].values()),
        "leases_lost": sum(evidence.abandoned().values()),
        "recovery_s": {"median": round(late[len(late) // 2], 2), "longest": round(late[-1], 2)} if late else None,
        "recovery_allowed_s": round(evidence.allowed_late_s(), 2),
        "after_the_lease_s": round(max(after_lease(evidence), default=0.0), 2),
        "submits": len(evidence.books["started"]),
        "submits_repeated": sum(len(keys) > 1 for keys in evidence.books["started"].values()),
        "submits_in_doubt": sum((row["state"], row["category"]) == IN_DOUBT for row in evidence.operations.values()),
        "machine_lag_s": round(evidence.books["lag_s"], 3),
    }


def shortfalls(found: Mapping[str, Any]) -> list[str]:
    """What did not happen often enough for the campaign to prove anything."""
    short = []
    if found["kills_on_open_requests"] * 2 < found["cycles"]:
        short.append(f"only {found['kills_on_open_requests']} of {found['cycles']} kills hit an open request")
    short += [f"no {name}" for name in ("repeated_keys", "leases_lost") if found[name] <= 0]
    if found["cycles"] >= 100:
        short += ["no wasted_counts"] if found["wasted_counts"] <= 0 else []
        short += [f"{point}: {hits} hits, 3 are needed" for point, hits in found["kills_at_points"].items() if hits < 3]
    return short
