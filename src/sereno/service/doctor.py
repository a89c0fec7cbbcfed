"""Says whether all is well, so that cron can watch the watchman. Writes nothing but one mark of its own; sends nothing."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sereno.core.errors import SerenoError
from sereno.core.record import Counts
from sereno.core.telling.message import counted
from sereno.core.values import format_duration
from sereno.ports import ArtifactStore
from sereno.service.deps import Deps


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: `ok`, `warn` or `bad`, in one sentence, with what to do."""

    name: str
    level: str
    says: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """All checks and the counts behind them."""

    checks: Sequence[Check]
    counts: Counts | None

    @property
    def ok(self) -> bool:
        """False when any check is bad."""
        return all(check.level != "bad" for check in self.checks)


class Doctor:
    """`sereno doctor`."""

    def __init__(
        self, deps: Deps, artifacts: ArtifactStore, mark: Callable[[], Awaitable[None]], check: Callable[[], Awaitable[bool]]
    ):
        """`mark` commits one small write, or raises Unavailable. `check` reads the whole file, or answers False where that takes too
        long; it raises Unavailable for damage."""
        self._deps = deps
        self._artifacts = artifacts
        self._mark = mark
        self._check = check

    async def look(self, *, whole: bool = True) -> Health:
        """Looks at the database, the driver's pulse, dead letters, disabled polls, open questions and kept results.

        `whole` has SQLite check the whole file, for some seconds at most.
        """
        try:
            counts = await self._deps.reads.counts(self._deps.who)
            now = await self._deps.definitions.now()
        except SerenoError as error:
            return Health([Check("database", "bad", error.message, error.hint)], None)
        checks = [await self._database(whole)]
        checks.append(_pulse(counts, None if counts.oldest_overdue_at is None else now - counts.oldest_overdue_at))
        dead = counts.deliveries.get("dead", 0) + counts.deliveries.get("ambiguous", 0)
        checks.append(_count("dead letters", dead, "see `sereno delivery list --state dead` and `--state ambiguous`"))
        disabled = counts.polls.get("disabled", 0)
        checks.append(
            _count("disabled polls", disabled, "see `sereno poll list --state disabled`, then `sereno poll resume NAME`")
        )
        checks.append(_count("open questions", counts.open_escalations, "see `sereno escalation list`"))
        faults = len(self._deps.plugins.contracts.faults())
        checks.append(_count("faults of contract files", faults, "see `sereno contract list`; nobody can wait with these files"))
        trouble = self._artifacts.trouble()
        level, hint = ("ok", None) if trouble is None else ("warn", "results are copied once it is mended; see [artifacts]")
        checks.append(Check("kept results", level, trouble or "can be written", hint))
        return Health(checks, counts)

    async def _database(self, whole: bool) -> Check:
        """Reading goes well on a full disk too: only a commit shows that the work can go on (I30). Both go well on much that is damaged."""
        place = self._deps.loaded.database
        try:
            ended = await self._check() if whole else False
        except SerenoError as error:
            return Check("database", "bad", f"{place}: {error.message}", error.hint)
        try:
            await self._mark()
        except SerenoError as error:
            return Check("database", "bad", f"{place} can be read but not written: {error.message}", error.hint)
        checked = ", and is whole" if ended else "; it is too large to be checked whole here" if whole else ""
        return Check("database", "ok", f"{place} can be read and written{checked}")


def _pulse(counts: Counts, lateness: timedelta | None) -> Check:
    if counts.overdue and lateness is not None:
        oldest = format_duration(timedelta(seconds=int(lateness.total_seconds())))
        says = f"{counted(counts.overdue, 'piece of work is', 'pieces of work are')} overdue, the oldest by {oldest}"
        return Check("driver", "bad", says, "start `sereno up`, or run `sereno once` from cron")
    if counts.last_claim_at is None:
        return Check("driver", "ok", "nothing has run yet, and nothing is overdue")
    return Check("driver", "ok", f"nothing is overdue; the last claim was at {counts.last_claim_at:%Y-%m-%d %H:%M:%S} UTC")


def _count(name: str, number: int, hint: str) -> Check:
    return Check(name, "warn", f"{number}", hint) if number else Check(name, "ok", "none")
