"""`sereno operation result`: a real wait with its copy; what may be printed, what a file needs, what a terminal never gets (W02, W30)."""

import json
import os
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from sereno.core.artifact import Artifact
from sereno.core.errors import AlreadyExists, RequestError, Unavailable
from sereno.faces.cli.nouns.result import write_file
from sereno.faces.cli.show.results import MOST_SHOWN, is_json, is_text, printable, why_not_shown
from sereno.service.results import KeptPart
from tests.faces.conftest import SETTINGS, Cli, QuickClock
from tests.loopback import LoopbackServer

STEERING = [
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x9b31m",
    "\r",
    "\x00",
    "\x7f",
    "\u202e",
    "\u2066",
    "\u200b",
    "\ufeff",
    "\x08",
    "\u2028",
]


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    """Content as a store gives it."""
    for piece in content:
        yield piece


async def broken() -> AsyncIterator[bytes]:
    """Content that turns out to be damaged at its end."""
    yield b"half"
    raise Unavailable("the kept result is damaged")


@pytest.mark.parametrize("steering", STEERING, ids=ascii)
def test_nothing_in_a_text_steers_the_terminal(steering: str) -> None:
    """What does so is shown as an escape; line ends and tabs stay."""
    shown = printable(f"a\tb\n{steering}c\n".encode(), "text/plain")
    assert shown is not None and steering not in shown
    assert shown.startswith("a\tb\n\\") and shown.endswith("c\n")


@pytest.mark.parametrize("steering", [mark for mark in STEERING if mark not in ("\r",)], ids=ascii)
def test_json_reads_back_the_same(steering: str) -> None:
    """Its own escapes stand for what is not shown."""
    content = json.dumps({"a": f"x{steering}y"}, ensure_ascii=False)
    shown = printable(content.encode(), "application/json")
    assert shown is not None and steering not in shown and json.loads(shown) == json.loads(content)


def test_line_ends_of_other_systems_are_ours() -> None:
    """A lone carriage return would hide what stands before it."""
    assert printable(b"a\r\nb\rc", "text/plain") == "a\nb\\rc"


def test_what_is_no_text_is_not_printed() -> None:
    """Bytes that are not UTF-8 are none."""
    assert printable(b"\xff\xfe", "text/plain") is None


@pytest.mark.parametrize(
    ("kind", "text", "is_it_json"),
    [
        ("text/plain; charset=utf-8", True, False),
        ("TEXT/HTML", True, False),
        ("application/json", True, True),
        ("application/ld+json; x=1", True, True),
        ("application/x-ndjson", True, True),
        ("application/octet-stream", False, False),
        ("image/svg+xml", False, False),
        ("image/png", False, False),
        ("", False, False),
    ],
)
def test_media_types_say_what_is_text(kind: str, text: bool, is_it_json: bool) -> None:
    """Anything unnamed goes to a file."""
    assert (is_text(kind), is_json(kind)) == (text, is_it_json)


@pytest.mark.parametrize(
    ("size", "kind", "shown"), [(MOST_SHOWN, "text/plain", True), (MOST_SHOWN + 1, "text/plain", False), (1, "image/png", False)]
)
def test_what_is_large_or_no_text_is_not_printed(size: int, kind: str, shown: bool) -> None:
    """The reason is said."""
    assert (why_not_shown(KeptPart(Artifact("a" * 64, size, kind), "")) is None) is shown


