"""Planted faults: the machine of the store finds a store that breaks one rule. A machine that finds nothing proves nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

from sereno.core.errors import SerenoError
from sereno.store.definitions import operations, request
from sereno.store.named import named
from sereno.store.reads import pages
from sereno.store.work import claim, effects, fence, polls
from sereno.store.work import operations as stepping
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


def doubt_is_forgotten(patch: Patch) -> None:
    """I19: an attempt that was cut off leaves no trace."""
    sql(patch, "claim", "take_delivery", ("state = 'sending'", "state = 'queued'"))


def pools_sleep(patch: Patch) -> None:
    """Work that falls due sooner wakes nobody."""
    patch.setattr(operations, "wake_pool", lambda *given: None)


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


PLANTED: list[Plant] = [
    old_fences_commit, old_polls_commit, requests_are_not_counted, leases_are_taken_early, pools_have_no_end,
    the_same_key_twice, effects_are_dropped, edited_steps_decide, edited_polls_fire, doubt_is_forgotten, pools_sleep,
    changes_keep_the_fence, pages_skip,
]  # fmt: skip


@pytest.mark.full
@pytest.mark.timeout(400)
@pytest.mark.parametrize("plant", PLANTED, ids=[plant.__name__ for plant in PLANTED])
def test_the_machine_finds_the_planted_fault(plant: Plant, monkeypatch: Patch) -> None:
    """The same machine that passes on the honest store fails on this one."""
    plant(monkeypatch)
    with pytest.raises((AssertionError, SerenoError)):
        run_state_machine_as_test(StoreMachine, settings=HUNT)
