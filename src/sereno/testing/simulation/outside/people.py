"""People of a world: what they register, answer, cancel and change, over the whole time in which faults strike; and their book."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import TypeVar

from sereno.core.errors import RequestError
from sereno.core.escalation import Escalation, Verb
from sereno.core.operation import OperationState
from sereno.ports import Clock, DefinitionStore, PoolLimits
from sereno.service.deliveries import Deliveries
from sereno.service.deps import Deps
from sereno.service.escalations import Escalations
from sereno.service.operations import Operations, Wanted, WantedSubmit
from sereno.service.polls import Polls, read_model
from sereno.testing.hostile.options import POOL
from sereno.testing.hostile.provider import HostileProvider
from sereno.testing.simulation.outside import receivers
from sereno.testing.simulation.outside.contracts import SUBMITTED, THERE, Versions
from sereno.testing.simulation.outside.sources import Feed

T = TypeVar("T")
ACTIONS = (receivers.KEYED, receivers.ONCE, receivers.LEAST)
_MINUTES = (5, 10, 20, 30, 45, 60, 180, 480)
_LIVE = (OperationState.WAITING, OperationState.SUBMITTING)
_ENDING = (Verb.STOP, Verb.TREAT_AS_FAILED, Verb.ACCEPT_PARTIAL)
_PUSHES = (
    b"",
    b'{"status": "done"}',
    b'{"status": "running", "percent": 7}',
    b"not json",
    b'{"id": "job-of-another", "status": "done"}',
)


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that somebody did, or tried to."""

    number: int
    at: datetime
    """True time, when it was over."""
    host_at: datetime
    """The host's wall clock at that instant."""
    word: str
    """`register`, `submit`, `answer`, `cancel`, `push`, `resubmit`, `update_contract`, `publish`, `set_pool`, `add_poll`, `pause_poll`,
    `resume_poll`, `run_poll`, `retry_delivery`, `drop_delivery`."""
    subject: str
    """The operation, poll, delivery, pool or contract."""
    accepted: bool
    why: str = ""
    """The code of a refusal."""
    verb: Verb | None = None
    """Of an answer: what was chosen."""
    escalation: str = ""
    """Of an answer: the question."""
    wrong_digest: bool = False
    """Of an answer: it was given under another digest and must not be taken."""
    began: datetime | None = None
    """True time, when it began."""


@dataclass(slots=True)
class PeopleBook:
    """Who did what when, and what each operation is known by at the provider."""

    acts: list[Act] = field(default_factory=list)
    refs: dict[str, str] = field(default_factory=dict)
    """The provider's reference by operation."""
    jobs: dict[str, str] = field(default_factory=dict)
    """The job by operation, where it was there already."""
    previous: dict[str, str] = field(default_factory=dict)
    """Of an operation that was submitted anew: the one before. Both have the same reference."""
    actions: dict[str, Sequence[str]] = field(default_factory=dict)
    """The action types by operation or poll."""
    registered: dict[str, datetime] = field(default_factory=dict)
    """True time by operation."""
    allowed: dict[str, tuple[timedelta, int]] = field(default_factory=dict)
    """What an operation was registered with: deadline and status requests."""
    pools: list[tuple[datetime, str, PoolLimits]] = field(default_factory=list)
    """Each limit that was set, in order of true time."""

    def taken(self, subject: str, word: str | None = None) -> list[Act]:
        """The acts on one subject that were accepted."""
        return [act for act in self.acts if act.accepted and act.subject == subject and word in (None, act.word)]

    def cancels(self, operation: str) -> int:
        """How often somebody really asked for a cancel, by themselves or as an answer."""
        return sum(act.word == "cancel" or act.verb is Verb.CANCEL for act in self.taken(operation))

    def answers(self, operation: str) -> list[Act]:
        """The answers to its questions that were taken."""
        return self.taken(operation, "answer")


