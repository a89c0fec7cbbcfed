"""`sereno operation result`: the result of a wait that succeeded, from our own copy. The provider is never asked (W36)."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sereno.core.errors import AlreadyExists, NotFound, NotNow, RequestError, Unavailable
from sereno.faces.cli.output import EXIT_OK, Output, exit_code, safe
from sereno.faces.cli.session import DEFAULT, Flags, run
from sereno.faces.cli.show.results import list_parts, numbered, printable, result_row, show_reference, stands, why_not_shown
from sereno.service.results import CopyState, KeptPart, KeptResult

if TYPE_CHECKING:
    from sereno.app import Sereno


def result(
    operation: Annotated[str, Parameter(help="Operation id, op_….")],
    /,
    *,
    output: Annotated[str | None, Parameter(name=["--output", "-o"], help="Write it into this file.")] = None,
    raw: Annotated[bool, Parameter(name="--raw", help="Write its bytes, as they are, to standard output.")] = False,
    part: Annotated[int | None, Parameter(name="--part", help="Which part, where the result has several.")] = None,
    force: Annotated[bool, Parameter(name="--force", help="Replace the file where there is one.")] = False,
    flags: Flags = DEFAULT,
) -> int:
    """Give the kept result of a wait that succeeded; text on the screen, anything into a file."""

    async def body(sereno: "Sereno", out: Output) -> int:
        found = await sereno.results.get(operation)
        if found.state is CopyState.NONE:
            _refuse_file(found, output, raw=raw)
            show_reference(out, found)
            out.answer("result", result_row(found))
            return EXIT_OK
        if found.state is not CopyState.KEPT:
            raise _not_there(found)
        number = _chosen(found, part)
        if out.as_json and output is None and not raw:
            return await _tell_kept(sereno, out, found, number)
        await _give(sereno, out, found, number, _Target(output, raw, force))
        return EXIT_OK

    return run(flags, body)


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a part goes: into a file, as it is to standard output, or (neither) on the screen."""

    output: str | None
    raw: bool
    force: bool


def _refuse_file(found: KeptResult, output: str | None, *, raw: bool) -> None:
    if output is not None or raw:
        raise NotNow(
            "the contract asks for no copy of the result, so there is nothing to write",
            subject=found.operation,
            hint=f"the provider has it: {found.result_ref}" if found.result_ref else None,
            code="result_not_kept",
        )


def _not_there(found: KeptResult) -> NotNow:
    code, says = stands(found)
    again = "`sereno up` or `sereno once` copies it" if code == "result_copying" else f"`sereno delivery retry {found.delivery}`"
    return NotNow(says, subject=found.operation, hint=again, code=code)


def _chosen(found: KeptResult, part: int | None) -> int | None:
    try:
        return numbered(found.parts, part)
    except IndexError:
        raise NotFound(f"the result has no part {part}", subject=found.operation, hint=f"it has {len(found.parts)}") from None


async def _tell_kept(sereno: "Sereno", out: Output, found: KeptResult, number: int | None) -> int:
    """Tells the copy as data, once its bytes were read: a file that is gone or damaged is no copy."""
    try:
        for part in found.parts if number is None else [found.parts[number - 1]]:
            async for _ in sereno.results.read(part.artifact.digest):
                pass
    except (NotFound, Unavailable) as error:
        out.answer("result", {**result_row(found), "copy": "missing", "says": error.message})
        return exit_code(error)
    out.answer("result", result_row(found))
    return EXIT_OK


async def _give(sereno: "Sereno", out: Output, found: KeptResult, number: int | None, target: _Target) -> None:
    if number is None:
        if target.output is not None or target.raw:
            raise RequestError("the result has several parts", subject=found.operation, hint="name one with --part")
        list_parts(out, found)
        out.say("Give one with --part N, or write it into a file with -o FILE.")
        out.answer("result", result_row(found))
        return
    chosen = found.parts[number - 1]
    content = sereno.results.read(chosen.artifact.digest)
    if target.output is not None:
        path = await write_file(Path(target.output).expanduser(), content, force=target.force)
        out.say(f"{chosen.artifact.size:,} bytes written: {safe(path)}")
        out.answer("result", result_row(found, written={number: str(path)}))
    elif target.raw:
        await _pour(out, content)
    else:
        await _print(out, found, chosen, content)


async def _print(out: Output, found: KeptResult, part: KeptPart, content: AsyncIterator[bytes]) -> None:
    """Prints a text that a terminal can take; says what to do with anything else."""
    why, text = why_not_shown(part), None
    if why is None:
        whole = b"".join([piece async for piece in content])
        text = printable(whole, part.artifact.content_type)
        why = "it is not UTF-8 text" if text is None else None
    if text is None:
        raise RequestError(f"the result is not printed: {why}", subject=found.operation, hint="write it into a file with -o FILE")
    out.say(text.removesuffix("\n"))


async def _pour(out: Output, content: AsyncIterator[bytes]) -> None:
    """Writes the bytes as they are to standard output, unless that is a screen or the place of a JSON answer."""
    if out.as_json:
        raise RequestError("--json and --raw both need standard output", hint="write the result into a file")
    if sys.stdout.isatty():
        raise RequestError("the bytes as they are do not go to a screen", hint="pipe them on, or write a file with -o FILE")
    sys.stdout.flush()
    async for piece in content:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


async def write_file(path: Path, content: AsyncIterator[bytes], *, force: bool) -> Path:
    """Writes a file whole or not at all; an existing one is kept unless `force`. Raises AlreadyExists, RequestError."""
    if os.path.lexists(path) and not force:
        raise _taken(path)
    try:
        temporary, descriptor = _beside(path)
        try:
            with os.fdopen(descriptor, "wb") as file:
                async for piece in content:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            _put(temporary, path, force=force)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {error.strerror}", subject=str(path)) from error
    return path


def _beside(path: Path) -> tuple[Path, int]:
    """A new file in the same folder, so that putting it in place is one step."""
    for number in count():
        temporary = path.parent / f".{path.name[:100]}.{os.getpid()}-{number}"
        with suppress(FileExistsError):
            return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    raise AssertionError("numbers do not end")


def _put(temporary: Path, path: Path, *, force: bool) -> None:
    """Gives the file its name. Without `force` the name is taken first, which fails where somebody else was quicker."""
    try:
        if not force:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    except FileExistsError:
        raise _taken(path) from None
    temporary.replace(path)


def _taken(path: Path) -> AlreadyExists:
    return AlreadyExists(f"{path} is there already", subject=str(path), hint="choose another name, or replace it with --force")
