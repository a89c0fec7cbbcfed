"""Polls as definitions on real files: names, owners, what an edit keeps, states, and what a run under way may still write."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.core.change import KnownObject
from sereno.core.errors import AlreadyExists, LeaseLost, NotAllowed, NotFound, NotNow, RequestError
from sereno.core.poll import FireOn, PollDecision, PollState
from sereno.core.schedule import Interval
from sereno.core.values import to_micros
from sereno.core.work import LeaseTimes, PollWork, Principal
from sereno.ports import Page, PoolLimits
from sereno.store.work.store import SqliteWork
from tests.store.seeding import ANNA, ELSEWHERE, POOL, START, CountedIds, World, added, leased, opened, remembered, spec

FILE = "file:/etc/sereno.toml:12"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path / "sereno.db") as found:
        yield found


async def edited(world: World, name: str = "prices", *, managed_by: str = "user", reconsider: bool = False, **changes: object):
    due = world.clock.at + timedelta(minutes=5)
    return await world.definitions.edit_poll(
        ANNA, name, spec(**{"name": name, **changes}), pool=POOL, due=due, managed_by=managed_by, reconsider=reconsider
    )


async def state_of(world: World, poll: str) -> dict[str, object]:
    return (await world.sql("SELECT * FROM poll WHERE id = ?", poll))[0]


async def test_P02_a_poll_comes_back_as_it_was_written(world: World) -> None:
    """Every field of a definition is stored and read back equal."""
    poll = await added(world)
    record = await world.reads.poll(ANNA, "prices")
    assert record.poll.id == poll
    assert record.poll.spec == spec()
    assert (record.poll.state, record.poll.revision, record.poll.condition_version) == (PollState.ACTIVE, 1, 1)
    assert (record.due, record.managed_by, record.known_objects) == (START, "user", 0)


@pytest.mark.parametrize(("owner", "says"), [("user", "managed by users"), (FILE, "managed by /etc/sereno.toml:12")])
async def test_a_taken_name_is_refused_and_says_whose_it_is(world: World, owner: str, says: str) -> None:
    """The same name from a file and from a user is an error that names the owner."""
    await added(world, managed_by=owner)
    with pytest.raises(AlreadyExists, match=says):
        await added(world, managed_by=FILE if owner == "user" else "user")
    assert len(await world.reads.polls(ANNA, Page())) == 1


async def test_names_are_unique_per_workspace_only(world: World) -> None:
    """Two workspaces use one name, and neither sees the other's poll."""
    mine = await added(world)
    theirs = await added(world, who=ELSEWHERE)
    assert mine != theirs
    assert [record.poll.id for record in await world.reads.polls(ANNA, Page())] == [mine]
    with pytest.raises(NotFound):
        await world.reads.poll(ANNA, theirs)
    with pytest.raises(NotFound):
        await world.definitions.set_poll_state(Principal(workspace="third"), "prices", PollState.PAUSED, due=None)


async def test_adding_wakes_the_pool_and_keeps_an_earlier_wake(world: World) -> None:
    """A pool is made with its default limits; a later poll does not put its wake off."""
    await added(world)
    await world.definitions.add_poll(ANNA, spec("later"), pool=POOL, due=START + timedelta(hours=1), managed_by="user")
    await world.definitions.add_poll(ANNA, spec("here"), pool="local:command", due=START, managed_by="user")
    pools = {row["name"]: row for row in await world.sql("SELECT * FROM pool")}
    assert (pools[POOL]["rate"], pools[POOL]["burst"], pools[POOL]["wake"]) == (1.0, 5, to_micros(START))
    assert pools["local:command"]["rate"] is None


async def test_P07_an_edit_that_judges_the_same_keeps_version_cursor_and_snapshot(world: World) -> None:
    """Schedule, actions and priority may change without anything being news again."""
    poll = await added(world)
    await remembered(world, poll)
    record = await edited(world, schedule=Interval(timedelta(minutes=9), anchor=START), priority=2)
    assert (record.poll.revision, record.poll.condition_version) == (2, 1)
    assert (record.poll.cursor, record.poll.baselined, record.known_objects) == ("etag-1", True, 3)
    assert record.due == START + timedelta(minutes=5)
    assert (await state_of(world, poll))["priority"] == 2


