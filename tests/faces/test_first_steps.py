"""The first steps of a new user: what is mistyped is refused with what to write, and what is shown can be worked with."""

import json
from pathlib import Path

import pytest

from tests.faces.conftest import SETTINGS, Cli, Result
from tests.faces.test_wait import LIMITS, STATES, Job


@pytest.fixture
def tickets(folder: Path) -> Path:
    """A program that prints a list of tickets, as an API would."""
    path = folder / "tickets.json"
    path.write_text(json.dumps({"tickets": [{"number": 7, "title": "Leaking tap", "price": 39.5, "open": True}]}))
    return path


def watch(cli: Cli, path: Path, *more: str, items: str = "tickets", identity: str = "number") -> Result:
    """Adds the tickets as a poll."""
    options = ("--source-option", "format=json", "--items", items, "--id", identity)
    return cli("poll", "add", "tickets", "--command", f"cat {path}", *options, *more)


@pytest.mark.parametrize(
    "words",
    [
        ("--command", "cat tickets.json", "--source-option", "format=json", "--items", "tickts", "--id", "number"),
        ("--command", "cat tickets.json", "--source-option", "format=json", "--items", "tickets", "--id", "nmber"),
        ("--command", "sereno-nonesuch"),
        ("--file", "nonesuch.txt"),
    ],
)
def test_options_that_find_nothing_are_refused(cli: Cli, tickets: Path, words: tuple[str, ...]) -> None:
    """The source answered, so the options are wrong; --force stores it all the same."""
    words = tuple(word.replace("tickets.json", str(tickets)) for word in words)
    refused = cli("poll", "add", "x", *words)
    assert refused.code == 2 and "--force" in refused.err, refused.err
    assert cli("poll", "list", "--json").json["polls"] == []
    forced = cli("poll", "add", "x", *words, "--force")
    assert forced.code == 0 and "attention: x is stored, but it cannot be read now" in forced.err


def test_a_source_that_shows_nothing_is_said_loudly(cli: Cli, tickets: Path) -> None:
    """An empty list may be right, so it is stored."""
    tickets.write_text('{"tickets": []}')
    added = watch(cli, tickets)
    assert added.code == 0 and "attention: tickets is stored, but it shows nothing to watch now" in added.err


def test_a_preview_shows_fields_and_what_happens(cli: Cli, tickets: Path) -> None:
    """The names a condition uses, the condition and the actions, what the options make of the answer."""
    words = ("--command", f"cat {tickets}", "--source-option", "format=json", "--items", "tickets", "--id", "number")
    shown = cli("poll", "preview", *words)
    assert "object.price = 39.5" in shown.out
    assert "When change in ['new', 'updated'], it does: console." in shown.out
    assert "items = tickets, id = number" in shown.out
    watch(cli, tickets)
    assert "items = tickets, id = number, format = json" in cli("poll", "show", "tickets").out


def test_diff_names_the_fields_that_changed(cli: Cli, tickets: Path) -> None:
    """Old and new value, where the poll keeps them."""
    watch(cli, tickets)
    assert cli("once").code == 0
    tickets.write_text(tickets.read_text().replace("39.5", "35.0"))
    assert "price: 39.5 → 35.0" in cli("poll", "diff", "tickets").out


def test_the_same_place_twice_is_noted_and_a_second_pause_refused(cli: Cli, tickets: Path) -> None:
    """Both are most likely slips."""
    watch(cli, tickets)
    options = ("--source-option", "format=json", "--items", "tickets", "--id", "number")
    again = cli("poll", "add", "again", "--command", f"cat {tickets}", *options)
    assert again.code == 0 and "attention: tickets reads the same place already" in again.err
    assert cli("poll", "pause", "again").code == 0
    assert "paused already" in cli("poll", "pause", "again").err


@pytest.mark.parametrize("noun", ["poll", "operation", "delivery", "escalation"])
def test_an_unknown_state_is_refused_with_those_there_are(cli: Cli, noun: str) -> None:
    """An empty list would say that there is none."""
    told = cli(noun, "list", "--state", "foo")
    assert told.code == 2 and "there are: " in told.err


def test_run_list_names_the_poll(cli: Cli, tickets: Path) -> None:
    """Ids alone say nothing to a person."""
    watch(cli, tickets)
    cli("once")
    assert "tickets" in cli("run", "list").out
    assert cli("run", "list", "--json").json["runs"][0]["subject_name"] == "tickets"


def test_where_nothing_is_set_up_nothing_is_made(cli: Cli, folder: Path) -> None:
    """Looking makes no database; adding does, and says where."""
    (folder / "sereno.toml").unlink()
    for words in (("poll", "list"), ("doctor",), ("run", "list"), ("wait", "op_1")):
        told = cli(*words)
        assert told.code == 2 and "sereno init" in told.err
    assert cli("contract", "list").code == cli("contract", "show", "generic-status").code == 0
    assert not (folder / ".sereno").exists()
    added = cli("poll", "add", "hello", "--command", "printf hello")
    assert added.code == 0 and f"Database: {folder / '.sereno' / 'sereno.db'}" in added.err


def test_a_fault_of_a_named_action_is_told_once_where_it_is_written(cli: Cli, folder: Path) -> None:
    """Two polls name it; the line is that of its table."""
    poll = '[[poll]]\nname = "{0}"\nevery = "1h"\nsource = {{ type = "command", argv = ["true"] }}\nactions = ["mail"]\n'
    (folder / "sereno.toml").write_text(poll.format("a") + poll.format("b") + '[actions.mail]\ntype = "email"\nhots = "x"\n')
    told = cli("apply")
    line = f"{folder / 'sereno.toml'}:11: actions.mail"
    assert told.code == 2 and line in told.err
    assert told.err.count("hots") == 1


@pytest.mark.usefixtures("quick")
def test_a_failed_job_shows_the_providers_error(cli: Cli, job: Job) -> None:
    """`--error-path` says where it is."""
    failed = cli("wait", "generic-status", job("failing"), *STATES, *LIMITS, "--error-path", "status")
    assert failed.code == 3 and "error" in failed.out and "failed" in failed.out.split("error", 1)[1].splitlines()[0]


def test_a_wait_without_anything_lists_all_that_is_missing(cli: Cli) -> None:
    """States and limits together, by the names of the flags."""
    told = cli("wait", "generic-status", "https://jobs.example/1")
    assert told.code == 2
    for flag in ("--success", "--state-path", "--deadline", "--max-requests", "--max-failures", "--max-throttles"):
        assert flag in told.err
    assert "deadline_s" not in told.err


def test_settings_are_faulted_in_plain_words(cli: Cli, folder: Path) -> None:
    """No text of the model's library; the poll is named by its name."""
    (folder / "sereno.toml").write_text(
        SETTINGS + '[[poll]]\nname = "shop"\nevery = "1h"\nsource = { type = "file" }\npriority = "hgh"\nbaseline = 3\n'
    )
    told = cli("poll", "list")
    assert """`poll "shop".priority`: must be 'low', 'normal' or 'high'""" in told.err
    assert """`poll "shop".baseline`: must be true or false""" in told.err
