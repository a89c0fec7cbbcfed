"""Canaries: secrets of every kind in real runs against a server that echoes them; no sink holds one (I27, G23, W19, W25)."""

import base64
import json
import re
import sqlite3
import stat
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

import sereno.app
from sereno.app import open_app
from sereno.app.parts import Outside
from sereno.faces.cli.commands import run_command
from sereno.faces.cli.verbs import wait as verbs_wait
from sereno.outside.credentials import Unusable
from sereno.settings import load_settings
from tests.faces.conftest import QuickClock
from tests.outside.test_redaction import ENCODINGS, leaks, readings, words
from tests.security.echo import Echo

CANARIES = {
    "PLAIN": "cnry1-bearer/with+plus==",
    "QUOTED": 'cnry2"quote\\back',
    "BASIC": "ada:cnry3:pass word&<x>",
    "HEADER": "cnry4'apos&amp;%25",
    "TOKEN": "CNRY5UPPER0123456789",
    "ACCOUNT": "cnry6{json:[1,2]}~",
    "OWN": "cnry7?query=1&b=2#frag",
    "HOOK": "cnry8 with space % percent",
    "WHSEC": "whsec_" + base64.b64encode(b"cnry9-signing-key-of-32-bytes-ok").decode(),
    "SMTP": "cnry10-smtp-password",
    "FEED": "cnry11/feed/key",
    "PASSED": "cnry12-passed-to-a-command",
}
NOTIFY = "cnry13-notify-path-token"
PARTS = [*CANARIES.values(), "cnry3:pass word&<x>", NOTIFY]
"""What must not be found; of basic credentials the password alone, too."""

OWN = """
format = 0
contract = "own"
version = 1
title = "Own"
source = "a test"
verified = "verified"
[status]
method = "GET"
url = "{base}/jobs/{job_id}"
observational = "a test"
redirects = false
[state]
from = "path"
path = "status"
[states]
pending = ["running"]
success = ["done"]
failure = ["failed"]
[result]
allows = "read_result"
ref = "output.text"
[[result.fields]]
path = "output.text"
type = "string"
[error]
code = "error.code"
text = "error.message"
[limits]
deadline = "5m"
requests = 5
transport_failures = 3
throttles = 3
"""

CREDENTIALS = {
    "plain": ("PLAIN", "env", ""),
    "quoted": ("QUOTED", "file", ""),
    "basic": ("BASIC", "file", 'scheme = "Basic"'),
    "header": ("HEADER", "env", 'scheme = ""\nheader = "X-Api-Key"'),
    "token": ("TOKEN", "env", 'scheme = "Token"'),
    "account": ("ACCOUNT", "env", ""),
    "own": ("OWN", "file", 'scheme = ""\nheader = "X-Own-Key"'),
    "hook": ("HOOK", "env", ""),
    "feed": ("FEED", "file", ""),
}
POLLS = [
    ("items", "http", "/items", "plain", 'items = "items", id = "id", title = "title"'),
    ("quoted", "http", "/items/q", "quoted", 'items = "items", id = "id", title = "title"'),
    ("page", "http", "/page", "basic", 'format = "html"'),
    ("part", "http", "/page/part", "header", 'select = "p.price"'),
    ("wide", "http", "/wide", "token", 'format = "html"'),
    ("feed", "feed", "/feed", "feed", ""),
    ("feedq", "feed", "/feed/q", "quoted", ""),
    ("redirect", "http", "/redirect", "plain", "redirects = true"),
    ("error", "http", "/error", "basic", ""),
    ("denied", "http", "/denied", "header", ""),
    ("broken", "http", "/broken", "quoted", 'format = "json"'),
]