@pytest.mark.parametrize("change", [{"condition": "change == 'new'"}, {"fire_on": FireOn.STATE}])
async def test_P07_another_condition_raises_its_version_and_keeps_what_was_seen(world: World, change: dict[str, object]) -> None:
    """Objects already seen are not news under a new condition; only the version in the dedupe keys rises."""
    poll = await added(world)
    await remembered(world, poll)
    record = await edited(world, **change)
    assert (record.poll.revision, record.poll.condition_version) == (2, 2)
    assert (record.poll.cursor, record.poll.baselined) == ("etag-1", True)
    assert {known.content_hash for known in record.poll.known.values()} == {"hash-0", "hash-1", "hash-2"}
    assert record.due == START, "the due instant stays when neither schedule nor source changed"


async def test_P05_P07_another_source_takes_a_new_baseline(world: World) -> None:
    """Other objects are nothing new to anybody: cursor and snapshot go, and the next run only remembers."""
    poll = await added(world)
    await remembered(world, poll)
    await world.sql("UPDATE poll SET failures = 7, auth_failures = 2, last_error = 'x' WHERE id = ?", poll)
    record = await edited(world, source={"url": "https://example.com/other"})
    assert (record.poll.condition_version, record.poll.cursor, record.poll.baselined) == (2, None, False)
    assert (record.known_objects, record.poll.failures, record.poll.auth_failures, record.poll.last_error) == (0, 0, 0, None)


async def test_P07_reconsider_makes_everything_present_count_as_new_once(world: World) -> None:
    """The objects stay with version and episodes, but count as absent, and the source is read in full."""
    poll = await added(world)
    await remembered(world, poll)
    record = await edited(world, reconsider=True)
    assert (record.poll.condition_version, record.poll.cursor, record.poll.baselined) == (2, None, True)
    assert {(known.present, known.version, known.episodes, known.matching) for known in record.poll.known.values()} == {
        (False, 2, 4, None)
    }


async def test_an_equal_definition_changes_nothing(world: World) -> None:
    """Applying an unchanged file makes no revision, no journal row, and moves no due instant; a moved line is noted."""
    poll = await added(world, managed_by=FILE)
    before = await state_of(world, poll)
    record = await edited(world, managed_by="file:/etc/sereno.toml:40")
    assert record.managed_by == "file:/etc/sereno.toml:40"
    assert await state_of(world, poll) == {**before, "managed_by": "file:/etc/sereno.toml:40"}
    assert [entry.facts["decision"] for entry in await world.reads.journal(ANNA, poll)] == ["created"]


@pytest.mark.parametrize(("owner", "editor"), [(FILE, "user"), ("user", FILE), (FILE, "file:/etc/other.toml:12")])
async def test_a_poll_is_edited_by_its_owner_only(world: World, owner: str, editor: str) -> None:
    """Editing a file's poll by CLI or API is refused with file:line, and the other way round."""
    poll = await added(world, managed_by=owner)
    before = await state_of(world, poll)
    with pytest.raises(NotAllowed, match="/etc/sereno.toml:12" if owner == FILE else "managed by users"):
        await edited(world, managed_by=editor, condition="true")
    assert await state_of(world, poll) == before


async def test_a_missing_poll_is_named_with_the_nearest_name(world: World) -> None:
    """A typing mistake gets the right name as hint, in writes and in reads."""
    await added(world)
    with pytest.raises(NotFound) as found:
        await world.definitions.poll_due_now(ANNA, "prises")
    assert found.value.hint == "did you mean 'prices'?"
    with pytest.raises(NotFound, match="prices"):
        await world.reads.poll(ANNA, "price")


async def test_a_rename_never_takes_a_name_in_use(world: World) -> None:
    """A poll can get a free name, not another's."""
    await added(world)
    await added(world, "feeds")
    with pytest.raises(AlreadyExists):
        await world.definitions.edit_poll(ANNA, "feeds", spec("prices"), pool=POOL, due=START, managed_by="user")
    renamed = await world.definitions.edit_poll(ANNA, "feeds", spec("news"), pool=POOL, due=START, managed_by="user")
    assert renamed.poll.spec.name == "news"
    with pytest.raises(NotFound):
        await world.reads.poll(ANNA, "feeds")


