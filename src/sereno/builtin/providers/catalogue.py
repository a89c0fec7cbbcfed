"""The catalogue: contracts that ship with Sereno, and those of the deployment, as TOML files."""

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path as File
from typing import cast

from sereno.builtin.contracts.paths import compile_path
from sereno.core.contract import Contract, parse_contract
from sereno.core.errors import Fault, NotFound, SetupError
from sereno.core.reading.document import nearest
from sereno.core.values import Json
from sereno.settings.places import key_places, location_of, place_of

__all__ = ["MAX_FILE", "MAX_FILES", "Catalogue", "compile_path", "read_document"]

SHIPPED = "sereno.builtin.contracts"
MAX_FILE = 256 * 1024
MAX_FILES = 1000
CASES = ".cases.toml"
"""Ends the name of a file that tests the contract beside it, and is none itself."""
_SYNTAX = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One contract file of the deployment: its document, or the faults that keep it from being used."""

    place: str
    name: str
    document: Mapping[str, Json]
    faults: Sequence[Fault] = ()


SecretIn = Callable[[str], str | None]


def _no_secret(text: str) -> str | None:
    return None


class Catalogue:
    """Implements `ports.ContractCatalogue`. Shipped contracts are read when they are asked for; a deployment's own `*.toml` files in
    `directories` are read once, at construction.

    A name must be unique, and one that is also shipped replaces nothing: it is a fault, since waits would silently change their
    meaning. A file with faults keeps nobody from working: its name is not listed, and whoever asks for it gets the faults.
    """

    def __init__(self, directories: Sequence[File] = (), secret_in: SecretIn = _no_secret) -> None:
        """`secret_in` says why a text holds a secret, or None: a file of the deployment with one is refused (W25)."""
        self._secret_in = secret_in
        self._folders: list[Fault] = []
        self._shipped: dict[str, Mapping[str, Json] | None] = dict.fromkeys(_shipped_names())
        self._own: dict[str, _Entry] = {}
        for file in _own(directories, self._folders):
            self._add(_read(file, secret_in))

    def names(self) -> Sequence[str]:
        """All names that can be used, sorted."""
        broken = {name for name, entry in self._own.items() if entry.faults}
        return sorted({*self._shipped, *self._own} - broken)

    def faults(self) -> Sequence[Fault]:
        """What is wrong with the deployment's own files and folders: `FILE:LINE:COLUMN: dotted.path`, or `FOLDER`."""
        return [*self._folders, *(fault for entry in self._own.values() for fault in entry.faults)]

    def document(self, name: str) -> Mapping[str, Json]:
        """The parsed document. Raises NotFound with the nearest name, and SetupError where its file has faults."""
        entry = self._own.get(name)
        if entry is not None:
            if entry.faults:
                raise SetupError(f"the contract {name[:80]!r} has faults", entry.faults)
            return entry.document
        if name not in self._shipped:
            hint = nearest(name, self.names())
            if self._folders:
                hint = f"{hint}; {self._folders[0]}" if hint else str(self._folders[0])
            listed = '`sereno contract list` has those there are; folders of your own stand in `contracts = ["FOLDER"]` of the settings'
            raise NotFound("there is no such contract", subject=name[:80], hint=hint or listed)
        found = self._shipped[name]
        if found is None:
            text = resources.files(SHIPPED).joinpath(f"{name}.toml").read_text(encoding="utf-8")
            found = self._shipped[name] = cast(dict[str, Json], tomllib.loads(text))
        return found

    def contract(self, document: Mapping[str, Json]) -> Contract:
        """Compiles a stored or shipped document; raises SetupError with all faults."""
        found = parse_contract(document, compile_path)
        if isinstance(found, Contract):
            return found
        raise SetupError(f"the contract {str(document.get('contract'))[:80]!r} has faults", found)

    def check(self, file: File) -> Contract:
        """Reads one contract file without taking it up. Raises SetupError with every fault as `FILE:LINE:COLUMN: dotted.path`."""
        entry = _read(file, self._secret_in)
        if entry.faults:
            raise SetupError(f"{file} has {_count(entry.faults)}", entry.faults)
        return self.contract(entry.document)

    def place(self, name: str) -> str:
        """Where a contract was read from: `shipped`, or the path of a file."""
        self.document(name)
        return self._own[name].place if name in self._own else "shipped"

    def _add(self, entry: _Entry) -> None:
        """Takes a file up; a name that is there already makes the name unusable, whichever file was meant."""
        other = "shipped" if entry.name in self._shipped else None
        if entry.name in self._own:
            other = self._own[entry.name].place
        faults = list(entry.faults)
        if other is not None:
            says = f"contract: {entry.name!r} is already defined ({other})"
            faults.append(Fault(entry.place, says, "choose another name"))
        if entry.name in self._own:
            faults = [*self._own[entry.name].faults, *faults]
        self._own[entry.name] = _Entry(entry.place, entry.name, entry.document, faults)


