"""What a run of many worlds has to visit: every fault kind, crash point and cell of the core's own tables, and every probe."""

from collections.abc import Iterator

from sereno.core.call import CallKind, CallOutcome
from sereno.core.delivery import DeliveryState, OutcomeKind
from sereno.core.effect import Policy
from sereno.core.observation import ObservationKind
from sereno.core.operation import TRANSITIONS, Event, OperationState
from sereno.testing.simulation import outside
from sereno.testing.simulation.coverage import Required
from sereno.testing.simulation.process import database, fate, points
from sereno.testing.simulation.terms import Group
from sereno.testing.simulation.visits.probes import PROBES

ENGINE_POINTS = (
    "claim.done",
    "operation.before_send",
    "operation.replied",
    "call.before_send",
    "call.replied",
    "poll.read",
    "delivery.before_act",
    "delivery.acted",
)
"""The engine's own crash points."""
_NEVER = ("store.park.", "store.reserve_hop.")
"""Work is parked only where our own code breaks, and no contract here follows redirects: both are tested by name elsewhere."""
_W, _E = OperationState.WAITING, OperationState.ESCALATED
_BY_NAME = {
    "submitting × answered_stop": "tests/core: a submit that certainly was not sent is given up",
}


def faults() -> Iterator[str]:
    """Every fault kind, as the plan counts it."""
    for group, kinds in outside.KINDS.items():
        yield from (f"{group}.{kind}" for kind in kinds)
    yield from (f"{Group.STORE}.{kind}" for kind in database.KINDS)
    yield from (f"{Group.PROCESS}.{kind}" for kind in fate.PROCESS_KINDS)
    yield from (f"{Group.CLOCK}.{kind}" for kind in (*fate.CLOCK_KINDS, *fate.LIFE_KINDS))
    yield f"{Group.CRASH}.point"


def crash_points() -> Iterator[str]:
    """Every named point at which a process can die."""
    named = (*points.POINTS, *outside.POINTS, *ENGINE_POINTS)
    yield from (point for point in named if not point.startswith(_NEVER))


def cells() -> Iterator[str]:
    """Every cell of the transition tables that a commit can reach."""
    yield from (
        f"operation: {before} × {event} → {after}" for (before, event), after in TRANSITIONS.items() if _moved(before, event)
    )
    yield from (f"look: {_W} × {kind} → {after}" for kind, after in _LOOKS)
    yield from (f"call: {kind} × {outcome} → {state}" for kind, outcome, state in _CALLS)
    yield from (f"delivery: {policy} {before} × {outcome} → {state}" for policy, before, outcome, state in _DELIVERIES)
    yield from _POLLS


def _moved(before: OperationState, event: Event) -> bool:
    """A question is closed by an answer or by silence: no step of ours looks meanwhile, and what comes in is a change."""
    return f"{before} × {event}" not in _BY_NAME and (before is not _E or event in _OF_QUESTIONS)


_OF_QUESTIONS = (
    Event.CHANGED,
    Event.ANSWERED_GO_ON,
    Event.ANSWERED_SUBMIT,
    Event.ANSWERED_FAILED,
    Event.ANSWERED_ACCEPT,
    Event.ANSWERED_STOP,
    Event.SILENCE,
)
_K = ObservationKind
_LOOKS = (
    (_K.PENDING, _W),
    (_K.PENDING, _E),
    (_K.SUCCESS, OperationState.SUCCEEDED),
    (_K.SUCCESS, _W),
    (_K.FAILURE, OperationState.FAILED),
    (_K.CANCELLED, OperationState.CANCELLED),
    (_K.EXPIRED, OperationState.EXPIRED),
    (_K.NEEDS_INPUT, _E),
    (_K.PARTIAL, _E),
    (_K.UNKNOWN_STATE, _E),
    (_K.UNKNOWN_STATE, _W),
    (_K.CONTRADICTION, _E),
    (_K.INTEGRATION_FAILURE, _E),
    (_K.AUTHORIZATION_DENIED, _E),
    (_K.THROTTLED, _W),
    (_K.THROTTLED, _E),
    (_K.TRANSPORT, _W),
    (_K.TRANSPORT, _E),
    (_K.NOT_FOUND_YET, _W),
    (_K.UNKNOWN_OPERATION, _E),
    (_K.NOT_SENT, _W),
)
_O, _C = CallOutcome, CallKind
_CALLS = (
    (_C.SUBMIT, _O.ACCEPTED, "done"),
    (_C.SUBMIT, _O.DUPLICATE, "done"),
    (_C.SUBMIT, _O.DENIED, "queued"),
    (_C.SUBMIT, _O.THROTTLED, "queued"),
    (_C.SUBMIT, _O.REFUSED, "refused"),
    (_C.SUBMIT, _O.UNREADABLE, "unknown"),
    (_C.SUBMIT, _O.UNKNOWN, "sending"),
    (_C.SUBMIT, _O.UNKNOWN, "unknown"),
    (_C.SUBMIT, _O.NOT_SENT, "queued"),
    (_C.CANCEL, _O.ACCEPTED, "done"),
    (_C.CANCEL, _O.THROTTLED, "queued"),
    (_C.CANCEL, _O.UNKNOWN, "unknown"),
    (_C.CANCEL, _O.UNKNOWN, "sending"),
)
_P, _D, _R = Policy, DeliveryState, OutcomeKind
_DELIVERIES = (
    *((policy, "queued", _R.DONE, _D.DELIVERED) for policy in Policy),
    *((policy, "queued", _R.RETRY, _D.QUEUED) for policy in Policy),
    *((policy, "queued", _R.REFUSED, _D.DEAD) for policy in Policy),
    (_P.KEYED, "queued", _R.UNKNOWN, _D.SENDING),
    (_P.AT_LEAST_ONCE, "queued", _R.UNKNOWN, _D.SENDING),
    (_P.AT_MOST_ONCE, "queued", _R.UNKNOWN, _D.AMBIGUOUS),
    (_P.AT_MOST_ONCE, "interrupted", _R.UNKNOWN, _D.AMBIGUOUS),
    (_P.KEYED, "interrupted", _R.DONE, _D.DELIVERED),
    (_P.AT_LEAST_ONCE, "interrupted", _R.DONE, _D.DELIVERED),
    (_P.KEYED, "interrupted", _R.UNKNOWN, _D.SENDING),
    (_P.AT_LEAST_ONCE, "interrupted", _R.UNKNOWN, _D.AMBIGUOUS),
    (_P.KEYED, "interrupted", _R.REFUSED, _D.AMBIGUOUS),
)
_POLLS = (
    "poll: ok × matched → active",
    "poll: failed × failed → active",
)


def required(seeds: int) -> Required:
    """What so many worlds have to visit: each kind of fault a hundred times in a thousand worlds, everything else once."""
    whole = seeds >= 1000
    return Required(
        faults=list(faults()),
        points=list(crash_points()),
        cells=list(cells()),
        probes=list(PROBES),
        least={"faults": 100 if whole else seeds // 20, "points": int(whole), "cells": int(whole), "probes": int(whole)},
    )
