"""Content from outside in the assembled app: it reaches a person only escaped and cut, a program only labelled (P13, G30)."""

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import sereno.app
from sereno.app import open_app
from sereno.core.errors import SetupError
from sereno.faces.cli.commands import run_command
from sereno.faces.cli.verbs import wait as verbs_wait
from sereno.service.polls import read_model
from sereno.settings import parse_settings
from tests.faces.conftest import QuickClock
from tests.security.hostile import EVIL, MARK, Hostile

DANGEROUS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What steers a terminal, turns text round or hides it. Line ends are judged apart: each line of a person's view is short."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hostile]:
    """A server whose every text is hostile, and settings that watch it in each way."""
    monkeypatch.chdir(tmp_path)
    for name in ("SERENO_CONFIG", "XDG_CONFIG_HOME", "SERENO_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    clock, real = QuickClock(speed=8), sereno.app.open_app
    monkeypatch.setattr(sereno.app, "open_app", lambda *a, **named: real(*a, **named, seams=sereno.app.Seams(clock=clock)))
    monkeypatch.setattr(verbs_wait, "LOOK_EVERY", 0.01)
    hostile = Hostile()
    place = f"127.0.0.1:{hostile.port}"
    text = f'[egress]\nallow = ["{place}"]\n[lease]\ntick = "50ms"\n'
    text += "".join(f'[pools."{kind}:{place}"]\nrate = "unlimited"\nburst = 1000\n' for kind in ("host", "provider"))
    text += f'[actions.hook]\ntype = "webhook"\nurl = "{hostile.url}/hook"\nunsigned = true\n'
    for name, source in {
        "feed": f'type = "feed", url = "{hostile.url}/feed"',
        "items": f'type = "http", url = "{hostile.url}/items", items = "items", id = "id", title = "title", link = "link"',
        "page": f'type = "http", url = "{hostile.url}/page", format = "html"',
        "error": f'type = "http", url = "{hostile.url}/error"',
    }.items():
        text += (
            f'[[poll]]\nname = "{name}"\nsource = {{{source}}}\nevery = "1h"\nbaseline = false\nactions = ["console", "hook"]\n'
        )
    (tmp_path / "sereno.toml").write_text(text)
    yield hostile
    hostile.close()
    structlog.reset_defaults()


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    capsys.readouterr()
    run_command(words)
    said = capsys.readouterr()
    return said.out, said.err


def test_P13_hostile_text_reaches_a_terminal_escaped_and_cut(server: Hostile, capsys: pytest.CaptureFixture[str]) -> None:
    """Escapes, bidi, zero-width, tags and 1 MB titles in feed, JSON, page, state words and errors: no view shows one, no line is long."""
    limits = ("--deadline", "5m", "--max-requests", "3", "--max-failures", "2", "--max-throttles", "2")
    views = {
        "once": _run(capsys, "once", "--log-level", "debug"),
        "once json": _run(capsys, "once", "--log-level", "debug", "--log-format", "json"),
    }
    states = ("--success", "done", "--failure", "failed", "--state-path", "status")
    views["wait"] = _run(
        capsys, "wait", "generic-status", f"{server.url}/jobs/1", *states, *limits, "--action", "console", "--action", "hook"
    )
    views["wait done"] = _run(capsys, "wait", "generic-status", f"{server.url}/done/1", *states, *limits)
    for words in _looks(capsys):
        views[" ".join(words)] = _run(capsys, *words)
        views[" ".join(words) + " --json"] = _run(capsys, *words, "--json")
    assert len(views) > 60
    for name, said in views.items():
        for text in said:
            found = DANGEROUS.search(text)
            assert found is None, (name, repr(text[max(0, found.start() - 80) : found.end() + 20]))
            if "json" not in name:
                longest = max(map(len, text.splitlines()), default=0)
                assert longest <= 2000, (name, longest)
    shown = "".join(out + err for out, err in views.values())
    assert MARK in shown and "\\x1b" in shown and "\\u001b" in shown


def _looks(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, ...]]:
    def ids(noun: str, rows: str, key: str) -> list[str]:
        return [row[key] for row in json.loads(_run(capsys, noun, "list", "--json")[0])[rows]]

    polls, operations = ids("poll", "polls", "name"), ids("operation", "operations", "operation_id")
    looks: list[tuple[str, ...]] = [("doctor",), ("poll", "list"), ("run", "list"), ("delivery", "list"), ("operation", "list")]
    looks += [("escalation", "list"), *(("escalation", "show", found) for found in ids("escalation", "escalations", "id"))]
    looks += [("poll", verb, name) for name in polls for verb in ("show", "preview", "diff", "export")]
    looks += [("operation", verb, found) for found in operations for verb in ("show", "explain")]
    looks += [("run", "show", found) for found in ids("run", "runs", "id")[:12]]
    assert len(polls) == 4 and len(operations) == 2
    return looks