async def test_pausing_takes_the_lease_away_and_resuming_counts_failures_anew(world: World) -> None:
    """What a run under way saw is not stored, so that nothing is lost; its commit is refused by the fence."""
    poll = await added(world)
    await remembered(world, poll)
    await leased(world, "poll", poll)
    await world.sql("UPDATE poll SET failures = 9, auth_failures = 3 WHERE id = ?", poll)
    paused = await world.definitions.set_poll_state(ANNA, "prices", PollState.PAUSED, due=None)
    row = await state_of(world, poll)
    assert (paused.poll.state, paused.due, paused.leased_until, row["run"]) == (PollState.PAUSED, None, None, 2)
    (run,) = await world.reads.runs(ANNA, Page(subject=poll))
    assert (run.status, run.finished_at) == ("abandoned", START)
    assert "anna" in (run.error or "")
    with pytest.raises(NotNow, match="paused"):
        await world.definitions.poll_due_now(ANNA, "prices")
    due = START + timedelta(minutes=1)
    resumed = await world.definitions.set_poll_state(ANNA, "prices", PollState.ACTIVE, due=due)
    assert (resumed.poll.state, resumed.due, resumed.poll.failures, resumed.poll.auth_failures) == (PollState.ACTIVE, due, 0, 0)
    assert (resumed.poll.cursor, resumed.known_objects) == ("etag-1", 3)


async def test_an_edit_leaves_a_run_under_way_alone_unless_its_source_is_gone(world: World) -> None:
    """A new condition lets the run commit its facts under the old revision; a new source makes them worthless."""
    poll = await added(world)
    await leased(world, "poll", poll)
    kept = await edited(world, condition="true")
    assert kept.leased_until == kept.due == START + timedelta(seconds=60)
    assert (await state_of(world, poll))["run"] == 1
    lost = await edited(world, source={"url": "https://example.com/other"})
    assert (lost.leased_until, lost.due) == (None, START + timedelta(minutes=5))
    assert (await state_of(world, poll))["run"] == 2


async def test_a_removed_poll_frees_its_name_and_stays_readable_by_id(world: World) -> None:
    """The snapshot goes; the row, its runs and its journal stay."""
    poll = await added(world)
    await remembered(world, poll)
    removed = await world.definitions.set_poll_state(ANNA, "prices", PollState.REMOVED, due=None)
    assert (removed.poll.state, removed.known_objects, removed.due) == (PollState.REMOVED, 0, None)
    again = await added(world)
    assert again != poll
    assert (await world.reads.poll(ANNA, "prices")).poll.id == again
    assert (await world.reads.poll(ANNA, poll)).poll.state is PollState.REMOVED
    assert [record.poll.id for record in await world.reads.polls(ANNA, Page(state="removed"))] == [poll]
    with pytest.raises(NotFound):
        await world.definitions.set_poll_state(ANNA, poll, PollState.ACTIVE, due=START)


async def test_a_run_asked_for_is_due_at_once_but_never_twice_at_a_time(world: World) -> None:
    """`poll run` moves due to now and wakes the pool; a poll whose run is under way answers NotNow."""
    poll = await added(world)
    await world.sql("UPDATE poll SET due = ? WHERE id = ?", to_micros(START + timedelta(hours=1)), poll)
    await world.sql("UPDATE pool SET wake = ?", to_micros(START + timedelta(hours=1)))
    assert (await world.definitions.poll_due_now(ANNA, "prices")).due == START
    assert (await world.sql("SELECT wake FROM pool"))[0]["wake"] == to_micros(START)
    await leased(world, "poll", poll)
    with pytest.raises(NotNow, match="under way"):
        await world.definitions.poll_due_now(ANNA, poll)


async def test_every_decision_about_a_poll_is_in_the_journal_with_who(world: World) -> None:
    """Created, edited, paused, resumed, asked for: each with the principal, oldest first; doing it again adds nothing."""
    poll = await added(world)
    await edited(world, condition="true")
    for state in (PollState.PAUSED, PollState.PAUSED, PollState.ACTIVE):
        await world.definitions.set_poll_state(ANNA, "prices", state, due=None)
    await world.definitions.poll_due_now(ANNA, "prices")
    entries = await world.reads.journal(ANNA, poll)
    assert [entry.facts["decision"] for entry in entries] == ["created", "edited", "paused", "active", "run asked for"]
    assert {(entry.kind, entry.facts["by"], entry.facts["by_kind"], entry.at) for entry in entries} == {
        ("decision", "anna", "human", START)
    }


