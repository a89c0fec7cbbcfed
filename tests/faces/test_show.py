"""How things look: progress, schedules, durations, tables, plain data."""

import io
import sys
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

import pytest

from sereno.core.observation import DelaySource
from sereno.core.operation import OperationState
from sereno.core.record import OperationRecord
from sereno.core.schedule import Cron, Interval
from sereno.faces.cli.definition import SourceFlags, as_toml, split_words
from sereno.faces.cli.follow import Progress
from sereno.faces.cli.output import Output, plain, safe
from sereno.faces.cli.show.operations import list_operations, progress_line, show_operation, stands_line
from sereno.faces.cli.show.words import DELAYS, away, brief, schedule_words
from tests.core.waiting import make_operation

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_every_delay_source_has_words() -> None:
    """W26: why the next look is when it is."""
    assert DELAYS.keys() == set(DelaySource)


def test_progress_on_a_terminal_is_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """State, requests used, when it looks next and why; the line is wiped at the end."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress(Output(as_json=False))
    operation = make_operation(
        next_poll_at=NOON + timedelta(seconds=12), last_state="running", delay_source=DelaySource.PROVIDER_RETRY_AFTER
    )
    progress.show(operation, NOON)
    progress.show(operation, NOON + timedelta(seconds=2))
    progress.end()
    shown = terminal.getvalue()
    assert "\n" not in shown
    assert "next look in 12s: not sooner than the provider asked (Retry-After)" in shown and "next look in 10s" in shown
    assert shown.split("\r")[-1] == "" and shown.split("\r")[-2].strip() == ""


def test_progress_in_a_pipe_is_one_line_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    """The same state twice is one line; in JSON mode there is none."""
    progress = Progress(Output(as_json=False))
    for seconds in (0, 1, 2):
        progress.show(make_operation(next_poll_at=NOON + timedelta(seconds=12)), NOON + timedelta(seconds=seconds))
    progress.show(make_operation(next_poll_at=NOON + timedelta(seconds=20), last_state="running"), NOON)
    assert len(capsys.readouterr().err.splitlines()) == 2
    Progress(Output(as_json=True)).show(make_operation(), NOON)
    assert capsys.readouterr().err == ""


def test_a_hostile_state_word_stays_one_line() -> None:
    """What a provider says is escaped and cut."""
    line = progress_line(make_operation(last_state="run\x1b[2J\nning" + "x" * 300, next_poll_at=NOON), NOON)
    assert "\x1b" not in line and "\n" not in line and len(line) < 120


@pytest.mark.parametrize(
    ("span", "text"),
    [(0.35, "350ms"), (12.4, "12s"), (90, "1m30s"), (5400, "1h30m"), (5430, "1h30m"), (273_600, "3d4h"), (0, "0s")],
)
def test_durations_are_as_exact_as_a_person_needs(span: float, text: str) -> None:
    """Seconds below an hour, minutes below a day, hours above."""
    assert brief(timedelta(seconds=span)) == text


def test_instants_are_told_by_their_distance() -> None:
    """Ahead, behind, now."""
    assert away(NOON + timedelta(minutes=4), NOON) == "in 4m"
    assert away(NOON - timedelta(seconds=12), NOON) == "12s ago"
    assert away(NOON, NOON) == "now"


def test_times_are_in_the_zone_of_the_user() -> None:
    """With its name; a missing instant is a dash."""
    out = Output(as_json=False, zone=ZoneInfo("Europe/Madrid"))
    assert (out.time(NOON), out.time(None)) == ("2026-11-30 13:00:00 CET", "-")


def test_schedules_in_words() -> None:
    """Interval with and without jitter, and cron."""
    assert schedule_words(Interval(timedelta(hours=1, minutes=30), NOON)) == "every 1h30m"
    assert (
        schedule_words(Interval(timedelta(hours=1), NOON, timedelta(minutes=1)))
        == "every 1h, at a fixed place of its own within 1m"
    )
    assert schedule_words(Cron("5 4 * * *", "UTC")) == "cron `5 4 * * *` in UTC"


def test_values_become_plain_data() -> None:
    """Instants as RFC 3339, durations as text, enums as their word, dataclasses as tables."""

    class Word(StrEnum):
        ONE = "one"

    assert plain({"at": NOON, "for": timedelta(minutes=3), "word": Word.ONE, "all": (1, None, True), "raw": b"x"}) == {
        "at": "2026-11-30T12:00:00Z", "for": "3m", "word": "one", "all": [1, None, True], "raw": "x",
    }  # fmt: skip
    assert plain(Interval(timedelta(hours=1), NOON)) == {"every": "1h", "anchor": "2026-11-30T12:00:00Z", "jitter": "0s"}


def test_an_answer_names_its_schema_first(capsys: pytest.CaptureFixture[str]) -> None:
    """One document on standard output; text mode prints none."""
    Output(as_json=True).answer("thing", {"name": "é"})
    assert capsys.readouterr().out == '{"schema": "sereno.thing/1", "name": "é"}\n'
    Output(as_json=False).answer("thing", {})
    assert capsys.readouterr().out == ""


def test_tables_are_aligned_and_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """Long and foreign cells cannot break the columns."""
    Output(as_json=False).table(["a", "b"], [("x\ny", "1"), ("z" * 100, "2")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and len({line.index(mark) for line, mark in zip(lines, "B12", strict=True)}) == 1


def test_invisible_characters_are_shown_or_taken_out() -> None:
    """Controls are escaped; direction marks and zero-width characters vanish."""
    assert safe("a\x07b\u202ec\u200bd\u009b") == "a\\x07bcd\\x9b"


@pytest.mark.parametrize(
    ("words", "flags", "expected"),
    [
        (("https://e.org/x", None), SourceFlags(), (None, "https://e.org/x")),
        (("x", "https://e.org/x"), SourceFlags(), ("x", "https://e.org/x")),
        (("x", None), SourceFlags(file="/etc/hosts"), ("x", None)),
        (("x", None), SourceFlags(command="df"), ("x", None)),
        (("x", None), SourceFlags(source="http"), ("x", None)),
        (("https://e.org/x", None), SourceFlags(source="http"), (None, "https://e.org/x")),
        ((None, None), SourceFlags(), (None, None)),
    ],
)
def test_name_and_address_are_told_apart(
    words: tuple[str | None, str | None], flags: SourceFlags, expected: tuple[str | None, str | None]
) -> None:
    """A single word is the address, unless a flag says already what is read."""
    assert split_words(*words, flags) == expected


def test_toml_of_nothing_is_empty() -> None:
    """`poll export` without polls prints nothing that a file could not hold."""
    assert as_toml([]) == ""
    assert as_toml([{"name": "x", "source": {"type": "http", "headers": {"A": "b"}, "left": None}}]) == (
        '[[poll]]\nname = "x"\nsource = {type = "http", headers = {A = "b"}}\n'
    )


def test_what_has_ended_has_no_deadline_ahead_and_what_is_held_says_until_when(capsys: pytest.CaptureFixture[str]) -> None:
    """The distance to the deadline is for open waits; a lease says who may take over, and when."""
    ended = make_operation(state=OperationState.FAILED)
    show_operation(Output(as_json=False), OperationRecord(ended, None, NOON), ((), ()), NOON)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("deadline"))
    assert "(" not in line
    held = OperationRecord(make_operation(), None, NOON, leased_until=NOON + timedelta(seconds=30))
    show_operation(Output(as_json=False), held, ((), ()), NOON)
    assert "; then taken over if its process is gone" in capsys.readouterr().out
    list_operations(Output(as_json=False), [held], NOON)
    assert "held until " in capsys.readouterr().out
    assert stands_line(ended, NOON).count("failed") == 1
