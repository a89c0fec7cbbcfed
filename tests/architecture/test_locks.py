"""The locks are in step with pyproject.toml, and each way of falling out of step is found."""

import re
import shutil
from pathlib import Path

import pytest

from scripts import locks

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of pyproject.toml and its locks."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    """Replaces the first occurrence, which must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_locks_are_in_step() -> None:
    """Every requirement is pinned with hashes at an allowed version, without addresses."""
    assert locks.check(ROOT) == []


def test_each_extra_has_a_lock_and_every_lock_pins_the_same_versions() -> None:
    """An extra never brings another version of a package than the tests ran with, unless it never stands beside Sereno."""
    tested = locks.pins((ROOT / "requirements/dev.txt").read_text())
    for path in (path for path in (ROOT / "requirements").glob("*.txt") if path.stem not in locks.FREE):
        for package, versions in locks.pins(path.read_text()).items():
            assert set(versions) <= set(tested[package]), f"{path.name}: {package}"


def test_a_changed_requirement_is_found(copy: Path) -> None:
    """A new lower bound without `make lock` fails, in every lock that it touches."""
    edit(copy / "pyproject.toml", "aiohttp>=", "aiohttp>=99.0,!=")
    found = locks.check(copy)
    assert any("made from other dependency tables" in fault for fault in found)
    assert sum("aiohttp" in fault for fault in found) == len(locks.tables(copy)) - len(locks.ALONE)


def test_a_forgotten_package_is_found(copy: Path) -> None:
    """A requirement that no lock pins fails even under the right digest."""
    old = locks.digest(copy)
    edit(copy / "pyproject.toml", "dependencies = [", 'dependencies = [\n    "left-pad>=1",')
    for path in (copy / "requirements").glob("*.txt"):
        edit(path, old, locks.digest(copy))
    assert "requirements/core.txt: left-pad>=1 is not pinned at an allowed version" in locks.check(copy)


def test_a_package_without_hash_is_found(copy: Path) -> None:
    """A pin without a hash fails."""
    path = copy / "requirements/core.txt"
    path.write_text(re.sub(r"(?m)^(jmespath==[^ ]+) \\\n(?:    --hash.*\n)+", r"\1\n", path.read_text()))
    assert "requirements/core.txt: jmespath has no hash" in locks.check(copy)


@pytest.mark.parametrize("line", ["--index-url https://example.org/simple", "-f /wheels", "x @ https://example.org/x.whl"])
def test_an_address_in_a_lock_is_found(copy: Path, line: str) -> None:
    """A lock does not say where packages come from."""
    path = copy / "requirements/core.txt"
    path.write_text(path.read_text() + line + "\n")
    assert any("names an address" in fault for fault in locks.check(copy))


def test_a_stray_lock_and_a_missing_one_are_found(copy: Path) -> None:
    """Locks and extras are the same set."""
    (copy / "requirements/core.txt").rename(copy / "requirements/other.txt")
    found = locks.check(copy)
    assert "requirements/core.txt: missing; run `make lock`" in found
    assert "requirements/other.txt: no such extra" in found
