"""`sereno config`: the settings, without secrets."""

import json

from cyclopts import App

from sereno.faces.cli.output import Output
from sereno.faces.cli.session import DEFAULT, Flags, run_plain
from sereno.settings import Loaded, config_schema

app = App(name="config", help="Look at the settings that hold here.")


@app.command
def schema(*, flags: Flags = DEFAULT) -> int:
    """Print the JSON schema of sereno.toml, for editors."""
    out = Output(as_json=flags.json)
    out.say(json.dumps(config_schema(), ensure_ascii=False, indent=2))
    out.answer("config_schema", {"json_schema": config_schema()})
    return 0


@app.command
def show(*, flags: Flags = DEFAULT) -> int:
    """Print the settings that hold, defaults filled in. Secrets are not among them: settings only name where one is kept."""

    async def body(loaded: Loaded, out: Output) -> None:
        settings = loaded.settings.model_dump(mode="json")
        out.say(f"# settings  {loaded.path or 'none found: all defaults hold'}")
        out.say(f"# database  {loaded.database}")
        out.say(json.dumps(settings, ensure_ascii=False, indent=2))
        out.answer(
            "config",
            {"path": None if loaded.path is None else str(loaded.path), "database": str(loaded.database), "settings": settings},
        )

    return run_plain(flags, body)
