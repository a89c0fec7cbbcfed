"""Properties of watching over random histories: nothing fires twice, nothing fires for nothing, errors change nothing (P07, I17)."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from sereno.core.change import FailedReading, ReadFailure, Reading
from sereno.core.poll import FireOn, PollState
from tests.core.watching import NOW, after, make, read, run, thing

ANSWERS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([True, False, None]))
OBJECTS = st.lists(st.builds(thing, st.sampled_from("abcd"), st.sampled_from("12")), max_size=5)
READINGS = st.builds(
    lambda objects, complete, cursor: read(*objects, complete=complete, cursor=cursor),
    OBJECTS,
    st.booleans(),
    st.sampled_from("xyz"),
) | st.sampled_from([Reading(unchanged=True), FailedReading(ReadFailure.UNREACHABLE, "down")])
HISTORY = st.lists(st.tuples(READINGS, ANSWERS), max_size=12)
MODES = st.sampled_from([FireOn.CHANGE, FireOn.STATE])


@given(HISTORY, MODES, st.booleans())
@settings(max_examples=150)
def test_P07_an_object_never_fires_twice_for_one_occurrence(history: list, mode: FireOn, baseline: bool) -> None:
    """Over any history of readings, failures and answers every dedupe key is made once."""
    poll, keys = make(fire_on=mode, baseline=baseline), []
    for number, (reading, answers) in enumerate(history):
        decision = run(poll, reading, answers, NOW + timedelta(minutes=number))
        keys += [effect.dedupe_key for effect in decision.effects]
        assert decision.matched == len(decision.effects)
        poll = after(poll, decision)
    assert len(keys) == len(set(keys))


@given(HISTORY, MODES, READINGS, ANSWERS)
@settings(max_examples=150)
def test_P01_the_same_reading_twice_fires_nothing(history: list, mode: FireOn, reading: Reading, answers: dict) -> None:
    """Reading the same again, with the same answers, is quiet, whatever came before."""
    poll = make(fire_on=mode)
    for earlier, said in history:
        poll = after(poll, run(poll, earlier, said))
    poll = after(poll, run(poll, reading, answers))
    assert run(poll, reading, answers).effects in ([], ())


@given(HISTORY, READINGS)
@settings(max_examples=150)
def test_P07_errors_never_move_a_state(history: list, reading: Reading) -> None:
    """A run in which every verdict is an error leaves truth and episodes of each object as they were."""
    poll = make(fire_on=FireOn.STATE)
    for earlier, said in history:
        poll = after(poll, run(poll, earlier, said))
    decision = run(poll, reading, None)
    assert not decision.effects
    for external_id, known in after(poll, decision).known.items():
        old = poll.known.get(external_id)
        assert (known.matching, known.episodes) == ((old.matching, old.episodes) if old else (None, 0))


@given(HISTORY)
@settings(max_examples=150)
def test_P07_episodes_count_the_rises_of_an_observed_truth(history: list) -> None:
    """An independent count of false→true per object gives the stored episodes."""
    poll, truth, rises = make(fire_on=FireOn.STATE), dict[str, bool](), dict[str, int]()
    for reading, answers in history:
        poll = after(poll, run(poll, reading, answers))
        for external_id in {found.external_id for found in getattr(reading, "objects", ())}:
            answer = answers.get(external_id, False)
            if answer is not None:
                rises[external_id] = rises.get(external_id, 0) + (answer and not truth.get(external_id, False))
                truth[external_id] = answer
    for external_id, known in poll.known.items():
        assert known.episodes == rises.get(external_id, 0)
        assert known.matching is truth.get(external_id)


@given(HISTORY, MODES)
@settings(max_examples=150)
def test_every_run_plans_the_next_strictly_later_or_ends(history: list, mode: FireOn) -> None:
    """A poll is always either planned for later, or over; its cursor moves only with what was read (P04)."""
    poll = replace(make(fire_on=mode), auth_failures=0)
    for number, (reading, answers) in enumerate(history):
        now = NOW + timedelta(seconds=47 * number)
        decision = run(poll, reading, answers, now)
        assert (decision.due is None) == (decision.state is not PollState.ACTIVE)
        assert decision.due is None or decision.due > now
        if isinstance(reading, FailedReading) or reading.unchanged:
            assert decision.cursor == poll.cursor and not decision.effects
        poll = after(poll, decision)