async def test_pool_limits_are_set_once_and_wake_the_pool(world: World) -> None:
    """An equal limit changes nothing; limits that allow nothing are refused."""
    await added(world)
    await world.sql("UPDATE pool SET wake = ?, tat = 5", to_micros(START + timedelta(hours=1)))
    for _ in range(2):
        await world.definitions.set_pool(ANNA, POOL, PoolLimits(rate=4.0, burst=9, in_flight=2))
    (pool,) = await world.sql("SELECT * FROM pool")
    assert (pool["rate"], pool["burst"], pool["in_flight"], pool["tat"], pool["wake"]) == (4.0, 9, 2, 5, to_micros(START))
    assert len(await world.reads.journal(ANNA, f"pool:{POOL}")) == 1
    with pytest.raises(RequestError):
        await world.definitions.set_pool(ANNA, POOL, PoolLimits(rate=0.0))


def decision(work: PollWork, **changes: object) -> PollDecision:
    """A run that found one new object and wants nothing sent."""
    found = KnownObject("new", "hash-new", 1, START, START)
    values: dict[str, object] = {
        "state": PollState.ACTIVE,
        "due": START + timedelta(minutes=5),
        "cursor": "etag-2",
        "remember": {"new": found},
        "forget": (),
        "effects": (),
        "status": "ok",
        "checked": 1,
        "changed": 1,
        "matched": 1,
        "failures": 0,
        "auth_failures": 0,
        "baselined": True,
        "missed": 0,
        "requests": 1,
        "summary": "one new",
    }
    return PollDecision(**{**values, **changes})  # type: ignore[arg-type]


async def claimed(world: World) -> tuple[SqliteWork, PollWork]:
    work = SqliteWork(world.executor, clock=world.clock, ids=CountedIds(900))
    (found,) = (await work.claim(worker="w", limit=5, times=LeaseTimes())).works
    assert isinstance(found, PollWork)
    return work, found


@pytest.mark.parametrize("how", ["paused", "removed", "source", "reconsider"])
async def test_I8_a_run_whose_poll_was_taken_away_writes_nothing(world: World, how: str) -> None:
    """Paused, removed or pointed elsewhere meanwhile: its commit is refused, so that no old object enters the new snapshot."""
    poll = await added(world)
    work, run = await claimed(world)
    if how in ("paused", "removed"):
        await world.definitions.set_poll_state(ANNA, "prices", PollState(how), due=None)
    else:
        await edited(world, **({"reconsider": True} if how == "reconsider" else {"source": {"url": "https://example.com/b"}}))
    before = await state_of(world, poll)
    with pytest.raises(LeaseLost):
        await work.commit_poll(run, decision(run))
    assert await state_of(world, poll) == before
    assert await world.sql("SELECT * FROM poll_object") == []


async def test_an_edit_under_a_run_reads_again_and_loses_no_change(world: World) -> None:
    """The run is closed, its finding is left for the next one, which the poll is due for at once."""
    poll = await added(world)
    work, run = await claimed(world)
    record = await edited(world, condition="change == 'new'")
    assert record.leased_until is not None
    await work.commit_poll(run, decision(run))
    after = await world.reads.poll(ANNA, poll)
    assert (after.due, after.leased_until, after.known_objects, after.poll.cursor) == (START, None, 0, None)
    assert after.poll.spec.condition == "change == 'new'"


async def test_a_parked_poll_is_planned_again_by_a_person(world: World) -> None:
    """A poll that a mistake of ours took out of the claim comes back by an edit, a resume, or a run asked for."""
    poll = await added(world)
    for back in ("edit", "resume", "run"):
        world.clock.at += timedelta(minutes=1)
        await world.sql("UPDATE poll SET due = ? WHERE id = ?", to_micros(world.clock.at), poll)
        await world.sql("UPDATE pool SET wake = ?", to_micros(world.clock.at))
        work, run = await claimed(world)
        await work.park(run, reason="a bug")
        assert (await world.reads.poll(ANNA, poll)).due is None
        if back == "edit":
            await edited(world, priority=2)
        elif back == "resume":
            await world.definitions.set_poll_state(ANNA, "prices", PollState.ACTIVE, due=None)
        else:
            await world.definitions.poll_due_now(ANNA, "prices")
        assert (await world.reads.poll(ANNA, poll)).due is not None
