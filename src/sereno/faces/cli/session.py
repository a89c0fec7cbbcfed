"""One command from its flags to its exit code: settings, app, errors, interrupts."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sereno.core.errors import SerenoError
from sereno.core.work import Principal
from sereno.faces.cli.output import EXIT_INTERRUPTED, EXIT_OK, Output
from sereno.settings import Loaded, load_settings

if TYPE_CHECKING:
    from sereno.app import Sereno


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """Flags of every command."""

    json: Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON document with a schema name.")] = False
    config: Annotated[str | None, Parameter(name="--config", help="Settings file; default: SERENO_CONFIG, ./sereno.toml, XDG.")] = None


DEFAULT = Common()
Body = Callable[["Sereno", Output], Awaitable[int | None]]


def run(common: Common, body: Body) -> int:
    """Opens the app, runs the body, prints errors; answers the exit code."""
    return run_plain(common, lambda loaded, out: _with_app(loaded, out, body))


async def _with_app(loaded: Loaded, out: Output, body: Body) -> int | None:
    from sereno.app import open_app

    who = Principal(user=os.environ.get("USER") or "local")
    async with open_app(loaded, who=who, origin="cli") as app:
        return await body(app, out)


def run_plain(common: Common, body: Callable[[Loaded, Output], Awaitable[int | None]]) -> int:
    """The same without opening a database: for commands that need settings only."""
    out = Output(as_json=common.json)
    try:
        loaded = load_settings(common.config, os.environ, Path.cwd())
        out = Output(as_json=common.json, zone=loaded.settings.zone)
        return asyncio.run(_main(body, loaded, out)) or EXIT_OK
    except SerenoError as error:
        return out.fail(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


async def _main(body: Callable[[Loaded, Output], Awaitable[int | None]], loaded: Loaded, out: Output) -> int | None:
    return await body(loaded, out)
