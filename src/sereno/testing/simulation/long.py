"""The long run of a release: chunks of a few minutes, each appended to a report that is part of the project."""

import argparse
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sereno.testing.simulation.coverage import AREAS, Coverage
from sereno.testing.simulation.required import required
from sereno.testing.simulation.runs import Ran, Total, run_seeds, unvisited

FIRST = 1_000_000
"""The long run has a range of its own, so that nobody takes the seeds of another run for fresh ones."""
BLOCK = 100
"""Worlds that are begun together; a chunk ends after a whole block."""
ADDED = ("seeds", "hours", "hours_asleep", "faults", "crashes", "steps", "requests", "wasted", "violations")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("--seeds", type=int, default=20_000, help="worlds in all")
    parser.add_argument("--minutes", type=float, default=9.0, help="the longest chunk")
    parser.add_argument("--chunks", type=int, default=1, help="chunks to run now")
    parser.add_argument("--report", type=Path, required=True, help="the file that chunks are appended to, one line of JSON each")
    parser.add_argument("--page", type=Path, help="the page to write from it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)


def main(given: argparse.Namespace) -> int:
    """Goes on where the report ends. 0 = done or more to do, 1 = violated, 3 = all worlds ran and something was never visited."""
    for _ in range(given.chunks):
        kept = read(given.report)
        left = given.seeds - sum(chunk["seeds"] for chunk in kept)
        if left <= 0:
            break
        first = FIRST + sum(chunk["seeds"] for chunk in kept)
        chunk = _chunk(first, left, given)
        with given.report.open("a", encoding="utf-8") as file:
            file.write(json.dumps(chunk) + "\n")
        if chunk["violations"]:
            break
    kept = read(given.report)
    line = summed(kept, given.seeds)
    if given.page is not None:
        given.page.write_text(page(kept, line), encoding="utf-8")
    print(json.dumps(line), flush=True)
    done = line["seeds"] >= given.seeds
    return 1 if line["violations"] else 3 if done and line["not_visited"] else 0


def _chunk(first: int, left: int, given: argparse.Namespace) -> dict[str, Any]:
    began, total = time.monotonic(), Total()
    until = began + given.minutes * 60
    while total.seeds < left and time.monotonic() < until:
        start = first + total.seeds
        for ran in run_seeds(range(start, start + min(BLOCK * given.jobs, left - total.seeds)), jobs=given.jobs, tell=_tell):
            total.add(ran)
        print(f"sim-long: {total.seeds} worlds of this chunk, {time.monotonic() - began:.0f} s", flush=True)
    return {
        "first": first,
        "commit": _commit(),
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        **total.figures(),
        "failing_seeds": sorted(total.failing),
        "seconds": round(time.monotonic() - began),
        "coverage": total.coverage.as_json(),
    }


def _tell(ran: Ran) -> None:
    if ran.violations:
        print(f"sim-long: seed {ran.seed} failed (again: make sim SEED={ran.seed}): {ran.violations[0][:300]}", flush=True)


def _commit() -> str:
    try:
        done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def read(report: Path) -> Sequence[dict[str, Any]]:
    """The chunks so far; a last line that was cut short is dropped with the chunk that wrote it."""
    if not report.exists():
        return []
    chunks: list[dict[str, Any]] = []
    for line in report.read_text("utf-8").splitlines():
        try:
            chunks.append(json.loads(line))
        except ValueError:
            break
    return chunks


def summed(chunks: Sequence[dict[str, Any]], wanted: int) -> dict[str, Any]:
    """The figures of all chunks together."""
    counts: Counter[str] = Counter()
    seen = Coverage()
    for chunk in chunks:
        counts.update({name: chunk[name] for name in ADDED})
        seen.add(Coverage.of_json(chunk["coverage"]))
    total = Total(seeds=counts["seeds"], coverage=seen)
    missing = unvisited(total, required(counts["seeds"]), AREAS)
    return {
        "first": FIRST,
        "wanted": wanted,
        **{name: counts[name] for name in ADDED},
        "kinds": len(seen.faults),
        "rarest_kind": min(seen.faults.values(), default=0),
        "crash_points": len(seen.points),
        "cells": len(seen.cells),
        "probes": len(seen.probes),
        "not_visited": len(missing),
        "seconds": sum(chunk["seconds"] for chunk in chunks),
    }


def page(chunks: Sequence[dict[str, Any]], line: dict[str, Any]) -> str:
    """The report as a page."""
    rows = [
        f"| {chunk['first']}–{chunk['first'] + chunk['seeds'] - 1} | {chunk['day']} | `{chunk['commit']}` | {chunk['hours']:,} |"
        f" {chunk['faults']:,} | {chunk['crashes']:,} | {chunk['steps']:,} | {chunk['violations']} |"
        for chunk in chunks
    ]
    facts = [
        ("seeds", f"{line['seeds']:,} of {line['wanted']:,}"),
        ("simulated hours", f"{line['hours']:,}, of which the whole host slept {line['hours_asleep']:,}"),
        ("faults", f"{line['faults']:,} of {line['kinds']} kinds, the rarest {line['rarest_kind']:,} times"),
        ("crashes at named points", f"{line['crashes']:,} at {line['crash_points']} points"),
        ("cells of the transition tables", f"{line['cells']}"),
        ("probes", f"{line['probes']}"),
        ("steps of the event loop", f"{line['steps']:,}"),
        ("requests in the provider's book", f"{line['requests']:,}; counted and never sent {line['wasted']:,}"),
        ("violations", f"{line['violations']}"),
    ]
    return "\n".join(
        [
            "# The long simulation run",
            "",
            "Written by `make sim-long`. What the simulation does, and how to repeat a seed, is told in",
            "[testing by simulation](../how-to/simulation.md); what it is about, in [guarantees](../concepts/guarantees.md).",
            "",
            "| what | figure |",
            "|---|---|",
            *(f"| {name} | {text} |" for name, text in facts),
            "",
            "## Chunks",
            "",
            "| seeds | day | commit | hours | faults | crashes | steps | violations |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )
