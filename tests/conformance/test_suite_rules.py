"""The scenarios are valid data, files that are not are refused, and each rule of the judge catches what it is for."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from conformance import page
from conformance.bodies import header_value
from conformance.dialects import DIALECTS
from conformance.judge import judge
from conformance.run import HEAVY, WAITERS, Column
from conformance.scenario import CAPABILITIES, GROUPS, BadScenario, Expect, Gap, Scenario, Step, read, read_all

ROOT = Path(__file__).parents[2]
GOOD = """
id = "x"
group = "ends"
title = "A title"
why = "A harm"

[[steps]]
say = "running"
until = "10s"

[[steps]]
say = "succeeded"

[expect]
outcome = ["succeeded"]
"""


def test_there_are_at_least_sixty_scenarios_and_every_group_has_some() -> None:
    """Each states the harm that it stands for."""
    scenarios = read_all()
    assert len(scenarios) >= 60
    assert {scenario.group for scenario in scenarios} == set(GROUPS)
    assert [scenario.id for scenario in scenarios if len(scenario.why) < 25] == []


def test_every_scenario_can_be_spoken_in_the_plain_dialect() -> None:
    """No scenario asks for what Sereno's own adapter cannot be asked; so none is not applicable to it."""
    can = DIALECTS["plain"].can() | {"submit", "persistence", "deadline", "status-url"}
    assert {need for scenario in read_all() for need in scenario.needs} <= can


def test_every_capability_is_one_that_a_scenario_or_a_dialect_knows() -> None:
    """A capability that nothing uses would explain nothing."""
    used = {need for scenario in read_all() for need in scenario.needs} | {word for d in DIALECTS.values() for word in d.can()}
    assert set(CAPABILITIES) <= used


def write(folder: Path, text: str) -> Path:
    """A scenario file."""
    path = folder / "x.toml"
    path.write_text(text)
    return path


def test_a_file_is_read(tmp_path: Path) -> None:
    """Times are seconds, the rest is as it was written."""
    scenario = read(write(tmp_path, GOOD))
    assert scenario.steps == [Step(say="running", until=10.0), Step(say="succeeded")]
    assert scenario.expect.outcome == ["succeeded"]


def test_the_example_of_the_how_to_page_is_a_scenario(tmp_path: Path) -> None:
    """And every key of the format stands on that page."""
    text = (ROOT / "docs/how-to/conformance.md").read_text()
    path = tmp_path / "retry-after-503.toml"
    path.write_text(text.split("```text\n")[1].split("```")[0])
    assert read(path).expect.gaps == [Gap(2, 90.0)]
    keys = {item.name for kind in (Scenario, Step, Expect) for item in fields(kind)} - {"steps", "expect"}
    assert sorted(key for key in keys if f"`{key}`" not in text and f"{key} =" not in text) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('title = "A title"', 'titel = "A title"', "titel is not known"),
        ('id = "x"', 'id = "y"', "the file is named 'x'"),
        ('why = "A harm"', "", "why is missing"),
        ('group = "ends"', 'group = "odd"', "'odd' is not one of"),
        ('say = "succeeded"', 'say = "paused"', "the script uses paused; write it into needs"),
        ('say = "succeeded"', 'say = "done"', "'done' is not one of"),
        ('say = "succeeded"', 'headers = { A = "b" }', "a step says something"),
        ('say = "succeeded"', 'say = "succeeded"\nlooks = 2', "the last one holds on"),
        ('until = "10s"', 'until = "soon"', "'soon' is no length of time"),
        ('outcome = ["succeeded"]', "most = 3", "outcome is missing"),
        ('outcome = ["succeeded"]', 'outcome = ["won"]', "'won' is not one of"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, old: str, new: str, fault: str) -> None:
    """The message names the file, the place and what is known there."""
    assert old in GOOD
    with pytest.raises(BadScenario, match=fault):
        read(write(tmp_path, GOOD.replace(old, new)))


def looks(*times: float, step: int = 1) -> list[dict[str, Any]]:
    """A book of looks."""
    return [{"kind": "look", "t": at, "n": n, "step": step, "credential": True} for n, at in enumerate(times, 1)]


def verdict(expect: Expect, book: Sequence[Mapping[str, Any]], *, copies: int = 1, **told: Any) -> Sequence[str]:
    """The faults of one run."""
    steps = (Step(say="running", looks=1), Step(say="succeeded"))
    scenario = Scenario(id="x", group="ends", title="t", why="w", steps=steps, expect=expect)
    said = {"outcome": "succeeded", "detail": "", "t": 100.0, "memory_mb": 1, **told}
    return judge(scenario, [{"told": said, "book": book}] * copies).faults


OK = Expect(outcome=("succeeded",))
ELSEWHERE = {"kind": "other-host", "t": 1.0, "credential": False}
SUBMIT = {"kind": "submit", "t": 1.0, "key": None, "credential": True}


