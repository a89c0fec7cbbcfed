"""Plants a bug: imports the product with some text of it replaced. Nothing on the disk changes.

This file imports nothing of the project, so that it can run first in a process: `python planting.py NAME` loads the simulated world on
top of the changed product and looks for a seed that shows the bug.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import json
import re
import signal
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
"""The folder that holds the package."""
LONGEST_S = 20.0
"""Seconds of computing after which a world counts as one that never ends: the bug made it run in a circle."""


class NotPlanted(Exception):
    """A text is not found exactly once in its place."""


@dataclass(frozen=True, slots=True)
class Change:
    """One replacement: `old` stands exactly once in `function` of `file` ("" = anywhere in the file; for .sql the statement's name)."""

    file: str
    function: str
    old: str
    new: str
    everywhere: bool = False
    """All places in the file are replaced, not one."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug: the rule it breaks, what it does in words, and its replacements."""

    name: str
    breaks: str
    says: str
    changes: Sequence[Change]
    quick: bool = False
    """Part of the sample that is hunted with each change of the project."""


def mutants() -> Sequence[Mutant]:
    """Reads the list."""
    found = tomllib.loads((HERE / "mutants.toml").read_text("utf-8"))["mutant"]
    return [
        Mutant(one["name"], one["breaks"], one["says"], [Change(**change) for change in one["change"]], one.get("quick", False))
        for one in found
    ]


def planted(source: str, change: Change) -> str:
    """The source with the change made. Raises NotPlanted."""
    start, end = _place(source, change)
    inside = source[start:end]
    count = inside.count(change.old)
    if count == 0 or (count > 1 and not change.everywhere):
        raise NotPlanted(f"{change.file}: {change.function or 'the file'}: found {count} times: {change.old!r}")
    return source[:start] + inside.replace(change.old, change.new) + source[end:]


def _place(source: str, change: Change) -> tuple[int, int]:
    if not change.function:
        return 0, len(source)
    if change.file.endswith(".sql"):
        match = re.search(rf"^-- name: {re.escape(change.function)}\n(.*?)(?=^-- name: |\Z)", source, re.MULTILINE | re.DOTALL)
        if match is None:
            raise NotPlanted(f"{change.file}: no statement {change.function}")
        return match.span(1)
    node = _function(ast.parse(source), change)
    lines = source.splitlines(keepends=True)
    assert node.end_lineno is not None
    return sum(map(len, lines[: node.lineno - 1])), sum(map(len, lines[: node.end_lineno]))


def _function(tree: ast.Module, change: Change) -> ast.stmt:
    body: Sequence[ast.stmt] = tree.body
    found: ast.stmt | None = None
    for name in change.function.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = next((node for node in body if isinstance(node, kinds) and node.name == name), None)
        if not isinstance(found, kinds):
            raise NotPlanted(f"{change.file}: no function {change.function}")
        body = found.body
    assert found is not None
    return found


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module from its changed source."""

    changes: Sequence[Change] = ()

    def get_code(self, fullname: str) -> CodeType:
        """Never takes a cached compilation."""
        source = self.get_data(self.path).decode()
        for change in self.changes:
            source = planted(source, change)
        return compile(source, self.path, "exec", dont_inherit=True)


class Planter(importlib.abc.MetaPathFinder):
    """Finds the modules that a mutant changes, before anybody else does."""

    def __init__(self, mutant: Mutant) -> None:
        self._by_module: dict[str, list[Change]] = {}
        for change in mutant.changes:
            if change.file.endswith(".sql"):
                continue
            name = change.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            self._by_module.setdefault(name, []).append(change)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec with a changing loader, for a changed module."""
        changes = self._by_module.get(fullname)
        spec = None if changes is None else importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None or changes is None:
            return None
        loader = _Loader(fullname, spec.origin)
        loader.changes = changes
        return importlib.util.spec_from_file_location(
            fullname, spec.origin, loader=loader, submodule_search_locations=spec.submodule_search_locations
        )


def plant(mutant: Mutant) -> None:
    """Makes the next import of each changed module load it changed. Raises RuntimeError where one is loaded already."""
    planter = Planter(mutant)
    loaded = [name for name in planter._by_module if name in sys.modules]
    if loaded:
        raise RuntimeError(f"already imported: {loaded}")
    sys.meta_path.insert(0, planter)
    for change in mutant.changes:
        if change.file.endswith(".sql"):
            _plant_statement(change)


def _plant_statement(change: Change) -> None:
    """Changes a named statement in place: they are read once, and everybody looks them up in the same mapping."""
    statements = importlib.import_module("sereno.store.named").named(Path(change.file).stem)
    text = statements[change.function]
    if change.old not in text:
        raise NotPlanted(f"{change.file}: {change.function}: not found: {change.old!r}")
    statements[change.function] = text.replace(change.old, change.new)


class _NeverEnds(KeyboardInterrupt):
    """A world that runs in a circle. Nothing between here and the signal takes it for an error of its own."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def give_up(number: int, frame: FrameType | None) -> None:
        raise _NeverEnds(f"it did not end within {seconds:g} s of computing")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def hunt(name: str, first: int, most: int, seconds: float) -> dict[str, Any]:
    """Runs seeds until one shows the bug; answers how many that took, and what was seen. `seconds` are of computing."""
    mutant = next(one for one in mutants() if one.name == name)
    plant(mutant)
    world = importlib.import_module("sereno.testing.simulation.world")
    broken = (AssertionError, RuntimeError, _NeverEnds, importlib.import_module("sereno.core.errors").SerenoError)
    for number in range(most):
        if time.process_time() > seconds:
            return {"name": name, "found": None, "seeds": number, "says": "out of time", "seconds": _computed()}
        try:
            with _limited(LONGEST_S):
                violations = list(world.run_world(first + number).violations)
        except broken as error:
            violations = [f"the world broke: {type(error).__name__.strip('_')}: {error}"[:300]]
        if violations:
            seen = {"found": first + number, "seeds": number + 1, "says": _named(violations, mutant.breaks)[:300]}
            return {"name": name, **seen, "seconds": _computed()}
    return {"name": name, "found": None, "seeds": most, "says": "", "seconds": _computed()}


def _named(violations: Sequence[str], rule: str) -> str:
    """The first violation of the very rule that was broken, else the first of any."""
    return next((one for one in violations if one.startswith(f"{rule} ")), violations[0])


def _computed() -> float:
    return round(time.process_time(), 1)


if __name__ == "__main__":
    sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry or ".").resolve() != HERE)]
    print(json.dumps(hunt(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))), flush=True)
