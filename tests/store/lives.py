"""Random lives of whole operations: the real store, the core's own rules, a provider, people and crashes drawn from one seed."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random

from sereno.core.call import CallAnswer, CallKind, CallOutcome
from sereno.core.contract import Contract, Delays, Keep, KeepFrom, StateSource, Via
from sereno.core.errors import AlreadyExists, NotAllowed, NotNow
from sereno.core.escalation import Escalation, Option, Verb
from sereno.core.observation import DelaySource, Observation, ObservationKind, ReadHint
from sereno.core.operation import (
    TERMINAL,
    Ask,
    Close,
    Operation,
    Pushed,
    Read,
    Send,
    close_operation,
    decide_answer,
    decide_call,
    decide_cancel,
    decide_operation,
    decide_push,
    decide_repin,
    decide_taken,
    next_call,
)
from sereno.core.record import JournalEntry
from sereno.core.reviewing.replay import Replay, replay
from sereno.core.work import Kind, OperationWork
from sereno.ports import Change, Given, Only
from tests.core.waiting import CANCEL, KEYED, SUBMIT, make_contract
from tests.store.calling import SYSTEM, new_submit
from tests.store.seeding import ANNA, BOT, action, allowance, new_operation
from tests.store.stage import HOST, LEASE, Stage

KIND = ObservationKind
OPERATIONS = Only(kinds=(Kind.OPERATION,))
ANSWER_WITHIN = 7200.0


def drawn_contract(dice: Random) -> Contract:
    """One of many ways in which a provider may behave."""
    delays = Delays(min_gap=timedelta(seconds=dice.choice((1, 5))), typical=dice.choice((None, timedelta(minutes=4))))
    other: dict[str, object] = {
        "submit": dice.choice((SUBMIT, KEYED)),
        "cancel": dice.choice((CANCEL, replace(CANCEL, repeatable=True), None)),
        "keep": dice.choice((None, Keep(KeepFrom.ANSWER))),
        "retention": dice.choice((None, timedelta(hours=1))),
        "state": StateSource("path", steady=dice.choice((1, 1, 2))),
        "via": dice.choice((Via.HTTP, Via.HTTP, Via.HTTP, Via.PUSH)),
    }
    return make_contract(delays, **other)


@dataclass
class Life:
    """One operation from its registration until it ends, or long enough."""

    stage: Stage
    contract: Contract
    dice: Random
    operation: str = ""
    seen: list[str] = field(default_factory=list)
    _number: int = 0

    async def begin(self) -> None:
        """Registers it, with its submit or without."""
        dice, stage = self.dice, self.stage
        await stage.limits(HOST, rate=None)
        deadline = stage.now + timedelta(minutes=dice.choice((10, 60, 600)))
        business = dice.choice((None, None, deadline - timedelta(minutes=5)))
        pushed = self.contract.via is Via.PUSH
        limits = allowance(
            deadline_at=deadline, business_deadline_at=business, max_status_requests=0 if pushed else dice.choice((4, 12, 40)),
            max_transport_failures=dice.choice((0, 3)), max_throttles=dice.choice((1, 3)),
        )  # fmt: skip
        changes = {"allowance": limits, "actions": (action(),), "min_gap": self.contract.delays.min_gap, "pushed_only": pushed}
        new = new_submit(**changes) if dice.random() < 0.5 else new_operation(first_look_at=stage.now, **changes)
        self.operation = (await stage.store.definitions.register(ANNA, new))[0].operation.id

    async def found(self) -> Operation:
        """The operation as it stands."""
        return (await self.stage.store.reads.operation(ANNA, self.operation)).operation

    async def step(self) -> bool:
        """Waits until something is due, with people in between; False once it has ended."""
        operation = await self.found()
        if operation.state in TERMINAL:
            return False
        await self._people(operation)
        due = await self.stage.work.next_due(OPERATIONS)
        if due is not None:
            self.stage.clock.at = max(self.stage.now, due) + timedelta(seconds=self.dice.choice((0, 0, 0.25, 40)))
        if self.dice.random() < 0.03:
            self.stage.later(timedelta(minutes=-9))
            self.seen.append("clock set back")
        for work in await self.stage.claim(only=OPERATIONS):
            assert isinstance(work, OperationWork)
            await self._perform(work)
        return True

    async def _people(self, operation: Operation) -> None:
        asked, chance = operation.open_escalation, self.dice.random()
        if asked is not None and chance < 0.7:
            self.stage.later(timedelta(seconds=self.dice.randrange(600)))
            await self._answer(asked)
        elif chance < 0.1:
            await self._change("cancel_requested", lambda found, now: decide_cancel(found, self.contract, self.stage.now))
        elif chance < 0.2:
            await self.push()
        elif chance < 0.25:
            await self._change("contract_changed", lambda found, now: decide_repin(found, self.stage.now))

    async def _answer(self, asked: Escalation) -> None:
        option = self.dice.choice(list(asked.options))
        document = {"again": self.dice.random()} if option.verb is Verb.UPDATE_CONTRACT else None

        def rule(found: Operation, escalation: Escalation, chosen: Option, now: datetime):  # type: ignore[no-untyped-def]
            return decide_answer(found, escalation, chosen, self.stage.now, contract=self.contract)

        try:
            given = Given(asked.digest, option.key, asked.statement, document)
            await self.stage.store.definitions.answer(ANNA, asked.id, given, rule)
            self.seen.append(f"answered {option.key}")
        except NotNow:
            self.seen.append("answered too late")

    async def push(self) -> None:
        """The provider calls back."""
        pushed = Pushed(b"{}", "application/json", self.stage.now)
        await self._change("pushed", lambda found, now: decide_push(found, self.contract, pushed, self.stage.now))

    async def _change(self, word: str, rule) -> None:  # type: ignore[no-untyped-def]
        document = {"repinned": self.dice.random()} if word == "contract_changed" else None
        who = SYSTEM if word == "pushed" else ANNA
        try:
            await self.stage.store.definitions.change_operation(who, self.operation, Change(word, rule, {}, document))
            self.seen.append(word)
        except (NotNow, NotAllowed):
            self.seen.append(f"{word} refused")

    async def _perform(self, work: OperationWork) -> None:
        stage, dice, operation = self.stage, self.dice, work.operation
        self._number += 1
        match next_call(operation, self.contract, stage.now):
            case Close() as close:
                decision = close_operation(
                    operation, self.contract, close, stage.now, escalation_id=self._esc(), answer_within_s=ANSWER_WITHIN
                )
                await stage.work.commit_operation(work, decision)
            case Read(pushed):
                await self._look(work, replace(self._saw(), requests=1, http_status=200), pushed.received_at)
            case Ask() | Send() as sends:
                fate = dice.random()
                if fate < 0.08:
                    self.seen.append("crashed")
                    stage.later(LEASE)
                    return
                if fate < 0.12:
                    await stage.work.release(work)
                    stage.later(timedelta(seconds=5))
                    return
                stage.later(timedelta(seconds=dice.choice((0, 0.5, 3, 20))))
                await (self._ask(work) if isinstance(sends, Ask) else self._call(work))

    async def _ask(self, work: OperationWork) -> None:
        seen, hops = self._saw(), 0
        if seen.requests and self.dice.random() < 0.1:
            hops = int(await self.stage.work.reserve_hop(work, "https://example.com"))
        if self.dice.random() < 0.1:
            await self._people(await self.found())
        await self._look(work, replace(seen, requests=seen.requests + hops), self.stage.now)

    async def _look(self, work: OperationWork, seen: Observation, at: datetime) -> None:
        decision = decide_operation(
            work.operation, self.contract, seen, at, self.dice, escalation_id=self._esc(), answer_within_s=ANSWER_WITHIN
        )
        self.seen.append(f"saw {seen.kind}")
        await self.stage.work.commit_operation(work, decision)

    async def _call(self, work: OperationWork) -> None:
        answer, now = self._answered(work), self.stage.now
        rules = {"escalation_id": self._esc(), "answer_within_s": ANSWER_WITHIN}
        self.seen.append(f"{answer.outcome}")
        try:
            decision = decide_call(work.operation, self.contract, answer, now, self.dice, **rules)  # type: ignore[arg-type]
            await self.stage.work.commit_operation(work, decision)
        except AlreadyExists:
            decision = decide_taken(work.operation, self.contract, answer, now, **rules)  # type: ignore[arg-type]
            await self.stage.work.commit_operation(work, decision)

    def _esc(self) -> str:
        return f"esc_{self._number}"

    def _hints(self) -> tuple[ReadHint, ...]:
        hints = []
        for source in (DelaySource.PROVIDER_RETRY_AFTER, DelaySource.PROVIDER_POLL_HINT):
            if self.dice.random() < 0.25:
                until = self.stage.now + timedelta(seconds=self.dice.choice((0, 1, 30, 400, 4000)))
                hints.append(ReadHint(source, "raw", until))
        return tuple(hints)

    def _saw(self) -> Observation:
        """Mostly pending; anything else once in a while."""
        kind = KIND.PENDING if self.dice.random() < 0.6 else self.dice.choice(list(KIND))
        status = {KIND.TRANSPORT: self.dice.choice((None, 503)), KIND.NOT_SENT: None, KIND.THROTTLED: 429}.get(kind, 200)
        return Observation(
            kind, state=self.dice.choice(("queued", "running", "odd")), http_status=status, reason=f"saw {kind}",
            hints=() if status is None else self._hints(), requests=0 if kind is KIND.NOT_SENT else 1,
            tolerated=kind is KIND.PENDING and self.dice.random() < 0.1, pins={"uid": "u1"} if status == 200 else {},
            error_text="disk full" if kind is KIND.FAILURE else None,
            next_url="https://example.com/next" if kind is KIND.PENDING and self.dice.random() < 0.05 else None,
        )  # fmt: skip

    def _answered(self, work: OperationWork) -> CallAnswer:
        call = work.operation.call
        assert call is not None
        outcome = self.dice.choice(list(CallOutcome)) if self.dice.random() < 0.6 else CallOutcome.ACCEPTED
        job = None
        if call.kind is CallKind.SUBMIT and outcome in (CallOutcome.ACCEPTED, CallOutcome.DUPLICATE):
            job = self.dice.choice(("job-9", "job-taken"))
        unsent = outcome is CallOutcome.NOT_SENT
        return CallAnswer(
            outcome, f"it was {outcome}", None if unsent else 200, job, f"https://example.com/{job}" if job else None, {},
            () if unsent else self._hints(), requests=0 if unsent else 1,
        )  # fmt: skip


async def lived(seed: int, *, steps: int = 60, stage: Stage | None = None) -> Life:
    """One whole life; another operation waits for `job-taken` already."""
    dice = Random(seed)
    life = Life(stage or Stage(), drawn_contract(dice), dice)
    await life.stage.store.definitions.register(
        BOT,
        replace(
            new_operation("job-taken"),
            pushed_only=True,
            allowance=allowance(deadline_at=life.stage.now + timedelta(days=99), max_status_requests=0),
        ),
    )
    await life.begin()
    for _ in range(steps):
        if not await life.step():
            break
    return life


async def replayed(life: Life, contract: Contract | None = None) -> Replay:
    """Every decision of a life, decided again."""
    reads = life.stage.store.reads
    steps, changes = await reads.steps(ANNA, life.operation), await reads.changes(ANNA, life.operation)
    digests = {found.operation.contract_digest for found in (*steps, *changes) if found.operation is not None}
    return replay(steps, changes, dict.fromkeys(digests, contract or life.contract))


async def journal(life: Life) -> tuple[list[JournalEntry], list[JournalEntry]]:
    """The rows of a life, and those of the clock."""
    reads = life.stage.store.reads
    return list(await reads.journal(ANNA, life.operation)), list(await reads.journal(ANNA, "clock"))


def pinned(entries: list[JournalEntry], contract: Contract) -> dict[str, Contract]:
    """The contract under every digest that the rows name."""
    return {str(entry.facts["contract_digest"]): contract for entry in entries if "contract_digest" in entry.facts}
