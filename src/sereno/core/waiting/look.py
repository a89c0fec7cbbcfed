"""The next look: when an operation asks again, and who said so (W06, W07, W13, W14, W26, W35)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sereno.core.budget import Allowance, Spend
from sereno.core.contract import Contract
from sereno.core.delay import first_delay, jittered, raw_backoff, steep_backoff
from sereno.core.escalation import at_text
from sereno.core.observing.seen import DelaySource, Observation, ObservationKind, ReadHint
from sereno.core.values import Json

EARLY_LOOKS = 2
"""A declared typical duration shapes the plans after this many answers at most (W06)."""

FROM_PROVIDER = (DelaySource.PROVIDER_RETRY_AFTER, DelaySource.PROVIDER_POLL_HINT)
"""Waits that nothing but a new answer of the provider may shorten (W35)."""

HELD = (*FROM_PROVIDER, DelaySource.MANUAL_EXTENSION)
"""Plans that are kept until they are over: the next looks after a person's answer carry its name (W20), and may hold a provider's wait."""


@dataclass(frozen=True, slots=True)
class Look:
    """A planned look. `due` is when the work is claimed next: the look, or the stop instant where the look would come too late
    (then the deadline closes it without a request, and `next_poll_at` is the provider's own later instant or None)."""

    due: datetime
    next_poll_at: datetime | None
    source: DelaySource
    reason: str
    facts: Mapping[str, Json]


def plan_look(
    contract: Contract,
    allowance: Allowance,
    observation: Observation,
    spend: Spend,
    started_at: datetime,
    when: tuple[datetime, float],
) -> Look:
    """Plans the next look from `when` = (receipt, draw in [0, 1)): the latest of Retry-After, hint and backoff.

    A provider's wait is a minimum. Where a Retry-After is beyond the minimum gap the wait carries its name even if the backoff is
    longer, because a wake-up may shorten a local wait but never one the provider asked for (W35). A local wait is cut so that the
    last look goes out `contract.answer_within` before the end (W32).
    """
    received_at, _ = when
    stops_at, limit = allowance.stops_at()
    found = _candidates(contract, observation, spend, started_at, when)
    if found.get(DelaySource.CONTRACT_SCHEDULE, received_at) >= stops_at:
        del found[DelaySource.CONTRACT_SCHEDULE]
    source, planned = max(found.items(), key=lambda pair: pair[1])
    if (
        source not in FROM_PROVIDER
        and found.get(DelaySource.PROVIDER_RETRY_AFTER, received_at) > received_at + contract.delays.min_gap
    ):
        source = DelaySource.PROVIDER_RETRY_AFTER
    facts: dict[str, Json] = {"candidates": {name.value: at.isoformat() for name, at in found.items()}}
    last = last_look(contract, stops_at, [received_at + contract.delays.min_gap, *_provided(found)])
    if last is not None and planned > last:
        facts["last_look"] = {"planned": planned.isoformat(), "stops_at": stops_at.isoformat(), "limit": limit}
        says = f"last look at {at_text(last)} ({source}), so that its answer can come before {at_text(stops_at)}"
        return Look(last, last, source, says, facts)
    if planned < stops_at:
        return Look(planned, planned, source, f"next look at {at_text(planned)} ({source})", facts)
    facts["clipped"] = {"planned": planned.isoformat(), "stops_at": stops_at.isoformat(), "limit": limit}
    kept = found[source] if source in FROM_PROVIDER and found[source] >= stops_at else None
    late = f"the next look ({source}) would be at {at_text(planned)}"
    reason = f"{late}, but the wait ends at {at_text(stops_at)}: no further request"
    return Look(stops_at, kept, source, reason, facts)


def no_look(allowance: Allowance, waits: Mapping[DelaySource, datetime], unread: datetime | None = None) -> Look:
    """Waits for a call-back until the end: there is no status call. What the provider asked for still holds for a cancel.

    A call-back that waits to be read, while a call was under way, is read next: at `unread`.
    """
    stops_at, _ = allowance.stops_at()
    source, wait = max(waits.items(), key=lambda pair: pair[1], default=(DelaySource.CONTRACT_SCHEDULE, None))
    if unread is not None and unread < stops_at:
        return Look(unread, wait, source, "no look: what the provider called back with is read now", {})
    return Look(stops_at, wait, source, f"no look: the provider calls back until {at_text(stops_at)}", {})


def last_look(contract: Contract, stops_at: datetime, floors: Sequence[datetime]) -> datetime | None:
    """The latest instant at which a look can still be answered before the end, or None where a floor forbids that."""
    last = stops_at - contract.answer_within
    return last if last >= max(floors) else None


def plan_first_look(
    contract: Contract, allowance: Allowance, waits: Mapping[DelaySource, datetime], when: tuple[datetime, float]
) -> Look:
    """Plans the first look after a submit from `when` = (receipt, draw in [0, 1)): the contract's first delay, spread so that jobs
    that were started together are not looked at together (W29), or what the answer asked for where that is later (W13)."""
    received_at, draw = when
    stops_at, _ = allowance.stops_at()
    submit = contract.submit
    own = contract.delays if submit is None or submit.first is None else replace(contract.delays, first=submit.first)
    found = {DelaySource.CONTRACT_SCHEDULE: received_at + max(first_delay(own, draw), own.min_gap), **waits}
    source, planned = max(found.items(), key=lambda pair: pair[1])
    if (
        source not in FROM_PROVIDER
        and waits.get(DelaySource.PROVIDER_RETRY_AFTER, received_at) > received_at + contract.delays.min_gap
    ):
        source = DelaySource.PROVIDER_RETRY_AFTER
    if planned < stops_at:
        return Look(planned, planned, source, f"first look at {at_text(planned)} ({source})", {})
    kept = max((at for at in waits.values() if at >= stops_at), default=None)
    return Look(stops_at, kept, source, f"the first look ({source}) would come after the end {at_text(stops_at)}", {})


def _provided(found: Mapping[DelaySource, datetime]) -> Sequence[datetime]:
    return [at for source, at in found.items() if source in FROM_PROVIDER]


def provider_waits(hints: Sequence[ReadHint], received_at: datetime) -> dict[DelaySource, datetime]:
    """The waits the provider asked for that lie ahead, by source. A Retry-After of 0 asks for nothing (I5)."""
    waits: dict[DelaySource, datetime] = {}
    for hint in hints:
        if hint.until is not None and hint.until > received_at and hint.source in FROM_PROVIDER:
            waits[hint.source] = max(hint.until, waits.get(hint.source, hint.until))
    return waits


def rejected_hints(hints: Sequence[ReadHint]) -> Sequence[Json]:
    """The hints that were not believed, for the record (W07). Foreign text is cut."""
    return [
        {"source": hint.source.value, "raw": hint.raw[:200], "why": (hint.rejected or "")[:300]}
        for hint in hints
        if hint.until is None
    ]


def _candidates(
    contract: Contract, observation: Observation, spend: Spend, started_at: datetime, when: tuple[datetime, float]
) -> dict[DelaySource, datetime]:
    """Each instant that asks to be waited for. The local one is never under the minimum gap, so neither is the latest."""
    received_at, draw = when
    delays = contract.delays
    found = provider_waits(observation.hints, received_at)
    if observation.kind is ObservationKind.THROTTLED and DelaySource.PROVIDER_RETRY_AFTER not in found:
        local = steep_backoff(delays, spend.answered, spend.throttles, draw)
    else:
        raw = min(raw_backoff(delays, _completed(observation, spend)), contract.longest_gap)
        local = jittered(delays, raw, draw)
    found[DelaySource.LOCAL_BACKOFF] = received_at + local
    if delays.typical is not None and observation.kind is ObservationKind.PENDING and spend.answered <= EARLY_LOOKS:
        found[DelaySource.CONTRACT_SCHEDULE] = _scheduled(contract, started_at + delays.typical * (0.5 + draw / 2), received_at)
    return found


def _scheduled(contract: Contract, wanted: datetime, received_at: datetime) -> datetime:
    """A result that the provider keeps for a while only is not slept past, however long a job usually takes."""
    if contract.retention is None or contract.retention_from != "completion":
        return wanted
    return min(wanted, received_at + contract.retention / 2)


def _completed(observation: Observation, spend: Spend) -> int:
    """The n of the backoff: answered requests, 5xx included (W06). While nothing answers, the failures make it grow instead."""
    unanswered = observation.http_status is None and observation.kind in (ObservationKind.TRANSPORT, ObservationKind.NOT_SENT)
    return spend.answered + (spend.transport_failures if unanswered else 0)
