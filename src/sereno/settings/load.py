"""Finds and reads `sereno.toml`; lists every fault at once with file, line and the nearest known name."""

import os
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from sereno.core.errors import Fault, SetupError, nearest
from sereno.settings.config import Settings
from sereno.settings.lines import Location, key_lines, line_of
from sereno.settings.words import says

FILE_NAME = "sereno.toml"
DATABASE = Path(".sereno") / "sereno.db"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings with where they came from. `path` is None when no file was found: then all defaults hold."""

    settings: Settings
    path: Path | None
    database: Path
    lines: Mapping[Location, int] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)
    """The file as it was parsed."""

    def texts(self) -> Iterator[tuple[Location, str]]:
        """Every text of the file with its place, for checks that belong to a higher floor."""
        yield from _texts((), self.document)

    def where(self, *location: str | int) -> str:
        """`FILE:LINE` of a key, for faults found later than here."""
        return f"{self.path}:{line_of(dict(self.lines), location)}" if self.path else "settings"


def find_config(explicit: str | None, environment: Mapping[str, str], folder: Path) -> Path | None:
    """Search order: --config, SERENO_CONFIG, ./sereno.toml, XDG. A named file that is missing is a fault; none found is None."""
    for named, origin in ((explicit, "--config"), (environment.get("SERENO_CONFIG"), "SERENO_CONFIG")):
        if named:
            path = Path(named).expanduser()
            if not path.is_file():
                raise SetupError(f"{origin} names {named}, which is not a file", hint="run `sereno init` to make one")
            return path.resolve()
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME", "~"), ".config")
    for path in (folder / FILE_NAME, Path(home).expanduser() / "sereno" / FILE_NAME):
        if path.is_file():
            return path.resolve()
    return None


def load_settings(explicit: str | None, environment: Mapping[str, str], folder: Path) -> Loaded:
    """Reads the settings that hold here. Raises SetupError with all faults."""
    path = find_config(explicit, environment, folder)
    if path is None:
        return Loaded(Settings(), None, (folder / DATABASE).resolve())
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"cannot read {path}: {error}") from error
    return parse_settings(text, path)


def parse_settings(text: str, path: Path) -> Loaded:
    """Parses the text of a settings file that lies at `path`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SetupError(f"{path} is not TOML: {error}", hint="strings need quotes, tables look like [egress]") from error
    lines = key_lines(text)
    faults: list[Fault] = []
    settings = Settings()
    try:
        settings = Settings.model_validate(document)
    except ValidationError as error:
        faults += _faults(error, path, lines, document)
    faults += _doubled_polls(document, path, lines)
    if faults:
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        raise SetupError(f"{path} has {count}; nothing was started", faults)
    database = path.parent / (settings.database.path or DATABASE)
    return Loaded(settings, path, database.expanduser().resolve(), lines, document)


def _texts(location: Location, value: Any) -> Iterator[tuple[Location, str]]:
    if isinstance(value, str):
        yield location, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts((*location, key), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts((*location, index), item)


def _faults(error: ValidationError, path: Path, lines: dict[Location, int], document: Mapping[str, Any]) -> list[Fault]:
    found = []
    for item in error.errors(include_url=False, include_input=False):
        location = tuple(part for part in item["loc"] if not (isinstance(part, str) and part in _UNION_TAGS))
        where = f"{path}:{line_of(lines, location)}"
        name, message = _shown(location, document), says(item)
        if item["type"] == "extra_forbidden":
            message, hint = f"unknown setting `{name}`", _nearest(location)
        else:
            message, hint = (f"`{name}`: {message}" if name else message), None
        found.append(Fault(where, message, hint))
    return found


def _shown(location: Location, document: Mapping[str, Any]) -> str:
    """The name of a setting as a person would say it: `poll "shop".every` for the second key of the first `[[poll]]`."""
    if len(location) > 1 and location[0] == "poll" and isinstance(location[1], int):
        polls = document["poll"]
        named = polls[location[1]].get("name") if isinstance(polls[location[1]], dict) else None
        first = f'poll "{named[:63]}"' if isinstance(named, str) and named else f"poll {location[1] + 1}"
        location = (first, *location[2:])
    return ".".join(str(part) for part in location)


_UNION_TAGS = {"str", "ActionModel", "float", "literal['unlimited']"}


def _nearest(location: Location) -> str | None:
    near = nearest(str(location[-1]), _known_names(location[:-1]))
    return f"did you mean `{near}`?" if near else None


def _known_names(location: Location) -> Sequence[str]:
    model: Any = Settings
    for part in location:
        if isinstance(part, int):
            continue
        if isinstance(model, type) and issubclass(model, BaseModel) and part in model.model_fields:
            model = _inner_model(model.model_fields[part].annotation)
    return sorted(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else ()


def _inner_model(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if (inner := _inner_model(argument)) is not None:
            return inner
    return None


def _doubled_polls(document: Mapping[str, Any], path: Path, lines: dict[Location, int]) -> list[Fault]:
    polls = document.get("poll")
    names = [poll.get("name") for poll in polls if isinstance(poll, dict)] if isinstance(polls, list) else []
    doubled = {name for name, count in Counter(str(name) for name in names if name).items() if count > 1}
    return [
        Fault(f"{path}:{line_of(lines, ('poll', index, 'name'))}", f"two polls are named `{name}`", "give each its own name")
        for index, name in enumerate(names)
        if name in doubled
    ]
