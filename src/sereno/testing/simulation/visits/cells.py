"""What a world visited, read from its journal, its rows and its books: cells of the transition tables, probes, requests."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sereno.testing.simulation.lived import Lived
from sereno.testing.simulation.outside import Outside
from sereno.testing.simulation.terms import Persisted

Facts = Mapping[str, Any]


def committed(kept: Persisted) -> Counter[str]:
    """The cells whose transition is in the journal."""
    policies = {delivery.id: delivery.effect.action.policy.value for delivery in kept.deliveries}
    kinds = {row["id"]: row["kind"] for row in kept.rows["provider_call"]}
    found: Counter[str] = Counter()
    for row in kept.rows["journal"]:
        if row["kind"] == "decision":
            found.update(_cells(str(row["subject"]), json.loads(row["facts"]), policies, kinds))
    return found


def _cells(subject: str, facts: Facts, policies: Mapping[str, str], kinds: Mapping[str, str]) -> Iterator[str]:
    if subject.startswith("op_") and "state_before" in facts:
        yield from _of_operation(facts, kinds)
    elif subject.startswith("dlv_") and "outcome" in facts:
        before = "interrupted" if facts["interrupted"] else "queued"
        yield f"delivery: {policies.get(subject, '?')} {before} × {facts['outcome']} → {facts['state']}"
    elif subject.startswith("poll_") and facts.get("decision") == "run":
        yield f"poll: {facts['status']} × {_poll_input(facts)} → {facts['state']}"


def _of_operation(facts: Facts, kinds: Mapping[str, str]) -> Iterator[str]:
    before, after, call = facts["state_before"], facts["state"], facts.get("call")
    if not facts.get("edited"):
        yield f"operation: {before} × {facts['event']} → {after}"
    if facts.get("observation"):
        yield f"look: {before} × {facts['observation']['kind']} → {after}"
    if isinstance(call, dict) and call.get("answer"):
        kind = kinds.get(str(call.get("id")), "?")
        yield f"call: {kind} × {call['answer']['outcome']} → {call['state']}"
    elif facts.get("category") and not facts.get("observation") and before != "escalated":
        yield f"close: {before} × {facts['category']} → {after}"


def _poll_input(facts: Facts) -> str:
    if facts["edited"]:
        return "edited"
    if facts["condition_errors"]:
        return "condition error"
    if facts["matched"]:
        return "matched"
    return "changed" if facts["changed"] else "failed" if facts["error"] else "nothing"


@dataclass(frozen=True, slots=True)
class OnWire:
    """Requests in the provider's book."""

    all: int
    looks: int
    wasted: int


def requests(lived: Lived) -> OnWire:
    """Requests of all kinds, and status requests that were counted and never arrived."""
    asked = lived.outside.provider.requests
    looks = sum(one.kind == "look" for one in asked)
    counted = sum(operation.spend.status_requests for operation in lived.persisted.operations)
    return OnWire(len(asked), looks, max(0, counted - looks))


def book_of(outside: Outside) -> Sequence[str]:
    """All that the outside wrote down, as text; sets in order."""
    provider = outside.provider
    orders = [(one.ref, sorted(one.keys), sorted(one.bodies), one.jobs, one.doubt, one.waits) for one in provider.orders.values()]
    books = (provider.requests, provider.jobs, orders, outside.received.arrivals, outside.acted, outside.feeds)
    return [repr(book) for book in books]
