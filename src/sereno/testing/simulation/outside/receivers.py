"""Receivers of effects, one for each policy, and the place of kept results; each arrival is in a book."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.effect import Policy
from sereno.core.errors import Fault, LeaseLost
from sereno.core.operation import KEEP_RESULT
from sereno.core.values import Json, canonical, digest
from sereno.ports import Guarded, Place
from sereno.testing.simulation.outside.seam import Seam
from sereno.testing.simulation.terms import Group

POOL = "host:receiver.example"
KEYED, ONCE, LEAST = "sim-keyed", "sim-once", "sim-least"
POLICIES: Mapping[str, Policy] = {
    KEYED: Policy.KEYED,
    ONCE: Policy.AT_MOST_ONCE,
    LEAST: Policy.AT_LEAST_ONCE,
    KEEP_RESULT: Policy.KEYED,
}
"""Every type of action in a world, with its policy. All but `sim-once` and `sim-least` honour keys."""
KEPT_FOR = timedelta(hours=24)
"""How long a receiver knows a key after its first arrival."""
ACT_KINDS: Sequence[str] = (
    "lost answer", "lost request", "timeout before", "timeout after", "doubled answer", "refused", "wait", "slow", "unreachable",
    "raises after", "raises before",
)  # fmt: skip
_NOT_TAKEN = ("lost request", "timeout before", "refused", "wait", "raises before")
_DOUBT = ("lost answer", "lost request", "timeout before", "timeout after", "raises after", "raises before")


@dataclass(slots=True)
class Arrival:
    """One message that reached a receiver."""

    number: int
    action: str
    """The type of the action."""
    name: str
    """The name of the action inside its poll or operation."""
    key: str
    subject: str
    delivery: str
    process: str
    at: datetime
    host_at: datetime
    """The wall clock of the database's host at that instant."""
    attempt: int
    content: str
    """Digest of title, body and payload."""
    effect: bool = False
    """It took effect."""
    repeated: bool = False
    """The receiver knew the key: nothing was done, and the answer says so."""
    fault: str | None = None
    told: OutcomeKind | None = None
    """What the process was told; None = it did not live to see it."""
    waits_until: datetime | None = None
    answered: datetime | None = None


class ReceiverBook:
    """What all receivers know, in order of arrival. Where it is `silent`, the first key at a receiver that honours keys is taken and
    never confirmed, for as long as anybody tries, after the faults too: retries have to stop by themselves."""

    def __init__(self, *, silent: bool = False) -> None:
        self.arrivals: list[Arrival] = []
        self._known: dict[str, datetime] = {}
        self._silent = silent
        self._never_told: str | None = None

    def never_tells(self, delivery: Delivery) -> bool:
        """Whether the answer to this delivery is lost, however often it comes."""
        if self._silent and self._never_told is None and delivery.effect.action.type == KEYED:
            self._never_told = delivery.effect.dedupe_key
        return delivery.effect.dedupe_key == self._never_told

    def open(self, delivery: Delivery, seam: Seam) -> Arrival:
        """Writes down that a message is here."""
        effect = delivery.effect
        content = digest(canonical({"title": effect.title, "body": effect.body, "payload": effect.payload}))
        found = Arrival(
            len(self.arrivals), effect.action.type, effect.action.name, effect.dedupe_key, effect.subject, delivery.id,
            seam.hooks.process, seam.clock.now(), seam.host.now(), delivery.attempts, content,
        )  # fmt: skip
        self.arrivals.append(found)
        return found

    def take(self, arrival: Arrival) -> None:
        """Lets it take effect, but where a receiver that honours keys knows the key."""
        keyed = POLICIES[arrival.action] is Policy.KEYED
        known = self._known.get(arrival.key) if keyed else None
        arrival.repeated = known is not None and arrival.at < known + KEPT_FOR
        arrival.effect = not arrival.repeated
        if keyed and arrival.effect:
            self._known[arrival.key] = arrival.at

    def effects(self, key: str) -> list[Arrival]:
        """The arrivals under a key that took effect."""
        return [arrival for arrival in self.arrivals if arrival.key == key and arrival.effect]


class SimulatedReceiver:
    """A type of action as one life of a process has it."""

    def __init__(self, type: str, book: ReceiverBook, seam: Seam) -> None:
        self.type, self.default_policy = type, POLICIES[type]
        self._book, self._seam = book, seam
        self._clock, self._plan, self._hooks = seam.clock, seam.plan, seam.hooks
        self._dice = seam.plan.dice(Group.ACT)

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Everything is right."""
        return ()

    def place(self, options: Mapping[str, Json]) -> Place:
        """One host for all."""
        return Place(POOL, self.type)

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Lets the send guard judge, writes the book, takes the effect or not, and tells, or not."""
        among = [kind for kind in ACT_KINDS if kind != "refused" or self.type != KEEP_RESULT]
        fault = self._plan.draw(Group.ACT, among, share=self._plan.share(Group.ACT, 0.1))
        if fault is None and self._book.never_tells(delivery):
            fault = "lost answer"
        await self._clock.sleep(self._dice.uniform(0.01, 0.2))
        if fault == "unreachable":
            return Outcome(OutcomeKind.RETRY, "planted: connection refused")
        if guarded.before_first_byte is not None:
            try:
                await guarded.before_first_byte()
            except LeaseLost as error:
                return Outcome(OutcomeKind.RETRY, error.message)
        self._hooks.point("act.before")
        arrival = self._book.open(delivery, self._seam)
        arrival.fault = fault
        if fault not in _NOT_TAKEN:
            self._book.take(arrival)
        self._hooks.point("act.took")
        await self._clock.sleep(self._seconds(fault, guarded.total_deadline.total_seconds()))
        outcome = self._outcome(arrival, guarded)
        arrival.answered, arrival.told = self._clock.now(), outcome.kind
        self._hooks.point("act.replied")
        if fault in ("raises after", "raises before"):
            raise RuntimeError("planted: an action with a bug")
        return outcome

    def _seconds(self, fault: str | None, longest: float) -> float:
        if fault in ("timeout before", "timeout after"):
            return longest
        return max(0.0, longest - 0.05) if fault == "slow" else self._dice.uniform(0.01, 1.0)

    def _outcome(self, arrival: Arrival, guarded: Guarded) -> Outcome:
        """A receiver that doubles its answer says `done` twice, which is one answer to whoever asked."""
        fault = arrival.fault
        if fault in _DOUBT:
            return Outcome(OutcomeKind.UNKNOWN, f"planted: {fault}")
        if fault == "refused":
            return Outcome(OutcomeKind.REFUSED, "planted: 422")
        if fault == "wait":
            seconds = self._dice.choice((5, 60, 900))
            waited = self._clock.now() - arrival.at
            arrival.waits_until = self._clock.now() + timedelta(seconds=seconds)
            return Outcome(OutcomeKind.RETRY, "planted: 429", guarded.now + waited + timedelta(seconds=seconds + 1))
        return Outcome(OutcomeKind.DONE, "known" if arrival.repeated or fault == "doubled answer" else "taken")
