"""The import contracts hold, and each is shown to fail on a planted violation."""

import os
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

ROOT = Path(__file__).parents[2]

# contract id, file to add, its text, what the report must name
PLANTS = [
    ("floors", "core/planted.py", "import sereno.engine\n", "sereno.core.planted -> sereno.engine"),
    ("floors", "service/planted.py", "import sereno.drivers\n", "sereno.service.planted -> sereno.drivers"),
    ("floors", "store/planted.py", "import sereno.engine\n", "sereno.store.planted -> sereno.engine"),
    ("floors", "planted.py", "", "sereno.planted"),
    ("core", "core/planted.py", "import socket\n", "sereno.core.planted must not import socket"),
    ("core", "core/planted.py", "import time\n", "sereno.core.planted must not import time"),
    ("core", "core/planted.py", "import secrets\n", "sereno.core.planted must not import secrets"),
    ("core", "core/planted.py", "import logging\n", "sereno.core.planted must not import logging"),
    ("core", "core/planted.py", "import pydantic\n", "sereno.core.planted must not import pydantic"),
    ("faces", "faces/planted.py", "import sereno.engine\n", "sereno.faces.planted must not import sereno.engine"),
    ("siblings", "faces/planted.py", "import sereno.faces.cli\n", "sereno.faces.planted must not import sereno.faces.cli"),
    (
        "siblings",
        "drivers/planted.py",
        "import sereno.drivers.loop\n",
        "sereno.drivers.planted must not import sereno.drivers.loop",
    ),
    (
        "siblings",
        "builtin/sources/planted.py",
        "import sereno.builtin.sources.http\n",
        "must not import sereno.builtin.sources.http",
    ),
    (
        "kinds",
        "builtin/sources/planted.py",
        "import sereno.builtin.actions\n",
        "builtin.sources.planted -> sereno.builtin.actions",
    ),
    ("concrete", "service/planted.py", "import sereno.store\n", "sereno.service.planted must not import sereno.store"),
    ("concrete", "faces/cli/planted.py", "import sereno.builtin\n", "sereno.faces.cli.planted must not import sereno.builtin"),
    ("concrete", "drivers/planted.py", "import sereno.outside\n", "sereno.drivers.planted must not import sereno.outside"),
    ("cycles", "core/planted/__init__.py", "import sereno.core.planted_too\n", "No cycles are allowed in sereno.core."),
]
OTHER_HALF = ("core/planted_too.py", "import sereno.core.planted\n")


def lint(root: Path, *contracts: str) -> tuple[int, str]:
    """Runs import-linter on a copy of the project; the report comes without its line breaks."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    command += [part for contract in contracts for part in ("--contract", contract)]
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "COLUMNS": "300"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what import-linter reads."""
    root = tmp_path_factory.mktemp("copy")
    for name in ("src", "scripts"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", root)
    return root


def test_all_contracts_hold(copy: Path) -> None:
    """The code as it is keeps every contract."""
    status, report = lint(copy)
    assert status == 0, report


@pytest.mark.parametrize(("contract", "path", "text", "named"), PLANTS, ids=[f"{p[0]}-{p[3].split()[-1]}" for p in PLANTS])
def test_each_contract_fails_on_a_planted_violation(copy: Path, contract: str, path: str, text: str, named: str) -> None:
    """One forbidden import is enough to break its contract, and the report names it."""
    added = [(path, text), *([OTHER_HALF] if contract == "cycles" else [])]
    for name, content in added:
        target = copy / "src/sereno" / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(content)
    try:
        status, report = lint(copy, contract)
    finally:
        for name, _ in added:
            (copy / "src/sereno" / name).unlink()
        shutil.rmtree(copy / "src/sereno/core/planted", ignore_errors=True)
    assert status == 1
    assert named in report, report


def test_no_contract_goes_unplanted() -> None:
    """Every contract of .importlinter has a plant above."""
    config = ConfigParser()
    config.read(ROOT / ".importlinter")
    contracts = {section.rsplit(":", 1)[1] for section in config.sections() if ":contract:" in section}
    assert contracts == {plant[0] for plant in PLANTS}