def test_P13_a_program_gets_watched_content_under_the_label_untrusted(
    server: Hostile, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each webhook body of a match everything that was read stands under `untrusted`; the address, type and key never come from it."""
    _run(capsys, "once")
    bodies = [json.loads(body) for body in server.bodies]
    assert len(bodies) >= 5
    labelled = [body for body in bodies if "untrusted" in json.dumps(body)]
    for body in bodies:
        assert body["type"] == "sereno.poll.matched"
        payload = body["data"]["payload"]
        outside_label = json.dumps(_without(payload, "untrusted"))
        assert MARK not in outside_label, outside_label[:400]
    assert len(labelled) == len(bodies) and len({body["data"]["subject"] for body in bodies}) == 3
    assert {path for path in server.paths} <= {"/feed", "/items", "/page", "/error", "/hook"}, server.paths


def _without(value: object, key: str) -> object:
    if isinstance(value, dict):
        return {name: _without(inner, key) for name, inner in value.items() if name != key}
    return [_without(inner, key) for inner in value] if isinstance(value, list) else value


def test_P13_what_is_kept_is_bounded(server: Hostile, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Titles and bodies of deliveries are cut in the row itself, not only where they are shown."""
    _run(capsys, "once")
    rows = (
        sqlite3.connect(tmp_path / ".sereno" / "sereno.db")
        .execute("SELECT max(length(title)), max(length(body)) FROM delivery")
        .fetchone()
    )
    assert rows[0] and rows[0] <= 500 and rows[1] <= 20_000, rows


def test_the_settings_cap_what_is_taken_in(server: Hostile, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`[egress] max_bytes` holds for every source, whatever its own limit; nothing of the larger answer is kept."""
    settings = tmp_path / "sereno.toml"
    settings.write_text(settings.read_text().replace("[egress]\n", "[egress]\nmax_bytes = 5000\n"))
    _run(capsys, "once")
    polls = json.loads(_run(capsys, "poll", "list", "--json")[0])["polls"]
    assert len(polls) == 4 and all("over the size cap" in poll["last_error"] for poll in polls), [
        poll["last_error"] for poll in polls
    ]
    assert server.bodies == []


@pytest.mark.parametrize("kind", ["source", "action"])
async def test_commands_come_from_settings_and_command_line_alone(kind: str, tmp_path: Path) -> None:
    """The same definition is refused from a program, and taken from the command line; files, too."""
    command = {"type": "command", "argv": ["/bin/true"]}
    body = {"name": "p", "every": "1h", "source": command if kind == "source" else {"type": "http", "url": "https://x.example"}}
    if kind == "action":
        body["actions"] = [command]
    loaded = parse_settings("", tmp_path / "sereno.toml")
    async with open_app(loaded, origin="api") as app:
        with pytest.raises(SetupError, match="may not be set from api"):
            await app.polls.add(read_model(body), look=False)
        with pytest.raises(SetupError, match="may not be set from api"):
            await app.polls.preview(read_model({**body, "source": {"type": "file", "path": "/etc/passwd"}}))
        assert await app.polls.list() == []
    async with open_app(loaded, origin="cli") as app:
        await app.polls.add(read_model(body), look=False)
    async with open_app(loaded, origin="api") as app:
        with pytest.raises(SetupError, match="may not be set from api"):
            await app.polls.edit("p", {"every": "2h"})


def test_the_hostile_text_holds_what_it_claims() -> None:
    """Control: the search finds each kind of it."""
    assert all(
        DANGEROUS.search(character) for character in "\x1b\x9b\x07\u202e\u2066\u200b\ufeff\u061c\U000e0041"
    ) and DANGEROUS.search(EVIL)