def read_document(file: File) -> Mapping[str, Json]:
    """Reads one contract file without checking it; raises SetupError saying where it fails to parse."""
    found = _parsed(file)
    if isinstance(found, Fault):
        raise SetupError("the contract cannot be read", [found])
    return found[0]


def _count(faults: Sequence[Fault]) -> str:
    return f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"


def _shipped_names() -> list[str]:
    return sorted(file.name.removesuffix(".toml") for file in resources.files(SHIPPED).iterdir() if file.name.endswith(".toml"))


def _own(directories: Sequence[File], faults: list[Fault]) -> list[File]:
    found: list[File] = []
    for directory in directories:
        try:
            files = sorted(file for file in directory.iterdir() if file.suffix == ".toml" and not file.name.endswith(CASES))
        except OSError as error:
            faults.append(Fault(str(directory), f"cannot be listed: {error.strerror}"))
            continue
        if len(files) > MAX_FILES:
            faults.append(Fault(str(directory), f"holds more than {MAX_FILES} contracts"))
            continue
        found += files
    return found


def _secrets(value: object, where: str, secret_in: SecretIn) -> Iterator[Fault]:
    """Each text of a document that holds a secret, with its dotted path; neither the text nor a key that is one is repeated."""
    if isinstance(value, str) and (why := secret_in(value)) is not None:
        yield Fault(
            where or "document", why, 'name a credential instead: credential = "NAME", and [credentials.NAME] in the settings'
        )
    elif isinstance(value, dict):
        named = [fault for key in value for fault in _secrets(key, where, secret_in)]
        yield from named
        for key, inner in () if named else value.items():
            yield from _secrets(inner, f"{where}.{key}" if where else key, secret_in)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _secrets(inner, f"{where}[{index}]", secret_in)


def _read(file: File, secret_in: SecretIn) -> _Entry:
    """Reads and checks a file; a fault about a missing key points at its table."""
    parsed = _parsed(file)
    if isinstance(parsed, Fault):
        return _Entry(str(file), file.stem, {}, [parsed])
    document, text = parsed
    named = document.get("contract")
    name = named if isinstance(named, str) and named else file.stem
    found = parse_contract(document, compile_path)
    secrets = list(_secrets(document, "", secret_in))
    if isinstance(found, Contract) and not secrets:
        return _Entry(str(file), name, document)
    found = [*secrets, *(() if isinstance(found, Contract) else found)]
    places = key_places(text)
    faults = []
    for fault in found:
        line, column = place_of(places, location_of(fault.where))
        faults.append(Fault(f"{file}:{line}:{column}", f"{fault.where}: {fault.message}", fault.hint))
    return _Entry(str(file), name, document, faults)


def _parsed(file: File) -> tuple[dict[str, Json], str] | Fault:
    """Parses a file into its document and text, or says what is wrong, with line and column where it is the syntax."""
    try:
        content = _content(file)
    except OSError as error:
        return Fault(str(file), f"cannot be read: {error.strerror}")
    except ValueError as error:
        return Fault(str(file), f"cannot be read: {error}")
    if len(content) > MAX_FILE:
        return Fault(str(file), f"is larger than {MAX_FILE // 1024} KiB")
    try:
        text = content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        return Fault(str(file), "is not UTF-8")
    try:
        return cast(dict[str, Json], tomllib.loads(text)), text
    except RecursionError:
        return Fault(str(file), "is not TOML: nested too deep")
    except tomllib.TOMLDecodeError as error:
        return _syntax(file, str(error), text)


def _content(file: File) -> bytes:
    """The bytes of a regular file, at most one more than allowed; a pipe or a device could keep every command waiting. Raises OSError,
    ValueError for what is no regular file."""
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        return stream.read(MAX_FILE + 1)


def _syntax(file: File, says: str, text: str) -> Fault:
    match = _SYNTAX.fullmatch(says)
    if match is None:
        return Fault(str(file), f"is not TOML: {says[:200]}")
    lines = text.split("\n")
    line, column = (match[2], match[3]) if match[2] else (len(lines), len(lines[-1]) + 1)
    return Fault(f"{file}:{line}:{column}", f"is not TOML: {match[1][:200]}")
