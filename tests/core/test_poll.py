"""One run of a poll: baseline, changes and states, stop conditions, failures and the next instant (P01–P10)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sereno.core.change import FailedReading, Keep, KnownObject, ReadFailure, Reading, find_changes
from sereno.core.poll import FireOn, PollState, Stop, needs_judging
from tests.core.watching import DUE, MAIL, MINUTE, NOW, RUN, after, make, occurrences, read, run, thing


def test_P05_the_first_run_takes_a_baseline() -> None:
    """Three hundred entries are remembered, nothing fires, and the summary says so."""
    first = run(make(), read(*(thing(f"{n}") for n in range(300))))
    assert (first.effects, first.matched, first.changed, first.checked) == ([], 0, 0, 300)
    assert (len(first.remember), first.baselined, first.cursor) == (300, True, "c1")
    assert first.summary == "baseline of 300 entries, nothing fired"


def test_P05_the_baseline_is_selectable() -> None:
    """With `baseline = false` the first run fires for what is there."""
    assert occurrences(run(make(baseline=False), read(thing("a")))) == ["a@v1"]


def test_P05_a_baseline_of_several_pages_ends_with_the_last() -> None:
    """While the source has more to give, the baseline goes on, at once."""
    poll = make()
    first = run(poll, read(thing("a"), more=True, complete=False))
    assert (first.baselined, first.due, first.effects) == (False, NOW, [])
    assert "more to read" in first.summary
    second = run(after(poll, first), read(thing("b"), cursor="c2", complete=False))
    assert (second.baselined, second.effects) == (True, [])


def test_a_304_before_any_baseline_is_no_baseline() -> None:
    """Nothing was seen, so the next reading must not fire for all."""
    first = run(make(cursor=None), Reading(unchanged=True, cursor="c1"))
    assert not first.baselined and first.cursor is None


def test_P05_a_baseline_in_pages_is_complete_once_nothing_more_has_changed() -> None:
    """A page said that there was more, and then there was not: what changes after that is news, not one more page of the baseline."""
    poll = make()
    page = run(poll, read(thing("a"), thing("b"), cursor="c1", complete=False, more=True))
    assert (page.baselined, page.effects) == (False, [])
    poll = after(poll, page)
    quiet = run(poll, Reading(unchanged=True, complete=False))
    assert (quiet.baselined, quiet.summary) == (True, "unchanged")
    news = run(after(poll, quiet), read(thing("b", "edited"), cursor="c2", complete=False))
    assert [effect.source_object_id for effect in news.effects] == ["b"]


def test_P01_a_change_fires_once_and_a_second_edit_again() -> None:
    """One added entry fires one effect; the same reading fires none; an edit is another occurrence."""
    poll = make(baselined=True)
    first = run(poll, read(thing("a")))
    assert occurrences(first) == ["a@v1"]
    poll = after(poll, first)
    again = run(poll, read(thing("a")))
    assert (again.effects, again.summary) == ([], "1 entry, none changed")
    edited = run(poll, read(thing("a", "b")))
    assert occurrences(edited) == ["a@v2"]
    assert edited.summary == "1 of 1 entry changed, 1 matched"
    assert run(poll, Reading(unchanged=True)).summary == "unchanged"


def test_P07_the_key_names_poll_object_version_action_and_condition() -> None:
    """Each match and action has its own key; the effect goes to the action's pool."""
    decision = run(make(baselined=True, condition_version=3, actions=(MAIL, RUN)), read(thing("a")))
    assert [effect.dedupe_key for effect in decision.effects] == [
        "main:local:poll_1:a@v1:mail:3",
        "main:local:poll_1:a@v1:script:3",
    ]
    assert [effect.pool for effect in decision.effects] == ["host:smtp.example", "local"]
    assert decision.effects[0].source_object_id == "a" and decision.effects[0].subject == "poll_1"


def test_a_removed_object_can_fire_under_its_own_version() -> None:
    """Removal after a new entry is another occurrence, so no key hides it."""
    poll = make(baselined=True)
    poll = after(poll, run(poll, read(thing("a"), thing("b"))))
    gone = run(poll, read(thing("b")))
    assert occurrences(gone) == ["a@v2"]
    assert gone.summary == "1 entry, none changed, 1 removed, 1 matched"


