"""Backup and restore on real files: whole while others write, checked, never over something by mistake, and safe to go on with."""

import sqlite3
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.core.errors import AlreadyExists, LeaseLost, NotFound, NotNow, SetupError
from sereno.core.operation import OperationState
from sereno.core.poll import PollState
from sereno.core.values import to_micros
from sereno.core.work import LeaseTimes, OperationWork
from sereno.ports import Page
from sereno.store.backup import backup, backup_from, restore
from sereno.store.executor import connect
from sereno.store.migrate import newest
from sereno.store.work.store import SqliteWork
from tests.store.calling import new_submit
from tests.store.seeding import (
    ANNA,
    START,
    CountedIds,
    added,
    delivery,
    escalated,
    leased,
    new_operation,
    opened,
    remembered,
)

LATER = START + timedelta(days=1)


def counted(path: Path, table: str) -> int:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    finally:
        connection.close()


def files(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


async def test_a_backup_is_one_whole_file_that_opens(tmp_path: Path) -> None:
    """The copy of a database in use, WAL included, is one file of mode 0600 with everything committed so far."""
    async with opened(tmp_path / "s.db") as world:
        poll = await added(world)
        await remembered(world, poll)
        done = backup(tmp_path / "s.db", tmp_path / "copy.db")
        inside = await world.executor.read(lambda connection: backup_from(connection, tmp_path / "inside.db"))
    assert (done.path, done.version, done.size_bytes) == (tmp_path / "copy.db", newest(), (tmp_path / "copy.db").stat().st_size)
    assert inside.path == tmp_path / "inside.db"
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "copy.db").read_bytes()[18:20] == b"\x01\x01", "not in WAL mode: it opens from a read-only place too"
    assert [name for name in files(tmp_path) if not name.startswith("s.db")] == ["copy.db", "inside.db"]
    async with opened(tmp_path / "copy.db") as copy:
        record = await copy.reads.poll(ANNA, "prices")
        assert (record.poll.id, record.poll.cursor, record.known_objects) == (poll, "etag-1", 3)


