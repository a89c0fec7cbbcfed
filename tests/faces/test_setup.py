"""`init`, `apply`, `doctor`, `backup`, `restore`, `config`."""

import re
import sqlite3
from pathlib import Path

import pytest

from sereno.faces.cli import pulse
from sereno.faces.cli.template import TEMPLATE
from sereno.settings import parse_settings
from tests.faces.conftest import SETTINGS, Cli, FeedServer


def test_init_writes_a_file_and_never_overwrites_one(cli: Cli, folder: Path) -> None:
    """The next command is named; what is there stays."""
    (folder / "sereno.toml").unlink()
    made = cli("init")
    assert made.code == 0 and "Next: sereno poll add URL" in made.out
    assert (folder / "sereno.toml").read_text() == TEMPLATE
    (folder / "sereno.toml").write_text("slots = 3\n")
    refused = cli("init")
    assert refused.code == 6 and "nothing was written" in refused.err
    assert (folder / "sereno.toml").read_text() == "slots = 3\n"
    assert cli("init", "--config", "else.toml", "--json").json["path"] == str(folder / "else.toml")
    assert cli("init", "--config", "no/such/folder/x.toml").code == 2


def test_the_examples_in_the_file_are_right(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As written it has no fault; with every example uncommented it has none either, and its polls can be applied."""
    parse_settings(TEMPLATE, folder / "sereno.toml")
    examples = re.sub(r"^# (?=[a-z_]+ = |\[)", "", TEMPLATE, flags=re.MULTILINE)
    settings = parse_settings(examples, folder / "sereno.toml").settings
    assert [poll.name for poll in settings.poll] == ["peps", "kettle"]
    assert (
        set(settings.actions) == {"mail"}
        and set(settings.credentials) == {"mail", "tracker"}
        and settings.zone == "Europe/Madrid"
    )
    monkeypatch.setenv("SMTP_PASSWORD", "correct horse battery")
    (folder / "sereno.toml").write_text(examples.replace("/run/secrets/tracker", str(folder / "tracker")))
    (folder / "tracker").write_text("a token for the test\n")
    applied = cli("apply", "--json")
    assert applied.code == 0, applied.out
    assert [one["action"] for one in applied.json["polls"]] == ["created", "created"]


def test_apply_brings_the_polls_of_the_file(cli: Cli, folder: Path, feed: FeedServer) -> None:
    """Created, unchanged, changed; gone ones are paused and reported, removed by --prune; a dry run changes nothing."""

    def write(*polls: str) -> None:
        (folder / "sereno.toml").write_text(SETTINGS + "".join(polls))

    def poll(name: str, every: str) -> str:
        return f'[[poll]]\nname = "{name}"\nevery = "{every}"\nsource = {{ type = "feed", url = "{feed.url}" }}\n'

    def applied(*flags: str) -> dict[str, str]:
        return {one["name"]: one["action"] for one in cli("apply", *flags, "--json").json["polls"]}

    write(poll("one", "1h"), poll("two", "1h"))
    assert applied("--dry-run") == {"one": "created", "two": "created"}
    assert cli("poll", "list", "--json").json["polls"] == []
    assert applied() == {"one": "created", "two": "created"}
    write(poll("one", "2h"))
    assert applied() == {"one": "changed", "two": "paused"}
    assert cli("poll", "show", "two", "--json").json["status"] == "paused"
    assert applied("--prune") == {"one": "unchanged", "two": "pruned"}
    assert cli("poll", "show", "two").code == 6
    refused = cli("poll", "edit", "one", "--every", "5m")
    place = f"{folder / 'sereno.toml'}:5"
    assert refused.code == 6 and f"change it in {place} and run: sereno apply" in refused.err
    assert f"write paused = true at {place} to keep it so" in cli("poll", "pause", "one").err
    assert applied() == {"one": "changed"}
    assert cli("poll", "show", "one", "--json").json["status"] == "active"
    (folder / "sereno.toml").write_text("# A new first line.\n" + (folder / "sereno.toml").read_text())
    assert applied() == {"one": "unchanged"}
    assert cli("poll", "show", "one", "--json").json["managed_by"] == f"file:{folder / 'sereno.toml'}:6"
    cli("poll", "add", "mine", feed.url)
    write(poll("one", "2h"), poll("mine", "1h"))
    double = cli("apply")
    assert double.code == 2 and f"{folder / 'sereno.toml'}:" in double.err and "managed by user" in double.err


def test_once_applies_first_and_says_what_changed(cli: Cli, folder: Path, feed: FeedServer) -> None:
    """On standard error, and only where something changed."""
    (folder / "sereno.toml").write_text(
        SETTINGS + f'[[poll]]\nname = "one"\nevery = "1h"\nsource = {{ type = "feed", url = "{feed.url}" }}\n'
    )
    first, second = cli("once"), cli("once")
    assert (first.code, first.out) == (0, "Done: 1 piece of work (1 run, 0 told, 0 failed).\n")
    assert first.err == "polls of the settings file: 1 created\n"
    assert (second.out, second.err) == ("Done: 0 pieces of work.\n", "")


def test_doctor_is_for_cron(cli: Cli, folder: Path, feed: FeedServer) -> None:
    """0 when all is well; 7 when something is overdue, with what to do; JSON with the counts."""
    well = cli("doctor", "--json")
    assert (well.code, well.json["ok"]) == (0, True)
    cli("poll", "add", "notes", feed.url)
    with sqlite3.connect(folder / ".sereno" / "sereno.db") as database:
        database.execute("UPDATE poll SET due = due - 3600000000")
    database.close()
    late = cli("doctor")
    assert late.code == 7
    assert re.search(r"^bad   driver: 1 pieces? of work .*overdue.* — start `sereno up`", late.out, re.MULTILINE)
    assert cli("doctor", "--json").json["ok"] is False
    assert cli("once").code == 0
    assert cli("doctor").code == 0
    assert feed.asked == 3, "the doctor sends nothing"


def test_doctor_knows_whether_up_is_running(cli: Cli, folder: Path) -> None:
    """By a lock that ends with the process, never by a stale mark."""
    database = folder / ".sereno" / "sereno.db"
    assert cli("doctor", "--json").json["up_running"] is False
    with pulse.running(database), pulse.running(database):
        assert cli("doctor", "--json").json["up_running"] is True
    assert cli("doctor", "--json").json["up_running"] is False


def test_a_backup_brings_everything_back(cli: Cli, folder: Path, feed: FeedServer) -> None:
    """What was there at the copy is there again; the replaced database is kept; an existing copy is not overwritten."""
    cli("poll", "add", "kept", feed.url)
    made = cli("backup", "copy.db")
    assert made.code == 0 and "checked the copy" in made.out
    assert cli("backup", "copy.db").code == 6
    assert cli("backup", "copy.db", "--overwrite", "--json").json["size_bytes"] > 0
    cli("poll", "add", "later", feed.url)
    restored = cli("restore", "copy.db", "--json")
    assert restored.code == 0, restored.out
    assert Path(restored.json["kept"]).exists()
    assert [poll["name"] for poll in cli("poll", "list", "--json").json["polls"]] == ["kept"]
    (folder / "junk.db").write_text("no database")
    assert cli("restore", "junk.db").code == 2
    assert cli("restore", "missing.db").code == 6


def test_config_show_and_schema(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that hold, defaults filled in; the names of secrets, never their values; the schema for editors."""
    monkeypatch.setenv("TRACKER_TOKEN", "the-value-of-the-secret")
    (folder / "sereno.toml").write_text(
        '[credentials.tracker]\norigin = "https://t.example.org"\nvalue = { env = "TRACKER_TOKEN" }\n'
    )
    shown = cli("config", "show")
    assert shown.code == 0 and str(folder / "sereno.toml") in shown.out and "TRACKER_TOKEN" in shown.out
    assert "the-value-of-the-secret" not in shown.out
    assert cli("config", "show", "--json").json["settings"]["lease"]["lease"] == "1m"
    assert cli("config", "schema", "--json").json["json_schema"]["title"]
    assert not (folder / ".sereno").exists(), "looking at the settings makes no database"


def test_contracts_are_listed_shown_and_checked(cli: Cli, folder: Path) -> None:
    """Every fault of a contract of one's own is listed at once."""
    names = {row["name"] for row in cli("contract", "list", "--json").json["contracts"]}
    assert {"generic-202", "generic-status", "google-lro", "openai-responses", "replicate", "github-actions-run"} <= names
    shown = cli("contract", "show", "replicate")
    assert "status call" in shown.out and "success" in shown.out
    assert cli("contract", "show", "replicate", "--json").json["document"]["contract"] == "replicate"
    assert cli("contract", "show", "replicat").code == 6
    assert "sereno contract list" in cli("contract", "show", "qqqqqq").err
    (folder / "mine.toml").write_text('format = 0\ncontract = "mine"\nversion = 0\nsurprise = 1\n')
    faulty = cli("contract", "check", "mine.toml")
    assert faulty.code == 2 and "surprise" in faulty.err and "version" in faulty.err
    assert cli("contract", "check", "missing.toml").code == 2
