"""The house rules that no ready-made linter shows: sizes, names, seams, sleeps. `python -m scripts.house [ROOT]` prints each fault.

The limits are those of the architecture (sizes and style). An exception stands in `scripts/house.toml` with its reason; one that is no
longer needed is a fault too, so that the list only shrinks by itself.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE_LINES = 400
TEST_LINES = 600
FUNCTION_LINES = 40
MODULES = 14
PUBLIC_NAMES = 20
BANNED_WORDS = {"manager", "handler", "helper", "helpers", "util", "utils", "common", "data", "info", "misc", "base"}
SEAM_CALLS = {
    "run_in_executor": "threads belong to the store executor",
    "getaddrinfo": "resolve through the egress gate",
    "create_connection": "connect through the egress gate",
    "create_datagram_endpoint": "connect through the egress gate",
    "open_connection": "connect through the egress gate",
}
SEAM_OWNERS = ("src/sereno/outside/", "src/sereno/store/executor.py", "src/sereno/testing/")
SLEEPS = {("time", "sleep"), ("asyncio", "sleep")}
TREES = ("src", "tests", "scripts", "benchmarks", "examples", "conformance")


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule: `where` is a path with a line or a name behind a colon; exceptions name it without the line number."""

    rule: str
    where: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.where}:{self.line}: {self.rule}: {self.message}"


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed file."""

    path: str
    text: str
    tree: ast.Module

    @property
    def shipped(self) -> bool:
        """Whether it is part of the installed package."""
        return self.path.startswith("src/")

    @property
    def test(self) -> bool:
        """Whether it is a test."""
        return self.path.startswith("tests/")


def file_size(module: Module) -> Iterator[Fault]:
    """A file has at most 400 lines, a test 600."""
    limit, lines = (TEST_LINES if module.test else SOURCE_LINES), module.text.count("\n")
    if lines > limit:
        yield Fault("file-size", module.path, 1, f"{lines} lines, the limit is {limit}")


def function_size(module: Module) -> Iterator[Fault]:
    """A function has at most 40 lines less its docstring (ruff counts branches and parameters)."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        where = f"{module.path}:{node.name}"
        first = node.body[0]
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
        docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
        lines = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring
        if lines > FUNCTION_LINES:
            yield Fault("function-size", where, node.lineno, f"{lines} lines, the limit is {FUNCTION_LINES}")


def words(module: Module) -> Iterator[Fault]:
    """Modules and classes are not called manager, helper, utils …: such a name says nothing."""
    parts = re.split(r"[/_.]", module.path.removeprefix("src/sereno/").removesuffix(".py"))
    for part in BANNED_WORDS & set(parts):
        yield Fault("name", module.path, 1, f"'{part}' says nothing; name what it does")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            for part in re.findall(r"[A-Z][a-z0-9]*", node.name):
                if part.lower() in BANNED_WORDS:
                    yield Fault("name", f"{module.path}:{node.name}", node.lineno, f"'{part}' says nothing; name what it does")


def seams(module: Module) -> Iterator[Fault]:
    """Threads, name lookups and sockets exist in their seam only; the core makes no dice of its own."""
    if not module.shipped or module.path.startswith(SEAM_OWNERS):
        return
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        called = (
            node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        )
        if called in SEAM_CALLS:
            yield Fault("seam", f"{module.path}:{called}", node.lineno, SEAM_CALLS[called])
        if called == "Random" and (not node.args or module.path.startswith("src/sereno/core/")):
            yield Fault("seam", f"{module.path}:Random", node.lineno, "a generator is handed in through ports.Ids")


def sleeps(module: Module) -> Iterator[Fault]:
    """A test does not wait for real time to pass: time is handed in, or a condition is polled (exceptions own the polling)."""
    if not module.test:
        return
    imported = {
        (name.asname or name.name): (node.module, name.name)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    for top in module.tree.body:
        for node in ast.walk(top):
            if isinstance(node, ast.Call) and _waits(node, imported):
                where = f"{module.path}:{getattr(top, 'name', 'module')}"
                yield Fault(
                    "sleep", where, node.lineno, "hand time in, or poll a condition in a place listed in scripts/house.toml"
                )


def _waits(node: ast.Call, imported: dict[str, tuple[str | None, str]]) -> bool:
    dotted = ast.unparse(node.func)
    called = imported.get(dotted) or tuple(dotted.rsplit(".", 1))
    nothing = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
    return called in SLEEPS and not nothing


_IGNORE = re.compile(r"#\s*(?:type:\s*ignore\[[^\]]+\]|noqa:\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*)(.*)$")


def reasons(module: Module) -> Iterator[Fault]:
    """Whoever silences a checker says why, on the same line."""
    if not module.shipped:
        return
    for number, line in enumerate(module.text.splitlines(), 1):
        match = _IGNORE.search(line)
        if match and len(match[1].strip(" #-:—")) < 8:
            yield Fault("reason", module.path, number, "say behind the ignore why it is right")


def public_names(module: Module) -> Iterator[Fault]:
    """`sereno` shows at most 20 names."""
    if module.path != "src/sereno/__init__.py":
        return
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(name, ast.Name) and name.id == "__all__" for name in node.targets):
            names = ast.literal_eval(node.value)
            if len(names) > PUBLIC_NAMES:
                yield Fault("public-names", module.path, node.lineno, f"{len(names)} public names, the limit is {PUBLIC_NAMES}")


RULES: tuple[Callable[[Module], Iterator[Fault]], ...] = (file_size, function_size, words, seams, sleeps, reasons, public_names)


def package_size(root: Path) -> Iterator[Fault]:
    """A package has at most 14 modules."""
    for package in sorted(path.parent for path in (root / "src").rglob("__init__.py")):
        count = sum(path.name != "__init__.py" for path in package.glob("*.py"))
        if count > MODULES:
            yield Fault("package-size", package.relative_to(root).as_posix(), 1, f"{count} modules, the limit is {MODULES}")


def modules(root: Path) -> Iterator[Module]:
    """Parses every Python file of the project."""
    for tree in TREES:
        for path in sorted((root / tree).rglob("*.py")):
            text = path.read_text()
            yield Module(path.relative_to(root).as_posix(), text, ast.parse(text, str(path)))


def all_faults(root: Path) -> list[Fault]:
    """Lists every broken rule, exceptions not yet taken off."""
    return [fault for module in modules(root) for rule in RULES for fault in rule(module)] + list(package_size(root))


def check(root: Path) -> list[str]:
    """Lists what is broken and not excepted, and the exceptions that nothing needs."""
    text = (root / "scripts" / "house.toml").read_text()
    exceptions = {(entry["rule"], entry["where"]): entry["reason"] for entry in tomllib.loads(text).get("exception", [])}
    faults = all_faults(root)
    found = {(fault.rule, fault.where) for fault in faults}
    stale = [f"scripts/house.toml: {rule} {where}: no longer needed" for rule, where in sorted(exceptions.keys() - found)]
    bare = [
        f"scripts/house.toml: {rule} {where}: has no reason" for (rule, where), reason in exceptions.items() if len(reason) < 20
    ]
    return [str(fault) for fault in faults if (fault.rule, fault.where) not in exceptions] + stale + bare


def main(arguments: list[str]) -> int:
    """Prints each fault on a line."""
    faults = check(Path(arguments[0]) if arguments else Path(__file__).parent.parent)
    print("\n".join(faults) if faults else "house: all rules kept")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
