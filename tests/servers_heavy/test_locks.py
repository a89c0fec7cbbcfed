"""The locks of the heavy servers are whole, and what can be wrong with one is found."""

from pathlib import Path

import pytest

from scripts import servers


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock of one server that the checks look at instead."""
    monkeypatch.setattr(servers, "LOCKS", tmp_path)
    monkeypatch.setattr(servers, "HEAVY", {"one": ["one==1.0"]})
    path = tmp_path / "one.txt"
    path.write_text(f"{servers.MARK}{servers.digest(['one==1.0'])}\none==1.0 \\\n    --hash=sha256:{'0' * 64}\n")
    assert servers.check() == []
    return path


def test_the_locks_are_whole() -> None:
    """Names, exact versions and hashes of everything, for what is asked for, without addresses."""
    assert servers.check() == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("==1.0 \\", "==1.1 \\", "one==1.0 is not pinned"),
        ("    --hash=sha256:" + "0" * 64, "    # nothing", "one has no hash"),
        (servers.MARK, "# ", "made for something else"),
        ("one==", "--index-url https://index.example\none==", "names an address"),
    ],
)
def test_a_fault_of_a_lock_is_found(copy: Path, old: str, new: str, says: str) -> None:
    """Each way of being wrong, alone."""
    text = copy.read_text()
    assert old in text
    copy.write_text(text.replace(old, new, 1))
    assert [fault for fault in servers.check() if says in fault]


def test_a_missing_lock_and_one_that_nobody_asks_for_are_found(copy: Path) -> None:
    """A lock under another name is both."""
    copy.rename(copy.with_name("other.txt"))
    missing, stray = servers.check()
    assert "one.txt: missing" in missing and "other.txt: no such server" in stray