def settings(echo: Echo, folder: Path) -> str:
    """A deployment that uses every kind of secret; the settings hold names only."""
    lines = ['contracts = ["contracts"]', f'[egress]\nallow = ["127.0.0.1:{echo.port}", "127.0.0.1"]\n[lease]\ntick = "50ms"']
    for pool in (f"host:127.0.0.1:{echo.port}", f"provider:127.0.0.1:{echo.port}", "host:127.0.0.1:2525"):
        lines.append(f'[pools."{pool}"]\nrate = "unlimited"\nburst = 1000')
    for name, (canary, place, more) in CREDENTIALS.items():
        where = f'{{env = "C_{canary}"}}' if place == "env" else f'{{file = "{folder}/secret-{canary}"}}'
        lines.append(f'[credentials.{name}]\norigin = "{echo.url}"\n{more}\nvalue = {where}')
    lines.append(f'[credentials.key]\norigin = "{echo.url}"\nvalue = {{env = "C_WHSEC"}}')
    lines.append('[credentials.mail]\norigin = "smtp://127.0.0.1:2525"\nvalue = {env = "C_SMTP"}')
    lines.append(f'[notify.phone]\nurl = {{file = "{folder}/secret-NOTIFY"}}')
    lines.append(f'[actions.hook]\ntype = "webhook"\nurl = "{echo.url}/hook"\ncredential = "hook"\nsecret = "key"')
    lines.append('[actions.mail]\ntype = "email"\nhost = "127.0.0.1"\nport = 2525\nfrom = "a@s.example"\nto = "b@s.example"')
    lines[-1] += '\nusername = "ada"\npassword = "mail"'
    lines.append(f'[actions.keep]\ntype = "command"\nargv = ["/bin/sh", "-c", "cat >> {folder}/stdin; env >> {folder}/environ"]')
    lines.append('[actions.phone]\ntype = "notify"\ntarget = "phone"')
    for name, kind, path, credential, more in POLLS:
        source = f'{{type = "{kind}", url = "{echo.url}{path}", credential = "{credential}"{", " + more if more else ""}}}'
        actions = '["console", "hook", "keep"]' if name != "wide" else '["console", "mail", "phone"]'
        lines.append(f'[[poll]]\nname = "{name}"\nsource = {source}\nevery = "1h"\nbaseline = false\nactions = {actions}')
    echoing = '["/bin/sh", "-c", "echo $C_PASSED >&2; exit 3"]'
    lines.append(
        f'[[poll]]\nname = "child"\nsource = {{type = "command", argv = {echoing}, env = ["C_PASSED"]}}\nevery = "1h"\nbaseline = false'
    )
    return "\n".join(lines) + "\n"


class World:
    """The deployment, and everything that came out of it, by sink."""

    def __init__(self, folder: Path, echo: Echo, capsys: pytest.CaptureFixture[str]):
        self.folder, self.echo, self._capsys = folder, echo, capsys
        self.sinks: dict[str, str] = {}
        self.codes: dict[str, int] = {}

    def cli(self, *words: str) -> str:
        """Runs a command; what it says is a sink."""
        self._capsys.readouterr()
        self.codes[" ".join(words)[:120]] = run_command(words)
        said = self._capsys.readouterr()
        self.sinks[" ".join(words)[:120]] = said.out + said.err
        return said.out

    def bytes_of(self, name: str, content: bytes) -> None:
        """Adds a file as a sink: as it is, and as UTF-16 text would stand in it."""
        self.sinks[name] = content.decode("latin-1")
        self.sinks[name + " without NUL"] = content.replace(b"\0", b"").decode("latin-1")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[World]:
    """A folder with settings, secrets in environment and files, a contract, quick time."""
    monkeypatch.chdir(tmp_path)
    for name in ("SERENO_CONFIG", "XDG_CONFIG_HOME", "SERENO_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    clock, real = QuickClock(speed=8), sereno.app.open_app

    def quick(*arguments: Any, **named: Any) -> Any:
        return real(*arguments, **named, seams=sereno.app.Seams(clock=clock))

    monkeypatch.setattr(sereno.app, "open_app", quick)
    monkeypatch.setattr(verbs_wait, "LOOK_EVERY", 0.01)
    for name, value in CANARIES.items():
        monkeypatch.setenv(f"C_{name}", value)
        (tmp_path / f"secret-{name}").write_text(value + "\n")
    echo = Echo()
    (tmp_path / "secret-NOTIFY").write_text(f"json://127.0.0.1:{echo.port}/notify/{NOTIFY}\n")
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "own.toml").write_text(OWN)
    (tmp_path / "sereno.toml").write_text(settings(echo, tmp_path))
    yield World(tmp_path, echo, capsys)
    echo.close()
    structlog.reset_defaults()


