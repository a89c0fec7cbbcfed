"""Effects: each transition's once as a row, each row's once at its receiver, and what is not known is shown so (I17–I19, I25, W30)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sereno.core.delivery import Delivery, DeliveryState
from sereno.core.effect import Policy
from sereno.core.operation import KEEP_RESULT, OperationState
from sereno.core.values import to_micros
from sereno.testing.simulation.checks.evidence import Claim, Evidence, Row
from sereno.testing.simulation.outside.receivers import KEPT_FOR, Arrival


def outbox(world: Evidence) -> Iterator[str]:
    """I18: each effect of a committed transition is exactly one delivery row, and each row is the effect of one."""
    rows = Counter(delivery.effect.dedupe_key for delivery in world.deliveries)
    wanted: dict[str, str] = {}
    for subject, entries in world.journal.items():
        for row in entries:
            for key in row.facts.get("effects") or ():
                wanted.setdefault(key, subject)
    for key, subject in wanted.items():
        if rows[key] != 1:
            yield f"I18 {subject}: the effect {key} is in the journal, and {rows[key]} deliveries hold it"
    for key, count in rows.items():
        if key not in wanted:
            yield f"I18 {key}: a delivery that no transition asked for"
        if count > 1:
            yield f"I17 {key}: {count} deliveries hold one key"


def received(world: Evidence) -> Iterator[str]:
    """I17: a key takes effect once at a receiver that honours keys; at most once arrives once; at least once is repeated under its key
    alone, and once after an answer that was lost."""
    by_delivery, deliveries = _arrivals(world), {delivery.id: delivery for delivery in world.deliveries}
    for identifier, arrivals in by_delivery.items():
        delivery = deliveries.get(identifier)
        if delivery is None:
            yield f"I17 {identifier}: it arrived, and there is no such delivery"
            continue
        retries = sum(row.facts.get("decision") == "retry" for row in world.journal.get(identifier, ()))
        yield from _received(world, delivery, arrivals, retries)
        yield from _unclear(world, delivery, retries)


def _received(world: Evidence, delivery: Delivery, arrivals: Sequence[Arrival], retries: int) -> Iterator[str]:
    key, policy = delivery.effect.dedupe_key, delivery.effect.action.policy
    if len({arrival.content for arrival in arrivals}) > 1 or any(arrival.key != key for arrival in arrivals):
        yield f"I17 {delivery.id}: it arrived under another key than its own, or with another content"
    if len({arrival.attempt for arrival in arrivals}) < len(arrivals):
        yield f"I17 {delivery.id}: two of its {len(arrivals)} arrivals are of one attempt"
    took = [arrival for arrival in arrivals if arrival.effect]
    if policy is Policy.AT_MOST_ONCE and len(took) > 1 + retries:
        yield f"I17 {delivery.id}: {len(took)} effects of at most once"
    if policy is not Policy.KEYED or retries:
        return
    first, last = arrivals[0].at, arrivals[-1].at
    forgotten = last >= first + KEPT_FOR
    if len(took) > 1 and not forgotten:
        yield f"I17 {delivery.id}: {len(took)} effects under one key"
    if forgotten and not world.stepped(first, last):
        yield f"I17 {delivery.id}: sent again {last - first} after the first time; its receiver keeps keys for {KEPT_FOR}"


def _unclear(world: Evidence, delivery: Delivery, retries: int) -> Iterator[str]:
    """At least once is repeated once where it is unclear, at most once never."""
    unclear = sum(row.facts.get("outcome") == "unknown" for row in world.journal.get(delivery.id, ()))
    most = {Policy.AT_MOST_ONCE: 1, Policy.AT_LEAST_ONCE: 2}.get(delivery.effect.action.policy)
    if most is not None and unclear > most * (1 + retries):
        yield f"I17 {delivery.id}: tried again though {unclear} attempts were unclear ({delivery.effect.action.policy})"


def _arrivals(world: Evidence) -> Mapping[str, Sequence[Arrival]]:
    found: dict[str, list[Arrival]] = {}
    for arrival in world.arrivals:
        found.setdefault(arrival.delivery, []).append(arrival)
    return found


_OPEN = (DeliveryState.QUEUED, DeliveryState.SENDING)


def ambiguous(world: Evidence) -> Iterator[str]:
    """I19: what the receiver took and nobody here was told of is `ambiguous`, never sent and never failed; nothing is shown as sent that
    the receiver does not know; and nothing is ambiguous that certainly did not leave."""
    by_delivery = _arrivals(world)
    for delivery in world.deliveries:
        arrivals, rows = by_delivery.get(delivery.id, ()), world.journal.get(delivery.id, ())
        if delivery.state in _OPEN or not (arrivals or rows):
            continue
        took = any(arrival.effect for arrival in arrivals)
        told = any(row.facts.get("outcome") == "done" for row in rows)
        if delivery.state is DeliveryState.DELIVERED and not took:
            yield f"I19 {delivery.id}: shown as delivered, and its receiver has no trace of it"
        if delivery.state is DeliveryState.DELIVERED and not told:
            yield f"I19 {delivery.id}: shown as delivered, and no attempt was answered so"
        retried = any(row.facts.get("decision") == "retry" for row in rows)
        if delivery.state is DeliveryState.DEAD and took and not retried:
            yield f"I19 {delivery.id}: shown as failed, and its receiver took it"
        if delivery.state is DeliveryState.AMBIGUOUS and not _doubtful(rows):
            yield f"I19 {delivery.id}: shown as unknown, and every attempt has a clear outcome"


def _doubtful(rows: Sequence[Row]) -> bool:
    """Some attempt was interrupted, answered by nobody, or broke."""
    return any(
        row.facts.get("interrupted") or row.facts.get("outcome") == "unknown" or row.facts.get("decision") == "parked"
        for row in rows
    )


def intents(world: Evidence) -> Iterator[str]:
    """I25: each arrival at a receiver has a claim of its delivery in the journal that came before it, and each claim has an end."""
    for identifier, arrivals in _arrivals(world).items():
        claims = [claim for claim in world.claims.get(identifier, ()) if not _released(claim)]
        if len(arrivals) > len(claims):
            yield f"I25 {identifier}: it arrived {len(arrivals)} times, and the journal holds {len(claims)} intents"
        for count, arrival in enumerate(arrivals, 1):
            before = sum(claim.row.true is None or claim.row.true <= to_micros(arrival.at) for claim in claims)
            if before < min(count, len(claims)):
                yield f"I25 {identifier}: arrival {count} came when {before} intents were written"
    for case in world.cases:
        sends = [claim for claim in case.claims if claim.asks or claim.call]
        if len(case.sent()) > len(sends):
            yield f"I25 {case.id}: {len(case.sent())} requests arrived, and the journal holds {len(sends)} intents"


def _released(claim: Claim) -> bool:
    return claim.settled is not None and claim.settled.facts.get("decision") == "released"


def open_intents(world: Evidence) -> Iterator[str]:
    """I25: after recovery each intent has a result: its own, or that of the claim that took it over."""
    patience = round((world.times.lease * 2 + world.times.tick).total_seconds() * 1_000_000)
    for subject, claims in world.claims.items():
        last = claims[-1] if claims else None
        if last is None or last.settled is not None or any(row.seq > last.row.seq for row in world.journal.get(subject, ())):
            continue
        if last.until < world.end_us - patience and world.ended > world.calm + world.grace and not world.set_back:
            yield f"I25 {subject}: nothing says what became of run {last.row.run}"


def kept_results(world: Evidence) -> Iterator[str]:
    """W30: the result of what succeeded is kept once, by an action of its own, and of nothing else."""
    kept = Counter(one.effect.subject for one in world.deliveries if one.effect.action.type == KEEP_RESULT)
    taken = Counter[str]()
    subjects = {delivery.id: delivery for delivery in world.deliveries if delivery.effect.action.type == KEEP_RESULT}
    for arrival in world.arrivals:
        if arrival.effect and arrival.delivery in subjects:
            taken[subjects[arrival.delivery].effect.subject] += 1
    for case in world.cases:
        if kept[case.id] > 1 or taken[case.id] > 1:
            yield f"W30 {case.id}: its result was to be kept {kept[case.id]} times and was {taken[case.id]} times"
        if kept[case.id] and case.operation.state is not OperationState.SUCCEEDED:
            yield f"W30 {case.id}: {case.operation.state}, and its result was to be kept"


def waits(world: Evidence) -> Iterator[str]:
    """I4: a receiver that asked to be left alone for a while is, where that answer was committed and no person queued it again."""
    for identifier, arrivals in _arrivals(world).items():
        rows = world.journal.get(identifier, ())
        for arrival, following in zip(arrivals, arrivals[1:], strict=False):
            if arrival.waits_until is None or arrival.answered is None:
                continue
            gone, wait = world.planned(arrival.answered, following.at), arrival.waits_until - arrival.answered
            known = any(row.facts.get("attempt") == arrival.attempt and row.facts.get("outcome") == "retry" for row in rows)
            retried = any(row.facts.get("decision") == "retry" for row in rows)
            if gone < wait - world.rounding and known and not retried:
                yield f"I4 {identifier}: sent again {wait - gone} before the end of a wait"