def test_P07_a_state_fires_once_per_episode() -> None:
    """True on the baseline is known and not fired; only false then true fires, once, and again after the next false."""
    poll = make(fire_on=FireOn.STATE)
    fired = []
    for number, says in enumerate([True, True, False, True, True, None, True, False, None, True]):
        decision = run(poll, read(thing("a", str(number))), says)
        fired.append(occurrences(decision))
        poll = after(poll, decision)
    assert fired == [[], [], [], ["a@e2"], [], [], [], [], [], ["a@e3"]]


def test_P07_missing_and_failed_readings_do_not_rearm_a_state() -> None:
    """The object leaves, the source fails, the object comes back true: still the same episode."""
    poll = make(fire_on=FireOn.STATE, baselined=True)
    poll = after(poll, run(poll, read(thing("a"))))
    for reading in (read(), FailedReading(ReadFailure.UNREACHABLE, "down"), Reading(unchanged=True)):
        poll = after(poll, run(poll, reading))
    assert run(poll, read(thing("a"))).effects == []


def test_P07_an_object_that_appears_true_after_the_baseline_fires() -> None:
    """A new object that holds at first sight is an episode."""
    decision = run(make(fire_on=FireOn.STATE, baselined=True), read(thing("a"), thing("b")), {"a": True})
    assert occurrences(decision) == ["a@e1"]
    assert decision.summary == "2 of 2 entries changed, 1 newly matched"


def test_P07_an_edited_condition_fires_nothing_for_what_was_seen() -> None:
    """The store clears the truths of the old condition: unchanged objects are noted quietly, changed ones are news."""
    poll = make(fire_on=FireOn.STATE, baselined=True)
    poll = after(poll, run(poll, read(thing("a"), thing("b"), thing("c")), {"a": True}))
    cleared = {external_id: replace(known, matching=None) for external_id, known in poll.known.items()}
    edited = replace(poll, known=cleared, condition_version=2)
    decision = run(edited, read(thing("a"), thing("b"), thing("c", "2")))
    assert occurrences(decision) == ["c@e1"]
    assert [decision.remember[external_id].matching for external_id in "abc"] == [True, True, True]


def test_a_baseline_says_how_many_already_hold() -> None:
    """A person sees that the state was true before watching began."""
    decision = run(make(fire_on=FireOn.STATE), read(thing("a"), thing("b")), {"a": True})
    assert decision.summary == "baseline of 2 entries, 1 already matches, nothing fired"
    assert (decision.remember["a"].matching, decision.remember["b"].matching) == (True, False)


def test_state_polls_judge_each_present_object_and_change_polls_only_changes() -> None:
    """What is asked of the condition: all that is there, or what changed; nothing on a baseline of changes (P08)."""
    known = after(make(), run(make(), read(thing("a"), thing("b")))).known
    reading = read(thing("a"), thing("b", "2"), thing("b", "3"))
    comparison = find_changes(reading, known, NOW, Keep.PAYLOAD, ())
    asked = needs_judging(make(known=known, baselined=True, fire_on=FireOn.STATE), reading, comparison)
    assert [(external_id, change is not None) for external_id, change in asked] == [("a", False), ("b", True)]
    assert [external_id for external_id, _ in needs_judging(make(known=known, baselined=True), reading, comparison)] == ["b"]
    assert list(needs_judging(make(known=known), reading, comparison)) == []


def test_condition_errors_are_shown_and_never_match() -> None:
    """Errors are counted, worded and capped; the change is still remembered."""
    decision = run(make(baselined=True), read(*(thing(f"{n}") for n in range(30))), None)
    assert (decision.effects, decision.matched, decision.status, len(decision.remember)) == ([], 0, "ok", 30)
    assert decision.error == "condition error on 30 of 30: no such key"
    assert decision.summary.endswith("condition error on 30 of 30: no such key")
    assert len(decision.condition_errors) == 21 and decision.condition_errors[-1] == "and 10 more"


def test_a_flood_is_told_in_one_summary_and_nothing_is_lost_silently() -> None:
    """Beyond a hundred matches the rest is one effect for each action that tells; a command gets matches only."""
    decision = run(make(baselined=True, actions=(MAIL, RUN)), read(*(thing(f"{n}") for n in range(350))))
    assert decision.matched == 350 and len(decision.effects) == 100 * 2 + 1
    rest = decision.effects[-1]
    assert rest.title == "lamps: and 250 more" and rest.payload["more"] == 250 and rest.action == MAIL
    assert rest.payload["event"] == "more_matches" and rest.source_object_id is None
    assert "250 of the matches told in one summary" in decision.summary
    assert len({effect.dedupe_key for effect in decision.effects}) == 201


