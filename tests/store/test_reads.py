"""Reads on real files: pages newest first, one workspace a principal, counts in one snapshot, and the seven questions of a run."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.core.delivery import DeliveryState
from sereno.core.errors import NotFound
from sereno.core.operation import OperationState
from sereno.core.poll import PollState
from sereno.core.values import to_micros
from sereno.core.work import LeaseTimes
from sereno.ports import Page
from tests.store.seeding import (
    ANNA,
    ELSEWHERE,
    START,
    World,
    added,
    delivery,
    escalated,
    leased,
    new_operation,
    opened,
    remembered,
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path / "sereno.db") as found:
        yield found


async def runs_of(world: World, poll: str, count: int) -> None:
    for number in range(1, count + 1):
        at = to_micros(START + timedelta(minutes=number))
        status = "failed" if number % 3 == 0 else "ok"
        await world.sql(
            "INSERT INTO run (workspace, subject, number, kind, scheduled_for, attempt, claimed_by, started_at, claim_expires_at,"
            " finished_at, status, checked, changed, matched, requests, missed, cursor_before, cursor_after, summary, error)"
            " VALUES ('main', ?, ?, 'poll', ?, 1, 'w1', ?, ?, ?, ?, 9, 2, 1, 1, 0, 'a', 'b', 'two changed', NULL)",
            *(poll, number, at, at, at, at + 5, status),
        )


async def test_pages_of_polls_go_newest_first_and_end(world: World) -> None:
    """Every poll is on exactly one page; a page is never longer than asked; removed ones are on none."""
    made = [await added(world, f"poll-{number}") for number in range(7)]
    await world.definitions.set_poll_state(ANNA, "poll-3", PollState.REMOVED, due=None)
    await world.definitions.set_poll_state(ANNA, "poll-5", PollState.PAUSED, due=None)
    pages, before = [], None
    while page := await world.reads.polls(ANNA, Page(limit=2, before=before)):
        pages.append([record.poll.id for record in page])
        before = pages[-1][-1]
    assert [len(page) for page in pages] == [2, 2, 2]
    assert [poll for page in pages for poll in page] == [poll for poll in reversed(made) if poll != made[3]]
    assert [record.poll.id for record in await world.reads.polls(ANNA, Page(state="paused"))] == [made[5]]
    assert len(await world.reads.polls(ANNA, Page(limit=0))) == 1, "a page has at least one row"


async def test_a_list_counts_the_snapshot_and_one_poll_loads_it(world: World) -> None:
    """A page stays small whatever the polls remember; the snapshot comes with a single poll."""
    poll = await added(world)
    await remembered(world, poll, 3)
    (listed,) = await world.reads.polls(ANNA, Page())
    assert (listed.known_objects, dict(listed.poll.known)) == (3, {})
    single = await world.reads.poll(ANNA, poll)
    assert sorted(single.poll.known) == ["item-0", "item-1", "item-2"]
    assert single.poll.known["item-1"].kept == {"price": 1}


async def test_W46_operations_are_listed_by_state_and_by_job(world: World) -> None:
    """`open` means waiting or escalated; an escalated one brings its question."""
    waiting, _ = await world.definitions.register(ANNA, new_operation("a"))
    asked = await escalated(world, "b")
    done, _ = await world.definitions.register(ANNA, new_operation("c"))
    await world.sql(
        "UPDATE operation SET state = 'succeeded', result_ref = 'https://example.com/r' WHERE id = ?", done.operation.id
    )

    async def ids(page: Page) -> list[str]:
        return [record.operation.id for record in await world.reads.operations(ANNA, page)]

    assert await ids(Page()) == [done.operation.id, asked, waiting.operation.id]
    assert await ids(Page(state="open")) == [asked, waiting.operation.id]
    assert await ids(Page(state="succeeded")) == [done.operation.id]
    assert await ids(Page(subject="b")) == [asked]
    assert await ids(Page(before=asked)) == [waiting.operation.id]
    record = await world.reads.operation(ANNA, asked)
    assert record.operation.state is OperationState.ESCALATED
    assert record.operation.open_escalation is not None and record.operation.open_escalation.id == "esc_1"
    assert [found.id for found in await world.reads.escalations(ANNA, Page(subject=asked))] == ["esc_1"]
    assert list(await world.reads.escalations(ANNA, Page(before="esc_1"))) == []
    with pytest.raises(NotFound):
        await world.reads.operation(ANNA, "op_none")
    with pytest.raises(NotFound):
        await world.reads.escalation(ANNA, "esc_none")


async def test_P06_runs_are_paged_by_subject_and_over_all(world: World) -> None:
    """A subject's runs go by number, all runs by their start; each run is on one page."""
    first, second = await added(world, "a"), await added(world, "b")
    await runs_of(world, first, 12)
    await runs_of(world, second, 2)

    async def numbers(page: Page) -> list[str]:
        return [run.id for run in await world.reads.runs(ANNA, page)]

    assert await numbers(Page(subject=first, limit=3)) == [f"{first}.12", f"{first}.11", f"{first}.10"]
    assert await numbers(Page(subject=first, limit=3, before=f"{first}.10")) == [f"{first}.9", f"{first}.8", f"{first}.7"]
    assert await numbers(Page(subject=first, state="failed")) == [f"{first}.{number}" for number in (12, 9, 6, 3)]
    assert await numbers(Page(subject=first, before="nonsense")) == []
    everything: list[str] = []
    while page := await numbers(Page(limit=5, before=everything[-1] if everything else None)):
        everything += page
    assert len(everything) == len(set(everything)) == 14
    assert set(everything[-4:]) == {f"{first}.2", f"{first}.1", f"{second}.2", f"{second}.1"}


