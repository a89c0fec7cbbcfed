"""The built wheel holds everything that the checkout has at run time, and works from there."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the checkout by the locked build backend, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import hatchling.build, os; os.chdir({str(ROOT)!r}); print(hatchling.build.build_wheel({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.strip().splitlines()[-1]


def test_the_wheel_holds_every_shipped_file(wheel: Path) -> None:
    """Modules, SQL, migrations, contracts and the type marker are all in it; tests are not."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("sereno/")}
    shipped = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src/sereno").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == shipped
    assert {Path(name).suffix for name in names} >= {".py", ".sql", ".toml", ".typed"}


def test_the_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Unpacked elsewhere, the command answers and finds the contracts that ship with it."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path)}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("-c", "import sereno; print(sereno.__file__)").startswith(str(tmp_path))
    assert run("-m", "sereno.faces.cli.main", "version").startswith("sereno ")
    assert "google-lro" in run("-m", "sereno.faces.cli.main", "contract", "list", "--json")