def _run_everything(world: World) -> None:
    """Polls with all actions, waits that end in each way, under debug logs of both kinds; then looks at everything."""
    world.cli("once", "--log-level", "debug", "--log-format", "json")
    world.cli("once", "--log-level", "debug")
    base = world.echo.url
    limits = (
        "--deadline",
        "5m",
        "--max-requests",
        "3",
        "--max-failures",
        "2",
        "--max-throttles",
        "2",
        "--action",
        "console",
        "--action",
        "hook",
    )
    for word in ("unknown", "failed", "done"):
        states = ("--success", "done", "--failure", "failed", "--state-path", "status")
        world.cli("wait", "generic-status", f"{base}/jobs/{word}", "--credential", "account", *states, *limits)
        world.cli("wait", "own", word, "--base", base, "--credential", "own", *limits)
    world.cli("wait", "generic-202", f"{base}/denied/1", "--credential", "quoted", *limits)
    world.cli("once", "--log-level", "debug", "--log-format", "json", "--json")


def _look_at_everything(world: World) -> None:
    polls = [name for name, *_ in POLLS] + ["child"]
    ids = {noun: json.loads(world.cli(noun, "list", "--json")) for noun in ("operation", "run", "delivery", "poll")}
    questions = json.loads(world.cli("escalation", "list", "--json"))["escalations"]
    commands: list[tuple[str, ...]] = [
        ("doctor",),
        ("config", "show"),
        ("contract", "list"),
        ("contract", "show", "own"),
        ("poll", "export"),
    ]
    commands += [(noun, "list") for noun in ("operation", "run", "delivery", "poll", "escalation")]
    commands += [("poll", verb, name) for name in polls for verb in ("show", "preview", "diff")]
    commands += [
        ("operation", verb, row["operation_id"]) for row in ids["operation"]["operations"] for verb in ("show", "explain")
    ]
    commands += [("escalation", "show", row["id"]) for row in questions]
    commands += [("run", "show", row["id"]) for row in ids["run"]["runs"][:25]]
    commands += [("poll", "add", f"{world.echo.url}/items", "--credential", "plain", "--dry-run")]
    assert len(questions) >= 3 and len(ids["operation"]["operations"]) == 7
    for command in commands:
        world.cli(*command)
        world.cli(*command, "--json")


def hits(world: World, canaries: Sequence[str] = tuple(PARTS)) -> list[tuple[str, str]]:
    """Every sink out of which a canary can be read, with the text round the place where it stands as it is."""
    found = []
    for name, text in world.sinks.items():
        whole = "\n".join(readings(text)).encode("utf-8", "surrogatepass") + b"\n".join(words(text))
        for canary in canaries:
            if canary.encode() in whole:
                at = max(text.find(canary[:5]), 0)
                found.append((name, f"{canary}: …{text[max(0, at - 60) : at + 60]!r}"))
    return found


def test_I27_W19_W25_no_secret_reaches_any_sink(world: World) -> None:
    """13 secrets of every kind, echoed in 14 encodings and mixtures of them through all answers: 0 hits in every sink
    (incident 22)."""
    database = world.folder / ".sereno" / "sereno.db"
    world.cli("poll", "list")
    keeps_the_wal = sqlite3.connect(database)
    keeps_the_wal.execute("BEGIN")
    keeps_the_wal.execute("SELECT count(*) FROM journal").fetchone()
    _run_everything(world)
    world.bytes_of("write-ahead log", Path(f"{database}-wal").read_bytes())
    _look_at_everything(world)
    keeps_the_wal.close()
    world.cli("backup", "copy.db")
    world.bytes_of("backup", (world.folder / "copy.db").read_bytes())
    world.bytes_of("database", database.read_bytes())
    for number, body in enumerate(world.echo.bodies):
        world.bytes_of(f"body {number} of a webhook or notification", body)
    for name in ("stdin", "environ"):
        world.bytes_of(f"{name} of a command", (world.folder / name).read_bytes())
    found = hits(world)
    _assert_it_proves_something(world)
    assert found == [], f"{len(found)} hits, first: " + "\n".join(map(str, found[:12]))
    with world._capsys.disabled():
        print(f"\ncanaries: {len(PARTS)} secrets x {len(ENCODINGS) + 4} encodings x {len(world.sinks)} sinks, 0 hits")