class Writer:
    """Commits pairs of rows without pause, in a thread with a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self.committed = threading.Semaphore(0)
        self.count = 0
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        connection = connect(self._path)
        while not self._stop.is_set():
            connection.execute("BEGIN IMMEDIATE")
            for half in ("one", "two"):
                connection.execute("INSERT INTO meta VALUES (?, ?)", (f"{half}-{self.count:06}", "x" * 3000))
            connection.execute("COMMIT")
            self.count += 1
            self.committed.release()
        connection.close()

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


async def test_a_backup_during_writes_is_a_consistent_instant(tmp_path: Path) -> None:
    """While another connection commits without pause, each copy passes its check and holds a prefix of what was written, whole."""
    path = tmp_path / "s.db"
    async with opened(path) as world:
        await added(world)
    bounds = []
    with Writer(path) as writer:
        for number in range(6):
            for _ in range(5):
                assert writer.committed.acquire(timeout=90)
            low = writer.count
            backup(path, tmp_path / f"copy-{number}.db")
            bounds.append((low, writer.count + 1))
    for number, (low, high) in enumerate(bounds):
        copy = sqlite3.connect(tmp_path / f"copy-{number}.db")
        (ones,) = copy.execute("SELECT count(*) FROM meta WHERE key LIKE 'one-%'").fetchone()
        (twos,) = copy.execute("SELECT count(*) FROM meta WHERE key LIKE 'two-%'").fetchone()
        (last,) = copy.execute("SELECT max(key) FROM meta WHERE key LIKE 'one-%'").fetchone()
        copy.close()
        assert ones == twos == int(last.removeprefix("one-")) + 1
        assert low <= ones <= high
    restore(tmp_path / "copy-2.db", tmp_path / "new.db", now=LATER)
    async with opened(tmp_path / "new.db") as restored:
        assert (await restored.reads.poll(ANNA, "prices")).poll.state is PollState.ACTIVE


async def test_a_backup_never_replaces_a_file_by_mistake(tmp_path: Path) -> None:
    """A target that is there is kept unless told otherwise; a failing backup leaves it as it was."""
    async with opened(tmp_path / "s.db") as world:
        await added(world)
    target = tmp_path / "copy.db"
    target.write_text("precious")
    with pytest.raises(AlreadyExists):
        backup(tmp_path / "s.db", target)
    with pytest.raises(NotFound):
        backup(tmp_path / "none.db", target, overwrite=True)
    (tmp_path / "text.db").write_text("not a database")
    with pytest.raises(SetupError):
        backup(tmp_path / "text.db", target, overwrite=True)
    assert target.read_text() == "precious"
    assert not (tmp_path / "none.db").exists()
    assert (tmp_path / "text.db").read_text() == "not a database"
    backup(tmp_path / "s.db", target, overwrite=True)
    assert counted(target, "poll") == 1
    assert [name for name in files(tmp_path) if "partial" in name] == []


@pytest.mark.parametrize("kind", ["missing", "text", "foreign", "newer", "damaged"])
async def test_restore_takes_only_a_whole_database_of_ours(tmp_path: Path, kind: str) -> None:
    """A foreign, newer or damaged file is refused before anything is changed."""
    path, source = tmp_path / "s.db", tmp_path / "source.db"
    async with opened(path) as world:
        await added(world)
        for number in range(200):
            await delivery(world, number)
    if kind == "text":
        source.write_text("x" * 5000)
    elif kind == "foreign":
        sqlite3.connect(source).execute("CREATE TABLE t (x)").connection.close()
    elif kind in ("newer", "damaged"):
        backup(path, source)
        if kind == "newer":
            connection = sqlite3.connect(source)
            connection.execute(f"PRAGMA user_version = {newest() + 1}")
            connection.close()
        else:
            content = bytearray(source.read_bytes())
            content[len(content) // 2 : len(content) // 2 + 20_000] = b"\xff" * 20_000
            source.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(NotFound if kind == "missing" else SetupError):
        restore(source, path, now=LATER)
    assert path.read_bytes() == before
    assert [name for name in files(tmp_path) if "replaced" in name or "restoring" in name] == []


async def test_restore_puts_yesterday_back_and_keeps_today_beside(tmp_path: Path) -> None:
    """What was committed since the backup is gone from the database and is in the kept file."""
    path = tmp_path / "s.db"
    async with opened(path) as world:
        await added(world, "old")
        backup(path, tmp_path / "copy.db")
        await added(world, "young")
    done = restore(tmp_path / "copy.db", path, now=LATER)
    assert done.kept == tmp_path / "s.db.replaced-20260302T120000Z"
    assert (counted(path, "poll"), counted(done.kept, "poll")) == (1, 2)
    async with opened(path, first=50) as world:
        assert [record.poll.spec.name for record in await world.reads.polls(ANNA, Page())] == ["old"]
        await added(world, "young")
    with pytest.raises(AlreadyExists, match="replaced"):
        restore(tmp_path / "copy.db", path, now=LATER)
    assert counted(path, "poll") == 2


async def test_restore_waits_for_runs_under_way_unless_forced(tmp_path: Path) -> None:
    """A lease that has not run out refuses the restore; one that has does not; force takes it away."""
    path = tmp_path / "s.db"
    async with opened(path) as world:
        poll = await added(world)
        backup(path, tmp_path / "copy.db")
        await leased(world, "poll", poll)
    with pytest.raises(NotNow, match="1 runs are under way"):
        restore(tmp_path / "copy.db", path, now=START + timedelta(seconds=59))
    assert [name for name in files(tmp_path) if "replaced" in name] == []
    assert restore(tmp_path / "copy.db", path, now=START + timedelta(seconds=60)).leases_voided == 0
    assert restore(tmp_path / "copy.db", path, now=START + timedelta(seconds=1), force=True).leases_voided == 0


async def test_leases_of_the_backup_are_void_and_their_runs_abandoned(tmp_path: Path) -> None:
    """Work that was under way then is due at once, its run is closed, and a send cut off stays one whose outcome is unknown."""
    path = tmp_path / "s.db"
    async with opened(path) as world:
        poll = await added(world)
        sending = await delivery(world, state="sending", due=to_micros(START))
        await leased(world, "poll", poll)
        await leased(world, "delivery", sending)
        backup(path, tmp_path / "copy.db")
    done = restore(tmp_path / "copy.db", path, now=LATER)
    assert done.leases_voided == 2
    async with opened(path) as world:
        for row in (*await world.sql("SELECT * FROM poll"), *await world.sql("SELECT * FROM delivery")):
            assert (row["lease_until"], row["due"] <= to_micros(LATER), row["run"] > 1) == (None, True, True)
        assert {run.status for run in await world.reads.runs(ANNA, Page())} == {"abandoned"}
        assert (await world.reads.deliveries(ANNA, Page()))[0].delivery.state.value == "sending"
        assert all(row["wake"] <= to_micros(LATER) for row in await world.sql("SELECT wake FROM pool"))


async def test_counters_spent_since_the_backup_still_count(tmp_path: Path) -> None:
    """Where the replaced database can be read, no counter goes back; each open operation's journal says so."""
    path = tmp_path / "s.db"
    async with opened(path) as world:
        one, _ = await world.definitions.register(ANNA, new_operation("a"))
        two = await escalated(world, "b")
        await world.sql("UPDATE operation SET status_requests_used = 2, throttles_used = 1 WHERE job_id = 'a'")
        backup(path, tmp_path / "copy.db")
        await world.sql(
            "UPDATE operation SET max_status_requests = 50, status_requests_used = 12, throttles_used = 0 WHERE job_id = 'a'"
        )
        await world.sql("UPDATE pool SET tat = 77")
    done = restore(tmp_path / "copy.db", path, now=LATER)
    assert done.operations_marked == 2
    async with opened(path) as world:
        found = (await world.reads.operation(ANNA, one.operation.id)).operation
        assert (found.spend.status_requests, found.allowance.max_status_requests, found.spend.throttles) == (10, 10, 1)
        assert (await world.sql("SELECT tat FROM pool"))[0]["tat"] == 77
        for operation, used in ((one.operation.id, 10), (two, 6)):
            facts = (await world.reads.journal(ANNA, operation))[-1].facts
            assert facts == {
                "decision": "restored",
                "by": "restore",
                "by_kind": "system",
                "backup": "copy.db",
                "counters_carried_over": True,
                "status_requests_used": used,
            }
        assert (await world.reads.escalation(ANNA, "esc_1")).state == "open"