class People:
    """They use the service on a store that no fault touches; each act is one transaction."""

    def __init__(  # noqa: PLR0913 - what they stand on, by name
        self,
        deps: Deps,
        *,
        clock: Clock,
        provider: HostileProvider,
        feeds: Mapping[str, Feed],
        versions: Versions,
        book: PeopleBook,
        dice: Random,
    ) -> None:
        self._clock, self._provider, self._feeds = clock, provider, feeds
        self._versions, self.book, self._dice = versions, book, dice
        self._number = 0
        self._answered: list[Escalation] = []

        self.stand_on(deps)

    def stand_on(self, deps: Deps) -> None:
        """Gives them the service on this store."""
        self._deps = deps
        self._operations, self._questions = Operations(deps), Escalations(deps)
        self._polls, self._deliveries = Polls(deps), Deliveries(deps)

    async def job(self) -> None:
        """Registers an operation about a job that the provider has."""
        name, ref = self._named(THERE)
        job = self._provider.start(ref, self._dice.choice((600.0, 2400.0, 4 * 3600.0)))
        minutes, budget, actions = self._terms()
        wanted = Wanted(
            name, job.id, deadline=timedelta(minutes=minutes), max_status_requests=budget, actions=actions,
            business_deadline_at=await self._business(minutes),
        )  # fmt: skip
        found = await self._try("register", ref, lambda: self._operations.register(wanted))
        if found is not None:
            operation = found.record.operation.id
            self.book.jobs[operation] = job.id
            self._note(operation, ref, minutes, budget, actions)

    async def order(self) -> None:
        """Submits a job."""
        name, ref = self._named(SUBMITTED)
        minutes, budget, actions = self._terms()
        wanted = WantedSubmit(
            name, {"ref": ref}, deadline=timedelta(minutes=minutes), max_status_requests=budget, actions=actions,
            business_deadline_at=await self._business(minutes),
        )  # fmt: skip
        found = await self._try("submit", ref, lambda: self._operations.submit(wanted))
        if found is not None:
            self._note(found.record.operation.id, ref, minutes, budget, actions)

    def _named(self, names: Sequence[str]) -> tuple[str, str]:
        self._number += 1
        name = self._dice.choice(names)
        return name, f"{name}-{self._number}"

    def _terms(self) -> tuple[int, int, Sequence[str]]:
        return self._dice.choice(_MINUTES), self._dice.choice((3, 5, 10, 25, 40)), self._some_actions()

    def _some_actions(self) -> Sequence[str]:
        return tuple(self._dice.sample(ACTIONS, self._dice.randint(1, len(ACTIONS))))

    async def _business(self, minutes: int) -> datetime | None:
        if self._dice.random() >= 0.15:
            return None
        return await self._deps.definitions.now() + timedelta(minutes=minutes * self._dice.uniform(0.4, 1.2))

    def _note(self, operation: str, ref: str, minutes: int, budget: int, actions: Sequence[str]) -> None:
        book = self.book
        book.refs[operation], book.actions[operation] = ref, actions
        book.registered[operation], book.allowed[operation] = self._clock.now(), (timedelta(minutes=minutes), budget)

    async def poll(self, feed: Feed, hours: float) -> None:
        """Adds the poll of a feed, which it reads some dozens of times in so many hours; it has the feed's name."""
        actions = self._some_actions()
        body: dict[str, object] = {
            "name": feed.name,
            "source": {"type": feed.type, "feed": feed.name},
            "every": f"{round(max(30.0, hours * 3600 / self._dice.choice((15, 30, 60, 120))))}s",
            "jitter": self._dice.choice(("0s", "5s", "1m")),
            "when": "change in ['new', 'updated', 'removed']",
            "actions": list(actions),
            "keep": self._dice.choice(("payload", "digest")),
            "baseline": self._dice.random() < 0.5,
        }
        model = read_model(body)
        if await self._try("add_poll", feed.name, lambda: self._polls.add(model, look=False)) is not None:
            self.book.actions[feed.name] = actions

    async def limit(self, pool: str, definitions: DefinitionStore) -> None:
        """Sets the limits of a pool."""
        rate, burst = self._dice.choice((0.2, 0.5, 1.0, 5.0)), self._dice.choice((1, 2, 5, 20))
        limits = PoolLimits(rate, burst, self._dice.choice((None, None, 1, 3)))
        began = self._clock.now()
        await definitions.set_pool(self._deps.who, pool, limits)
        self.book.pools.append((began, pool, limits))
        self._write("set_pool", pool, began)

    async def disturb(self) -> None:
        """Does one thing, drawn by the dice."""
        act = self._dice.choices(
            (
                self._answer,
                self._answer_again,
                self._cancel,
                self._push,
                self._resubmit,
                self._update,
                self._switch_poll,
                self._deliver,
            ),
            (14, 2, 3, 3, 2, 2, 3, 2),
        )[0]
        await act()
        if self._dice.random() < 0.02:
            await self.limit(self._dice.choice((POOL, receivers.POOL)), self._deps.definitions)

    async def _answer(self) -> None:
        """Answers some open questions with any option, sometimes under a digest that is not theirs."""
        for question in await self._questions.list(limit=1000):
            if self._dice.random() < 0.8:
                await self._choose(question, wrong=self._dice.random() < 0.1)

    async def _choose(self, question: Escalation, *, wrong: bool = False) -> None:
        going_on = [option for option in question.options if option.verb not in _ENDING]
        option = self._dice.choice(going_on if going_on and self._dice.random() < 0.6 else list(question.options))
        digest = question.digest[::-1] if wrong else question.digest
        if option.verb is Verb.UPDATE_CONTRACT and self._dice.random() < 0.7:
            self._publish((await self._operations.get(question.operation)).operation.contract)
        began = self._clock.now()
        taken, why = await self._outcome(lambda: self._questions.answer(question.id, option.key, digest=digest))
        self._write(
            "answer", question.operation, began, accepted=taken is not None, why=why, verb=option.verb, escalation=question.id,
            wrong_digest=wrong,
        )  # fmt: skip
        if taken is not None:
            self._answered.append(question)

    async def _answer_again(self) -> None:
        """Answers one question a second time, or one that nobody can answer any more."""
        closed = [one for one in await self._questions.list(state=None, limit=100) if one.state != "open"]
        choices = self._answered[-10:] + closed[:3]
        if choices:
            await self._choose(self._dice.choice(choices))

    async def _some(self, *states: OperationState) -> str | None:
        found = [record.operation.id for state in states for record in await self._operations.list(state=state, limit=100)]
        return self._dice.choice(found) if found else None

    async def _cancel(self) -> None:
        if (operation := await self._some(*_LIVE)) is not None:
            await self._try("cancel", operation, lambda: self._operations.cancel(operation))

    async def _push(self) -> None:
        body = self._dice.choice(_PUSHES)
        if (operation := await self._some(*_LIVE, OperationState.ESCALATED, OperationState.SUCCEEDED)) is not None:
            await self._try("push", operation, lambda: self._operations.push(operation, body))

    async def _resubmit(self) -> None:
        ended = (OperationState.FAILED, OperationState.CANCELLED, OperationState.EXPIRED, OperationState.STOPPED)
        operation = await self._some(*ended)
        if operation is None or operation in self.book.jobs:
            return
        found = await self._try("resubmit", operation, lambda: self._operations.resubmit(operation))
        if found is not None and found.is_new:
            book, new = self.book, found.record.operation.id
            book.previous[new], book.refs[new], book.actions[new] = operation, book.refs[operation], book.actions[operation]
            book.registered[new], book.allowed[new] = self._clock.now(), book.allowed[operation]

    async def _update(self) -> None:
        """Publishes a contract's next version, mostly, and moves an operation to it."""
        if (operation := await self._some(*_LIVE, OperationState.ESCALATED)) is None:
            return
        if self._dice.random() < 0.7:
            self._publish((await self._operations.get(operation)).operation.contract)
        await self._try("update_contract", operation, lambda: self._operations.update_contract(operation))

    def _publish(self, name: str) -> None:
        before, began = self._versions.version(name), self._clock.now()
        if self._versions.publish(name) != before:
            self._write("publish", name, began)

    async def _switch_poll(self) -> None:
        if not self._feeds:
            return
        name = self._dice.choice(list(self._feeds))
        word = self._dice.choice(("pause_poll", "resume_poll", "resume_poll", "run_poll"))
        acts = {"pause_poll": self._polls.pause, "resume_poll": self._polls.resume, "run_poll": self._polls.run}
        await self._try(word, name, lambda: acts[word](name))

    async def _deliver(self) -> None:
        """Sends a dead or unclear delivery again, or drops one."""
        found = [one for state in ("dead", "ambiguous") for one in await self._deliveries.list(state=state, limit=50)]
        if not found:
            return
        delivery = self._dice.choice(found).delivery.id
        if self._dice.random() < 0.7:
            await self._try("retry_delivery", delivery, lambda: self._deliveries.retry(delivery))
        else:
            await self._try("drop_delivery", delivery, lambda: self._deliveries.drop(delivery))

    async def _try(self, word: str, subject: str, act: Callable[[], Awaitable[T]]) -> T | None:
        began = self._clock.now()
        done, why = await self._outcome(act)
        self._write(word, subject, began, accepted=done is not None, why=why)
        return done

    async def _outcome(self, act: Callable[[], Awaitable[T]]) -> tuple[T | None, str]:
        try:
            return await act(), ""
        except RequestError as error:
            return None, error.code

    def _write(  # noqa: PLR0913 - one line of the book, by name
        self,
        word: str,
        subject: str,
        began: datetime,
        *,
        accepted: bool = True,
        why: str = "",
        verb: Verb | None = None,
        escalation: str = "",
        wrong_digest: bool = False,
    ) -> None:
        self.book.acts.append(
            Act(
                len(self.book.acts),
                self._clock.now(),
                self._deps.clock.now(),
                word,
                subject,
                accepted,
                why,
                verb,
                escalation,
                wrong_digest,
                began,
            )  # fmt: skip
        )