async def test_a_file_is_written_whole(tmp_path: Path) -> None:
    """As the umask has it, and nothing else stays in the folder."""
    before = os.umask(0o077)
    try:
        path = await write_file(tmp_path / "out.bin", pieces(b"ab", b"c"), force=False)
    finally:
        os.umask(before)
    assert path.read_bytes() == b"abc" and os.listdir(tmp_path) == ["out.bin"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("force", [True, False])
async def test_a_result_that_breaks_off_leaves_no_file(tmp_path: Path, force: bool) -> None:
    """Neither half of it, nor the loss of what was there before."""
    if force:
        (tmp_path / "out").write_text("before")
    with pytest.raises(Unavailable):
        await write_file(tmp_path / "out", broken(), force=force)
    assert [path.read_text() for path in tmp_path.iterdir()] == (["before"] if force else [])


async def test_a_file_that_is_there_is_kept_unless_forced(tmp_path: Path) -> None:
    """Also one that only just came, and a link to nowhere."""
    (tmp_path / "out").write_text("before")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("out", "link"):
        with pytest.raises(AlreadyExists, match="is there already"):
            await write_file(tmp_path / name, pieces(b"new"), force=False)
    assert (tmp_path / "out").read_text() == "before" and not (tmp_path / "nowhere").exists()
    await write_file(tmp_path / "out", pieces(b"new"), force=True)
    assert (tmp_path / "out").read_text() == "new"


async def test_of_two_writers_one_wins_and_the_other_is_told(tmp_path: Path) -> None:
    """Between the look and the end somebody else may make the file."""

    async def slow() -> AsyncIterator[bytes]:
        yield b"slow"
        (tmp_path / "out").write_text("quick")

    with pytest.raises(AlreadyExists):
        await write_file(tmp_path / "out", slow(), force=False)
    assert (tmp_path / "out").read_text() == "quick" and os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("place", ["missing/out", "folder"])
async def test_a_place_that_cannot_be_written_is_said(tmp_path: Path, place: str) -> None:
    """In words, and nothing stays."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(RequestError, match="cannot be written|is there already"):
        await write_file(tmp_path / place, pieces(b"x"), force=place == "folder")
    assert os.listdir(tmp_path) == ["folder"]


CONTRACT = """
format = 1
contract = "maker"
version = 1
title = "Maker"
source = "a test"
verified = "verified"
[status]
url = "{base}/jobs/{job_id}"
observational = "a test"
[state]
path = "status"
[states]
pending = ["running"]
success = ["done"]
failure = ["failed"]
[job]
id = "id"
[result.keep]
from = "url"
path = "files"
max_bytes = 1000000
[delays]
first = "1s"
[limits]
deadline = "5m"
requests = 9
transport_failures = 3
throttles = 3
"""
PICTURE, TEXT = bytes(range(256)) * 100, "Done.\n\x1b[2Jred \u202etxt\n"


class Maker:
    """A provider on loopback whose job has two files."""

    def __init__(self) -> None:
        self.status, self.gone = "done", False
        maker = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                kind, body = {
                    "/jobs/j1": ("application/json", json.dumps(maker.job()).encode()),
                    "/picture": ("image/png", PICTURE),
                    "/report.txt": ("text/plain; charset=utf-8", TEXT.encode()),
                }[path]
                self.send_response(410 if maker.gone and path != "/jobs/j1" else 200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Keeps quiet."""

        self.server = LoopbackServer(Answers)
        self.url = f"http://127.0.0.1:{self.server.port}"

    def job(self) -> dict[str, Any]:
        """What the status says."""
        files = [f"{self.url}/picture?sig=cnry-signed", f"{self.url}/report.txt?sig=cnry-signed"]
        return {"id": "j1", "status": self.status, "files": files}


@pytest.fixture
def maker(folder: Path) -> Iterator[Maker]:
    """The provider, its contract, and settings that name it."""
    (folder / "contracts").mkdir()
    (folder / "contracts" / "maker.toml").write_text(CONTRACT)
    (folder / "sereno.toml").write_text('contracts = ["contracts"]\n' + SETTINGS)
    found = Maker()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


def waited(cli: Cli, maker: Maker, *more: str) -> str:
    """Waits for the job; answers the operation's id."""
    done = cli("wait", "maker", "j1", "--base", maker.url, "--json", *more)
    assert done.code in (0, 4), done
    found: str = json.loads(done.out)["operation"]["operation_id"]
    return found


def test_W30_the_result_of_a_wait_is_copied_and_given(cli: Cli, maker: Maker, folder: Path, quick: QuickClock) -> None:
    """From the success on the copy makes itself; parts are listed, printed and written; no key to an address is kept anywhere."""
    operation = waited(cli, maker)
    listed = cli("operation", "result", operation)
    assert listed.code == 0 and "image/png" in listed.out and "--part" in listed.out
    rows = cli("operation", "result", operation, "--json").json
    assert (rows["schema"], rows["copy"]) == ("sereno.result/1", "kept")
    assert [(part["type"], part["size"], part["name"]) for part in rows["parts"]] == [
        ("image/png", len(PICTURE), "picture"),
        ("text/plain; charset=utf-8", len(TEXT.encode()), "report.txt"),
    ]
    assert [part["from"] for part in rows["parts"]] == [f"{maker.url}/picture", f"{maker.url}/report.txt"]
    assert cli("operation", "result", operation, "--part", "2").out == "Done.\n\\x1b[2Jred \\u202etxt\n"
    written = cli("operation", "result", operation, "--part", "1", "-o", "out.png", "--json")
    assert written.json["parts"][0]["path"] == "out.png" and (folder / "out.png").read_bytes() == PICTURE
    kept = [path for path in (folder / ".sereno" / "artifacts").rglob("*") if path.is_file()]
    assert len(kept) == 2 and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)
    for path in folder.rglob("*"):
        assert path.is_dir() or b"cnry-signed" not in path.read_bytes(), path