@pytest.mark.parametrize("how", ["overwritten", "a page"])
async def test_a_damaged_database_is_moved_away_whole(tmp_path: Path, how: str) -> None:
    """One that cannot be read is kept byte for byte; the restored operations say that their counters may be too low."""
    path = tmp_path / "s.db"
    async with opened(path) as world:
        operation, _ = await world.definitions.register(ANNA, new_operation())
        backup(path, tmp_path / "copy.db")
    content = path.read_bytes()
    broken = b"garbage" * 1000 if how == "overwritten" else content[:8192] + b"\xff" * 16_384 + content[24_576:]
    path.write_bytes(broken)
    with pytest.raises(SetupError):
        backup(path, tmp_path / "worthless.db")
    assert not (tmp_path / "worthless.db").exists()
    done = restore(tmp_path / "copy.db", path, now=LATER)
    assert done.kept is not None and done.kept.read_bytes() == broken
    async with opened(path) as world:
        entry = (await world.reads.journal(ANNA, operation.operation.id))[-1]
        assert (entry.facts["decision"], entry.facts["counters_carried_over"]) == ("restored", False)


async def test_restore_makes_a_database_where_there_is_none(tmp_path: Path) -> None:
    """On a new machine the folder is made, and nothing is kept since nothing was there."""
    async with opened(tmp_path / "s.db") as world:
        await added(world)
    backup(tmp_path / "s.db", tmp_path / "copy.db")
    done = restore(tmp_path / "copy.db", tmp_path / "new" / "s.db", now=LATER)
    assert (done.kept, counted(done.path, "poll")) == (None, 1)
    assert files(tmp_path / "new") == ["s.db"]


