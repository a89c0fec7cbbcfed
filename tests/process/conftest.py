"""What the process tests share: the world outside, a place to work in, and a small disk where one may be mounted."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sereno.testing.process.faketime import PACKAGE, library
from sereno.testing.process.place import Place
from sereno.testing.process.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """Provider, source and receiver, with their books."""
    made = World()
    yield made
    made.close()


@pytest.fixture
def place(tmp_path: Path, world: World) -> Place:
    """A folder of its own."""
    return Place(tmp_path, world)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of six megabytes; skipped where nobody may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here, even as root: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True, timeout=60)


@pytest.fixture(scope="session")
def libfaketime() -> Path:
    """The library that lies to a process about the time."""
    found = library()
    if found is None:
        pytest.skip(f"the Debian package {PACKAGE} is not installed and could not be installed here")
    return found