def _assert_it_proves_something(world: World) -> None:
    """The server got each secret that travels, all its answers were read, and the mask stands where the secrets stood."""
    for name in ("PLAIN", "QUOTED", "BASIC", "HEADER", "TOKEN", "ACCOUNT", "OWN", "HOOK", "FEED"):
        assert world.echo.sent[CANARIES[name]] > 0, name
    assert any("/notify/" in path for path in world.echo.paths), world.echo.paths
    assert {path for _, _, path, _, _ in POLLS} <= world.echo.paths.keys() and len(world.echo.bodies) >= 10
    assert all("[secret]" in world.sinks[name] for name in ("database", "write-ahead log", "backup", "stdin of a command"))
    explained = [text for name, text in world.sinks.items() if name.startswith(("operation explain", "escalation show"))]
    assert len(explained) >= 10 and any("[secret]" in text for text in explained)
    assert all(len(world.sinks[name]) > 0 for name in world.sinks)


async def test_W25_exceptions_and_reprs_hold_no_secret(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Str, repr and traceback (chain included) of every way a credential fails; repr of everything that stands near one."""
    monkeypatch.setenv("C_PLAIN", CANARIES["PLAIN"] + "\nsecond line")
    (world.folder / "secret-QUOTED").write_bytes(CANARIES["QUOTED"].encode() + b"\xff")
    (world.folder / "secret-BASIC").write_text(CANARIES["BASIC"] * 2000)
    loaded = load_settings(None, {"HOME": str(world.folder)}, world.folder)
    outside = Outside.build(loaded.settings, loaded)
    texts = []
    for name in CREDENTIALS:
        for origin in (world.echo.url, "https://elsewhere.example"):
            try:
                texts.append(repr(outside.credentials.header(name, origin)))
            except Unusable as error:
                texts += [str(error), repr(error), *traceback.format_exception(error)]
                texts += traceback.TracebackException.from_exception(error, capture_locals=False).format(chain=True)
    async with open_app(loaded, origin="cli") as app:
        texts += [repr(app), repr(app.redaction), repr(app.kit), repr(vars(outside.gate)), repr(outside.credentials)]
    await outside.close()
    assert len(texts) > 20 and not [(text, canary) for text in texts for canary in PARTS if leaks(text, canary)]


def test_W25_commands_see_a_clean_environment(world: World) -> None:
    """Source and action children see PATH, HOME, LANG and what is passed by name: no secret of ours, in no variable."""
    world.cli("once")
    seen = (world.folder / "environ").read_text()
    names = set(re.findall(r"^([A-Za-z_][A-Za-z0-9_]*)=", seen, re.MULTILINE))
    assert names <= {"PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "SERENO_DEDUPE_KEY"}, names
    assert not any(leaks(seen, canary) for canary in PARTS)


def test_files_are_for_their_owner_alone(world: World) -> None:
    """Database, its log, its backup 0600; its folder 0700, whatever the umask."""
    import os

    before = os.umask(0)
    try:
        world.cli("poll", "list")
        holder = sqlite3.connect(world.folder / ".sereno" / "sereno.db")
        holder.execute("SELECT count(*) FROM poll").fetchone()
        world.cli("once")
        world.cli("backup", "copy.db")
        found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (world.folder / ".sereno").iterdir() if path.is_file()}
        holder.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((world.folder / ".sereno").stat().st_mode) == 0o700
    assert {"sereno.db", "sereno.db-wal", "sereno.db-shm"} <= found.keys() and set(found.values()) == {0o600}, found
    assert stat.S_IMODE((world.folder / "copy.db").stat().st_mode) == 0o600


def test_the_search_finds_each_canary_in_each_encoding(world: World) -> None:
    """Control: one spelling in one sink is one hit."""
    for canary in PARTS:
        for encode in ENCODINGS.values():
            world.sinks = {"planted": f"before {encode(canary)} after"}
            assert any(found.startswith(canary) for _, found in hits(world)), (canary, encode)
