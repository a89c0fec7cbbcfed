"""`sereno poll`: adding with a guess, looking, changing, exporting."""

import json
import re
import sqlite3
import tomllib
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from sereno.core.poll import PollSpec
from sereno.store.reads import pages
from tests.faces.conftest import SETTINGS, Cli, FeedServer


def test_an_address_alone_is_enough(cli: Cli, feed: FeedServer) -> None:
    """It is looked at, named, restated with the next five instants, and the next command is named."""
    added = cli("poll", "add", feed.url)
    assert added.code == 0, added.err
    name = cli("poll", "list", "--json").json["polls"][0]["name"]
    assert re.fullmatch(r"127-0-0-1-\d+-notes", name)
    assert f"Added {name}." in added.out
    assert f"Reads feed {feed.url}" in added.out
    assert "- entry-299  [would match when new or updated]" in added.out
    assert "Runs every 1h" in added.out
    assert "Next: `sereno up` keeps watch; or `sereno once`" in added.out
    shown = re.findall(r"^  (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)$", added.out, re.MULTILINE)
    instants = [datetime.strptime(text, "%Y-%m-%d %H:%M:%S %Z") for text in shown]
    assert len(instants) == 5
    assert {later - earlier for earlier, later in zip(instants, instants[1:], strict=False)} == {timedelta(hours=1)}
    cli("once")
    assert cli("poll", "list", "--json").json["polls"][0]["next_run_at"][:19] == instants[0].isoformat()


def test_instants_are_in_the_zone_of_the_user(cli: Cli, feed: FeedServer, folder: Path) -> None:
    """`zone` of the settings holds for every time shown."""
    (folder / "sereno.toml").write_text('zone = "Asia/Kathmandu"\n' + SETTINGS)
    assert " +0545" in cli("poll", "add", feed.url).out


@pytest.mark.parametrize(
    ("path", "kind", "shape"), [("/feed.xml", "feed", None), ("/api/status", "http", "json"), ("/shop/kettle", "http", "html")]
)
def test_feed_json_and_page_are_told_apart(cli: Cli, playground: str, path: str, kind: str, shape: str | None) -> None:
    """The guess is by what the address answers."""
    added = cli("poll", "add", playground + path, "--json")
    assert added.json["schema"] == "sereno.poll_added/1"
    source = added.json["poll"]["definition"]["source"]
    assert (source["type"], source.get("format")) == (kind, shape)


def test_the_same_address_twice_gets_another_name(cli: Cli, feed: FeedServer) -> None:
    """Names are unique; a name that was chosen is refused instead."""
    first, second = (cli("poll", "add", feed.url, "--json").json["poll"]["name"] for _ in range(2))
    assert second == f"{first}-2"
    taken = cli("poll", "add", first, feed.url)
    assert taken.code == 6 and first in taken.err


def test_flags_become_the_definition(cli: Cli, feed: FeedServer) -> None:
    """Each flag of `poll add` stands in the definition under its own name."""
    added = cli(
        "poll", "add", "notes", feed.url, "--every", "1h30m", "--when", "change == 'new'", "--on", "change", "--action", "console",
        "--action", "console", "--keep", "fields", "--fields", "title,link", "--no-baseline", "--stop-after-matches", "3",
        "--priority", "high", "--source-option", "redirects=true", "--paused", "--json",
    )  # fmt: skip
    assert added.code == 0, added.out
    definition = added.json["poll"]["definition"]
    assert definition["every"] == "1h30m"
    assert definition["when"] == "change == 'new'"
    assert [action["name"] for action in definition["actions"]] == ["console", "console-2"]
    assert (definition["keep"], definition["fields"]) == ("fields", ["title", "link"])
    assert definition["baseline"] is False
    assert definition["stop"]["after_matches"] == 3
    assert definition["priority"] == "high"
    assert definition["source"] == {"type": "feed", "url": feed.url, "redirects": True}
    assert added.json["poll"]["status"] == "paused"


def test_a_dry_run_and_a_preview_store_nothing(cli: Cli, feed: FeedServer) -> None:
    """Both show the sample; there is no poll afterwards."""
    for words in (("add", feed.url, "--dry-run"), ("preview", feed.url)):
        shown = cli("poll", *words)
        assert shown.code == 0 and "It shows 300 objects" in shown.out and "Nothing was stored and nothing fired." in shown.out
    assert cli("poll", "list", "--json").json["polls"] == []


def test_a_stored_poll_is_previewed_with_another_condition(cli: Cli, feed: FeedServer) -> None:
    """Flags are laid over what is stored; the stored one stays."""
    cli("poll", "add", "notes", feed.url)
    shown = cli("poll", "preview", "notes", "--when", "object.title == 'entry-298'")
    assert "entry-299  [would not match]" in shown.out and "entry-298  [would match when new or updated]" in shown.out
    assert "change in" in cli("poll", "show", "notes").out


