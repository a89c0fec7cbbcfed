"""The stories of the demo, judged from what the database counted and what the playground's books say. Pure.

A story is `done` only when both sides agree and nothing happened twice; what should never be is `wrong`, and stays so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from urllib.parse import urlsplit

from sereno.core.delivery import DeliveryState
from sereno.core.escalation import Category, Escalation
from sereno.core.operation import TERMINAL, OperationState
from sereno.core.record import DeliveryRecord, OperationRecord, PollRecord
from sereno.faces.cli.demo.ground import Books
from sereno.faces.cli.output import safe

LIMIT = 40.0
"""The price below which the demo wants to be told."""
RETRY_AFTER = 3.0
"""Seconds that the busy job asks for."""
UNCHANGED_LOOKS = 3


class State(StrEnum):
    GOING = "going"
    ASKS = "asks"
    DONE = "done"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Story:
    """Where one story stands: a sentence of at most 62 characters, and the counts that it rests on."""

    state: State
    says: str
    counts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Watch:
    """One poll and what it told."""

    record: PollRecord
    deliveries: Sequence[DeliveryRecord]

    def told(self, action: str) -> Sequence[DeliveryRecord]:
        """What one action has delivered."""
        return [one for one in self.deliveries if one.delivery.effect.action.name == action and _delivered(one)]


@dataclass(frozen=True, slots=True)
class Wait:
    """One job that is waited for, its questions (oldest first), and what was told of it."""

    record: OperationRecord
    deliveries: Sequence[DeliveryRecord]
    questions: Sequence[Escalation]


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known at one moment. Of the books, requests were read before the database, prices and what was received after it."""

    watches: Mapping[str, Watch]
    waits: Mapping[str, Wait]
    books: Books
    printed: Sequence[str] = ()
    """Lines of the console action."""


def _delivered(record: DeliveryRecord) -> bool:
    return record.delivery.state is DeliveryState.DELIVERED


def feed(facts: Facts) -> Story:
    """A new entry is noticed once; what was there before is not told."""
    watch = facts.watches["feed"]
    if not watch.record.poll.baselined:
        return Story(State.GOING, "takes a baseline of what is there already")
    told, received = watch.told("console"), facts.books.received.get(watch.record.poll.id, ())
    counts = {"known": watch.record.known_objects, "told": len(told), "received": len(received)}
    if len(told) > 1 or len(received) > 1:
        return Story(State.WRONG, "one new entry was told more than once", counts)
    if len(told) == 1 and len(received) == 1:
        old = watch.record.known_objects - 1
        title = safe(told[0].delivery.effect.title.removeprefix("feed: "), most=24)
        return Story(State.DONE, f'new "{title}" told once; the {old} old entries never', counts)
    return Story(State.GOING, f"{watch.record.known_objects} entries known, none told; looks for a new one", counts)


def price(facts: Facts) -> Story:
    """A price below the limit is told once, and once more after it was above."""
    watch = facts.watches["price"]
    told, received = watch.told("console"), facts.books.received.get(watch.record.poll.id, ())
    shown = [
        one for index, one in enumerate(facts.books.prices_shown) if index == 0 or facts.books.prices_shown[index - 1] != one
    ]
    dips = sum(float(after) < LIMIT <= float(before) for before, after in pairwise(shown))
    counts = {"prices": shown, "dips": dips, "told": len(told), "received": len(received)}
    line = ", ".join(f"{one} *" if float(one) < LIMIT else one for one in shown) or "takes a baseline"
    if len(told) > dips or len(set(received)) > dips or len(received) > len(set(received)):
        return Story(State.WRONG, f"told more often than the price fell: {line}", counts)
    if len(told) == len(received) == dips == 2:
        return Story(State.DONE, f"{line}: told at each fall (*)", counts)
    return Story(State.GOING, f"{line}: {_times(len(told))}", counts)


def _times(number: int) -> str:
    return {0: "nothing told yet", 1: "told once", 2: "told twice"}.get(number, f"told {number} times")


def api(facts: Facts) -> Story:
    """An API that says 304 costs one small request and changes nothing."""
    watch, path = facts.watches["api"], "/api/status"
    looks, unchanged = facts.books.answered.get(path, 0), facts.books.not_modified.get(path, 0)
    counts = {"looks": looks, "not_modified": unchanged, "runs": watch.record.poll.runs, "told": len(watch.deliveries)}
    if watch.deliveries:
        return Story(State.WRONG, "told of a change although nothing changed", counts)
    # A run that is under way has sent its request and is not counted yet, so the two sides may differ by one.
    agreed = watch.record.poll.runs >= looks - 1 and looks - unchanged == 1
    state = State.DONE if unchanged >= UNCHANGED_LOOKS and agreed else State.GOING
    return Story(state, f"{looks} looks, {unchanged} answered 304 unchanged; nothing told", counts)


def slow(facts: Facts) -> Story:
    """A job is waited for to its result."""
    return _to_result(facts, "slow", lambda looked: f"succeeded after {len(looked)} looks")


def busy(facts: Facts) -> Story:
    """503 with Retry-After is obeyed, on the provider's own clock."""
    looked = _looked_at(facts, "busy")
    gap = looked[1] - looked[0] if len(looked) > 1 else None
    if gap is not None and gap < RETRY_AFTER:
        return Story(State.WRONG, f"asked {gap:.1f} s after a Retry-After of {RETRY_AFTER:g} s", {"gap_s": round(gap, 3)})
    found = _to_result(facts, "busy", lambda _: f"503 wants {RETRY_AFTER:g} s: asked after {gap or 0:.2f} s")
    return Story(found.state, found.says, {**found.counts, "gap_s": None if gap is None else round(gap, 3)})


