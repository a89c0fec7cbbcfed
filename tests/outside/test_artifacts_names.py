"""Sixty names of the other side, none of which ever becomes a place (reliability-security 4.3)."""

import os
from pathlib import Path

import pytest

from sereno.core.errors import NotFound
from sereno.outside.artifacts.files import FileArtifacts
from sereno.outside.artifacts.taking import checked_digest

H = "0" * 64
NAMES = [
    "..", ".", "", "/", "//", "../", "../x", "../../etc/passwd", "a/../../b", "a/..", "./a", "/etc/passwd", "//etc/passwd",
    "///x", "\\", "..\\", "..\\..\\windows\\win.ini", "C:\\boot.ini", "C:", "\\\\server\\share", "a\\b", "a/b", "\0", "a\0b",
    "passwd\0.png", "../\0", "%2e%2e/", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%2f", "%00", "..%c0%af", "..;/", "....//", "..././",
    "~", "~root", "~/.ssh/authorized_keys", "-rf", "--help", "CON", "nul", "aux.txt", "COM1", "a:stream", "/dev/null", "/dev/stdin",
    "/proc/self/mem", "file:///etc/passwd", ".sereno", "incoming/1-0", "*", "a" * 256, "a" * 5000, "\u202egnp.exe", "\uff0e\uff0e/x",
    "\u2024\u2024/x", "caf\u00e9/..", "cafe\u0301", "A" * 64, H[:63], H + "0", H + "\n", "\u0660" * 64, f"../{H}", f"{H}/..",
]  # fmt: skip


def test_there_are_sixty_of_them() -> None:
    """The list is as long as the figure says, and holds none twice."""
    assert len(set(NAMES)) == len(NAMES) >= 60


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
async def test_no_such_name_is_ever_opened(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading by it ends as not found before any file is looked at."""
    store = FileArtifacts(tmp_path / "kept")
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("a file was opened"))
    with pytest.raises(NotFound) as caught:
        async for _ in store.read(name):
            pytest.fail("something was read")
    assert len(str(caught.value)) < 300 and "\0" not in str(caught.value)
    assert not store.root.exists()


def test_a_hash_is_the_one_name_there_is() -> None:
    """What is refused above is not all there is."""
    assert checked_digest(H) == H
