"""Incidents of others with their database: busy errors that escape, runs that vanish. Numbers: tests/incidents.toml."""

import asyncio
import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
import structlog

from sereno.app import running
from sereno.core.change import FailedReading, Reading, SourceObject
from sereno.core.errors import Unavailable
from sereno.core.values import Json
from sereno.core.work import PollWork
from sereno.drivers import loop
from sereno.drivers.loop import Upkeep
from sereno.faces.cli.commands import run_command
from sereno.ports import Guarded
from sereno.store.executor import InlineExecutor, ThreadExecutor, connect
from sereno.store.open import Store, open_store
from sereno.testing.virtual import run_virtual
from tests.drivers.stage import ScriptedSource, Stage
from tests.store.stage import HOST, TIMES, subjects, unchanged
from tests.store.stage import Stage as StoreStage

WRITERS = 8


@pytest.mark.parametrize("rounds", [25, pytest.param(500, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
async def test_I30_eight_writers_that_read_before_they_write_see_no_busy(tmp_path: Path, rounds: int) -> None:
    """incident 30: transactions that read first and write then, on eight connections at once: none is refused, no count is
    lost."""
    path = tmp_path / "s.db"
    made = connect(path)
    made.execute("CREATE TABLE counted (n INTEGER NOT NULL) STRICT")
    made.execute("INSERT INTO counted VALUES (0)")
    made.close()
    executors = [ThreadExecutor(path, busy_timeout_s=60, gather_s=0) for _ in range(WRITERS)]

    def one_more(connection: sqlite3.Connection) -> int:
        before: int = connection.execute("SELECT n FROM counted").fetchone()[0]
        connection.execute("UPDATE counted SET n = ?", (before + 1,))
        return before

    async def writes(executor: ThreadExecutor) -> list[int]:
        return [await executor.write(one_more) for _ in range(rounds)]

    seen = await asyncio.gather(*(writes(executor) for executor in executors))
    assert sorted(before for each in seen for before in each) == list(range(WRITERS * rounds))
    for executor in executors:
        await executor.close()


@pytest.mark.parametrize("polls", [40, pytest.param(1_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
async def test_I30_eight_processes_worth_of_claims_and_commits_see_no_busy(tmp_path: Path, polls: int) -> None:
    """incident 30: eight stores on one file claim and commit as fast as they can: no call fails, each poll has exactly one
    run."""
    stages = [StoreStage(tmp_path / "s.db", inline=False)]
    stages += [StoreStage(tmp_path / "s.db", clock=stages[0].clock, first=n << 40, inline=False) for n in range(1, WRITERS)]
    await stages[0].limits(HOST, rate=None)
    for number in range(polls):
        await stages[0].poll(f"p{number}")

    async def works(stage: StoreStage, name: str) -> list[str]:
        done: list[str] = []
        while claimed := (await stage.work.claim(worker=name, limit=3, times=TIMES)).works:
            for work in claimed:
                assert isinstance(work, PollWork)
                await stage.work.commit_poll(work, unchanged(work, stage.now + timedelta(days=1)))
            done += subjects(claimed)
        return done

    done = [subject for each in await asyncio.gather(*(works(s, f"w{n}") for n, s in enumerate(stages))) for subject in each]
    assert len(done) == len({*done}) == polls
    runs = await stages[0].sql("SELECT status, count(*) AS n, max(number) AS most FROM run GROUP BY status")
    assert runs == [{"status": "ok", "n": polls, "most": 1}]
    for stage in stages:
        await stage.close()


class Impatient(Stage):
    """A stage on a file whose connections do not wait for a lock."""

    def open(self) -> Store:
        """Opens the database once more."""
        return open_store(
            self.place, clock=self.clock, ids=self.ids, executor=lambda path: InlineExecutor(path, busy_timeout_s=0)
        )

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection of the worker."""
        found = self.store.executor.connection  # type: ignore[attr-defined]  # the inline executor of tests
        assert isinstance(found, sqlite3.Connection)
        return found


class Trouble(ScriptedSource):
    """A source with one large object; its first read ends in trouble of the database."""

    def __init__(self, stage: Impatient, kind: str) -> None:
        super().__init__(stage.book, stage.clock)
        self._stage, self._kind = stage, kind
        self.foreign = sqlite3.connect(stage.place, isolation_level=None)

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        """Reads, and takes the database away before the run is committed."""
        await super().read(options, cursor, guarded)
        if len(self._book.reads) == 1:
            self.begins()
        return Reading([SourceObject("it", "1", {"text": "x" * 200_000})], cursor="1", requests=1)

    def begins(self) -> None:
        """From here on nothing can be written."""
        if self._kind == "locked":
            self.foreign.execute("BEGIN IMMEDIATE")
            return
        pages = self._stage.connection.execute("PRAGMA page_count").fetchone()[0]
        self._stage.connection.execute(f"PRAGMA max_page_count = {pages}")

    def ends(self) -> None:
        """The lock is free, or there is room again."""
        if self._kind == "locked":
            self.foreign.execute("ROLLBACK")
        self._stage.connection.execute("PRAGMA max_page_count = 1000000")


@pytest.mark.parametrize(("kind", "says"), [("locked", "locked by another process"), ("full", "the disk is full")])
def test_I30_I31_a_run_that_could_not_be_written_is_told_and_kept_in_sight(tmp_path: Path, kind: str, says: str) -> None:
    """incident 31: the database is locked, or the disk full, when a run is to be committed: log and tally say so, its row
    stays, and the
    next run makes it good: one effect."""

    async def main() -> None:
        stage = Impatient(tmp_path / "s.db")
        stage.source = source = Trouble(stage, kind)
        await stage.polls(1, every=timedelta(minutes=10), actions=(stage.tell(),))
        driver = stage.driver()
        with structlog.testing.capture_logs() as told:
            task = asyncio.get_running_loop().create_task(driver.run())
            await stage.clock.sleep(30)
            assert not task.done(), "the process stays up"
            assert driver.tally.unavailable == 1
            source.ends()
            rows = await stage.sql("SELECT status, started_at IS NOT NULL AS began FROM run")
            assert rows == [{"status": "running", "began": 1}], "the row of the run is there"
            await stage.clock.sleep(120)
        driver.stop()
        await task
        warned = [line for line in told if line["log_level"] == "warning" and says in str(line.get("error"))]
        assert any("not committed" in line["event"] for line in warned), told
        assert all(line.get("run_id") for line in warned if "not committed" in line["event"])
        runs = await stage.sql("SELECT status FROM run WHERE kind = 'poll' ORDER BY number")
        assert [run["status"] for run in runs] == ["abandoned", "ok"]
        assert len(stage.book.acts) == 1
        source.foreign.close()
        await stage.store.close()

    run_virtual(main)


@pytest.mark.parametrize("patience_s", [None, 60.0])
def test_I30_a_bounded_driver_ends_where_its_claims_fail_for_too_long(tmp_path: Path, patience_s: float | None) -> None:
    """incident 31: `once` must not hang for ever, started anew each minute, behind a lock that nobody gives back; a service
    stays up."""

    async def main() -> None:
        stage = Impatient(tmp_path / "s.db")
        await stage.polls(1)
        foreign = sqlite3.connect(stage.place, isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        driver = stage.driver(upkeep=Upkeep(patience_s=patience_s))
        task = asyncio.get_running_loop().create_task(driver.run())
        await stage.clock.sleep(55)
        assert not task.done(), "a lock that is held for a while is borne"
        foreign.execute("ROLLBACK")
        await stage.clock.sleep(10)
        assert len(stage.book.reads) == 1, "and the time counts from the last claim that worked"
        foreign.execute("BEGIN IMMEDIATE")
        await stage.clock.sleep(3_600)
        assert task.done() is (patience_s is not None)
        if patience_s is None:
            driver.stop()
            foreign.execute("ROLLBACK")
            await task
        else:
            with pytest.raises(Unavailable, match="locked by another process"):
                await task
        foreign.close()
        await stage.store.close()

    run_virtual(main)


@pytest.mark.parametrize("verb", ["once", "poll list", "doctor"])
def test_I30_a_locked_database_is_told_by_each_command(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """incident 31: whoever starts a command while another program holds the database is told so, with an exit code, and no
    traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for kept in (connect.__kwdefaults__, ThreadExecutor.__init__.__kwdefaults__):
        assert kept is not None
        monkeypatch.setitem(kept, "busy_timeout_s", 0.05)
    monkeypatch.setattr(running, "ONCE_PATIENCE_S", 0.2)
    monkeypatch.setattr(loop, "UNAVAILABLE_PAUSE", 0.05)
    (tmp_path / "sereno.toml").write_text('[[poll]]\nname = "p"\nevery = "1h"\nsource = {type = "command", argv = ["true"]}\n')
    assert run_command(("apply",)) == 0
    foreign = sqlite3.connect(tmp_path / ".sereno" / "sereno.db", isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE" if verb != "poll list" else "SELECT 1")
    capsys.readouterr()
    code = run_command(tuple(verb.split()))
    said = capsys.readouterr()
    if verb == "poll list":
        assert code == 0, "reading goes on"
    else:
        assert code == 7 and "locked by another process" in said.out + said.err
    assert "Traceback" not in said.err
    foreign.close()