async def test_a_process_that_has_the_database_open_goes_on_with_the_restored_content(tmp_path: Path) -> None:
    """Its next statement sees yesterday, and what it claimed before is refused by the fence: nothing is written over the restore."""
    path = tmp_path / "s.db"
    async with opened(path) as world:
        record, _ = await world.definitions.register(ANNA, new_operation())
        backup(path, tmp_path / "copy.db")
        world.clock.at = START + timedelta(minutes=1)
        work = SqliteWork(world.executor, clock=world.clock, ids=CountedIds(500))
        (claimed,) = (await work.claim(worker="w", limit=5, times=LeaseTimes())).works
        assert isinstance(claimed, OperationWork)
        await added(world, "young")
        restore(tmp_path / "copy.db", path, now=world.clock.at, force=True)
        assert await world.reads.polls(ANNA, Page()) == []
        found = (await world.reads.operation(ANNA, record.operation.id)).operation
        assert (found.state, found.spend.status_requests) == (OperationState.WAITING, 1), "the request of that claim still counts"
        with pytest.raises(LeaseLost):
            await work.check(claimed, LeaseTimes())
        (again,) = (await work.claim(worker="w", limit=5, times=LeaseTimes())).works
        assert again.lease.run > claimed.lease.run + 100
        with pytest.raises(LeaseLost):
            await work.release(claimed)


async def test_a_crash_in_the_middle_of_a_restore_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is prepared in a file of its own: when that fails, the database has not been touched."""
    path = tmp_path / "s.db"
    async with opened(path) as world:
        await added(world)
        backup(path, tmp_path / "copy.db")
        await added(world, "young")

    def broken(*arguments: object) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr("sereno.store.restored.settle", broken)
    with pytest.raises(RuntimeError):
        restore(tmp_path / "copy.db", path, now=LATER)
    assert counted(path, "poll") == 2
    assert [name for name in files(tmp_path) if "restoring" in name] == []


@pytest.mark.parametrize("since", ["nothing", "tried", "unreadable"])
async def test_W31_a_restored_submit_that_may_have_been_sent_since_is_in_doubt(tmp_path: Path, since: str) -> None:
    """Only where the replaced database says that it was not tried does it count as unsent; else its key window counts from its start."""
    path = tmp_path / "s.db"
    async with opened(path) as world:
        await world.definitions.register(ANNA, new_submit())
        backup(path, tmp_path / "yesterday.db")
        if since == "tried":
            work = SqliteWork(world.executor, clock=world.clock, ids=CountedIds(5000))
            await work.claim(worker="w", limit=10, times=LeaseTimes())
    if since == "unreadable":
        path.write_text("x" * 5000)
        (tmp_path / "s.db-wal").unlink(missing_ok=True)
    restore(tmp_path / "yesterday.db", path, now=START, force=True)
    async with opened(path) as world:
        work = SqliteWork(world.executor, clock=world.clock, ids=CountedIds(9000))
        (claimed,) = (await work.claim(worker="w", limit=10, times=LeaseTimes())).works
    assert isinstance(claimed, OperationWork) and claimed.operation.call is not None
    call = claimed.operation.call
    assert (call.interrupted, call.attempts, call.first_sent_at) == (since != "nothing", 1, START)
