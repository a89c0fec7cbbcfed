"""The state machine of the store, third part: what people and providers decide beside the steps, and what holds after each step."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from sereno.core.contract import Via
from sereno.core.errors import NotAllowed, NotNow
from sereno.core.escalation import Escalation, Option, Verb
from sereno.core.operation import AnswerDecision, Operation, Pushed, decide_answer, decide_cancel, decide_push, decide_repin
from sereno.core.record import DeliveryRecord, RunRecord
from sereno.core.reviewing.checking import check_journal
from sereno.core.reviewing.replay import replay
from sereno.core.work import Kind
from sereno.ports import Change, Given, Only, Page
from tests.store.calling import SYSTEM
from tests.store.seeding import ANNA, BOT
from tests.store.stateful_machine import PICK
from tests.store.stateful_model import LIVE, TERMINAL, DeliveryRow, OperationRow, Question
from tests.store.stateful_working import Working

SLACK = timedelta(microseconds=10)
"""Rates are rounded to whole microseconds a send."""


class StoreMachine(Working):
    """The whole machine."""

    # People and providers

    @precondition(lambda self: self.model.questions)
    @rule(
        number=PICK,
        option=PICK,
        who=st.sampled_from([ANNA, ANNA, ANNA, ANNA, BOT]),
        wrong=st.sampled_from([False, False, False, False, True]),
    )
    def answer(self, number: int, option: int, who: Any, wrong: bool) -> None:
        """W20: once, in time, by a person, for exactly what was shown."""
        questions = list(self.model.questions.items())
        open_ones = [one for one in questions if self._shown(one[1]) == "open"]
        some = open_ones if open_ones and number % 4 else questions
        self._answer(some[-1 - number % len(some)], option, who, wrong)

    @precondition(lambda self: any(self._shown(question) == "open" for question in self.model.questions.values()))
    @rule(option=PICK)
    def answer_the_newest(self, option: int) -> None:
        """A person who looks at what is asked, in time."""
        newest = [one for one in self.model.questions.items() if self._shown(one[1]) == "open"][-1]
        self._answer(newest, option, ANNA, False)

    def _answer(self, asking: tuple[str, Question], option: int, who: Any, wrong: bool) -> None:
        identifier, question = asking
        asked = self.do(self.ground.reads.escalation(ANNA, identifier))
        chosen = asked.options[option % len(asked.options)]
        row, contract, decided = self.model.operations[question.operation], self.contracts[question.operation], []

        def rule_(operation: Operation, escalation: Escalation, given: Option, now: Any) -> AnswerDecision:
            decided.append(decide_answer(operation, escalation, given, now, contract=contract))
            return decided[-1]

        self.asked += 1
        given = Given("0" * 64 if wrong else question.digest, chosen.key, asked.statement, {"again": self.asked})
        call = lambda: self.told(self.ground.definitions.answer(who, identifier, given, rule_))  # noqa: E731
        late = question.state != "open" or question.answer_by <= self.now
        stranger = who is BOT and chosen.verb is not Verb.STOP
        if late or wrong or stranger:
            self.trouble = None
            return self.refused(call, NotNow if late else NotAllowed)
        if call()[0]:
            self._check_room(row, decided[-1], chosen)
            question.state = "answered"
            self.met["answered"] += 1
            self.model.revoke(row)
            self.model.change(row, decided[-1], self.now, keeps_lease=False)

    def _check_room(self, row: OperationRow, decision: AnswerDecision, option: Option) -> None:
        """I22: no limit grows by more than the option said."""
        assert row.limits is not None
        before, after = row.limits, decision.allowance
        assert after.max_status_requests <= max(before.max_status_requests, row.used + option.checks)
        assert after.deadline_at <= max(before.deadline_at, self.now) + timedelta(minutes=option.minutes)

    @precondition(lambda self: self.model.operations)
    @rule(number=PICK, word=st.sampled_from(["pushed", "pushed", "cancel_requested", "contract_changed"]))
    def change(self, number: int, word: str) -> None:
        row = self.some(self.model.operations, number)
        contract, decided = self.contracts[row.id], []
        wish = Change("cancel_requested", lambda operation, now: decide_cancel(operation, contract, now))
        self.refused(lambda: self.do(self.ground.definitions.change_operation(BOT, row.id, wish)), NotAllowed)  # W20
        rules = {
            "pushed": lambda operation, now: decide_push(operation, contract, Pushed(b"{}", "application/json", now), now),
            "cancel_requested": lambda operation, now: decide_cancel(operation, contract, now),
            "contract_changed": lambda operation, now: decide_repin(operation, now),
        }

        def rule_(operation: Operation, now: Any) -> AnswerDecision:
            decided.append(rules[word](operation, now))
            return decided[-1]

        self.asked += 1
        document = {"pinned": self.asked} if word == "contract_changed" else None
        who = SYSTEM if word == "pushed" else ANNA
        under_way = row.lease_until is not None and row.lease_until > self.now and row.state in LIVE
        try:
            done, _ = self.told(self.ground.definitions.change_operation(who, row.id, Change(word, rule_, {}, document)))
        except (NotNow, NotAllowed):
            assert not decided or word != "pushed", "a call-back is always taken"
            return
        if not done:
            return
        self.met[word] += 1
        if word == "pushed":
            return self.model.pushed(row, decided[-1], self.now)
        assert not (under_way and row.call is not None), "while a call is on its way nothing else is changed"
        keeps = under_way and str(decided[-1].state) in LIVE
        if not keeps:
            self.model.revoke(row)
        self.model.change(row, decided[-1], self.now, keeps_lease=keeps)

    @precondition(lambda self: self.model.deliveries)
    @rule(number=PICK, drops=st.booleans())
    def decide_on_a_delivery(self, number: int, drops: bool) -> None:
        row = self.some(self.model.deliveries, number)
        definitions = self.ground.definitions
        allowed = row.state in (("queued", "dead", "ambiguous") if drops else ("dead", "ambiguous"))
        asked = lambda: self.told((definitions.drop_delivery if drops else definitions.retry_delivery)(ANNA, row.id))  # noqa: E731
        if not allowed:
            self.trouble = None
            return self.refused(asked, NotNow)
        if asked()[0]:
            row.state, row.due = ("dropped", None) if drops else ("queued", self.now)
            row.max_attempts = row.max_attempts if drops else max(row.max_attempts, row.attempt + 1)
            row.revision += 1

    @rule(days=st.sampled_from([0, 1, 30]))
    def purge(self, days: int) -> None:
        """Closed runs go after a while; what runs stays, and nothing else is touched."""
        purge = getattr(self.ground.work, "purge", None)
        if purge is None:
            return
        before = {run.id for run in self.all_runs()}
        done, count = self.told(purge(timedelta(days=days)))
        if not done:
            return
        gone = before - {run.id for run in self.all_runs()}
        assert len(gone) == count
        for run in gone:
            subject, _, number = run.rpartition(".")
            assert self.model.runs.pop((subject, int(number))) != "running"

    # What holds after each step

    def all_deliveries(self) -> list[DeliveryRecord]:
        return list(self.do(self.ground.reads.deliveries(ANNA, Page(limit=1000))))

    def all_runs(self) -> list[RunRecord]:
        return list(self.do(self.ground.reads.runs(ANNA, Page(limit=1000))))

    @invariant()
    def I8_I11_I12_every_row_is_what_the_model_holds(self) -> None:
        reads = self.ground.reads
        for record in self.do(reads.operations(ANNA, Page(limit=1000))):
            operation, row = record.operation, self.model.operations[record.operation.id]
            before = self.seen_states.get(operation.id)
            assert before not in TERMINAL or before == operation.state, "I11: terminal is final"
            self.seen_states[operation.id] = operation.state
            assert (str(operation.state), record.due, record.leased_until) == (row.state, row.due, row.lease_until), row
            assert (operation.revision, operation.allowance, operation.escalations) == (row.revision, row.limits, row.escalations)
            self._check_counters(operation, row)
        for found in [self.do(reads.poll(ANNA, poll)) for poll in self.model.polls]:
            poll, known = found.poll, self.model.polls[found.poll.id]
            assert (str(poll.state), found.due, found.leased_until) == (known.state, known.due, known.lease_until), known
            assert (poll.revision, poll.condition_version, poll.cursor) == (known.revision, known.version, known.cursor)
            assert (poll.failures, poll.runs, poll.matches, poll.baselined) == (
                known.failures,
                known.runs,
                known.matches,
                known.baselined,
            )
            assert dict(poll.known) == known.objects

    def _check_counters(self, operation: Operation, row: OperationRow) -> None:
        """I1: counted before it is sent, and never above what is allowed."""
        spend = operation.spend
        assert spend.status_requests == row.used <= operation.allowance.max_status_requests
        assert (spend.transport_failures, spend.throttles) == (row.failures, row.throttles)
        assert operation.next_poll_at == row.next_look
        stored = (
            None if operation.call is None else (str(operation.call.kind), str(operation.call.state), operation.call.attempts)
        )
        assert stored == (None if row.call is None else (row.call.kind, row.call.state, row.call.attempts))
        open_ones = [asked for asked in self.model.questions.values() if asked.operation == row.id and asked.state == "open"]
        assert len(open_ones) == (row.state == "escalated"), "one open question where a person is asked, none elsewhere"

    @invariant()
    def I17_I18_one_row_for_each_key(self) -> None:
        wanted, model = self.model.wanted, self.model
        for record in self.all_deliveries():
            delivery = record.delivery
            key = delivery.effect.dedupe_key
            if delivery.id not in model.deliveries:
                assert key in wanted, f"an outbox row that nothing wanted: {key}"
                pool, due = wanted.pop(key)
                assert key not in model.keys, "I17: a second row for one key"
                model.keys[key] = delivery.id
                model.deliveries[delivery.id] = DeliveryRow(delivery.id, Kind.DELIVERY, pool, "queued", due, self.now, key=key)
            row = model.deliveries[delivery.id]
            assert (str(delivery.state), record.due, delivery.attempts) == (row.state, row.due, row.attempt), row
            assert delivery.max_attempts == row.max_attempts
        assert not wanted, f"I18: wanted in a decision that was committed, and not there: {sorted(wanted)}"
        assert self.do(self.ground.reads.counts(ANNA)).suppressed_duplicates == model.suppressed

    @invariant()
    def nothing_is_lost(self) -> None:
        """Each open row is due some day, or waits for a person; and the store wakes up for it in time."""
        model = self.model
        for row in model.rows():
            if model.is_open(row):
                assert row.due is not None or row.parked, f"{row} is open and never due"
        for row in [None, *list(model.rows())[-2:]]:
            only = None if row is None else Only(subject=row.id)
            at = self.do(self.ground.work.next_due(only))
            earliest = model.earliest(self.now, only)
            if earliest is not None:
                assert at is not None and at <= max(earliest, self.now) + SLACK, f"it sleeps until {at}, past {earliest}"

    @invariant()
    def questions_and_runs_agree(self) -> None:
        stored = {asked.id: asked for asked in self.do(self.ground.reads.escalations(ANNA, Page(limit=1000)))}
        assert set(stored) == set(self.model.questions)
        for identifier, question in self.model.questions.items():
            assert stored[identifier].state == self._shown(question), identifier
            assert stored[identifier].digest == question.digest
        runs = {(run.subject, int(run.id.rpartition(".")[2])): run.status for run in self.all_runs()}
        assert runs == self.model.runs

    def _shown(self, question: Question) -> str:
        return "expired" if question.state == "open" and question.answer_by <= self.now else question.state

    @rule(limit=st.sampled_from([1, 2, 3]))
    def look_back(self, limit: int) -> None:
        """W28, W44: every decision is reached again from the journal, and its check finds nothing. And a page is turned."""
        for subject in self.model.operations:
            self._check_history(subject, self.contracts[subject])
        self._turn_a_page(limit)

    def _turn_a_page(self, limit: int) -> None:
        """Reads on in the list of deliveries, whatever was written between two pages: each that was there at the start comes once."""
        if self.pages is None:
            self.pages = ([], {found.delivery.id for found in self.all_deliveries()})
        read, there = self.pages
        page = [
            found.delivery.id for found in self.do(self.ground.reads.deliveries(ANNA, Page(limit, read[-1] if read else None)))
        ]
        assert len(page) <= limit and page == sorted(page, reverse=True)
        assert not set(page) & set(read)
        read += page
        if len(page) < limit:
            assert there <= set(read)
            self.pages = None

    @invariant()
    def the_journal_only_grows_and_counts_the_same(self) -> None:
        for subject, row in self.model.operations.items():
            known = self.journals.setdefault(subject, [])
            new = list(self.do(self.ground.reads.journal(ANNA, subject, known[-1].seq if known else 0)))
            known += new
            assert [entry.seq for entry in known] == sorted({entry.seq for entry in known})
            assert counted(known) == row.used, "the journal and the counter disagree"

    def _check_history(self, subject: str, contract: Any) -> None:
        steps, changes = self.do(self.ground.reads.steps(ANNA, subject)), self.do(self.ground.reads.changes(ANNA, subject))
        digests = {found.operation.contract_digest for found in (*steps, *changes) if found.operation is not None}
        found = replay(steps, changes, dict.fromkeys(digests, contract))
        assert found.same, [step for step in found.steps if step.verdict != "same"]
        entries = self.do(self.ground.reads.journal(ANNA, subject))
        assert [entry.seq for entry in entries][: len(self.journals.get(subject, []))] == [
            entry.seq for entry in self.journals.get(subject, [])
        ]
        if contract.via is Via.HTTP:
            faults = check_journal(entries, dict.fromkeys(digests, contract), self.do(self.ground.reads.journal(ANNA, "clock")))
            assert not faults, faults


def counted(entries: list[Any]) -> int:
    """The status requests that a journal counts: reserved at the claim, hops beside it, settled by each commit, given back unsent."""
    used, asks = 0, False
    for entry in entries:
        facts = entry.facts
        if entry.kind == "intent" and "asks" in facts:
            asks = facts["asks"]
            used += asks
        elif facts.get("event") == "redirect_hop":
            used += 1
        elif facts.get("decision") == "released":
            used -= asks
        elif entry.kind == "decision" and "status_requests_used" in facts:
            used = facts["status_requests_used"]
    return used