def test_a_condition_that_is_an_error_everywhere_is_refused(cli: Cli, feed: FeedServer) -> None:
    """`poll add` evaluates on the live sample; --force stores it all the same."""
    words = ("poll", "add", "notes", feed.url, "--when", "object.prize < 40.0")
    refused = cli(*words)
    assert refused.code == 2 and "error on every sampled object" in refused.err and "--force" in refused.err
    forced = cli(*words, "--force")
    assert forced.code == 0 and "Attention: the condition is an error on 5 of 5" in forced.out


def test_a_private_address_is_refused_with_the_setting_that_opens_it(cli: Cli, feed: FeedServer, folder: Path) -> None:
    """Nothing reaches the server."""
    (folder / "sereno.toml").write_text("")
    refused = cli("poll", "add", feed.url)
    place = feed.url.split("/")[2]
    assert refused.code == 6 and f'[egress] allow = ["{place}"]' in refused.err
    named = cli("poll", "add", "notes", feed.url, "--source", "feed")
    assert named.code == 6 and f'[egress] allow = ["{place}"]' in named.err
    assert feed.asked == 0 and cli("poll", "list", "--json").json["polls"] == []


def test_an_address_without_an_answer_is_told_so(cli: Cli, feed: FeedServer) -> None:
    """There is nothing to guess from; with --source it is stored and its failure shown."""
    feed.status = 404
    nothing = cli("poll", "add", feed.url)
    assert nothing.code == 2 and "answers 404" in nothing.err and "--source" in nothing.err
    told = cli("poll", "add", "later", feed.url, "--source", "feed")
    assert told.code == 0 and "It cannot be read now (missing)" in told.out
    assert "The first run that can read it takes a baseline" in told.out


def test_files_and_commands_are_watched(cli: Cli, folder: Path) -> None:
    """`--file` and `--command` need no address; a command runs without a shell."""
    (folder / "list.txt").write_text("one\n")
    assert cli("poll", "add", "list", "--file", "list.txt").code == 0
    added = cli("poll", "add", "words", "--command", "printf '%s;' 'a b' '$HOME'", "--json")
    assert added.code == 0, added.err
    assert added.json["poll"]["definition"]["source"]["argv"] == ["printf", "%s;", "a b", "$HOME"]
    assert "a b;$HOME;" in json.dumps(added.json["preview"]["sample"])
    stored = cli("poll", "show", "list", "--json").json["definition"]["source"]
    assert stored["path"] == str(folder / "list.txt")


def test_a_poll_without_anything_to_watch_is_refused(cli: Cli) -> None:
    """The hint names what may be given."""
    refused = cli("poll", "add")
    assert refused.code == 2 and "give an address, --file, --command or --source" in refused.err


def test_P02_a_poll_is_shown_under_the_names_of_the_schema(cli: Cli, feed: FeedServer) -> None:
    """The minimal fields, for programs."""
    cli("poll", "add", "notes", feed.url)
    row = cli("poll", "show", "notes", "--json").json
    for name in (
        "id", "user_id", "workspace", "source_type", "source_ref", "condition_text", "condition_version", "priority", "status",
        "schedule_type", "interval_seconds", "timezone", "next_run_at", "last_run_at", "cursor_value", "failure_count", "last_error",
        "created_at", "updated_at",
    ):  # fmt: skip
        assert name in row
    assert (row["user_id"], row["source_ref"], row["interval_seconds"]) == ("ada", feed.url, 3600.0)


def test_editing_keeps_what_was_seen(cli: Cli, feed: FeedServer) -> None:
    """Only what is given changes; nothing fires for objects already seen."""
    cli("poll", "add", "notes", feed.url)
    cli("once")
    edited = cli("poll", "edit", "notes", "--every", "5m", "--when", "change == 'updated'")
    assert edited.code == 0 and "Changed notes: every, when." in edited.out
    row = cli("poll", "show", "notes", "--json").json
    assert (row["interval_seconds"], row["condition_version"], row["known_objects"]) == (300.0, 2, 300)
    assert row["definition"]["source"] == {"type": "feed", "url": feed.url}
    assert cli("poll", "edit", "notes").code == 2
    cli("poll", "run", "notes")
    cli("once")
    assert cli("delivery", "list", "--json").json["deliveries"] == []


