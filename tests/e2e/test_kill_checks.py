"""Each check of the kill harness finds what it is there for: a small true story, and the same story with one thing changed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sereno.testing.killing.campaign import Life, Log
from sereno.testing.killing.checks import Evidence, shortfalls, violations
from sereno.testing.killing.options import POINTS, Options

US = 1_000_000
OP, POLL, DELIVERY = "op_1", "poll_1", "dlv_1"


def entry(number: int, at: float, *, life: int = 1, answered: float | None = None) -> dict[str, Any]:
    """One request at the provider."""
    return {"number": number, "kind": "jobs", "subject": "run-0", "life": life, "at": at, "answered": answered, "broke": None}


def run(number: int, started: float, status: str, *, by: str, subject: str = OP) -> dict[str, Any]:
    """One run in the database."""
    times = {"started_at": int(started * US), "claim_expires_at": int((started + 2) * US)}
    return {"subject": subject, "number": number, "status": status, "claimed_by": by, **times}


def decision(number: int, claimed: float, asked: int) -> tuple[str, int, dict[str, Any]]:
    """One accepted decision in the journal."""
    return OP, number, {"claimed_at": int(claimed * US), "observation": {"provider_request_id": str(asked)}}


def story() -> Evidence:
    """Life 0 claims, sends and is killed; life 1 takes over two seconds later and commits; one item was told once."""
    arrivals = [entry(0, 100.1, life=0), entry(1, 102.6, answered=102.7)]
    operation = {"id": OP, "status_requests_used": 2, "max_status_requests": 9, "state": "waiting", "category": None}
    operation |= {"contract": "generic-status", "job_id": "run-0"}
    submitted = {
        **operation,
        "id": "op_2",
        "status_requests_used": 0,
        "state": "succeeded",
        "contract": "kill-keyed",
        "job_id": "end2-s0.0",
    }
    in_doubt = {**submitted, "id": "op_3", "state": "escalated", "category": "submit_unknown", "job_id": ""}
    lives = [Life(0, 0, 1, 99.0, killed=100.5), Life(1, 1, 2, 99.0)]
    return Evidence(
        options=Options(Path("nowhere")),
        log=Log(lives=lives),
        books={
            "entries": arrivals,
            "items": {"p0": [99.0]},
            "effects": {f"{POLL} p0-0": 1},
            "keys": {"k": "m"},
            "repeats": {},
            "other_bodies": [],
            "started": {"s0": ["k0", "k0"]},
            "jobs": {"s0": ["end2-s0.0"]},
            "lag_s": 0.0,
        },
        operations={"run-0": operation, "end2-s0.0": submitted, "op_3": in_doubt},  # type: ignore[dict-item]  # a dict reads like a row
        runs=[run(1, 100.0, "abandoned", by="life-0"), run(2, 102.5, "ok", by="life-1")],  # type: ignore[list-item]  # the same
        deliveries=[  # type: ignore[list-item]  # the same
            {"id": DELIVERY, "subject": subject, "state": "delivered", "last_outcome": "done"}
            for subject in (POLL, "op_2", "op_3")
        ],
        polls={"p0": POLL},
        decisions=[decision(2, 102.5, 1)],
        intents={OP: [100.0, 102.5]},
        arrivals={"run-0": arrivals},
    )


def books(found: Evidence, **changes: Any) -> Evidence:
    """The same story with other books."""
    return replace(found, books={**found.books, **changes})


def operation(found: Evidence, **changes: Any) -> Evidence:
    """The same story with another row of the operation."""
    return replace(found, operations={**found.operations, "run-0": {**dict(found.operations["run-0"]), **changes}})  # type: ignore[dict-item]  # as above


def arrivals(found: Evidence, *entries: dict[str, Any]) -> Evidence:
    """The same story with other requests at the provider."""
    return books(replace(found, arrivals={"run-0": list(entries)}), entries=list(entries))


PLANTS: dict[str, tuple[str | tuple[str, ...], Callable[[Evidence], Evidence]]] = {
    "more sent than persisted": ("I1 run-0", lambda found: operation(found, status_requests_used=1)),
    "more persisted than allowed": ("I1 run-0", lambda found: operation(found, max_status_requests=1)),
    "counted in vain without a lost lease": ("I3 run-0", lambda found: operation(found, status_requests_used=4)),
    "sent before it was counted": ("I2 run-0", lambda found: replace(found, intents={OP: [100.0, 102.65]})),
    "sent without a count": ("I2 run-0", lambda found: replace(found, intents={OP: [100.0]})),
    "two requests too close": ("W35 run-0", lambda found: arrivals(found, entry(0, 102.0, life=0), entry(1, 102.6))),
    "overlaps without lost leases": (
        "I9 run-0",
        lambda found: replace(
            arrivals(found, entry(0, 100.1, life=0, answered=103.0), entry(1, 102.6)),
            runs=[run(1, 100.0, "ok", by="life-0"), found.runs[1]],  # type: ignore[list-item]  # as above
        ),
    ),
    "a decision of an older claim": ("I8 op_1.2", lambda found: replace(found, decisions=[decision(2, 100.0, 1)])),
    "an answer of another worker": ("I8 op_1.2", lambda found: replace(found, decisions=[decision(2, 102.5, 0)])),
    "two decisions of one run": ("I8 op_1.2", lambda found: replace(found, decisions=[decision(2, 102.5, 1)] * 2)),
    "two effects": ("I17 poll_1 p0-0", lambda found: books(found, effects={f"{POLL} p0-0": 2})),
    "a key with another message": ("I17 k", lambda found: books(found, other_bodies=["k"])),
    "an item that nobody was told": ("I18 p0", lambda found: books(found, items={"p0": [99.0, 99.5]})),
    "a delivery that is dead": (
        "I31 dlv_1",
        lambda found: replace(
            found,
            deliveries=[  # type: ignore[list-item]  # as above
                {**dict(found.deliveries[0]), "state": "dead", "last_outcome": "no"},
                *found.deliveries[1:],
            ],
        ),
    ),
    "work taken up too late": (
        ("I31 op_1.1", "G16"),
        lambda found: replace(
            found,
            runs=[found.runs[0], run(2, 108.0, "ok", by="life-1")],  # type: ignore[list-item]  # as above
            decisions=[decision(2, 108.0, 1)],
        ),
    ),
    "work taken up too late by the database's own instants": (
        "G16",
        lambda found: replace(
            found,
            log=replace(found.log, lives=[replace(found.log.lives[0], killed=108.0), found.log.lives[1]]),
            runs=[found.runs[0], run(2, 108.1, "ok", by="life-1")],  # type: ignore[list-item]  # as above
            decisions=[decision(2, 108.1, 1)],
            intents={OP: [100.0, 102.5]},
        ),
    ),
    "two jobs for one submit": ("W21 s0", lambda found: books(found, jobs={"s0": ["end2-s0.0", "end2-s0.1"]})),
    "a submit under two keys": ("W21 s0", lambda found: books(found, started={"s0": ["k0", "k1"]})),
    "a keyed job that nobody knows": ("I31 s0", lambda found: books(found, jobs={"s0": ["end2-s0.9"]})),
    "a doubt that nobody is asked about": (
        "I10 op_3",
        lambda found: replace(
            found,
            operations={**found.operations, "op_3": {**dict(found.operations["op_3"]), "state": "waiting"}},  # type: ignore[dict-item]  # as above
        ),
    ),
    "a run left open": (
        "I31 op_1.3",
        lambda found: replace(found, runs=[*found.runs, run(3, 105.0, "running", by="life-1")]),  # type: ignore[list-item]  # as above
    ),
    "a worker that ended by itself": (
        "life 0",
        lambda found: replace(found, log=Log(faults=["life 0 ended by itself with code 1"])),
    ),
}


def test_the_true_story_has_no_violation() -> None:
    """One killed request was wasted but counted, and everything else is in order."""
    assert violations(story()) == []


@pytest.mark.parametrize("name", PLANTS)
def test_each_check_finds_its_plant(name: str) -> None:
    """One change of the story is found, under the name of its rule, and nothing else is."""
    starts, change = PLANTS[name]
    found = violations(change(story()))
    assert found
    assert all(text.startswith(starts) for text in found), found


def test_a_campaign_in_which_little_happened_proves_nothing() -> None:
    """Too few kills on open requests, no repeated key, no wasted count, a point that was never hit: each is said."""
    enough = {
        "cycles": 200,
        "kills_on_open_requests": 100,
        "repeated_keys": 1,
        "wasted_counts": 1,
        "leases_lost": 1,
        "kills_at_points": dict.fromkeys(POINTS, 3),
    }
    assert shortfalls(enough) == []
    for change in (
        {"kills_on_open_requests": 99},
        {"repeated_keys": 0},
        {"wasted_counts": 0},
        {"kills_at_points": {**dict.fromkeys(POINTS, 3), "claim.done": 2}},
    ):
        assert len(shortfalls({**enough, **change})) == 1
