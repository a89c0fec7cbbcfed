"""`sereno operation result`: what may be printed, what a file needs, and what a terminal never gets (W02, W30)."""

import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sereno.core.artifact import Artifact
from sereno.core.errors import AlreadyExists, RequestError, Unavailable
from sereno.faces.cli.nouns.result import write_file
from sereno.faces.cli.show.results import MOST_SHOWN, is_json, is_text, printable, why_not_shown
from sereno.service.results import KeptPart

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