def test_what_cannot_be_given_says_what_to_do(cli: Cli, maker: Maker, folder: Path, quick: QuickClock) -> None:
    """Several parts, a part that is not there, a picture on the screen, a file that is there, both ways at once."""
    operation = waited(cli, maker)
    (folder / "there").write_text("before")
    for code, says, words in (
        (2, "several parts", ("-o", "x")),
        (6, "no part 3", ("--part", "3")),
        (6, "no part 0", ("--part", "0")),
        (2, "-o FILE", ("--part", "1")),
        (6, "--force", ("--part", "1", "-o", "there")),
        (2, "standard output", ("--part", "1", "--raw", "--json")),
    ):
        done = cli("operation", "result", operation, *words)
        assert (done.code, says in done.out + done.err) == (code, True), (words, done)
    assert (folder / "there").read_text() == "before"
    assert cli("operation", "result", operation, "--part", "1", "-o", "there", "--force").code == 0
    assert (folder / "there").read_bytes() == PICTURE


def test_W02_a_job_that_is_pending_has_no_result(cli: Cli, maker: Maker, quick: QuickClock) -> None:
    """It is refused with a code that programs know, and no file is made."""
    maker.status = "running"
    operation = json.loads(cli("wait", "maker", "j1", "--base", maker.url, "--detach", "--json").out)["operation"]["operation_id"]
    done = cli("operation", "result", operation, "-o", "out", "--json")
    assert done.code == 6 and done.json["error"]["code"] == "not_now" and not Path("out").exists()


def test_W30_a_result_that_is_gone_is_said(cli: Cli, maker: Maker, quick: QuickClock) -> None:
    """The copy is dead, the reason has its code, and the way to try again is named."""
    maker.gone = True
    operation = waited(cli, maker)
    done = cli("operation", "result", operation, "--json")
    assert done.code == 6 and done.json["error"]["code"] == "result_not_kept"
    assert "result_expired" in done.json["error"]["message"] and "delivery retry dlv_" in done.json["error"]["hint"]
    maker.gone = False
    assert cli("delivery", "retry", done.json["error"]["hint"].strip("`").split()[-1]).code == 0
    assert cli("operation", "result", operation, "--json").json["error"]["code"] == "result_copying"
    cli("once")
    assert cli("operation", "result", operation, "--json").json["copy"] == "kept"


@pytest.mark.parametrize(("damage", "code"), [(True, 7), (False, 6)])
def test_W30_a_copy_whose_file_is_gone_or_damaged_is_missing(
    cli: Cli, maker: Maker, folder: Path, quick: QuickClock, damage: bool, code: int
) -> None:
    """A program is not told that it is kept."""
    operation = waited(cli, maker)
    for path in [path for path in (folder / ".sereno" / "artifacts").rglob("*") if path.is_file()]:
        if damage:
            path.write_bytes(b"other")
        else:
            path.unlink()
    done = cli("operation", "result", operation, "--json")
    assert (done.code, done.json["copy"]) == (code, "missing")


def test_W24_the_copy_is_an_action_of_its_own(cli: Cli, maker: Maker, quick: QuickClock) -> None:
    """It has its own record and key, and its requests are none of the wait's."""
    operation = waited(cli, maker)
    rows = cli("delivery", "list", operation, "--json").json["deliveries"]
    (copy,) = [row for row in rows if row["action_type"] == "keep_result"]
    assert copy["state"] == "delivered" and copy["attempts"] == 1
    assert len({row["dedupe_key"] for row in rows}) == len(rows) == 2, "and the end is told by the other"
    shown = cli("operation", "show", operation, "--json").json
    assert shown["status_requests_used"] == 1


def test_W24_nobody_can_name_the_copy_as_an_action(cli: Cli, folder: Path) -> None:
    """Neither in the settings nor at the command line."""
    poll = '[[poll]]\nname = "p"\nevery = "1h"\nsource = { type = "file", path = "/etc/hostname" }\nactions = ["keep_result"]\n'
    (folder / "sereno.toml").write_text(SETTINGS + poll)
    done = cli("apply")
    assert done.code == 2 and "never by hand" in done.err


def test_a_result_that_nobody_copies_is_with_the_provider(cli: Cli, maker: Maker, folder: Path, quick: QuickClock) -> None:
    """Without [result.keep] the reference is all there is, and a file cannot be written."""
    keep = CONTRACT.index("[result.keep]")
    plain = CONTRACT[:keep] + '[result]\nref = "files[0]"\n' + CONTRACT[CONTRACT.index("[delays]") :]
    (folder / "contracts" / "maker.toml").write_text(plain)
    operation = waited(cli, maker)
    shown = cli("operation", "result", operation)
    assert shown.code == 0 and f"{maker.url}/picture" in shown.out and "cnry" not in shown.out
    done = cli("operation", "result", operation, "-o", "out", "--json")
    assert (done.code, done.json["error"]["code"]) == (6, "result_not_kept") and not (folder / "out").exists()
