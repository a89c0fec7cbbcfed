"""The state machine of the store, second part: what workers do with what they were handed out, late or in time."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from sereno.core.call import CallAnswer, CallKind, CallOutcome
from sereno.core.change import FailedReading, ReadFailure, Reading, find_changes
from sereno.core.delivery import DeliveryDecision, Outcome, OutcomeKind, before_send, decide_delivery
from sereno.core.errors import AlreadyExists, LeaseLost
from sereno.core.observation import DelaySource, Observation, ObservationKind, ReadHint
from sereno.core.operation import (
    Close,
    OperationDecision,
    Read,
    Send,
    close_operation,
    decide_call,
    decide_operation,
    decide_taken,
    next_call,
)
from sereno.core.poll import PollDecision, decide_poll, needs_judging
from sereno.core.waiting.moved import moved_question
from sereno.core.work import DeliveryWork, Kind, OperationWork, PollWork, Work, subject_of
from sereno.ports import Only
from tests.core.watching import judgement, thing
from tests.store.stateful_machine import ANSWER_WITHIN, EVERYTHING, PICK, TIMES, WAITS, Defining, Handed
from tests.store.stateful_model import LIVE, STEP_BACK, DeliveryRow, OperationRow, PollRow, Row

KINDS = (None, None, None, "subject", "due_by", "poll", "operation", "delivery")
READ = st.fixed_dictionaries(
    {
        "objects": st.dictionaries(st.sampled_from("abc"), st.sampled_from("12")),
        "fails": st.sampled_from([None, None, None, None, ReadFailure.AUTH, ReadFailure.UNREACHABLE]),
        "complete": st.booleans(),
        "more": st.sampled_from([False, False, True]),
        "requests": st.sampled_from([1, 1, 1, 3]),
        "cursor": st.sampled_from(["c1", "c2"]),
    }
)
SAW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([ObservationKind.PENDING] * 6 + list(ObservationKind)),
        "state": st.sampled_from(["running", "odd"]),
        "retry_after": WAITS,
        "hint": WAITS,
        "outcome": st.sampled_from([CallOutcome.ACCEPTED] * 4 + list(CallOutcome)),
        "job": st.sampled_from(["j9", "j1"]),
        "seed": st.integers(0, 3),
    }
)


class Working(Defining):
    """Claims, and everything that may follow one."""

    @rule(
        worker=st.sampled_from(["w1", "w2"]),
        limit=st.sampled_from([EVERYTHING, EVERYTHING, 3, 1]),
        kind=st.sampled_from(KINDS),
        number=PICK,
    )
    def claim(self, worker: str, limit: int, kind: str | None, number: int) -> None:
        only = self._only(kind, number)
        self.claim_as(worker, limit, only)

    @rule(took=st.sampled_from([0, 1, 20, 61]), read=READ, saw=SAW, outcome=st.sampled_from([OutcomeKind.DONE, *OutcomeKind]))
    def work_through(self, took: int, read: dict[str, Any], saw: dict[str, Any], outcome: OutcomeKind) -> None:
        """Sleeps until the store says that something may be due, claims all, and commits all."""
        for handed in self._next(took):
            self.commit_one(handed, self.model.row(subject_of(handed.work)), read, saw, outcome)
            self.I17_I18_one_row_for_each_key()

    @rule(took=st.sampled_from([1, 20]), what=st.sampled_from(["hop", "hops", "release", "park"]), read=READ, saw=SAW)
    def work_through_by_a_way_round(self, took: int, what: str, read: dict[str, Any], saw: dict[str, Any]) -> None:
        """The same, where all follow a redirect or more before they are committed, are given back unsent, or are parked."""
        for handed in self._next(took):
            row = self.model.row(subject_of(handed.work))
            for _ in range(14 if what == "hops" else 1):
                self.hold_one(what.removesuffix("s"), handed, row)
            if what in ("hop", "hops"):
                self.commit_one(handed, row, read, saw, OutcomeKind.DONE)
            self.I17_I18_one_row_for_each_key()

    def _next(self, took: int) -> list[Handed]:
        """Sleeps until something may be due and claims it; what it does then takes some seconds."""
        due = self.do(self.ground.work.next_due())
        if due is None:
            return []
        self.time_passes(max(0.0, (due - self.now).total_seconds()))
        before = len(self.handed)
        self.claim_as("w1", EVERYTHING, None)
        self.time_passes(took)
        return self.handed[before:]

    def I17_I18_one_row_for_each_key(self) -> None:
        raise NotImplementedError

    def _only(self, kind: str | None, number: int) -> Only | None:
        rows = list(self.model.rows())
        if kind is None or (kind == "subject" and not rows):
            return None
        if kind == "subject":
            return Only(subject=rows[number % len(rows)].id)
        return Only(due_by=self.now - timedelta(seconds=number)) if kind == "due_by" else Only(kinds=(Kind(kind),))

    def claim_as(self, worker: str, limit: int, only: Only | None) -> None:
        done, claimed = self.told(self.ground.work.claim(worker=worker, limit=limit, times=TIMES, only=only))
        if not done:
            return
        lost = self.ground.lost() is claimed
        self._note_step()
        works = list(claimed.works)
        assert claimed.now == self.now and len(works) <= limit
        assert len({subject_of(work) for work in works}) == len(works), "one row was handed out twice in a claim"
        self._check_bounds(works, limit, only)
        for work in works:
            self._take(work, worker)
        if only is None and not works and limit == EVERYTHING:
            later = self.do(self.ground.work.next_due())
            assert later is None or later > self.now, (
                "a claim of everything found nothing, and the next is said to find something now"
            )
        if not lost:
            self.handed += [Handed(work, self.ground.clock.seconds, self.model.moved) for work in works]

    def _note_step(self) -> None:
        """I7, I23: a clock that was set moves the open waits by that, once; nothing else moves them."""
        moved = [entry for entry in self._clock_entries() if entry.facts["moved"]]
        back = max(self.model.marks, default=self.now) - self.now
        assert not moved or len(moved) == 1
        assert moved or back <= STEP_BACK, f"the clock stands {back} before the latest claim, and nothing was moved"
        if moved:
            step = timedelta(seconds=float(moved[0].facts["seconds"]))
            assert abs(step) > STEP_BACK
            exact = [self.now - mark for mark in self.model.marks if abs(self.now - mark - step) <= timedelta(milliseconds=1)]
            self.model.shift(exact[0] if exact else step)
            self.model.marks = []
            self.met["clock set"] += 1
        self.model.marks.append(self.now)

    def _clock_entries(self) -> list[Any]:
        known = self.journals.setdefault("clock", [])
        new = list(self.do(self.ground.reads.journal(self.anna, "clock", known[-1].seq if known else 0)))
        known += new
        return new

    def _check_bounds(self, works: list[Work], limit: int, only: Only | None) -> None:
        """Pools (W29, I7): never more than a limit allows; and never less than it allows, where everything due was asked for."""
        model, now = self.model, self.now
        due = model.due(now, only)
        taken = [model.row(subject_of(work)) for work in works]
        closing = [row for row in due if model.closing(row, now)]
        for pool in {row.pool for row in [*due, *taken]}:
            book = model.book(pool)
            mine = [row for row in taken if row.pool == pool]
            sending = [row for row in mine if model.sends(row, now)]
            assert len(sending) <= book.available(now, book.claims), f"{pool}: more than burst + rate · Δ"
            places = model.places(pool, now)
            assert len(sending) <= places, f"{pool}: more than in_flight"
            sure = book.sure_from is None or book.sure_from <= now
            least = min(book.available(now, book.spent), places, sum(1 for row in due if row.pool == pool))
            if sure and limit == EVERYTHING and (only is None or len(only.kinds) == len(Kind)):
                assert len(mine) >= least, f"{pool}: {least} rows are due and free, {len(mine)} were handed out"
        if limit == EVERYTHING and (only is None or Kind.OPERATION in only.kinds):
            missing = {row.id for row in closing} - {row.id for row in taken}
            assert not missing, f"to be closed unasked, whatever the pool allows: {missing}"

    def _take(self, work: Work, worker: str) -> None:
        """I8: no row goes to two live leases; the fence moves on; what is handed out is what the model holds."""
        row, now = self.model.row(subject_of(work)), self.now
        at = self.model.ready_at(row)
        assert at is not None and at <= now, f"{row} was handed out before it was due"
        assert row.lease_until is None or row.lease_until <= now, f"{row} was handed out under a live lease"
        lease = work.lease
        assert (lease.run, lease.worker, lease.claimed_at, lease.until) == (row.run + 1, worker, now, now + TIMES.lease)
        assert lease.revision == row.revision
        self._check_handed(work, row)
        due = self.stored_due(row)
        assert due >= lease.until, "a claim moves due past its lease"
        self.met[f"taken over {row.kind}" if row.lease_until else f"claimed {row.kind}"] += 1
        self.model.take(row, work, due)

    def stored_due(self, row: Row) -> Any:
        reads = self.ground.reads
        if isinstance(row, PollRow):
            return self.do(reads.poll(self.anna, row.id)).due
        if isinstance(row, OperationRow):
            return self.do(reads.operation(self.anna, row.id)).due
        return next(found.due for found in self.all_deliveries() if found.delivery.id == row.id)

    def _check_handed(self, work: Work, row: Row) -> None:
        if isinstance(work, PollWork) and isinstance(row, PollRow):
            assert (work.scheduled_for, work.attempt) == (row.served, row.attempt + 1)
            assert (work.poll.cursor, work.poll.failures, work.poll.runs) == (row.cursor, row.failures, row.runs)
        elif isinstance(work, OperationWork) and isinstance(row, OperationRow):
            operation = work.operation
            assert (operation.state, operation.reserved) == (row.state, row.asks(self.now)), "W33: reserved only for what asks"
            assert (
                operation.spend.status_requests
                == row.used + operation.reserved
                <= max(row.used, operation.allowance.max_status_requests)
            )
            assert (operation.call is None) == (row.call is None)
            if row.call is not None and operation.call is not None:
                assert operation.call.interrupted == (row.call.state == "sending"), "what may have been sent is in doubt"
                assert operation.call.attempts == row.call.attempts + row.calls(self.now)
            assert (None if operation.pushed is None else operation.pushed.received_at) == row.unread
        elif isinstance(work, DeliveryWork):
            assert work.delivery.attempts == row.attempt + 1
            assert work.delivery.interrupted == (row.state == "sending"), "an attempt that was never settled is in doubt"

    # Between claim and commit

    @precondition(lambda self: self.handed)
    @rule(number=PICK, what=st.sampled_from(["hop", "hop", "release", "release", "park", "park seen", "check", "extend"]))
    def hold(self, number: int, what: str) -> None:
        self.hold_one(what, *self.picked(number))

    def hold_one(self, what: str, handed: Handed, row: Row) -> None:
        match what:
            case "check":
                self.check(handed, row)
            case "extend":
                self.extend(handed, row)
            case "hop":
                self.follow_a_redirect(handed, row)
            case "release":
                self.release(handed, row)
            case _:
                self.park(handed, row, what == "park seen")

    def check(self, handed: Handed, row: Row) -> None:
        alive = self.model.fence_holds(handed.work, row) and row.lease_until is not None and row.lease_until > self.now
        asked = lambda: self.do(self.ground.work.check(handed.work, TIMES))  # noqa: E731
        if alive:
            assert asked() == self.now
        else:
            self.refused(asked, LeaseLost)

    def extend(self, handed: Handed, row: Row) -> None:
        asked = lambda: self.told(self.ground.work.extend(handed.work, TIMES))  # noqa: E731
        if not self.model.fence_holds(handed.work, row):
            self.trouble = None
            return self.refused(asked, LeaseLost)
        done, _ = asked()
        if done:
            until = self.now + TIMES.lease
            row.due = until if row.due is None or isinstance(row, DeliveryRow) else max(row.due, until)
            row.lease_until = until

    def release(self, handed: Handed, row: Row) -> None:
        asked = lambda: self.told(self.ground.work.release(handed.work))  # noqa: E731
        if not self.model.fence_holds(handed.work, row):
            self.trouble = None
            return self.refused(asked, LeaseLost)
        if asked()[0]:
            self.met[f"released {row.kind}"] += 1
            self.model.release(handed.work, row, self.now)

    def park(self, handed: Handed, row: Row, saw: bool) -> None:
        seen = Observation(ObservationKind.PENDING, "running", 200) if saw and row.kind is Kind.OPERATION else None
        asked = lambda: self.told(self.ground.work.park(handed.work, reason="our bug", observation=seen))  # noqa: E731
        if not self.model.fence_holds(handed.work, row):
            self.trouble = None
            return self.refused(asked, LeaseLost)
        if asked()[0]:
            self.model.park(row, self.now)
            self.met["parked"] += 1

    def follow_a_redirect(self, handed: Handed, row: Row) -> None:
        """I1: each hop is counted before it is followed; none beyond the limit, none under an old fence or a dead lease."""
        done, allowed = self.told(self.ground.work.reserve_hop(handed.work, "https://example.com"))
        if not done:
            return
        alive = self.model.fence_holds(handed.work, row) and row.lease_until is not None and row.lease_until > self.now
        counts = isinstance(row, OperationRow) and isinstance(handed.work, OperationWork) and handed.work.operation.call is None
        if not counts:
            assert allowed == alive
            return
        assert isinstance(row, OperationRow) and row.limits is not None
        assert allowed == (alive and row.used < row.limits.max_status_requests)
        row.used += allowed
        self.met["hop"] += allowed

    # Commits

    @precondition(lambda self: self.handed)
    @rule(number=PICK, read=READ, saw=SAW, outcome=st.sampled_from([OutcomeKind.DONE, *OutcomeKind]))
    def commit(self, number: int, read: dict[str, Any], saw: dict[str, Any], outcome: OutcomeKind) -> None:
        self.commit_one(*self.picked(number), read, saw, outcome)

    @precondition(lambda self: self.late())
    @rule(number=PICK, read=READ, saw=SAW)
    def a_late_worker_commits(self, number: int, read: dict[str, Any], saw: dict[str, Any]) -> None:
        """I8: its lease went to another, who mostly still works."""
        late = self.late()
        handed = late[-1 - number % len(late)]
        self.commit_one(handed, self.model.row(subject_of(handed.work)), read, saw, OutcomeKind.DONE)

    def late(self) -> list[Handed]:
        """What was handed out and taken over since; where there is some, that which another holds now."""
        rows = [(handed, self.model.row(subject_of(handed.work))) for handed in self.handed]
        late = [(handed, row) for handed, row in rows if row.run != handed.work.lease.run]
        return [handed for handed, row in late if row.lease_until is not None] or [handed for handed, _ in late]

    def commit_one(self, handed: Handed, row: Row, read: dict[str, Any], saw: dict[str, Any], outcome: OutcomeKind) -> None:
        if isinstance(handed.work, PollWork) and isinstance(row, PollRow):
            self._commit_poll(handed, handed.work, row, read)
        elif isinstance(handed.work, DeliveryWork) and isinstance(row, DeliveryRow):
            self._commit_delivery(handed, handed.work, row, (outcome, saw["seed"]))
        elif isinstance(handed.work, OperationWork) and isinstance(row, OperationRow):
            self._commit_operation(handed, handed.work, row, saw)

    def _settle(self, handed: Handed, row: Row, asked: Any) -> bool:
        """A commit under an old fence is refused; else it is done, or the database went away. Answers whether it was done."""
        if not self.model.fence_holds(handed.work, row):
            self.trouble = None
            self.refused(lambda: self.told(asked()), LeaseLost)
            return False
        done, _ = self.told(asked())
        return done

    def _commit_poll(self, handed: Handed, work: PollWork, row: PollRow, read: dict[str, Any]) -> None:
        decision = self._decided_poll(handed, work, row, read)
        if self._settle(handed, row, lambda: self.ground.work.commit_poll(work, decision)):
            self.met["edited poll" if row.revision != work.lease.revision else "poll"] += 1
            self.model.commit_poll(work, row, decision, self.now)
            self._after_a_step(handed, row)

    def _decided_poll(self, handed: Handed, work: PollWork, row: PollRow, read: dict[str, Any]) -> PollDecision:
        known: Any = {}
        if self.model.fence_holds(work, row):
            known = self.do(self.ground.work.snapshot(work))
            assert dict(known) == row.objects, "the snapshot is what was remembered"
        else:
            self.refused(lambda: self.do(self.ground.work.snapshot(work)), LeaseLost)
        poll, now = replace(work.poll, known=dict(known)), self.receipt(handed)
        times: dict[str, Any] = {"scheduled_for": work.scheduled_for, "now": now, "rng": Random(1)}
        if read["fails"] is not None:
            failed = FailedReading(read["fails"], "down", requests=read["requests"])
            return decide_poll(poll, failed, find_changes(Reading(unchanged=True), {}, now, poll.spec.keep, ()), (), **times)
        found = tuple(thing(name, content) for name, content in read["objects"].items())
        reading = Reading(found, read["cursor"], read["complete"], more=read["more"], requests=read["requests"])
        comparison = find_changes(reading, poll.known, now, poll.spec.keep, poll.spec.fields)
        judged = [judgement(reading, name, change, True) for name, change in needs_judging(poll, reading, comparison)]
        return decide_poll(poll, reading, comparison, judged, **times)

    def _commit_delivery(self, handed: Handed, work: DeliveryWork, row: DeliveryRow, drawn: tuple[OutcomeKind, int]) -> None:
        decision: DeliveryDecision | None = before_send(work.delivery, work.lease.claimed_at)
        if decision is None:
            decision = decide_delivery(work.delivery, Outcome(drawn[0], "said"), self.receipt(handed), Random(drawn[1]))
        settled = decision
        if self._settle(handed, row, lambda: self.ground.work.commit_delivery(work, settled)):
            self.model.commit_delivery(row, settled)
            self._after_a_step(handed, row)

    def _after_a_step(self, handed: Handed, row: Row) -> None:
        """Where the clock was set while the work was under way, what was planned from the instants before it is left to the store."""
        if handed.moved == self.model.moved or row.due is None:
            return
        due = self.stored_due(row)
        if isinstance(row, PollRow):
            assert isinstance(handed.work, PollWork)
            moved = self.model.moved - handed.moved
            row.served, row.attempt = (due, 0) if due > self.now else (handed.work.scheduled_for + moved, handed.work.attempt)
        if isinstance(row, OperationRow):
            row.next_look = self.do(self.ground.reads.operation(self.anna, row.id)).operation.next_poll_at
        row.due = due

    def _commit_operation(self, handed: Handed, work: OperationWork, row: OperationRow, saw: dict[str, Any]) -> None:
        decision = self._decided_step(handed, work, saw)
        asked = lambda: self.ground.work.commit_operation(work, decision)  # noqa: E731
        try:
            done = self._settle(handed, row, asked)
        except AlreadyExists:
            assert decision.job is not None and self._is_waited_for(row, decision.job.job_id), "W39: the job is that of another"
            assert decision.call is not None and decision.call.answer is not None
            decision = decide_taken(
                work.operation, self.contracts[row.id], decision.call.answer, decision.received_at, **self._asking()
            )
            done = self._settle(handed, row, lambda: self.ground.work.commit_operation(work, decision))
        else:
            assert not (done and decision.job and self._is_waited_for(row, decision.job.job_id)), "W39: one operation for one job"
        if not done:
            return
        # A question that is written after a step was told to nobody before it: its end moves too.
        decision = moved_question(work.operation, decision, self.model.moved - handed.moved)
        if self.model.commit_operation(row, work, decision, self.now):
            self.met["edited step"] += 1
            self._check_edited(handed, row, decision)
        self.met[row.state] += 1
        self._after_a_step(handed, row)

    def _is_waited_for(self, row: OperationRow, job: str) -> bool:
        contract = self.contracts[row.id]
        return any(
            other.id != row.id
            and other.job == job
            and self.contracts[other.id] is contract
            and other.state in (*LIVE, "escalated")
            for other in self.model.operations.values()
        )

    def _check_edited(self, handed: Handed, row: OperationRow, decision: OperationDecision) -> None:
        """Decided again soon, but inside the smallest gap and what the provider asked for (W35)."""
        record = self.do(self.ground.reads.operation(self.anna, row.id))
        if row.state in LIVE:
            moved = self.model.moved - handed.moved
            gap = max(self.now, decision.received_at + moved) + row.min_gap
            look = None if decision.next_poll_at is None else decision.next_poll_at + moved
            asked = look if row.source in (DelaySource.PROVIDER_RETRY_AFTER, DelaySource.PROVIDER_POLL_HINT) else None
            least = self.now if row.unread is not None else max(gap, asked or gap)
            most = max(gap, look or gap)
            assert record.due is not None and least <= record.due <= most, (least, record.due, most)
        row.due, row.next_look = record.due, record.operation.next_poll_at

    def _asking(self) -> dict[str, Any]:
        self.asked += 1
        return {"escalation_id": f"esc_{self.asked}", "answer_within_s": ANSWER_WITHIN}

    def _decided_step(self, handed: Handed, work: OperationWork, saw: dict[str, Any]) -> OperationDecision:
        operation, contract, at = work.operation, self.contracts[work.operation.id], self.receipt(handed)
        dice = Random(saw["seed"])
        step = next_call(operation, contract, work.lease.claimed_at)
        if isinstance(step, Close):
            return close_operation(operation, contract, step, work.lease.claimed_at, **self._asking())
        if isinstance(step, Send):
            answer = self._answered(step.call.kind, saw, at)
            return decide_call(operation, contract, answer, at, dice, **self._asking())
        seen = self._observed(saw, at)
        if isinstance(step, Read):
            seen, at = replace(seen, requests=1, http_status=200, hints=()), step.pushed.received_at
        return decide_operation(operation, contract, seen, at, dice, **self._asking())

    def _hints(self, saw: dict[str, Any], at: Any) -> tuple[ReadHint, ...]:
        named = ((DelaySource.PROVIDER_RETRY_AFTER, "retry_after"), (DelaySource.PROVIDER_POLL_HINT, "hint"))
        return tuple(
            ReadHint(source, "raw", at + timedelta(seconds=saw[name])) for source, name in named if saw[name] is not None
        )

    def _observed(self, saw: dict[str, Any], at: Any) -> Observation:
        kind = saw["kind"]
        silent = kind in (ObservationKind.TRANSPORT, ObservationKind.NOT_SENT)
        return Observation(
            kind, saw["state"], None if silent else 200, f"saw {kind}", hints=() if silent else self._hints(saw, at),
            requests=0 if kind is ObservationKind.NOT_SENT else 1,
        )  # fmt: skip

    def _answered(self, kind: CallKind, saw: dict[str, Any], at: Any) -> CallAnswer:
        outcome, unsent = saw["outcome"], saw["outcome"] is CallOutcome.NOT_SENT
        taken = kind is CallKind.SUBMIT and outcome in (CallOutcome.ACCEPTED, CallOutcome.DUPLICATE)
        job = saw["job"] if taken else None
        return CallAnswer(
            outcome, f"it was {outcome}", None if unsent else 200, job, f"https://example.com/{job}" if job else None,
            hints=() if unsent else self._hints(saw, at), requests=0 if unsent else 1,
        )  # fmt: skip