def test_pause_resume_remove(cli: Cli, feed: FeedServer) -> None:
    """States change by command; a removed name is free again."""
    cli("poll", "add", "notes", feed.url)
    assert cli("poll", "pause", "notes").out == "notes is paused.\n"
    assert cli("poll", "run", "notes").code == 6
    assert cli("poll", "resume", "notes").out.startswith("notes is active; next run ")
    assert cli("poll", "resume", "notes").code == 6
    assert cli("poll", "remove", "notes", "--json").json["status"] == "removed"
    assert cli("poll", "show", "notes").code == 6
    assert cli("poll", "add", "notes", feed.url).code == 0


def test_a_mistyped_name_is_put_right(cli: Cli, feed: FeedServer) -> None:
    """The nearest poll is named."""
    cli("poll", "add", "notes", feed.url)
    wrong = cli("poll", "show", "nots")
    assert wrong.code == 6 and "notes" in wrong.err


def test_diff_shows_and_stores_nothing(cli: Cli, feed: FeedServer) -> None:
    """What the source shows now, against what is remembered."""
    cli("poll", "add", "notes", feed.url)
    cli("once")
    assert "Nothing differs" in cli("poll", "diff", "notes").out
    feed.entries["entry-300"] = "A new one."
    feed.entries["entry-001"] = "Edited."
    shown = cli("poll", "diff", "notes").out
    assert "+ entry-300" in shown and "~ entry-001" in shown and "Nothing was stored and nothing fired." in shown
    assert cli("poll", "diff", "notes", "--json").json["changes"][0]["kind"] == "new"
    feed.status = 503
    assert cli("poll", "diff", "notes").code == 7


def test_export_is_what_apply_takes(cli: Cli, feed: FeedServer, folder: Path) -> None:
    """The exported tables make the same polls in another folder."""
    cli(
        "poll", "add", "notes", feed.url, "--when", "object.title.contains(\"x\") || change == 'new'", "--stop-after-matches", "3"
    )
    cli("poll", "add", "words", "--command", "printf hello", "--source-option", 'env=["LANG"]')
    exported = cli("poll", "export")
    assert exported.code == 0
    tables = tomllib.loads(exported.out)["poll"]
    assert {table["name"] for table in tables} == {"notes", "words"}
    assert cli("poll", "export", "notes", "--json").json["poll"][0]["name"] == "notes"
    before = {poll["name"]: poll["definition"] for poll in cli("poll", "list", "--json").json["polls"]}
    (folder / "other.toml").write_text(SETTINGS + '[database]\npath = "other.db"\n' + exported.out)
    applied = cli("apply", "--config", "other.toml", "--json")
    assert [one["action"] for one in applied.json["polls"]] == ["created", "created"]
    after = {poll["name"]: poll["definition"] for poll in cli("poll", "list", "--config", "other.toml", "--json").json["polls"]}
    assert after == before
    assert [one["action"] for one in cli("apply", "--config", "other.toml", "--json").json["polls"]] == ["unchanged", "unchanged"]


def test_every_part_of_a_definition_has_a_flag_or_a_reason() -> None:
    """What `poll add` cannot say is said in the file."""
    flags = {
        "name",
        "source_type",
        "source",
        "schedule",
        "condition",
        "fire_on",
        "actions",
        "keep",
        "fields",
        "baseline",
        "stop",
        "priority",
    }
    assert set(PollSpec.__dataclass_fields__) - flags == {"user", "origin"}, "these two come from the shell"


def test_long_lists_and_stories_are_read_to_their_end(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one page of the store: every poll is listed and applied once, and a story has every entry."""
    monkeypatch.setattr(pages, "LONGEST_PAGE", 3)
    (folder / "list.txt").write_text("one\n")
    polls = "".join(
        f'[[poll]]\nname = "p{number}"\nevery = "1h"\nsource = {{ type = "file", path = "{folder}/list.txt" }}\n'
        for number in range(8)
    )
    (folder / "sereno.toml").write_text(polls)
    assert len(cli("apply", "--json").json["polls"]) == 8
    assert {one["action"] for one in cli("apply", "--json").json["polls"]} == {"unchanged"}
    assert len(cli("poll", "list", "--json").json["polls"]) == 8
    words = ("--deadline", "30m", "--max-requests", "9", "--max-failures", "3", "--max-throttles", "3", "--success", "done")
    url = "https://jobs.example/1"
    waiting = cli("wait", "generic-status", url, "--state-path", "state", *words, "--detach", "--json").json["operation"][
        "operation_id"
    ]
    with sqlite3.connect(folder / ".sereno" / "sereno.db") as database:
        database.executemany(
            "INSERT INTO journal (workspace, subject, run, kind, at, facts) VALUES ('main', ?, ?, 'intent', 0, '{}')",
            [(waiting, number) for number in range(7)],
        )
    database.close()
    assert len(cli("operation", "explain", waiting, "--json").json["entries"]) == 8
