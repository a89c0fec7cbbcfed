"""Planted faults: the machine of the store finds a store that breaks one rule. A machine that finds nothing proves nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

from sereno.core.errors import SerenoError
from sereno.store.definitions import changed, operations, request
from sereno.store.named import named
from sereno.store.reads import pages
from sereno.store.work import claim, effects, fence, lease, polls
from sereno.store.work import operations as stepping
from sereno.store.work.clock import steps
from tests.core.stateful_profiles import HUNT
from tests.store.stateful_whole import StoreMachine

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def sql(patch: Patch, group: str, name: str, *changes: tuple[str, str]) -> None:
    """Changes the text of one statement, which has to be there."""
    text = named(group)[name]
    for old, new in changes:
        assert old in text, f"{name} holds no {old!r}"
        text = text.replace(old, new)
    patch.setitem(named(group), name, text)


def old_fences_commit(patch: Patch) -> None:
    """I8: a late worker commits over the one who took the work over."""
    honest = fence.held

    def held(connection: Any, work: Any) -> Any:
        kind, workspace, subject = fence.place(work)
        row = connection.execute(named("commit")[f"{kind}_fence"], {"workspace": workspace, "id": subject}).fetchone()
        return honest(connection, work) if row is None or row["lease_until"] is None else dict(row)

    patch.setattr(stepping, "held", held)


def old_polls_commit(patch: Patch) -> None:
    """I8: the same for runs of polls."""
    honest = polls._against

    def against(found: Sequence[Any] | None, commit: Any, *more: Any) -> Any:
        forged = None if found is None else [commit.work.lease.run, *found[1:]]
        return honest(forged, commit, *more)

    patch.setattr(polls, "_against", against)


def requests_are_not_counted(patch: Patch) -> None:
    """I1, I2: a request is sent that was not counted."""
    sql(patch, "claim", "take_operation", ("status_requests_used = n.used", "status_requests_used = status_requests_used"))


def hops_are_free(patch: Patch) -> None:
    """I1: a hop is followed and not counted."""
    sql(
        patch,
        "commit",
        "reserve_hop",
        ("SET status_requests_used = status_requests_used + 1", "SET status_requests_used = status_requests_used"),
    )


def leases_are_taken_early(patch: Patch) -> None:
    """I8: a row is handed out again while its lease lives."""
    sql(patch, "claim", "take_delivery", ("due = n.until", "due = n.scheduled_for"))


def pools_have_no_end(patch: Patch) -> None:
    """W29: a pool gives more than its rate."""
    patch.setattr(claim.Bucket, "take", lambda bucket, count, now: None)


def the_same_key_twice(patch: Patch) -> None:
    """I17: one occurrence gets two rows, or an error in place of the second."""
    sql(patch, "commit", "delivery", ("ON CONFLICT (workspace, dedupe_key) DO NOTHING", ""))


def effects_are_dropped(patch: Patch) -> None:
    """I18: a transition is committed and its message is not."""
    honest = effects.insert

    def insert(connection: Any, outgoing: Any, now: int) -> Any:
        return honest(connection, replace(outgoing, effects=outgoing.effects[1:], ids=outgoing.ids[1:]), now)

    patch.setattr(stepping, "insert", insert)


def edited_steps_decide(patch: Patch) -> None:
    """A step that was decided on an older definition counts whole."""
    honest = stepping.held

    def held(connection: Any, work: Any) -> Any:
        return {**honest(connection, work), "revision": work.lease.revision}

    patch.setattr(stepping, "held", held)


def edited_polls_fire(patch: Patch) -> None:
    """The same for a run of a poll."""
    honest = polls._against

    def against(found: Sequence[Any] | None, commit: Any, *more: Any) -> Any:
        forged = None if found is None else [*found[:2], commit.work.lease.revision, *found[3:]]
        return honest(forged, commit, *more)

    patch.setattr(polls, "_against", against)


def released_requests_stay_spent(patch: Patch) -> None:
    """W33: what was given back unsent stays counted."""
    sql(patch, "commit", "release_operation", ("- :given_back", "- 0"))


def doubt_is_forgotten(patch: Patch) -> None:
    """I19: an attempt that was cut off leaves no trace."""
    sql(patch, "claim", "take_delivery", ("state = 'sending'", "state = 'queued'"))


def pools_sleep(patch: Patch) -> None:
    """Work that falls due sooner wakes nobody."""
    patch.setattr(operations, "wake_pool", lambda *given: None)


def polls_lose_their_next_run(patch: Patch) -> None:
    """P05: a commit of a poll that has more to read at once loses its next instant."""
    sql(patch, "commit", "polls", ("SET due = n.due", "SET due = nullif(n.due, n.scheduled_for)"))


def clocks_are_believed(patch: Patch) -> None:
    """I23: a clock that is set back leaves waits where they were."""
    patch.setattr(steps, "_SHIFTS", steps._SHIFTS[:1])


def answers_count_twice(patch: Patch) -> None:
    """W20: an answer does not close its question."""
    patch.setattr("sereno.store.definitions.escalations._close", lambda *given: None)


def limits_are_not_stored(patch: Patch) -> None:
    """W20: what a person allowed is not written down."""
    patch.setattr(changed, "_UPDATE", changed._UPDATE.replace("max_status_requests = :max_status_requests,", ""))


def changes_keep_the_fence(patch: Patch) -> None:
    """A run under way commits over a decision that took its lease away."""
    patch.setattr(
        request,
        "_FENCES",
        {table: text.replace("lease_until = NULL, run = run + 1", "run = run") for table, text in request._FENCES.items()},
    )


def pages_skip(patch: Patch) -> None:
    """A list leaves a row out between two pages."""
    patch.setattr(
        pages, "_DELIVERIES", pages._DELIVERIES.replace("ORDER BY id DESC LIMIT :limit", "ORDER BY id DESC LIMIT :limit OFFSET 1")
    )


def checks_see_no_lease(patch: Patch) -> None:
    """I24: the check right before a send overlooks a lease that ran out."""
    patch.setattr(lease, "check", lambda connection, work, now: lease.held(connection, work))


def runs_stay_open(patch: Patch) -> None:
    """P06: a run whose lease ran out is not closed."""
    sql(patch, "claim", "abandon_runs", ("run.status = 'running'", "run.status = 'never'"))


def purges_take_what_runs(patch: Patch) -> None:
    """Retention deletes a run that is under way."""
    sql(patch, "commit", "delete_runs", ("AND finished_at IS NOT NULL", ""))


PLANTED: list[Plant] = [
    old_fences_commit, old_polls_commit, requests_are_not_counted, hops_are_free, leases_are_taken_early, pools_have_no_end,
    the_same_key_twice, effects_are_dropped, edited_steps_decide, edited_polls_fire, released_requests_stay_spent, doubt_is_forgotten,
    pools_sleep, polls_lose_their_next_run, clocks_are_believed, answers_count_twice, limits_are_not_stored, changes_keep_the_fence,
    pages_skip, checks_see_no_lease, runs_stay_open, purges_take_what_runs,
]  # fmt: skip


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("plant", PLANTED, ids=[plant.__name__ for plant in PLANTED])
def test_the_machine_finds_the_planted_fault(plant: Plant, monkeypatch: Patch) -> None:
    """The same machine that passes on the honest store fails on this one."""
    plant(monkeypatch)
    with pytest.raises((AssertionError, SerenoError)):
        run_state_machine_as_test(StoreMachine, settings=HUNT)
