"""The house rules hold, and each is shown to fail on a planted violation."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts import house

ROOT = Path(__file__).parents[2]


def module(path: str, text: str) -> house.Module:
    """A file as the rules see it."""
    return house.Module(path, text, ast.parse(text))


LONG = "def f():\n" + "    x = 1\n" * 40
DOCUMENTED = 'def f():\n    """One.\n\n    Two.\n    """\n' + "    x = 1\n" * 39
PLANTS: list[tuple[Callable[[house.Module], Iterator[house.Fault]], str, str, int]] = [
    (house.file_size, "src/sereno/engine/x.py", "x = 1\n" * 401, 1),
    (house.file_size, "src/sereno/engine/x.py", "x = 1\n" * 400, 0),
    (house.file_size, "tests/x.py", "x = 1\n" * 601, 1),
    (house.file_size, "tests/x.py", "x = 1\n" * 600, 0),
    (house.function_size, "src/sereno/engine/x.py", LONG, 1),
    (house.function_size, "src/sereno/engine/x.py", DOCUMENTED, 0),
    (house.words, "src/sereno/engine/run_utils.py", "", 1),
    (house.words, "src/sereno/info/x.py", "", 1),
    (house.words, "src/sereno/engine/x.py", "class PollManager: ...\n", 1),
    (house.words, "src/sereno/engine/x.py", "class Database: ...\nclass Databases: ...\n", 0),
    (house.seams, "src/sereno/engine/x.py", "loop.run_in_executor(None, f)\n", 1),
    (house.seams, "src/sereno/engine/x.py", "await_(loop.getaddrinfo('x', 1))\n", 1),
    (house.seams, "src/sereno/engine/x.py", "asyncio.open_connection('x', 1)\n", 1),
    (house.seams, "src/sereno/core/x.py", "Random(7)\n", 1),
    (house.seams, "src/sereno/engine/x.py", "Random()\n", 1),
    (house.seams, "src/sereno/outside/x.py", "loop.getaddrinfo('x', 1)\n", 0),
    (house.sleeps, "tests/x.py", "import time\ntime.sleep(1)\n", 1),
    (house.sleeps, "tests/x.py", "from asyncio import sleep as nap\nnap(0.1)\n", 1),
    (house.sleeps, "tests/x.py", "import asyncio\nasyncio.sleep(0)\nclock.sleep(5)\n", 0),
    (house.reasons, "src/sereno/engine/x.py", "x = 1  # type: ignore[misc]\n", 1),
    (house.reasons, "src/sereno/engine/x.py", "x = 1  # noqa: S608\n", 1),
    (house.reasons, "src/sereno/engine/x.py", "x = 1  # noqa: S608 - the names are our own\n", 0),
    (house.public_names, "src/sereno/__init__.py", f"__all__ = {[f'n{n}' for n in range(21)]}\n", 1),
    (house.public_names, "src/sereno/__init__.py", f"__all__ = {[f'n{n}' for n in range(20)]}\n", 0),
]


@pytest.mark.parametrize(("rule", "path", "text", "faults"), PLANTS)
def test_each_rule_finds_what_it_forbids_and_nothing_else(
    rule: Callable[[house.Module], Iterator[house.Fault]], path: str, text: str, faults: int
) -> None:
    """A planted violation is one fault; what stands just inside the limit is none."""
    assert len(list(rule(module(path, text)))) == faults


def test_no_rule_goes_unplanted() -> None:
    """Every rule has a plant that it finds."""
    assert {rule for rule, _, _, faults in PLANTS if faults} == set(house.RULES)


def project(root: Path, exceptions: str) -> Path:
    """A small project with one package of 15 modules."""
    package = root / "src/sereno/engine"
    package.mkdir(parents=True)
    (root / "scripts").mkdir()
    (root / "scripts/house.toml").write_text(exceptions)
    for name in ("__init__", *(f"m{n}" for n in range(15))):
        (package / f"{name}.py").write_text("")
    return root


def exception(where: str, reason: str) -> str:
    """An entry of the list of exceptions."""
    return f'[[exception]]\nrule = "package-size"\nwhere = "{where}"\nreason = "{reason}"\n'


def test_a_package_of_fifteen_modules_is_found(tmp_path: Path) -> None:
    """The fifteenth module is one too many."""
    assert house.check(project(tmp_path, "")) == ["src/sereno/engine:1: package-size: 15 modules, the limit is 14"]


def test_an_exception_needs_a_reason_and_a_use(tmp_path: Path) -> None:
    """An exception lifts its fault; one without a reason or without a fault is itself a fault."""
    good = exception("src/sereno/engine", "a reason of some length")
    assert house.check(project(tmp_path, good)) == []
    (tmp_path / "scripts/house.toml").write_text(good + exception("src/sereno/store", "a reason of some length"))
    assert house.check(tmp_path) == ["scripts/house.toml: package-size src/sereno/store: no longer needed"]
    (tmp_path / "scripts/house.toml").write_text(exception("src/sereno/engine", "so"))
    assert house.check(tmp_path) == ["scripts/house.toml: package-size src/sereno/engine: has no reason"]


def test_the_project_keeps_the_house_rules() -> None:
    """Nothing is broken that is not excepted with a reason."""
    assert house.check(ROOT) == []


def test_the_core_knows_dice_as_a_type_only() -> None:
    """The core imports `Random` to name the type that is handed in, and nothing else of the module."""
    for path in (ROOT / "src/sereno/core").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert "random" not in [name.name for name in node.names], path
            if isinstance(node, ast.ImportFrom) and node.module == "random":
                assert [name.name for name in node.names] == ["Random"], path
