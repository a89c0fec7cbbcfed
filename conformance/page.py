"""Writes docs/reference/conformance.md from the verdicts. A run that changes nothing but the date leaves the page as it is."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.judge import Verdict
from conformance.scenario import CAPABILITIES, GROUPS, Scenario

if TYPE_CHECKING:
    from conformance.run import Column

HEAD = "<!-- Written by `make conformance` from the run; do not edit. -->"
DATED = "Run on "
INTRODUCTION = """\
A scripted provider plays {count} scenarios to each waiter. Each scenario is [a data file](../../conformance/scenarios): what the provider
does, what a correct waiter does about it, and what goes wrong in the field where it does not. How the suite works, how to add a
scenario and how to dispute a row: [how to](../how-to/conformance.md).

**How to read it.** `ok` and **`no`**: every expectation of the scenario held, or not. Then what the caller was told: the job
*succeeded*, *failed* (the provider's verdict), the waiter *stopped* (an error or a question, with the job's end open), *timed out*
(the waiter's own limit), or *never* (500 looks, 30 days of virtual time or 10 seconds of processor time without an end). Then the
requests that reached the provider. `n/a`: the waiter's interface or protocol cannot express the scenario; its file names the
capability that it needs. n/a counts neither for nor against.

**Fair.** Each waiter is set up as its own documentation recommends, in a process whose clocks and sleeps are virtual in the same way
for all. Passing says nothing about what a library is otherwise good for: most were never meant to outlive a process or to judge a
provider. The scenarios were written for this project, so it is no surprise that it passes them; that is why each states its harm,
and why a row can be disputed."""


def _cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return "n/a"
    mark = "ok" if verdict.passed else "**no**"
    return f"{mark} {verdict.outcome.replace('_', ' ')} {verdict.requests}"


def _text(text: str) -> str:
    """Foreign words in a table or a list."""
    escaped = "".join(f"\\{mark}" if mark in "\\`*_{}[]<>|#" else mark for mark in text)
    return " ".join(escaped.split())


def _summary(columns: Sequence["Column"]) -> Iterator[str]:
    yield "| Waiter | Passed | Failed | n/a | Requests | Versions | Set up as |"
    yield "|---|---|---|---|---|---|---|"
    for column in columns:
        count = column.count()
        packages = ", ".join(f"{name} {version}" for name, version in column.versions.items())
        cells = (
            count["passed"],
            count["failed"],
            count["not_applicable"],
            count["requests"],
            packages,
            f"`{column.configuration}`",
        )
        yield f"| {column.title} | " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _table(scenarios: Sequence[Scenario], columns: Sequence["Column"]) -> Iterator[str]:
    yield "| Scenario | " + " | ".join(column.title for column in columns) + " |"
    yield "|---|" + "---|" * len(columns)
    group = ""
    for scenario in scenarios:
        if scenario.group != group:
            group = scenario.group
            yield f"| **{GROUPS[group]}** |" + " |" * len(columns)
        cells = (_cell(column.verdicts.get(scenario.id)) for column in columns)
        yield f"| [{scenario.id}](#{scenario.id}) | " + " | ".join(cells) + " |"


def _scenario(scenario: Scenario, columns: Sequence["Column"]) -> Iterator[str]:
    yield f"### {scenario.id}"
    yield ""
    yield f"{scenario.title}. {_sentence(scenario.why)}" + (
        f" Source: {_sentence(_text(scenario.source))}" if scenario.source else ""
    )
    if scenario.needs:
        yield f"Needs: {'; '.join(CAPABILITIES[need] for need in scenario.needs)}."
    if scenario.dispute:
        yield f"Open to dispute: {_sentence(scenario.dispute)}"
    for column in columns:
        verdict = column.verdicts.get(scenario.id)
        if verdict is not None and not verdict.passed:
            detail = f" ({_text(verdict.detail)})" if verdict.detail else ""
            yield f"- {column.title}: {'; '.join(verdict.faults)}{detail}"
    yield ""


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def written(scenarios: Sequence[Scenario], columns: Sequence["Column"], today: str) -> str:
    """The whole page."""
    lines = [HEAD, "", "# Conformance", "", INTRODUCTION.format(count=len(scenarios)), ""]
    lines += [f"{DATED}{today}, seeds fixed, limits of every scenario as its file says. " + _heavy(columns), ""]
    lines += [
        "## Summary",
        "",
        *_summary(columns),
        "",
        "## Scenario by scenario",
        "",
        *_table(scenarios, columns),
        "",
        "## Why",
        "",
    ]
    for scenario in scenarios:
        lines += [line + "\n" if line.startswith(("Needs:", "Open to")) else line for line in _scenario(scenario, columns)]
    return "\n".join(lines).rstrip() + "\n"


def _heavy(columns: Sequence["Column"]) -> str:
    heavy = [f"{column.title} on {column.date}" for column in columns if column.name.startswith("airflow")]
    return f"Too heavy for every run, and run by night instead: {', '.join(heavy)}." if heavy else ""


def write(path: Path, scenarios: Sequence[Scenario], columns: Sequence["Column"], today: str) -> None:
    """Writes the page where more than its date is new."""
    text = written(scenarios, columns, today)
    if not path.exists() or _undated(path.read_text()) != _undated(text):
        path.write_text(text)


def _undated(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(DATED)]


def explained(scenarios: Sequence[Scenario], column: "Column") -> Iterator[str]:
    """One waiter's verdicts, a line a scenario, for a terminal."""
    for scenario in scenarios:
        verdict = column.verdicts[scenario.id]
        what = "n/a" if verdict is None else f"{_cell(verdict)}  {'; '.join(verdict.faults)}  {verdict.detail[:70]}"
        yield f"{column.title:22} {scenario.id:34} {what}"