@pytest.mark.parametrize("kind", ["poll", "operation"])
async def test_P06_a_page_goes_on_where_the_row_before_it_was_purged(world: World, kind: str) -> None:
    """What was there when the first page was read and is still there comes, whatever was deleted between two pages."""
    polls = [await added(world, name) for name in "ab"]
    for poll in polls:
        await runs_of(world, poll, 4)
    await world.sql("UPDATE poll SET run = 4")
    if kind == "operation":
        await world.sql("UPDATE run SET kind = 'operation'")
        await world.sql(
            "INSERT INTO journal (workspace, subject, run, kind, at, facts)"
            " SELECT workspace, subject, number, 'intent', started_at, '{}' FROM run"
        )
    whole = [run.id for run in await world.reads.runs(ANNA, Page())]
    for at in range(len(whole) - 1):
        subject, _, number = whole[at].rpartition(".")
        await world.sql("DELETE FROM run WHERE subject = ? AND number = ?", subject, int(number))
        found = [run.id for run in await world.reads.runs(ANNA, Page(before=whole[at]))]
        assert set(whole[at + 1 :]) <= set(found), whole[at]
        assert kind == "poll" or found == whole[at + 1 :]
    assert list(await world.reads.runs(ANNA, Page(before="poll_none.3"))) == []
    assert list(await world.reads.runs(ANNA, Page(before=f"{polls[0]}.99"))) == []


async def test_O04_a_run_answers_the_seven_questions(world: World) -> None:
    """What ran, why, what it read, what changed, why it failed, whether it told the user, whether it ran twice."""
    poll = await added(world)
    await runs_of(world, poll, 1)
    sent = await delivery(world, poll=poll, state="delivered", delivered_at=to_micros(START), last_outcome="done: 204")
    (run,) = await world.reads.runs(ANNA, Page(subject=poll))
    assert (run.subject, run.kind, run.scheduled_for, run.claimed_by) == (poll, "poll", START + timedelta(minutes=1), "w1")
    assert (run.cursor_before, run.cursor_after, run.requests, run.checked, run.changed, run.matched) == ("a", "b", 1, 9, 2, 1)
    assert (run.status, run.error, run.summary, run.attempt) == ("ok", None, "two changed", 1)
    (told,) = await world.reads.deliveries(ANNA, Page(subject=poll))
    assert (told.delivery.id, told.delivered_at, told.last_outcome) == (sent, START, "done: 204")


async def test_deliveries_are_found_by_state_subject_and_id(world: World) -> None:
    """A dead letter is found by its state, by what it speaks of, and by itself."""
    await delivery(world, 1, state="dead", poll="poll_a")
    await delivery(world, 2, state="queued", poll="poll_a")
    await delivery(world, 3, state="dead", poll="poll_b")

    async def ids(page: Page) -> list[str]:
        return [record.delivery.id for record in await world.reads.deliveries(ANNA, page)]

    assert await ids(Page()) == ["dlv_3", "dlv_2", "dlv_1"]
    assert await ids(Page(state="dead")) == ["dlv_3", "dlv_1"]
    assert await ids(Page(state="dead", subject="poll_a")) == ["dlv_1"]
    assert await ids(Page(subject="dlv_2")) == ["dlv_2"]
    assert (await world.reads.deliveries(ANNA, Page(subject="dlv_3")))[0].delivery.state is DeliveryState.DEAD


async def test_W26_the_journal_of_a_subject_is_read_in_parts_oldest_first(world: World) -> None:
    """`after` goes on where the last part ended, and other subjects stay out."""
    poll = await added(world)
    await added(world, "other")
    for state in (PollState.PAUSED, PollState.ACTIVE, PollState.PAUSED):
        await world.definitions.set_poll_state(ANNA, "prices", state, due=None)
    first = await world.reads.journal(ANNA, poll, limit=2)
    rest = await world.reads.journal(ANNA, poll, after=first[-1].seq)
    assert [entry.facts["decision"] for entry in [*first, *rest]] == ["created", "paused", "active", "paused"]
    assert await world.reads.journal(ELSEWHERE, poll) == []


async def test_no_read_crosses_a_workspace(world: World) -> None:
    """Everything made in one workspace is invisible from another, by list, by id and in counts."""
    poll = await added(world)
    await runs_of(world, poll, 2)
    operation = await escalated(world)
    await delivery(world, poll=poll)
    reads = world.reads
    lists = [reads.polls, reads.operations, reads.escalations, reads.deliveries, reads.runs]
    for read in lists:
        assert await read(ANNA, Page()), read
        assert list(await read(ELSEWHERE, Page())) == [], read
    for one, subject in ((reads.poll, poll), (reads.operation, operation), (reads.escalation, "esc_1")):
        with pytest.raises(NotFound):
            await one(ELSEWHERE, subject)
    empty = await reads.counts(ELSEWHERE)
    assert (empty.polls, empty.operations, empty.deliveries, empty.open_escalations, empty.last_claim_at) == ({}, {}, {}, 0, None)


async def test_counts_say_what_is_overdue_and_what_waits_for_a_person(world: World) -> None:
    """Overdue is what has been due for longer than a lease and a minute; a leased row is due at its lease's end."""
    late, held = await added(world, "late"), await added(world, "held")
    await added(world, "paused")
    await world.definitions.set_poll_state(ANNA, "paused", PollState.PAUSED, due=None)
    await leased(world, "poll", held)
    await escalated(world)
    await delivery(world, 1, state="dead")
    await delivery(world, 2, state="queued", due=to_micros(START + timedelta(days=1)))
    await world.sql("INSERT INTO meta VALUES ('suppressed:main', '7')")
    before = await world.reads.counts(ANNA)
    assert (before.polls, before.operations, before.deliveries) == (
        {"active": 2, "paused": 1},
        {"escalated": 1},
        {"dead": 1, "queued": 1},
    )
    assert (before.open_escalations, before.overdue, before.oldest_overdue_at) == (1, 0, None)
    assert (before.suppressed_duplicates, before.last_claim_at) == (7, START)
    world.clock.at = START + LeaseTimes().lease + timedelta(minutes=1)
    assert (await world.reads.counts(ANNA)).overdue == 0
    world.clock.at += timedelta(microseconds=1)
    after = await world.reads.counts(ANNA)
    assert (after.overdue, after.oldest_overdue_at) == (1, START)
    assert (await world.reads.poll(ANNA, late)).due == START


async def test_a_read_never_writes(world: World) -> None:
    """The reading connection refuses every write, whatever a caller hands in."""
    with pytest.raises(Exception, match="readonly|read-only"):
        await world.executor.read(lambda connection: connection.execute("UPDATE pool SET burst = 1 WHERE 1 = 0 OR name = 'x'"))