def late(facts: Facts) -> Story:
    """A job that is not there at first is given the time its contract grants."""
    return _to_result(facts, "late", lambda looked: f"404 at first, succeeded after {len(looked)} looks")


def hollow(facts: Facts) -> Story:
    """Success without a result is not believed."""
    wait = facts.waits["hollow"]
    wrong, counts = _accounts(facts, "hollow")
    if wrong or wait.record.operation.state is OperationState.SUCCEEDED:
        return Story(State.WRONG, wrong or "a success without a result was believed", counts)
    if wait.questions and wait.questions[0].category is Category.CONTRADICTION and _told_all(wait):
        return Story(State.DONE, '"succeeded" without a result: asks a person (contradiction)', counts)
    return Story(State.GOING, _at_it(wait, counts), counts)


def odd(facts: Facts) -> Story:
    """A state that nobody knows stops the asking; a person answers from another process."""
    wait = facts.waits["odd"]
    operation, questions = wait.record.operation, wait.questions
    wrong, counts = _accounts(facts, "odd")
    if wrong or (operation.state in TERMINAL and not questions):
        return Story(State.WRONG, wrong or "ended without a question", counts)
    if not questions:
        return Story(State.GOING, _at_it(wait, counts), counts)
    if questions[-1].state == "open":
        return Story(State.ASKS, f'says "{safe(operation.last_state, most=24)}", which nobody knows: asks you', counts)
    option = safe((questions[-1].answer or {}).get("option", questions[-1].state), most=24)
    if operation.state in TERMINAL and questions[0].category is Category.UNKNOWN_STATE and _told_all(wait):
        return Story(State.DONE, f"unknown state, answered {option}: {operation.state}", {**counts, "answer": option})
    return Story(State.GOING, f"answered {option}: {_at_it(wait, counts)}", counts)


def _to_result(facts: Facts, name: str, says: Callable[[Sequence[float]], str]) -> Story:
    wait, looked = facts.waits[name], _looked_at(facts, name)
    operation = wait.record.operation
    wrong, counts = _accounts(facts, name)
    if wrong or operation.state not in (OperationState.WAITING, OperationState.SUCCEEDED):
        return Story(State.WRONG, wrong or f"{operation.state}: {operation.category}", counts)
    if operation.state is OperationState.SUCCEEDED and operation.result_ref and _told_all(wait):
        result = safe(urlsplit(operation.result_ref).path, most=20)
        return Story(State.DONE, f"{says(looked)}; result {result}", {**counts, "result": operation.result_ref})
    return Story(State.GOING, _at_it(wait, counts), counts)


def _accounts(facts: Facts, name: str) -> tuple[str | None, dict[str, object]]:
    """Compares both books: the provider saw no more than was counted, which is no more than was allowed; nothing was told twice."""
    wait, looks = facts.waits[name], len(_looked_at(facts, name))
    counted, allowed = wait.record.operation.spend.status_requests, wait.record.operation.allowance.max_status_requests
    counts: dict[str, object] = {"requests_seen": looks, "requests_counted": counted, "requests_allowed": allowed}
    counts["told"] = sum(_delivered(one) for one in wait.deliveries)
    if looks > counted or counted > allowed:
        return f"the provider saw {looks} requests; {counted} of {allowed} were counted", counts
    if len(wait.deliveries) > _expected(wait):
        return "the same was told more than once", counts
    return None, counts


def _expected(wait: Wait) -> int:
    return len(wait.questions) + (wait.record.operation.state in TERMINAL)


def _told_all(wait: Wait) -> bool:
    return sum(_delivered(one) for one in wait.deliveries) == _expected(wait)


def _looked_at(facts: Facts, name: str) -> Sequence[float]:
    return facts.books.looked_at.get(facts.waits[name].record.operation.job_id, ())


def _at_it(wait: Wait, counts: Mapping[str, object]) -> str:
    operation = wait.record.operation
    status = operation.last_http_status
    word = operation.last_state or (f"HTTP {status}" if status is not None else "not asked yet")
    return f"{safe(word, most=24)} ({counts['requests_counted']} of {counts['requests_allowed']} requests counted)"


STORIES: Mapping[str, Callable[[Facts], Story]] = {
    "feed": feed,
    "price": price,
    "api": api,
    "slow": slow,
    "busy": busy,
    "late": late,
    "hollow": hollow,
    "odd": odd,
}
"""Every story by name, in the order they are shown."""
LABELS: Mapping[str, str] = {
    "feed": "feed",
    "price": "price",
    "api": "API",
    "slow": "slow job",
    "busy": "busy job",
    "late": "late job",
    "hollow": "hollow job",
    "odd": "odd job",
}
JOBS: Mapping[str, str] = {"slow": "slow", "busy": "busy", "late": "late", "hollow": "hollow", "odd": "unknown"}
"""Jobs that are waited for, each with its script at the provider."""


def judge(facts: Facts, before: Mapping[str, Story]) -> dict[str, Story]:
    """Where each story stands. What was wrong before stays wrong, whatever comes later."""
    return {name: before[name] if _was_wrong(before, name) else story(facts) for name, story in STORIES.items()}


def _was_wrong(before: Mapping[str, Story], name: str) -> bool:
    return name in before and before[name].state is State.WRONG


def printed_twice(lines: Sequence[str]) -> int:
    """How many lines of the console repeat the id of an earlier one."""
    marks = [line.rpartition("[")[2] for line in lines]
    return len(marks) - len(set(marks))
