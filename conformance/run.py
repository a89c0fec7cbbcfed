"""`python -m conformance.run`: runs every waiter through every scenario, writes the page, and ends with one line of JSON.

Exit code 1 where Sereno fails a scenario. `--only NAME` (repeatable) takes one waiter, `--no-page` writes nothing,
`--nightly NAME` runs a waiter that is too heavy for every run and stores its verdicts with date and versions.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conformance import page
from conformance.judge import Verdict, judge
from conformance.scenario import Scenario, read_all

ROOT = Path(__file__).parent.parent
NIGHTLY = Path(__file__).parent / "nightly"
WAITERS = (
    "sereno_app", "azure_core", "google_api_core", "google_genai_video", "google_genai_batch", "botocore_waiter",
    "replicate_wait", "openai_videos", "tenacity_loop", "naive", "fastmcp_tasks_client",
)  # fmt: skip
HEAVY = ("airflow_http_trigger",)
"""Run by night, in an environment of their own; their verdicts are committed."""
OURS = "sereno"
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Column:
    """One waiter and its verdicts by scenario; None is not applicable."""

    name: str
    title: str
    versions: Mapping[str, str]
    configuration: str
    verdicts: Mapping[str, Verdict | None]
    date: str

    def count(self) -> dict[str, int]:
        """The figures of the last line."""
        judged = [verdict for verdict in self.verdicts.values() if verdict is not None]
        passed = sum(verdict.passed for verdict in judged)
        return {
            "passed": passed,
            "failed": len(judged) - passed,
            "not_applicable": len(self.verdicts) - len(judged),
            "requests": sum(verdict.requests for verdict in judged),
        }


def _play(name: str, chosen: Sequence[str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        out = Path(folder) / "runs.jsonl"
        surroundings = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
        command = [_python(name), "-m", "conformance.child", name, str(out), *chosen]
        subprocess.run(command, check=True, env=surroundings, cwd=ROOT)
        return [json.loads(line) for line in out.read_text().splitlines()]


def _python(name: str) -> str:
    """Sereno and what is heavy run where this runs; the others have an environment of their own, or that of CONFORMANCE_PYTHON."""
    theirs = os.environ.get("CONFORMANCE_PYTHON") or str(ROOT / ".venv-conformance/bin/python")
    return sys.executable if name.startswith(OURS) or name in HEAVY else theirs


def _column(name: str, scenarios: Sequence[Scenario], today: str) -> Column:
    facts, *runs = _play(name, [scenario.id for scenario in scenarios])
    verdicts: dict[str, Verdict | None] = {}
    for scenario in scenarios:
        records = [run for run in runs if run["scenario"] == scenario.id]
        verdicts[scenario.id] = judge(scenario, records) if records else None
    column = Column(name=name, date=today, verdicts=verdicts, **facts)
    print(f"{column.title}: {column.count()}", file=sys.stderr)
    return column


def _stored() -> Iterator[Column]:
    for path in sorted(NIGHTLY.glob("*.json")):
        table = json.loads(path.read_text())
        verdicts = {key: verdict and Verdict(**verdict) for key, verdict in table.pop("verdicts").items()}
        yield Column(**table, verdicts=verdicts)


def _store(column: Column) -> None:
    NIGHTLY.mkdir(exist_ok=True)
    (NIGHTLY / f"{column.name}.json").write_text(json.dumps(asdict(column), indent=1) + "\n")


def main(arguments: Sequence[str]) -> int:
    """Runs, writes, counts."""
    parser = argparse.ArgumentParser(prog="python -m conformance.run")
    parser.add_argument("--only", action="append", choices=WAITERS)
    parser.add_argument("--nightly", action="append", choices=HEAVY)
    parser.add_argument("--scenario", action="append", default=[])
    parser.add_argument("--no-page", action="store_true")
    asked = parser.parse_args(arguments)
    scenarios = [scenario for scenario in read_all() if not asked.scenario or scenario.id in asked.scenario]
    names = asked.nightly or asked.only or WAITERS
    today = datetime.now(UTC).date().isoformat()
    with ThreadPoolExecutor(WORKERS) as pool:
        columns = list(pool.map(lambda name: _column(name, scenarios, today), names))
    if asked.nightly:
        for column in columns:
            _store(column)
    elif not (asked.only or asked.scenario or asked.no_page):
        page.write(ROOT / "docs/reference/conformance.md", scenarios, [*columns, *_stored()], today)
    if asked.only or asked.scenario:
        for column in columns:
            print("\n".join(page.explained(scenarios, column)))
    figures = {_key(column): column.count() for column in columns}
    print(json.dumps({"scenarios": len(scenarios), "waiters": figures}))
    return int(any(column.count()["failed"] for column in columns if _key(column) == OURS))


def _key(column: Column) -> str:
    return OURS if column.name.startswith(OURS) else column.title


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