@pytest.mark.parametrize(
    ("expect", "book", "told", "fault"),
    [
        (OK, looks(1), {"outcome": "failed"}, "said failed; right is succeeded"),
        (replace(OK, most=1), looks(1, 2), {}, "2 looks, 1 at most"),
        (replace(OK, most_in_last=1), looks(1, 2), {}, "2 looks in the last step, 1 at most"),
        (replace(OK, gaps=[Gap(1, 60)]), looks(1, 60), {}, "came back after 59 s, not 60 s"),
        (replace(OK, spacing=5), looks(1, 7, 11), {}, "two looks within 4 s, 5 s are due"),
        (replace(OK, ends_before=90), looks(1), {}, "ended after 100 s, not within 90 s"),
        (replace(OK, success_after=110), looks(1), {}, "said succeeded after 100 s, before the job had ended"),
        (replace(OK, last_look_before=60), looks(1, 60), {}, "a look at 60 s, when the time was over"),
        (replace(OK, memory_mb=64), looks(1), {"memory_mb": 65}, "held more than 64 MB for one answer"),
        (OK, [{**ELSEWHERE, "credential": True}], {}, "sent the credential to another host"),
        (replace(OK, other_host="nothing"), [ELSEWHERE], {}, "asked another host"),
        (replace(OK, submits=1), [SUBMIT, SUBMIT], {}, "made 2 jobs, 1 was asked for"),
    ],
)
def test_each_rule_catches_what_it_is_for(expect: Expect, book: list[dict[str, Any]], told: dict[str, Any], fault: str) -> None:
    """Exactly one sentence, and none without the rule."""
    assert verdict(expect, book, **told) == (fault,)


@pytest.mark.parametrize(
    ("expect", "book"),
    [
        (replace(OK, most=2, gaps=[Gap(1, 60)], spacing=60), looks(1, 61)),
        (replace(OK, gaps=[Gap(3, 60)]), looks(1)),
        (replace(OK, submits=1), [{**SUBMIT, "key": "a"}, {**SUBMIT, "key": "a"}]),
        (OK, [ELSEWHERE]),
    ],
)
def test_what_is_right_has_no_fault(expect: Expect, book: list[dict[str, Any]]) -> None:
    """On the edge, where there is no next look, where a key makes two submits one job, and elsewhere without the key."""
    assert verdict(expect, book) == ()


def test_waits_that_stay_together_are_seen() -> None:
    """Looks of all copies are counted together, once the start is over."""
    expect = replace(OK, same_second=2)
    assert verdict(expect, looks(30), copies=3) == ("3 looks of 3 waits in one second",)
    assert verdict(expect, looks(3), copies=3) == ()


def test_headers_hold_dates_in_all_three_forms() -> None:
    """Relative to the virtual instant of the answer."""
    assert header_value("{date:+60}", 0) == "Mon, 01 Jun 2026 00:01:00 GMT"
    assert header_value("{rfc850:+60}", 0) == "Monday, 01-Jun-26 00:01:00 GMT"
    assert header_value("{asctime:+60}", 0) == "Mon Jun  1 00:01:00 2026"


def test_the_page_changes_only_with_what_it_says(tmp_path: Path) -> None:
    """Another date alone leaves the committed page as it is; foreign words cannot break its tables."""
    scenario = next(scenario for scenario in read_all() if scenario.id == "fails")
    told = {"outcome": "stopped", "detail": "<b>|x|", "t": 1.0, "memory_mb": 1}
    column = Column("w", "W", {"p": "1"}, "a | b", {"fails": judge(scenario, [{"told": told, "book": looks(1)}])}, "2026-01-01")
    path = tmp_path / "page.md"
    page.write(path, [scenario], [column], "2026-01-01")
    text = path.read_text()
    assert r"\<b\>\|x\|" in text and r"a \| b" in text
    page.write(path, [scenario], [column], "2026-02-02")
    assert path.read_text() == text


def test_the_committed_page_shows_every_scenario_and_every_waiter() -> None:
    """Who adds a scenario or a waiter runs `make conformance`."""
    text = (ROOT / "docs/reference/conformance.md").read_text()
    assert [scenario.id for scenario in read_all() if f"\n### {scenario.id}\n" not in text] == []
    titles = [_title(name) for name in (*WAITERS, *HEAVY)]
    assert [title for title in titles if f"| {title} |" not in text] == []


def _title(waiter: str) -> str:
    source = (ROOT / f"conformance/waiters/{waiter}.py").read_text()
    return source.split('\nNAME = "', 1)[1].split('"', 1)[0]


def test_every_adapter_is_small_and_says_where_its_configuration_is_from() -> None:
    """An adapter that grows hides a rule of its own."""
    for name in (*WAITERS, *HEAVY):
        text = (ROOT / f"conformance/waiters/{name}.py").read_text()
        assert len(text.splitlines()) <= 100, name
        assert len(text.split('"""')[1]) > 60, name
