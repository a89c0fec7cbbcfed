"""The catalogue: contracts that ship with Sereno, and those of the deployment, as TOML files."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path as File
from typing import cast

import jmespath
from jmespath.exceptions import JMESPathError

from sereno.core.contract import Contract, Path, parse_contract
from sereno.core.errors import Fault, NotFound, SetupError
from sereno.core.reading.document import nearest
from sereno.core.values import Json

SHIPPED = "sereno.builtin.contracts"
MAX_FILE = 256 * 1024
MAX_FILES = 1000
MAX_EXPRESSION = 200
"""Characters of one path expression: enough for any path, too few to nest deeply."""

ALLOWED_NODES = frozenset(
    "and_expression comparator field filter_projection identity index index_expression literal not_expression or_expression pipe"
    " projection subexpression".split()
)
"""Paths only pick: no functions, ordering, slices, flattening or new objects, so that a search cannot fail and stays cheap."""


@dataclass(frozen=True, slots=True)
class CompiledPath:
    """A JMESPath expression that was checked to only pick values."""

    expression: str
    find: Callable[[Json], object]

    def search(self, value: Json) -> Json:
        """Finds the value, or None where there is none."""
        return cast(Json, self.find(value))


def compile_path(text: str) -> Path:
    """Compiles a path expression. Raises ValueError with the reason for a bad one."""
    if len(text) > MAX_EXPRESSION:
        raise ValueError(f"a path of more than {MAX_EXPRESSION} characters")
    try:
        compiled = jmespath.compile(text)
    except (JMESPathError, RecursionError, ValueError) as error:
        raise ValueError(f"{text!r} is not a JMESPath expression: {str(error).splitlines()[0][:200]}") from None
    if strange := sorted(_kinds(compiled.parsed) - ALLOWED_NODES):
        raise ValueError(f"{text!r} uses {strange[0].replace('_', ' ')}; a path here only picks values")
    return CompiledPath(text, compiled.search)


def _kinds(node: Mapping[str, object]) -> set[str]:
    found, waiting = set(), [node]
    while waiting:
        here = waiting.pop()
        # Ordering (`<`) raises for a text beside a number, so only == and != are paths.
        ordering = here["type"] == "comparator" and here["value"] not in ("eq", "ne")
        found.add("ordering" if ordering else str(here["type"]))
        children = here.get("children")
        waiting += [child for child in children if isinstance(child, dict)] if isinstance(children, list) else []
    return found


class Catalogue:
    """Implements `ports.ContractCatalogue`. Files are read once, at construction.

    `directories` hold the deployment's own `*.toml` contracts; a name must be unique among them, and one that is also shipped
    replaces nothing: it is a fault, since operations would silently change their meaning. Raises SetupError with every fault of
    every file, named `FILE` or `FILE: dotted.path`.
    """

    def __init__(self, directories: Sequence[File] = ()) -> None:
        faults: list[Fault] = []
        self._documents: dict[str, Mapping[str, Json]] = {}
        self._places: dict[str, str] = {}
        for place, content in _shipped() + _own(directories, faults):
            self._add(place, content, faults)
        if faults:
            raise SetupError("contracts cannot be read", faults)

    def names(self) -> Sequence[str]:
        """All names, sorted."""
        return sorted(self._documents)

    def document(self, name: str) -> Mapping[str, Json]:
        """The parsed document; raises NotFound with the nearest name."""
        if name not in self._documents:
            raise NotFound("there is no such contract", subject=name[:80], hint=nearest(name, self._documents))
        return self._documents[name]

    def contract(self, document: Mapping[str, Json]) -> Contract:
        """Compiles a stored or shipped document; raises SetupError with all faults."""
        found = parse_contract(document, compile_path)
        if isinstance(found, Contract):
            return found
        raise SetupError(f"the contract {str(document.get('contract'))[:80]!r} has faults", found)

    def place(self, name: str) -> str:
        """Where a contract was read from: `shipped`, or the path of a file."""
        self.document(name)
        return self._places[name]

    def _add(self, place: str, content: bytes, faults: list[Fault]) -> None:
        document = _parsed(place, content, faults)
        if document is None:
            return
        found = parse_contract(document, compile_path)
        if not isinstance(found, Contract):
            faults.extend(Fault(f"{place}: {fault.where}", fault.message, fault.hint) for fault in found)
        elif found.name in self._documents:
            says = f"{found.name!r} is already defined ({self._places[found.name]})"
            faults.append(Fault(f"{place}: contract", says, "choose another name"))
        else:
            self._documents[found.name] = document
            self._places[found.name] = place


def read_document(file: File) -> Mapping[str, Json]:
    """Reads one contract file without taking it up (`contract check FILE`); raises SetupError saying where it fails to parse."""
    faults: list[Fault] = []
    content = _content(file, faults)
    document = None if content is None else _parsed(str(file), content, faults)
    if document is None:
        raise SetupError("the contract cannot be read", faults)
    return document


def _shipped() -> list[tuple[str, bytes]]:
    files = [file for file in resources.files(SHIPPED).iterdir() if file.name.endswith(".toml")]
    return [("shipped", file.read_bytes()) for file in sorted(files, key=lambda file: file.name)]


def _own(directories: Sequence[File], faults: list[Fault]) -> list[tuple[str, bytes]]:
    found = []
    for directory in directories:
        try:
            files = sorted(file for file in directory.iterdir() if file.suffix == ".toml")
        except OSError as error:
            faults.append(Fault(str(directory), f"cannot be listed: {error.strerror}"))
            continue
        if len(files) > MAX_FILES:
            faults.append(Fault(str(directory), f"holds more than {MAX_FILES} contracts"))
            continue
        found += [(str(file), content) for file in files if (content := _content(file, faults)) is not None]
    return found


def _content(file: File, faults: list[Fault]) -> bytes | None:
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_FILE + 1)
    except OSError as error:
        faults.append(Fault(str(file), f"cannot be read: {error.strerror}"))
        return None
    if len(content) > MAX_FILE:
        faults.append(Fault(str(file), f"is larger than {MAX_FILE // 1024} KiB"))
        return None
    return content


def _parsed(place: str, content: bytes, faults: list[Fault]) -> dict[str, Json] | None:
    try:
        return cast(dict[str, Json], tomllib.loads(content.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        faults.append(Fault(place, f"is not TOML: {str(error)[:200]}"))
        return None
