"""A poll by flags: turns what was typed into the `[[poll]]` it means, and settings into TOML."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sereno.core.errors import Fault, SetupError
from sereno.core.values import BadJson, Json, parse_json
from sereno.service.polls import read_model
from sereno.settings import PollModel

if TYPE_CHECKING:
    from sereno.app import Sereno


@Parameter(name="*")
@dataclass(frozen=True)
class SourceFlags:
    """What a poll reads."""

    source: Annotated[
        str | None, Parameter(name="--source", help="Source type: feed, http, file, command. Default: guessed.")
    ] = None
    source_option: Annotated[
        tuple[str, ...], Parameter(name="--source-option", help="Another option of the source, as name=value; may be repeated.")
    ] = ()
    select: Annotated[str | None, Parameter(name="--select", help="CSS selector of the part of a page to watch.")] = None
    items: Annotated[str | None, Parameter(name="--items", help="JMESPath to the list of things in a JSON answer.")] = None
    id: Annotated[str | None, Parameter(name="--id", help="JMESPath to the id of each thing in that list.")] = None
    credential: Annotated[str | None, Parameter(name="--credential", help="Name of a [credentials.NAME] to read with.")] = None
    command: Annotated[
        str | None,
        Parameter(name="--command", help="Watch the output of a command, its words in one quoted text; no shell runs it."),
    ] = None
    file: Annotated[str | None, Parameter(name="--file", help="Watch a file.")] = None


@Parameter(name="*")
@dataclass(frozen=True)
class PollFlags:
    """How a poll runs, and what it does."""

    every: Annotated[str | None, Parameter(name="--every", help="Interval: 90s, 15m, 1h30m, 2d. Default for a new poll: 1h.")] = (
        None
    )
    when: Annotated[
        str | None,
        Parameter(name="--when", help="Condition in CEL over change, object, before, poll, now. Default: new or updated."),
    ] = None
    on: Annotated[
        str | None,
        Parameter(name="--on", help="change (asked about each change) or state (told once each time it becomes true)."),
    ] = None
    action: Annotated[
        tuple[str, ...], Parameter(name="--action", help="Name of an [actions.NAME], or a type such as console; may be repeated.")
    ] = ()
    keep: Annotated[
        str | None, Parameter(name="--keep", help="How much of each object is stored: digest, fields or payload.")
    ] = None
    fields: Annotated[
        tuple[str, ...], Parameter(name="--fields", help="The fields to keep, for --keep fields; with commas, or repeated.")
    ] = ()
    no_baseline: Annotated[bool, Parameter(name="--no-baseline", help="The first run fires for what is there already.")] = False
    stop_after_matches: Annotated[
        int | None, Parameter(name="--stop-after-matches", help="End the poll after so many matches.")
    ] = None
    priority: Annotated[str | None, Parameter(name="--priority", help="low, normal or high.")] = None

    def body(self) -> dict[str, Any]:
        """What was given, under the names of a `[[poll]]`."""
        given: dict[str, Any] = {
            "every": self.every,
            "when": self.when,
            "on": self.on,
            "actions": list(self.action) or None,
            "keep": self.keep,
            "fields": [name.strip() for names in self.fields for name in names.split(",")] or None,
            "baseline": False if self.no_baseline else None,
            "stop": None if self.stop_after_matches is None else {"after_matches": self.stop_after_matches},
            "priority": self.priority,
        }
        return {name: value for name, value in given.items() if value is not None}


def source_options(flags: SourceFlags) -> dict[str, Json]:
    """The options of the source that were given. Raises SetupError for what is not `name=value`."""
    named: dict[str, Json] = {name: getattr(flags, name) for name in ("select", "items", "id", "credential")}
    options: dict[str, Json] = {name: value for name, value in named.items() if value is not None}
    faults = []
    for pair in flags.source_option:
        name, equals, text = pair.partition("=")
        if equals and name:
            options[name] = _value(text)
        else:
            faults.append(Fault("--source-option", "is not name=value", "write for example --source-option redirects=true"))
    if faults:
        raise SetupError("the source is not right; nothing was stored", faults)
    return options


def _value(text: str) -> Json:
    """`true`, `12`, `["a"]`, `{"Accept": "x"}` as JSON; anything else is text."""
    try:
        return parse_json(text)
    except BadJson:
        return text


def split_words(first: str | None, second: str | None, flags: SourceFlags) -> tuple[str | None, str | None]:
    """Reads `[NAME] URL`: a single word is the address, unless a flag says already what is read."""
    if second is not None:
        return first, second
    elsewhere = flags.file is not None or flags.command is not None or (flags.source is not None and "://" not in (first or ""))
    return (first, None) if elsewhere else (None, first)


async def wanted(sereno: "Sereno", words: tuple[str | None, str | None], source: SourceFlags, poll: PollFlags) -> PollModel:
    """The poll that was asked for; asks the address once where the source has to be guessed. Raises SetupError with all faults."""
    name, target = split_words(*words, source)
    body = {"every": "1h", **poll.body()}
    options = source_options(source)
    if target is not None and _must_guess(source):
        guessed = await sereno.polls.guess(target, credential=source.credential, name=name)
        return read_model(
            {"name": guessed.name, **body, "source": {"type": guessed.source.type, **guessed.source.options(), **options}}
        )
    table = _source_table(source, target, options)
    shown = str(table.get("url") or table.get("path") or source.command or "poll")
    return read_model({"name": name or await sereno.polls.free_name(shown), **body, "source": table})


def is_guessed(words: tuple[str | None, str | None], flags: SourceFlags) -> bool:
    """Whether how a poll is read is found out from one answer."""
    return split_words(*words, flags)[1] is not None and _must_guess(flags)


def _must_guess(flags: SourceFlags) -> bool:
    told = (flags.source, flags.file, flags.command, flags.select, flags.items)
    return all(value is None for value in told)


def _source_table(flags: SourceFlags, target: str | None, options: Mapping[str, Json]) -> dict[str, Json]:
    if flags.command is not None:
        return {"type": "command", "argv": _argv(flags.command), **options}
    if flags.file is not None:
        return {"type": "file", "path": _absolute(flags.file), **options}
    if target is None and flags.source is None:
        raise SetupError("nothing says what to watch; nothing was stored", hint="give an address, --file, --command or --source")
    shape = {"format": "html"} if flags.select else {"format": "json"} if flags.items else {}
    url = {} if target is None else {"url": target if "://" in target else f"https://{target}"}
    return {"type": flags.source or "http", **url, **shape, **options}


def _absolute(path: str) -> str:
    """A driver may run in another folder."""
    return str(Path(path).expanduser().absolute())


def _argv(text: str) -> list[Any]:
    try:
        return list(shlex.split(text))
    except ValueError as error:
        raise SetupError("the command is not right; nothing was stored", [Fault("--command", str(error))]) from error


def changes(source: SourceFlags, poll: PollFlags, current: Mapping[str, Any]) -> dict[str, Any]:
    """What an edit changes: the given flags, and the source merged with the present one."""
    body = poll.body()
    table = dict(current["source"])
    options = source_options(source)
    if source.command is not None:
        table = {"type": "command", "argv": _argv(source.command)}
    elif source.file is not None:
        table = {"type": "file", "path": _absolute(source.file)}
    elif source.source is not None and source.source != table["type"]:
        table = {"type": source.source}
    if table | options != current["source"]:
        body["source"] = table | options
    if "stop" in body:
        body["stop"] = {**current.get("stop", {}), **body["stop"]}
    return body


def as_toml(definitions: Sequence[Mapping[str, Any]]) -> str:
    """Writes definitions as the `[[poll]]` tables that would make them."""
    import tomlkit  # for this command only

    document = tomlkit.document()
    polls = tomlkit.aot()
    for definition in definitions:
        table = tomlkit.table()
        for name, value in definition.items():
            table.add(name, _inline(value))
        polls.append(table)
    if definitions:
        document.append("poll", polls)
    return tomlkit.dumps(document)


def _inline(value: Any) -> Any:
    """Tables inside a poll stay on one line, so that the poll reads as one block. TOML has no null: such options are left out."""
    import tomlkit  # for this command only

    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        for name, item in value.items():
            if item is not None:
                table.append(name, _inline(item))
        return table
    if isinstance(value, list | tuple):
        array = tomlkit.array()
        for item in value:
            array.append(_inline(item))
        return array
    return value if isinstance(value, str | int | float | bool) else json.loads(json.dumps(value, default=str))
