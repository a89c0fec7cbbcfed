"""One command from its flags to its exit code: settings, app, errors, interrupts."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cyclopts import Parameter

from sereno.core.errors import Fault, SerenoError, SetupError
from sereno.core.work import Principal
from sereno.faces.cli.output import EXIT_OK, Output
from sereno.settings import Loaded, load_settings

if TYPE_CHECKING:
    from sereno.app import Sereno


@Parameter(name="*")
@dataclass(frozen=True)
class Flags:
    """Flags of every command."""

    json: Annotated[
        bool,
        Parameter(name="--json", help="Print one JSON document with a schema name; a handle before it goes to standard error."),
    ] = False
    config: Annotated[
        str | None, Parameter(name="--config", help="Settings file. Default: SERENO_CONFIG, ./sereno.toml, then your XDG folder.")
    ] = None


DEFAULT = Flags()
Body = Callable[["Sereno", Output], Awaitable[int | None]]
PlainBody = Callable[[Loaded, Output], Awaitable[int | None]]


def run(flags: Flags, body: Body, *, console: TextIO | None = None, stays: bool = False, creates: bool = False) -> int:
    """Opens the app, runs the body, prints errors; answers the exit code.

    `console` is where the console action writes: standard output, but standard error with --json, where standard output is one document.
    `stays`: the command runs for long, so the quicker event loop is worth its start. `creates`: it may make a database where there
    are no settings; the others say that there is nothing here.
    """

    async def opened(loaded: Loaded, out: Output) -> int | None:
        if loaded.path is None and not loaded.database.exists():
            if not creates:
                raise SetupError(
                    "there is no sereno.toml and no database here", hint="run `sereno init`, or name a file with --config"
                )
            out.remark(f"Database: {loaded.database}")
        return await _with_app(loaded, out, body, console)

    return run_plain(flags, opened, stays=stays)


async def _with_app(loaded: Loaded, out: Output, body: Body, console: TextIO | None) -> int | None:
    from sereno.app import open_app

    who = Principal(user=os.environ.get("USER") or "local")
    console = console or (sys.stderr if out.as_json else sys.stdout)
    async with open_app(loaded, who=who, origin="cli", console=console) as app:
        return await body(app, out)


def run_plain(flags: Flags, body: PlainBody, *, stays: bool = False) -> int:
    """The same without opening a database: for commands that need settings only."""
    out = Output(as_json=flags.json)
    try:
        loaded = load_settings(flags.config, os.environ, Path.cwd())
        out = Output(as_json=flags.json, zone=_zone(loaded))
        return _runner(stays)(_main(body, loaded, out)) or EXIT_OK
    except SerenoError as error:
        return out.fail(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return out.interrupted()


def _runner(stays: bool) -> Callable[[Coroutine[Any, Any, int | None]], int | None]:
    if not stays:
        return asyncio.run
    from sereno.drivers.runner import run

    return run


def _zone(loaded: Loaded) -> ZoneInfo | None:
    zone = loaded.settings.zone
    try:
        return ZoneInfo(zone) if zone else None
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        fault = Fault(loaded.where("zone"), f"no time zone named `{zone}`", "write for example Europe/Madrid or UTC")
        raise SetupError("the settings are not right; nothing was started", [fault]) from error


async def _main(body: PlainBody, loaded: Loaded, out: Output) -> int | None:
    return await body(loaded, out)
