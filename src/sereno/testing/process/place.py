"""A folder with `sereno.toml` and a database, the waits in it, and what the database says at the end."""

import asyncio
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from sereno.builtin.options import host_pool
from sereno.core.budget import Allowance
from sereno.core.operation import fingerprint
from sereno.core.work import Principal
from sereno.outside.clock import SystemClock
from sereno.outside.ids import SystemIds
from sereno.ports import NewOperation, PoolLimits
from sereno.store.definitions import Definitions
from sereno.store.executor import InlineExecutor
from sereno.store.open import open_store
from sereno.testing.killing.scenario import contract
from sereno.testing.process.world import World

LEASE_S, TICK_S = 3.0, 0.25
MIN_GAP_S = 1.0
"""The contract's smallest gap between two looks at one job."""
_LEASE = f'[lease]\nlease = "{LEASE_S:g}s"\ntotal_deadline = "1.5s"\nguard = "0.3s"\ncommit_time = "0.5s"\ntick = "{TICK_S}s"\n'
WHO = Principal(user="proof")


@dataclass(frozen=True, slots=True)
class Limit:
    """What the pools of the world allow."""

    rate: float = 500.0
    burst: int = 500


@dataclass(frozen=True, slots=True)
class Place:
    """One deployment on one database file."""

    folder: Path
    world: World
    limit: Limit = Limit()

    @property
    def database(self) -> Path:
        """The file."""
        return self.folder / "sereno.db"

    def settle(self, polls: Mapping[str, str] | None = None, *, policies: Mapping[str, str] | None = None) -> None:
        """Writes `sereno.toml`: polls by name with their interval; each tells the world's receiver of each new item, keyed by default."""
        pools = "".join(
            f'[pools."{kind}:127.0.0.1:{self.world.port}"]\nrate = {self.limit.rate}\nburst = {self.limit.burst}\n'
            for kind in ("host", "provider")
        )
        hook = f'type = "webhook", url = "{self.world.url}/hook", unsigned = true'
        policy = {name: (policies or {}).get(name, "keyed") for name in polls or {}}
        rows = "".join(
            f'[[poll]]\nname = "{name}"\nevery = "{every}"\njitter = "0s"\nbaseline = false\n'
            f'actions = [{{ {hook}, policy = "{policy[name]}" }}]\n'
            f'source = {{ type = "http", url = "{self.world.url}/docs/{name}", items = "items", id = "id" }}\n'
            for name, every in (polls or {}).items()
        )
        head = f'[database]\npath = "sereno.db"\n[egress]\nallow = ["127.0.0.1:{self.world.port}"]\n'
        (self.folder / "sereno.toml").write_text(head + _LEASE + pools + rows)

    def register(self, jobs: Mapping[str, int], *, deadline: timedelta = timedelta(hours=2)) -> None:
        """Registers waits: job and how many status requests it may use. The first look is due at once."""
        asyncio.run(self._register(jobs, deadline))

    async def _register(self, jobs: Mapping[str, int], deadline: timedelta) -> None:
        clock, ids = SystemClock(), SystemIds()
        store = open_store(self.database, clock=clock, ids=ids, executor=InlineExecutor)
        definitions = Definitions(store.executor, clock=clock, ids=ids)
        pool = host_pool(self.world.url).replace("host:", "provider:", 1)
        await definitions.set_pool(WHO, pool, PoolLimits(rate=self.limit.rate, burst=self.limit.burst))
        now = clock.now()
        for job, requests in jobs.items():
            url = f"{self.world.url}/jobs/{job}"
            operation = NewOperation(
                contract="generic-status",
                document=contract(),
                account="",
                job_id=job,
                url=url,
                parameters={},
                fingerprint=fingerprint("generic-status", "", job, url),
                allowance=Allowance(now + deadline, None, requests, 1000, 1000),
                pool=pool,
                first_look_at=now,
                actions=[],
            )
            await definitions.register(WHO, operation)
        await store.close()

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Reads the database as it stands."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=30.0)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(query, values)]

    def operation(self, job: str) -> dict[str, Any]:
        """The row of one wait."""
        (row,) = self.rows("SELECT * FROM operation WHERE job_id = ?", job)
        return row

    def counted_at(self, job: str) -> list[float]:
        """When each request of one wait was counted, by the database's instants, in seconds."""
        subject = self.operation(job)["id"]
        rows = self.rows("SELECT at, facts FROM journal WHERE subject = ? AND kind = 'intent' ORDER BY seq", subject)
        return [row["at"] / 1e6 for row in rows if json.loads(row["facts"]).get("asks")]

    def whole(self) -> bool:
        """SQLite's own check of the file."""
        return self.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]

    def budget_faults(self, jobs: Sequence[str]) -> list[str]:
        """I1, I2, I3 for these waits: on the wire ≤ persisted ≤ allowed, each counted before it came, and no waste without a lost lease."""
        found = []
        for job in jobs:
            row, sent, counted = self.operation(job), self.world.seen("jobs", job), self.counted_at(job)
            used, most = row["status_requests_used"], row["max_status_requests"]
            lost = len(self.rows("SELECT 1 FROM run WHERE subject = ? AND status = 'abandoned'", row["id"]))
            if not len(sent) <= used <= most:
                found.append(f"I1 {job}: {len(sent)} on the wire, {used} persisted, {most} allowed")
            if used - len(sent) > lost + (row["lease_until"] is not None):
                found.append(f"I3 {job}: {used - len(sent)} counted in vain, {lost} leases lost")
            late = [at for at, one in zip(counted, sent, strict=False) if at > one.wall]
            if late or len(counted) < len(sent):
                found.append(f"I2 {job}: {len(sent)} sent, {len(counted)} counted, {len(late)} of them after they came")
        return found
