"""Plans: claim and commit cost follow what is claimed, never how much exists; shown in SQLite VM steps, without clocks."""

import re
from pathlib import Path

import pytest

from benchmarks.claim_steps import measure, seed, steps_of_one_claim
from sereno.store.executor import MEMORY, connect
from sereno.store.migrate import migrate
from sereno.store.named import named

GROWTH = 1.5
TABLES = (
    *("poll", "poll_object", "operation", "provider_call", "pushed_body"),
    *("delivery", "escalation", "run", "pool", "contract", "journal"),
)


def test_a_claim_costs_the_same_beside_many_polls(tmp_path: Path) -> None:
    """Twenty times the polls, and twenty thousand due ones in an exhausted pool, cost no more steps."""
    few, claimed = measure(tmp_path, 1_000)
    assert claimed == 100
    for polls, exhausted in ((20_000, False), (20_000, True)):
        many, claimed = measure(tmp_path, polls, exhausted=exhausted)
        assert claimed == 100 and many <= few * GROWTH, (polls, exhausted, many, few)


@pytest.mark.full
def test_a_claim_costs_the_same_beside_a_hundred_thousand_polls(tmp_path: Path) -> None:
    """The same with 100,000 polls, and with 100,000 due ones in an exhausted pool."""
    few, _ = measure(tmp_path, 1_000)
    for exhausted in (False, True):
        many, claimed = measure(tmp_path, 100_000, exhausted=exhausted)
        assert claimed == 100 and many <= few * GROWTH


def test_the_step_counter_sees_a_scan(tmp_path: Path) -> None:
    """Control: without its index the claim's cost grows with the polls, and the measure shows it."""
    connection = connect(tmp_path / "x.db")
    migrate(connection, subject="x")
    seed(connection, 5_000)
    connection.execute("DROP INDEX poll_claim")
    slow, _ = steps_of_one_claim(connection)
    few, _ = measure(tmp_path, 5_000)
    assert slow > few * 10


@pytest.mark.parametrize("file", ["claim", "commit"])
def test_no_named_statement_scans_a_table(file: str) -> None:
    """Every row is found through an index; only lists that we hand in are scanned."""
    connection = connect(MEMORY)
    migrate(connection, subject=MEMORY)
    for name, text in named(file).items():
        named_values = dict.fromkeys(re.findall(r":([a-z_]+)", text), 1) | {"rows": "[]", "pools": "[]", "wakes": "[]"}
        values = (1,) * text.count("?") or named_values
        plan = [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]
        scans = [line for line in plan for table in TABLES if re.match(rf"SCAN {table}\b(?! USING (COVERING )?INDEX)", line)]
        assert not scans, (name, scans)


def test_every_statement_has_its_own_name() -> None:
    """The files hold statements by name, each once."""
    assert {"due_rows", "load_poll", "take_operation"} <= set(named("claim"))
    assert {"polls", "settle_operation", "delivery"} <= set(named("commit"))
