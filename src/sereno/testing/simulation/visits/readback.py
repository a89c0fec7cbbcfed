"""Reads a world's database back: rows as they are, operations and deliveries through the reading side, the journal decided again."""

from collections.abc import Iterator, Mapping, Sequence
from sqlite3 import Connection
from typing import Any

from sereno.core.contract import Contract
from sereno.core.operation import Operation
from sereno.core.record import JournalEntry
from sereno.core.reviewing.checking import check_journal
from sereno.core.reviewing.replay import Verdict, replay
from sereno.ports import Clock, Page
from sereno.store.executor import InlineExecutor
from sereno.store.reads import Reads
from sereno.testing.simulation.terms import Persisted
from sereno.testing.yard import WHO, Contracts

PAGE = 1000
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
_KEYS = "SELECT group_concat(name) FROM (SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk)"


async def persisted(database: InlineExecutor, host: Clock) -> Persisted:
    """Everything that is in the database."""
    reads = Reads(database, clock=host)
    deliveries = [record.delivery for record in await _all(reads.deliveries, lambda record: record.delivery.id)]
    operations = [record.operation for record in await _all(reads.operations, lambda record: record.operation.id)]
    return Persisted(operations, deliveries, await database.read(rows))


async def _all(pages: Any, id_of: Any) -> Sequence[Any]:
    found: list[Any] = []
    while page := await pages(WHO, Page(limit=PAGE, before=id_of(found[-1]) if found else None)):
        found += page
    return found


def rows(connection: Connection) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """All tables with all their rows, in order of their keys."""
    tables = [row[0] for row in connection.execute(_TABLES).fetchall()]
    return {table: _rows(connection, table) for table in tables}


def _rows(connection: Connection, table: str) -> Sequence[Mapping[str, Any]]:
    keys = connection.execute(_KEYS, (table,)).fetchone()[0]
    return [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY {keys}")]


async def replayed(database: InlineExecutor, host: Clock, operations: Sequence[Operation], contracts: Contracts) -> Sequence[str]:
    """What the journal alone does not give again, and the faults that it shows (W28, W44)."""
    reads = Reads(database, clock=host)
    kept = await database.read(lambda connection: connection.execute("SELECT digest FROM contract ORDER BY digest").fetchall())
    known: Mapping[str, Contract] = {row[0]: contracts.contract(await reads.contract(row[0])) for row in kept}
    clock = await _journal(reads, "clock")
    found: list[str] = []
    for operation in operations:
        steps, changes = await reads.steps(WHO, operation.id), await reads.changes(WHO, operation.id)
        found += _again(operation.id, replay(steps, changes, known).steps)
        for fault in check_journal(await _journal(reads, operation.id), known, clock):
            found.append(f"W44 {operation.id} run {fault.run}: {fault.name}: {fault.says}")
    return found


async def _journal(reads: Reads, subject: str) -> Sequence[JournalEntry]:
    found: list[JournalEntry] = []
    while page := await reads.journal(WHO, subject, after=found[-1].seq if found else 0, limit=PAGE):
        found += page
    return found


def _again(operation: str, steps: Sequence[Any]) -> Iterator[str]:
    for step in steps:
        if step.verdict is not Verdict.SAME:
            yield f"W28 {operation} run {step.run}: {step.verdict}: {step.why or step.differences}"
