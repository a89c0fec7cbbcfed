"""`sereno init`, `apply`, `doctor`, `backup`, `restore`."""

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sereno.core.errors import AlreadyExists, SerenoError, SetupError
from sereno.faces.cli.output import EXIT_OK, EXIT_UNAVAILABLE, Output, safe
from sereno.faces.cli.pulse import is_running
from sereno.faces.cli.session import DEFAULT, Flags, run, run_plain
from sereno.faces.cli.template import TEMPLATE
from sereno.settings import Loaded
from sereno.settings.load import FILE_NAME

if TYPE_CHECKING:
    from sereno.app import Sereno
    from sereno.service.apply import Applied


def init(*, flags: Flags = DEFAULT) -> int:
    """Write a sereno.toml with examples here (or where --config says). An existing file is left as it is."""
    out = Output(as_json=flags.json)
    path = Path(flags.config or FILE_NAME).expanduser().absolute()
    try:
        _write_new(path)
    except SerenoError as error:
        return out.fail(error)
    out.say(f"Wrote {path}. Everything in it is an example, commented out.")
    out.say("Next: sereno poll add URL, then `sereno up` keeps watch.")
    out.answer("init", {"path": str(path)})
    return EXIT_OK


def _write_new(path: Path) -> None:
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError as error:
        hint = "edit it, or move it away first; `sereno config show` prints what holds"
        raise AlreadyExists(f"{path} is there already; nothing was written", hint=hint) from error
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}") from error
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(TEMPLATE)


def apply(
    *,
    dry_run: Annotated[bool, Parameter(help="Only say what would change.")] = False,
    prune: Annotated[bool, Parameter(help="Remove polls that have left the file, instead of pausing them.")] = False,
    flags: Flags = DEFAULT,
) -> int:
    """Bring the polls of the settings file into the database. `up` and `once` do so at their start."""

    async def body(sereno: "Sereno", out: Output) -> None:
        applied = await sereno.apply(dry_run=dry_run, prune=prune)
        if applied:
            out.table(["poll", "result", "where"], [(one.name, one.action, one.where) for one in applied])
        if sereno.loaded.path is None:
            out.say("No settings file was found, so there is nothing to apply.")
        elif not applied:
            out.say(f"{sereno.loaded.path} has no [[poll]]: there is nothing to apply.")
        if dry_run:
            out.say("Nothing was changed (--dry-run).")
        out.answer("apply", {"dry_run": dry_run, "polls": applied})

    return run(flags, body)


def tell_applied(out: Output, applied: "list[Applied]") -> None:
    """Reports on standard error what applying the file changed; nothing where it changed nothing."""
    changed = [one for one in applied if one.action != "unchanged"]
    for one in changed:
        if one.action == "paused":
            out.remark(f"poll {one.name} has left the settings file: paused (sereno apply --prune removes it)")
    counted = Counter(one.action for one in changed if one.action != "paused")
    if counted:
        out.remark("polls of the settings file: " + ", ".join(f"{number} {action}" for action, number in sorted(counted.items())))


def doctor(*, flags: Flags = DEFAULT) -> int:
    """Say whether all is well: exit code 0 when it is, 7 when something is wrong. Sends nothing; made for cron."""

    async def body(sereno: "Sereno", out: Output) -> int:
        health = await sereno.doctor.look()
        up = is_running(sereno.loaded.database)
        for check in health.checks:
            out.say(
                f"{check.level:4}  {check.name}: {safe(check.says)}"
                + (f" — {check.hint}" if check.hint and check.level != "ok" else "")
            )
        out.say(f"{'ok':4}  up: {'a `sereno up` is running' if up else 'no `sereno up` is running on this database'}")
        out.answer("doctor", {"ok": health.ok, "checks": health.checks, "counts": health.counts, "up_running": up})
        return EXIT_OK if health.ok else EXIT_UNAVAILABLE

    return run(flags, body)


def backup(
    file: Annotated[Path, Parameter(help="Where the copy comes to.")],
    /,
    *,
    overwrite: Annotated[bool, Parameter(help="Replace a file that is there.")] = False,
    flags: Flags = DEFAULT,
) -> int:
    """Write one consistent, checked copy of the database, while everything goes on."""

    async def body(loaded: Loaded, out: Output) -> None:
        from sereno.app import backup_database

        done = backup_database(loaded, file, overwrite=overwrite)
        out.say(f"Copied {loaded.database} to {done.path} ({done.size_bytes:,} bytes), and checked the copy.")
        out.answer("backup", {"path": str(done.path), "size_bytes": done.size_bytes, "version": done.version})

    return run_plain(flags, body)


def restore(
    file: Annotated[Path, Parameter(help="A copy that `sereno backup` made.")],
    /,
    *,
    force: Annotated[bool, Parameter(help="Also while runs are under way: what they bring will be refused.")] = False,
    flags: Flags = DEFAULT,
) -> int:
    """Put a copy in the place of the database. The replaced one is kept beside it."""

    async def body(loaded: Loaded, out: Output) -> None:
        from sereno.app import restore_database

        done = restore_database(loaded, file, force=force)
        out.say(f"Restored {done.path} from {file}.")
        if done.kept is not None:
            out.say(f"What was there is kept: {done.kept}")
        out.say(f"{done.leases_voided} leases were taken away; {done.operations_marked} open waits go on with their counters.")
        out.answer(
            "restore",
            {
                "path": str(done.path),
                "kept": None if done.kept is None else str(done.kept),
                "leases_voided": done.leases_voided,
                "operations_marked": done.operations_marked,
            },
        )

    return run_plain(flags, body)
