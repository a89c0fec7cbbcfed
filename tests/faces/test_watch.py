"""The first main job on a real feed: added, baselined, told once."""

from pathlib import Path

from tests.faces.conftest import Cli, FeedServer


def notices(text: str) -> list[str]:
    """The lines that the console action wrote, less their instants."""
    return [line.split("Z  ", 1)[1] for line in text.splitlines() if "Z  " in line and line[:2] == "20"]


def test_P05_a_feed_of_300_entries_is_watched(cli: Cli, feed: FeedServer, folder: Path) -> None:
    """Baseline tells nothing; one new entry tells once; nothing else tells; an edit in place is one change each time."""
    added = cli("poll", "add", "notes", feed.url)
    assert added.code == 0, added.err
    assert "It shows 300 objects; the first 5:" in added.out
    assert "The first run takes a baseline: it remembers 300 objects and tells nothing" in added.out

    assert notices(cli("once").out) == []
    assert "baseline of 300 entries, nothing fired" in cli("run", "list", "notes").out

    def again() -> list[str]:
        assert cli("poll", "run", "notes").code == 0
        ran = cli("once")
        assert ran.code == 0, ran.err
        return notices(ran.out)

    feed.entries["entry-300"] = "A new one."
    (told,) = again()
    assert "entry-300" in told and "New" in told
    assert again() == []  # each command is a process's life of its own: nothing is told again after a restart
    del feed.entries["entry-007"]
    assert again() == []
    feed.entries["entry-150"] = "Edited in place."
    (told,) = again()
    assert "entry-150" in told and "Changed" in told
    assert again() == []
    feed.entries["entry-150"] = "Edited again."
    (told,) = again()
    assert "entry-150" in told
    assert again() == []
    delivered = cli("delivery", "list", "--json").json["deliveries"]
    assert [one["state"] for one in delivered] == ["delivered"] * 3
    assert len({one["dedupe_key"] for one in delivered}) == 3


def test_without_baseline_the_first_run_tells(cli: Cli, feed: FeedServer) -> None:
    """`--no-baseline` fires for what is there already, and `poll add` says so beforehand."""
    feed.entries = {"one": "1", "two": "2"}
    added = cli("poll", "add", "notes", feed.url, "--no-baseline")
    assert "The first run fires for what is there already (2 objects)" in added.out
    assert len(notices(cli("once").out)) == 2


def test_O04_the_seven_questions_are_answered_by_one_command(cli: Cli, feed: FeedServer) -> None:
    """`run show` says what ran, why, what it read, what changed, why it failed, whether it told, whether it ran twice."""
    cli("poll", "add", "notes", feed.url)
    cli("once")
    feed.entries["entry-300"] = "A new one."
    cli("poll", "run", "notes")
    cli("once")
    run = cli("run", "list", "notes", "--json").json["runs"][0]["id"]
    text = cli("run", "show", run).out
    for question in (
        "What ran?", "Why?", "What did it read?", "What changed?", "Why did it fail?", "Did it tell the user?", "Did it run twice?",
    ):  # fmt: skip
        assert question in text
    answers = cli("run", "show", run, "--json").json["answers"]
    assert "The poll notes" in answers["what_ran"]
    assert "It was due at" in answers["why"] and "try 1" in answers["why"]
    assert feed.url in answers["what_it_read"] and "301 objects" in answers["what_it_read"]
    assert "1 of 301 entries changed, 1 matched" in answers["what_changed"]
    assert answers["why_it_failed"] == "It did not fail."
    assert "console: delivered" in answers["told_the_user"]
    assert answers["ran_twice"].startswith("No: no other run served this instant.")


def test_O04_a_failed_run_says_why(cli: Cli, feed: FeedServer) -> None:
    """The error stands in the answer, and that nobody was told."""
    cli("poll", "add", "notes", feed.url)
    cli("once")
    feed.status = 500
    cli("poll", "run", "notes")
    assert cli("once").code == 0
    run = cli("run", "list", "notes", "--json").json["runs"][0]["id"]
    answers = cli("run", "show", run, "--json").json["answers"]
    assert "500" in answers["why_it_failed"]
    assert answers["told_the_user"] == "No: it made no delivery."
    assert "500" in cli("poll", "list").out


def test_foreign_text_cannot_move_the_terminal(cli: Cli, feed: FeedServer) -> None:
    """Escape sequences and direction marks of a feed do not reach the terminal."""
    feed.entries = {"evil": "x"}
    body = feed.body().replace(b"<title>evil", "<title>evil\u202e\u009b2J red".encode())
    feed.body = lambda: body  # type: ignore[method-assign]
    added = cli("poll", "add", "notes", feed.url, "--no-baseline")
    ran = cli("once")
    listed = cli("delivery", "list")
    for text in (added.out, ran.out, listed.out):
        assert "evil" in text
        assert "\u202e" not in text and "\u009b" not in text and "\x1b" not in text
