"""State machines of the other decisions: runs of one poll, and attempts of one delivery, each against a small model."""

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sereno.core import change as changes
from sereno.core import delivery as deliveries
from sereno.core import poll as polls
from sereno.core.change import FailedReading, ReadFailure, Reading
from sereno.core.delivery import Delivery, DeliveryState, Outcome, OutcomeKind
from sereno.core.effect import ActionRef, Effect, Policy
from sereno.core.poll import FireOn, PollState, Stop
from sereno.core.schedule import Interval
from tests.core.stateful_machine import pure
from tests.core.watching import DUE, after, judgement, make, thing

SAYS = st.dictionaries(st.sampled_from("abc"), st.sampled_from([True, True, False, None]))


class PollMachine(RuleBasedStateMachine):
    """A poll over readings, failures, late runs and answers of its condition; the model counts versions and episodes by itself."""

    @initialize(
        fire_on=st.sampled_from([FireOn.CHANGE, FireOn.STATE]),
        baseline=st.booleans(),
        every=st.sampled_from([60, 3_600]),
        stop=st.sampled_from([Stop(), Stop(after_failures=3), Stop(after_matches=2), Stop(after_runs=4), Stop(auth_failures=2)]),
    )
    def begin(self, fire_on: FireOn, baseline: bool, every: int, stop: Stop) -> None:
        self.every = timedelta(seconds=every)
        self.poll = make(fire_on=fire_on, baseline=baseline, stop=stop, schedule=Interval(self.every, DUE))
        self.due: datetime | None = DUE
        self.now = DUE
        self.versions: dict[str, tuple[int, str | None]] = {}
        self.truth: dict[str, tuple[bool | None, int]] = {}
        self.first, self.keys = baseline, set[str]()
        self.failures = self.refusals = self.runs = self.matches = 0

    @precondition(lambda self: self.due is not None)
    @rule(
        late=st.sampled_from([0, 1, 59, 200, 90_000]),
        objects=st.dictionaries(st.sampled_from("abc"), st.sampled_from("12")),
        says=SAYS,
        complete=st.booleans(),
        unchanged=st.sampled_from([False, False, False, True]),
        wait=st.sampled_from([None, None, 30, 5_000]),
    )
    def read(self, late: int, objects: dict[str, str], says: Any, complete: bool, unchanged: bool, wait: int | None) -> None:
        """P01–P07: what fires is what changed, or came to hold, and nothing else."""
        served = self.wake(late)
        asked = None if wait is None else self.now + timedelta(seconds=wait)
        found = () if unchanged else tuple(thing(name, content) for name, content in objects.items())
        reading = Reading(found, "c2", complete, unchanged=unchanged, requests=1, minimum_wait_until=asked)
        comparison = pure(changes.find_changes, reading, self.poll.known, self.now, self.poll.spec.keep, ())
        wanted = polls.needs_judging(self.poll, reading, comparison)
        judged = [judgement(reading, name, change, says) for name, change in wanted]
        decision = pure(
            polls.decide_poll, self.poll, reading, comparison, judged, scheduled_for=served, now=self.now, rng=Random(1)
        )
        fired = self.expected(objects, says, complete) if not unchanged else set()
        self.first = self.first and unchanged
        told = {effect.source_object_id: effect.dedupe_key for effect in decision.effects if effect.source_object_id is not None}
        assert {name: key.split(":")[3].split("@")[1] for name, key in told.items()} == dict(fired), decision.effects
        assert not self.keys & set(told.values()), "P07: one occurrence was told twice"
        self.keys |= set(told.values())
        self.failures = self.refusals = 0
        self.matches += len(fired)
        assert (decision.status, decision.matched, decision.failures) == ("ok", len(fired), 0)
        self.end(decision, served, asked, len(fired))

    def expected(self, objects: dict[str, str], says: Any, complete: bool) -> set[tuple[str, str]]:
        """What has to fire, as (object, occurrence)."""
        changed: dict[str, int] = {}
        for name, content in objects.items():
            version, before = self.versions.get(name, (0, None))
            if before != content:
                changed[name] = version + 1
                self.versions[name] = (version + 1, content)
        for name, (version, before) in list(self.versions.items()):
            if complete and name not in objects and before is not None:
                changed[name] = version + 1
                self.versions[name] = (version + 1, None)
        if self.poll.spec.fire_on is FireOn.CHANGE:
            return set() if self.first else {(name, f"v{version}") for name, version in changed.items() if says.get(name, False)}
        return self.rises(objects, says, set(changed))

    def rises(self, objects: dict[str, str], says: Any, changed: set[str]) -> set[tuple[str, str]]:
        """False→true of an observed truth; an object that was seen before and never judged is only noted, an error says nothing."""
        fired = set()
        for name in objects:
            answer = says.get(name, False)
            before, episodes = self.truth.get(name, (None, 0))
            if answer is None or answer == before:
                continue
            self.truth[name] = (answer, episodes + answer)
            if answer and not self.first and (before is not None or name in changed):
                fired.add((name, f"e{episodes + 1}"))
        return fired

    @precondition(lambda self: self.due is not None)
    @rule(
        late=st.sampled_from([0, 61, 90_000]),
        failure=st.sampled_from(list(ReadFailure)),
        wait=st.sampled_from([None, 30, 9_000, 10**7]),
    )
    def fail(self, late: int, failure: ReadFailure, wait: int | None) -> None:
        """P10: counted, told once where it ends the poll, later each time, and never sooner than a Retry-After (up to a week)."""
        served = self.wake(late)
        asked = None if wait is None else self.now + min(timedelta(seconds=wait), timedelta(days=7))
        reading = FailedReading(failure, "down", 1, None if wait is None else self.now + timedelta(seconds=wait))
        decision = pure(
            polls.decide_poll, self.poll, reading, changes.Comparison(), (), scheduled_for=served, now=self.now, rng=Random(1)
        )
        self.failures += 1
        self.refusals += failure is ReadFailure.AUTH
        assert (decision.failures, decision.auth_failures, decision.matched) == (self.failures, self.refusals, 0)
        assert (decision.cursor, dict(decision.remember)) == (self.poll.cursor, {}), "P04: what was not read moves nothing"
        longest = max(self.every, timedelta(days=1))
        if decision.due is not None:
            assert decision.due <= max(self.now + longest + self.every, asked or self.now)
            grown = min(timedelta(days=1), self.every * 2 ** (self.failures - 1)) / 2
            assert decision.due >= self.now + grown, "P10: the pauses grow"
        self.end(decision, served, asked, 0)

    def wake(self, late: int) -> datetime:
        assert self.due is not None
        served, self.now = self.due, max(self.now, self.due) + timedelta(seconds=late)
        return served

    def end(self, decision: Any, served: datetime, asked: datetime | None, matched: int) -> None:
        """P03, P08, P09: at most one run for all that was missed; the stop conditions; later than now."""
        self.runs += 1
        stop = self.poll.spec.stop
        disabled = self.refusals >= stop.auth_failures
        ended = (
            (stop.after_failures is not None and self.failures >= stop.after_failures)
            or (stop.after_matches is not None and matched > 0 and self.matches >= stop.after_matches)
            or (stop.after_runs is not None and self.runs >= stop.after_runs)
        )
        state = "disabled" if disabled and self.failures else "ended" if ended else "active"
        assert str(decision.state) == state, decision.summary
        assert (decision.due is None) == (state != "active")
        if decision.due is not None:
            assert decision.due > self.now and decision.due >= (asked or self.now)
            grid = (decision.due - DUE) % self.every
            assert self.failures or grid == timedelta(0), "off its grid"
        assert decision.missed == max(0, (self.now - DUE) // self.every - (served - DUE) // self.every)
        self.poll, self.due = after(self.poll, decision), decision.due

    @precondition(lambda self: self.due is None)
    @rule(later=st.sampled_from([0, 100, 90_000]))
    def resume(self, later: int) -> None:
        """A person starts it again: the failures count anew, what is known stays known."""
        self.now += timedelta(seconds=later)
        self.poll = replace(self.poll, state=PollState.ACTIVE, failures=0, auth_failures=0)
        self.failures = self.refusals = 0
        self.due = self.now


class DeliveryMachine(RuleBasedStateMachine):
    """One row of the outbox over attempts that succeed, fail, get lost or are cut off."""

    @initialize(policy=st.sampled_from(list(Policy)), most=st.sampled_from([1, 2, 5, 30]), hours=st.sampled_from([1, 21]))
    def queue(self, policy: Policy, most: int, hours: int) -> None:
        action = ActionRef("tell", "webhook", {}, policy)
        effect = Effect("k", action, "local", "t", "b", {}, "op_1", keep_trying=timedelta(hours=hours))
        self.now, self.policy, self.most = DUE, policy, most
        self.delivery = Delivery("dlv_1", "main", effect, DeliveryState.QUEUED, 0, most, DUE)
        self.keys_end = DUE + timedelta(hours=hours)
        self.due: datetime | None = DUE
        self.doubt = False
        self.sends = self.unclear = 0

    @precondition(lambda self: self.due is not None)
    @rule(
        late=st.sampled_from([0, 0, 5, 4_000, 80_000]),
        outcome=st.sampled_from([None, *OutcomeKind]),
        wait=st.sampled_from([None, None, 60, 20_000, 10**7]),
        seed=st.integers(0, 3),
    )
    def attempt(self, late: int, outcome: OutcomeKind | None, wait: int | None, seed: int) -> None:
        """One claim: an attempt is counted, and `sending` before it means doubt. `None`: cut off in the middle."""
        assert self.due is not None
        self.now = max(self.now, self.due) + timedelta(seconds=late)
        interrupted = self.delivery.state is DeliveryState.SENDING
        self.delivery = replace(
            self.delivery, attempts=self.delivery.attempts + 1, interrupted=interrupted, state=DeliveryState.SENDING
        )
        assert interrupted == self.doubt
        closed = pure(deliveries.before_send, self.delivery, self.now)
        if closed is not None:
            return self.unsent(closed)
        assert self.delivery.attempts <= self.most
        assert not (self.policy is Policy.AT_MOST_ONCE and self.doubt), "I17: at most once was repeated in doubt"
        assert self.policy is not Policy.KEYED or self.sends == 0 or self.now <= self.keys_end, "I17: past the receiver's memory"
        self.sends += 1
        if outcome is None:
            self.doubt, self.due = True, self.now + timedelta(seconds=60)
            return None
        asked = None if wait is None else self.now + timedelta(seconds=wait)
        decision = pure(deliveries.decide_delivery, self.delivery, Outcome(outcome, "said", asked), self.now, seed=seed)
        self.settle(decision, outcome, asked)
        return None

    def unsent(self, closed: Any) -> None:
        """Closed without sending: it may have happened, or it certainly did not."""
        spent = self.delivery.attempts > self.most
        forgotten = self.policy is Policy.KEYED and self.now > self.keys_end
        assert spent or forgotten or (self.policy is Policy.AT_MOST_ONCE and self.doubt)
        assert (str(closed.state), closed.due) == ("ambiguous" if self.doubt else "dead", None), "I19: doubt stays in sight"
        self.delivery, self.due, self.doubt = replace(self.delivery, state=closed.state), None, False

    def settle(self, decision: Any, outcome: OutcomeKind, asked: datetime | None) -> None:
        unclear = self.doubt or outcome is OutcomeKind.UNKNOWN
        state = str(decision.state)
        if outcome is OutcomeKind.DONE:
            assert (state, decision.due) == ("delivered", None)
        elif outcome is OutcomeKind.REFUSED:
            assert (state, decision.due) == ("ambiguous" if unclear else "dead", None), "I19"
        elif decision.due is None:
            assert state == ("ambiguous" if unclear else "dead"), "I19"
            self.may_close(outcome, asked)
        else:
            assert state == ("sending" if unclear else "queued")
            assert not (self.policy is Policy.AT_MOST_ONCE and outcome is OutcomeKind.UNKNOWN)
            raw = min(timedelta(hours=1), timedelta(seconds=10) * 2 ** (self.delivery.attempts - 1))
            floor = self.now + raw / 2
            wish = self.now if asked is None else min(asked, self.now + timedelta(days=7))
            assert max(floor, wish) <= decision.due <= max(self.now + raw, wish)
        self.doubt = unclear and decision.due is not None
        self.delivery, self.due = replace(self.delivery, state=decision.state), decision.due

    def may_close(self, outcome: OutcomeKind, asked: datetime | None) -> None:
        """Why an attempt that could be repeated is not."""
        raw = min(timedelta(hours=1), timedelta(seconds=10) * 2 ** (self.delivery.attempts - 1))
        latest = max(self.now + raw, asked or self.now)
        spent = self.delivery.attempts >= self.most
        forgotten = self.policy is Policy.KEYED and latest > self.keys_end
        once = self.policy is Policy.AT_MOST_ONCE and outcome is OutcomeKind.UNKNOWN
        twice = self.policy is Policy.AT_LEAST_ONCE and outcome is OutcomeKind.UNKNOWN and self.doubt
        assert spent or forgotten or once or twice, "given up without a reason"

    @precondition(lambda self: self.due is None)
    @rule(later=st.sampled_from([0, 100, 90_000]))
    def send_again(self, later: int) -> None:
        """A person queues it again: one more attempt, a new span, and the doubt is theirs."""
        if self.delivery.state in (DeliveryState.DELIVERED, DeliveryState.SENDING):
            self.queue(self.policy, self.most, 1)
            return
        self.now += timedelta(seconds=later)
        self.most = max(self.most, self.delivery.attempts + 1)
        effect = replace(self.delivery.effect, keep_trying=self.now - DUE + timedelta(hours=1))
        self.delivery = replace(self.delivery, state=DeliveryState.QUEUED, max_attempts=self.most, effect=effect)
        self.keys_end, self.due, self.doubt = DUE + effect.keep_trying, self.now, False