def test_I7_missed_runs_are_counted_not_made_up() -> None:
    """After eight hours asleep there is one run, the next instant is the next of the grid, and the count is told."""
    late = DUE + timedelta(hours=8, seconds=5)
    decision = run(make(baselined=True), read(thing("a")), False, late)
    assert (decision.missed, decision.due) == (480, DUE + timedelta(hours=8, minutes=1))
    assert "480 missed runs not made up" in decision.summary


def test_a_late_run_is_not_followed_by_another_at_once() -> None:
    """A grid instant closer than half the interval is passed over; an ordinary run keeps its grid."""
    reading = read(thing("a"))
    grid = run(make(), reading).due
    assert grid is not None
    late = run(make(), reading, now=grid - MINUTE / 60).due
    assert late == grid + MINUTE
    assert run(make(), reading, now=grid).due == grid + MINUTE


def test_more_is_due_at_once_unless_the_source_stands_still() -> None:
    """The next page is read at once; a source that asks for more with the same cursor waits for its schedule."""
    assert run(make(baselined=True), read(thing("a"), more=True)).due == NOW
    stuck = run(make(baselined=True), read(thing("a"), more=True, cursor="c0"))
    assert stuck.due == DUE + MINUTE and "without moving on" in stuck.summary


def test_a_wait_that_the_source_asks_for_is_obeyed() -> None:
    """Retry-After is a minimum, for the schedule and for the next page; an absurd one is cut to a week."""
    wait = NOW + timedelta(minutes=10)
    assert run(make(baselined=True), read(minimum_wait_until=wait)).due == DUE + 11 * MINUTE
    assert run(make(baselined=True), read(more=True, minimum_wait_until=wait)).due == wait
    absurd = run(make(baselined=True), read(minimum_wait_until=datetime(9990, 1, 1, tzinfo=UTC))).due
    assert absurd is not None and NOW + timedelta(days=7) <= absurd <= NOW + timedelta(days=7) + MINUTE


def test_windowed_sources_forget_the_oldest_beyond_the_bound() -> None:
    """At most the larger of 2,000 and four windows stay; never one that is in the reading."""
    known = {f"{n:05}": KnownObject(f"{n:05}", "ha", 1, NOW, NOW - timedelta(hours=9999 - n)) for n in range(2_010)}
    decision = run(make(baselined=True, known=known), read(thing("00000"), thing("new"), complete=False), False)
    assert decision.forget == [f"{n:05}" for n in range(1, 12)]
    assert not set(decision.forget) & decision.remember.keys()
    wide = read(*(thing(f"{n:05}") for n in range(600)), complete=False)
    assert run(make(baselined=True, known=known), wide, False).forget == []


@pytest.mark.parametrize(
    ("stop", "changes", "ending"),
    [
        (Stop(after_matches=3), {"matches": 2}, "ended after 3 matches"),
        (Stop(after_runs=5), {"runs": 4}, "ended after 5 runs"),
        (Stop(after=NOW + timedelta(seconds=5)), {}, "end date 2026-05-01 12:00 UTC comes before the next run"),
    ],
)
def test_P09_stop_conditions_end_a_poll_and_tell(stop: Stop, changes: dict[str, object], ending: str) -> None:
    """The poll ends with this run, nothing is planned, and the last effects say so."""
    decision = run(make(baselined=True, stop=stop, **changes), read(thing("a")))
    assert (decision.state, decision.due) == (PollState.ENDED, None)
    assert decision.tell_user is not None and ending in decision.tell_user and ending in decision.summary
    assert len(decision.effects) == 1 and f"This poll has {decision.tell_user}." in decision.effects[0].body


def test_P09_an_ending_without_a_match_is_told_by_its_own_effect() -> None:
    """Nobody believes that a poll still watches when it has ended; a command is not run for that."""
    decision = run(make(baselined=True, stop=Stop(after_runs=1), actions=(MAIL, RUN)), read(thing("a")), False)
    assert [effect.dedupe_key for effect in decision.effects] == ["main:local:poll_1:poll@ended-1:mail:1"]
    assert decision.effects[0].payload["event"] == "ended"


@pytest.mark.parametrize("stop", [Stop(after_matches=3), Stop(after_runs=5), Stop(after=NOW + 2 * MINUTE)])
def test_P09_a_poll_goes_on_until_then(stop: Stop) -> None:
    """One short of the limit nothing ends."""
    decision = run(make(baselined=True, stop=stop, matches=1, runs=3), read(thing("a")))
    assert (decision.state, decision.due, decision.tell_user) == (PollState.ACTIVE, DUE + MINUTE, None)
