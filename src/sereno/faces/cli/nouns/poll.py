"""`sereno poll`: what is watched."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from sereno.core.errors import NotNow, RequestError
from sereno.core.poll import PollState
from sereno.core.record import PollRecord
from sereno.faces.cli.definition import PollFlags, SourceFlags, as_toml, changes, is_guessed, wanted
from sereno.faces.cli.nouns.states import one_of
from sereno.faces.cli.output import EXIT_UNAVAILABLE, Output, safe
from sereno.faces.cli.session import DEFAULT, Flags
from sereno.faces.cli.session import run as run_session
from sereno.faces.cli.show import polls as show_polls
from sereno.service.polls import read_model
from sereno.service.preview import Preview
from sereno.settings import PollModel, poll_to_model

if TYPE_CHECKING:
    from sereno.app import Sereno

app = App(name="poll", help="Say what to watch, look at it, change it.")
Name = Annotated[str, Parameter(help="Name or id of a poll.")]
NameOrUrl = Annotated[str | None, Parameter(help="A name for it, or the address when that is all you give.")]
Url = Annotated[str | None, Parameter(help="The address to watch.")]
_SOURCE, _POLL = SourceFlags(), PollFlags()


@app.command
def add(  # noqa: PLR0913 - flags, in groups
    name: NameOrUrl = None,
    url: Url = None,
    /,
    *,
    source: SourceFlags = _SOURCE,
    poll: PollFlags = _POLL,
    paused: Annotated[bool, Parameter(help="Store it paused.")] = False,
    force: Annotated[bool, Parameter(help="Store it even where the condition is an error on the whole sample.")] = False,
    dry_run: Annotated[bool, Parameter(help="Only show what it would be, as `poll preview` does.")] = False,
    flags: Flags = DEFAULT,
) -> int:
    """Watch an address, a file or a command. Given an address alone, Sereno looks once and finds out what it is."""

    async def body(sereno: "Sereno", out: Output) -> int:
        model = await wanted(sereno, (name, url), source, poll)
        model = model.model_copy(update={"paused": paused})
        if dry_run:
            return await _preview(sereno, out, model)
        twins = await sereno.polls.reading_the_same(model)
        record, preview = await sereno.polls.add(model, force=force)
        assert preview is not None, "add looks"
        _show_added(out, record, preview)
        if is_guessed((name, url), source):
            out.say("How it is read was guessed from one answer; --source, --select, --items and --id say otherwise.")
        if twins:
            out.remark(f"attention: {', '.join(twins)} reads the same place already")
        return 0

    return run_session(flags, body, creates=not dry_run)


def _show_added(out: Output, record: PollRecord, preview: Preview) -> None:
    spec = record.poll.spec
    out.say(f"Added {spec.name}.")
    show_polls.show_preview(out, preview, paused=record.poll.state is PollState.PAUSED)
    if preview.failure is not None:
        out.remark(f"attention: {spec.name} is stored, but it cannot be read now: {safe(preview.failure.message, most=300)}")
    elif not preview.count:
        out.remark(f"attention: {spec.name} is stored, but it shows nothing to watch now")
    out.say(show_polls.first_run_words(preview))
    out.say(show_polls.next_command(record))
    out.answer("poll_added", {"poll": show_polls.poll_row(record), "preview": show_polls.preview_row(preview)})


async def _preview(sereno: "Sereno", out: Output, model: PollModel) -> int:
    preview = await sereno.polls.preview(model)
    out.say(f"{model.name}, as it would be:")
    show_polls.show_preview(out, preview, paused=model.paused)
    out.say("Nothing was stored and nothing fired.")
    out.answer("preview", show_polls.preview_row(preview))
    return 0 if preview.failure is None else EXIT_UNAVAILABLE


@app.command(name="list")
def list_(
    *,
    state: Annotated[str | None, Parameter(help="Only these: active, paused, disabled, ended, removed.")] = None,
    flags: Flags = DEFAULT,
) -> int:
    """List polls, newest first."""

    async def body(sereno: "Sereno", out: Output) -> None:
        records = await sereno.polls.all(state=one_of(state, PollState))
        show_polls.list_polls(out, records, sereno.kit.clock.now())
        if not records and state is None:
            out.remark("No polls. Add one: sereno poll add URL")
        out.answer("polls", {"polls": [show_polls.poll_row(record) for record in records]})

    return run_session(flags, body)


@app.command
def show(name: Name, /, *, flags: Flags = DEFAULT) -> int:
    """Show one poll: what it reads, when, what it does, how it went."""

    async def body(sereno: "Sereno", out: Output) -> None:
        record = await sereno.polls.get(name)
        show_polls.show_poll(out, record, sereno.kit.clock.now())
        out.answer("poll", show_polls.poll_row(record))

    return run_session(flags, body)


@app.command
def edit(
    name: Name,
    /,
    *,
    source: SourceFlags = _SOURCE,
    poll: PollFlags = _POLL,
    reconsider: Annotated[bool, Parameter(help="Judge what was seen already by the new condition, too.")] = False,
    flags: Flags = DEFAULT,
) -> int:
    """Change parts of a poll. What it remembers stays, and nothing fires for objects already seen."""

    async def body(sereno: "Sereno", out: Output) -> None:
        before = await sereno.polls.get(name)
        changed = changes(source, poll, poll_to_model(before.poll.spec))
        if not changed and not reconsider:
            raise RequestError("no flag says what to change", subject=name, hint="see `sereno poll edit --help`")
        record = await sereno.polls.edit(name, changed, reconsider=reconsider)
        out.say(
            f"Changed {record.poll.spec.name}: {', '.join(changed) or 'nothing'}."
            + (" It looks again at once." if reconsider else "")
        )
        show_polls.show_poll(out, record, sereno.kit.clock.now())
        out.answer("poll", show_polls.poll_row(record))

    return run_session(flags, body)


@app.command
def preview(
    name: NameOrUrl = None,
    url: Url = None,
    /,
    *,
    source: SourceFlags = _SOURCE,
    poll: PollFlags = _POLL,
    flags: Flags = DEFAULT,
) -> int:
    """Show what a stored poll, or an address, shows now and what the condition says of it. Stores nothing, fires nothing."""

    async def body(sereno: "Sereno", out: Output) -> int:
        return await _preview(sereno, out, await _previewed(sereno, (name, url), source, poll))

    return run_session(flags, body)


async def _previewed(sereno: "Sereno", words: tuple[str | None, str | None], source: SourceFlags, poll: PollFlags) -> PollModel:
    """A stored poll with the given flags laid over it, where the one word is its name; else a new one."""
    names = {record.poll.spec.name for record in await sereno.polls.all()}
    if words[1] is None and words[0] in names:
        stored = poll_to_model((await sereno.polls.get(words[0])).poll.spec)
        return read_model(stored | changes(source, poll, stored), where=words[0])
    return await wanted(sereno, words, source, poll)


@app.command
def run(name: Name, /, *, flags: Flags = DEFAULT) -> int:
    """Make a poll due now. A running `sereno up` performs it, or the next `sereno once`."""

    async def body(sereno: "Sereno", out: Output) -> None:
        record = await sereno.polls.run(name)
        out.say(f"{record.poll.spec.name} is due now. `sereno up` performs it, or `sereno once`.")
        out.answer("poll", show_polls.poll_row(record))

    return run_session(flags, body)


@app.command
def pause(name: Name, /, *, flags: Flags = DEFAULT) -> int:
    """Stop running a poll; what it remembers stays."""

    async def once(sereno: "Sereno") -> PollRecord:
        record = await sereno.polls.get(name)
        if record.poll.state is PollState.PAUSED:
            raise NotNow(f"poll {name} is paused already", subject=name, hint=f"sereno poll resume {name} runs it again")
        return await sereno.polls.pause(name)

    return _set(flags, once, keep="write paused = true")


@app.command
def resume(name: Name, /, *, flags: Flags = DEFAULT) -> int:
    """Run a poll again, from its next instant on; also after it was disabled or has ended."""
    return _set(flags, lambda sereno: sereno.polls.resume(name))


@app.command
def remove(name: Name, /, *, flags: Flags = DEFAULT) -> int:
    """End a poll and free its name; its runs stay on record."""
    return _set(flags, lambda sereno: sereno.polls.remove(name), keep="delete it")


def _set(flags: Flags, act: "Callable[[Sereno], Awaitable[PollRecord]]", *, keep: str | None = None) -> int:
    """Changes a state; `keep` is what to do in a settings file to keep it so."""

    async def body(sereno: "Sereno", out: Output) -> None:
        record = await act(sereno)
        if keep is not None and record.managed_by.startswith("file:"):
            place = record.managed_by.removeprefix("file:")
            out.remark(
                f"The next apply, also at the start of `up` and `once`, goes by the file: {keep} at {place} to keep it so."
            )
        following = f"; next run {out.time(record.due)}" if record.poll.state is PollState.ACTIVE else ""
        out.say(f"{record.poll.spec.name} is {record.poll.state}{following}.")
        out.answer("poll", show_polls.poll_row(record))

    return run_session(flags, body)


@app.command
def export(*names: Annotated[str, Parameter(help="Names of polls; default: all.")], flags: Flags = DEFAULT) -> int:
    """Print polls as the [[poll]] tables of sereno.toml that would make them."""

    async def body(sereno: "Sereno", out: Output) -> None:
        definitions = await sereno.polls.export(names)
        out.say(as_toml(definitions).rstrip("\n"))
        out.answer("poll_export", {"poll": definitions})

    return run_session(flags, body)


@app.command
def diff(name: Name, /, *, flags: Flags = DEFAULT) -> int:
    """Read the source now and compare it with what the poll remembers. Stores nothing, fires nothing."""

    async def body(sereno: "Sereno", out: Output) -> int:
        difference = await sereno.polls.diff(name)
        show_polls.show_difference(out, difference)
        out.answer("poll_diff", show_polls.difference_row(difference))
        return 0 if difference.failure is None else EXIT_UNAVAILABLE

    return run_session(flags, body)
