"""`sereno demo`: Sereno at work for a minute, in a playground of its own."""

import asyncio
import io
import os
import signal
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from sereno.core.errors import SerenoError
from sereno.core.work import Principal
from sereno.faces.cli.demo.director import Director
from sereno.faces.cli.demo.ground import Ground, open_ground
from sereno.faces.cli.demo.stories import State, Story, judge, printed_twice
from sereno.faces.cli.demo.view import LiveView, PlainLines, Scene, Told, View
from sereno.faces.cli.output import EXIT_BUG, EXIT_INTERRUPTED, EXIT_OK, Output
from sereno.settings import load_settings

if TYPE_CHECKING:
    from sereno.app import Sereno

LOOK_EVERY = 0.5
"""Seconds between two looks at the books."""
ENDS_WITHIN = 100.0
"""Seconds after which the demo ends, whatever is missing."""
STILL = 4.0
"""Seconds that everything is watched on after the last story, so that a second telling would be seen."""
PATIENCE = 30.0
"""Seconds that a person at a terminal has to answer."""


@dataclass(slots=True)
class Ending:
    """How the demo went."""

    stories: dict[str, Story] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False
    printed_twice: int = 0
    answered_by_demo: bool = False

    @property
    def missing(self) -> list[str]:
        """Stories that did not come true."""
        return [name for name, story in self.stories.items() if story.state is not State.DONE]

    @property
    def ok(self) -> bool:
        """Every story came true, and the console said nothing twice."""
        return bool(self.stories) and not self.missing and self.printed_twice == 0 and not self.interrupted


def demo(
    *,
    keep: Annotated[bool, Parameter(help="Leave the demo's folder with settings, contract and database behind.")] = False,
    json_: Annotated[
        bool, Parameter(name="--json", help="Print one JSON document; the lines of the stories go to standard error.")
    ] = False,
) -> int:
    """See Sereno at work for a minute: polls and jobs, good and hostile ones, in a playground on this machine.

    On a terminal a live view shows it, and one question waits for your answer. Without a terminal it prints one line a story, answers
    the question through a second process, and ends with one line of JSON: exit code 0 when every story came true, else 1.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what is watched may hold characters that this terminal has not
    live = sys.stdout.isatty() and not json_ and os.environ.get("TERM") not in (None, "", "dumb")
    try:
        return asyncio.run(_demo(live=live, as_json=json_, keep=keep))
    except SerenoError as error:
        return Output(as_json=json_).fail(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


async def _demo(*, live: bool, as_json: bool, keep: bool) -> int:
    if live:
        print("Starting ...", end="\r", flush=True)  # the view writes over it
    async with open_ground(keep=keep) as ground:
        stream = sys.stderr if as_json else sys.stdout
        view: View = LiveView(ground, Console(file=sys.stdout, highlight=False)) if live else PlainLines(ground, stream)
        ending = await _run(ground, view, PATIENCE if live else 0.0)
    if live:
        _say_farewell(ground, ending, keep=keep)
    else:
        _tell(ground, ending, keep=keep)
    if ending.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_OK if ending.ok else EXIT_BUG


async def _run(ground: Ground, view: View, patience: float) -> Ending:
    from sereno.app import open_app

    told = Told()
    loaded = load_settings(str(ground.config), {}, ground.folder)
    async with open_app(loaded, who=Principal(user=os.environ.get("USER") or "local"), origin="cli", console=told) as app:
        app.set_up_logs(level="error", form="text")
        director, loop = Director(app, ground, patience), asyncio.get_running_loop()
        async with app.stopping_on_signals():
            loop.add_signal_handler(signal.SIGHUP, app.stop)  # the terminal was closed
            running = loop.create_task(app.run())
            try:
                with view:
                    await director.open()
                    return await _play(app, director, (view, told), running)
            finally:
                loop.remove_signal_handler(signal.SIGHUP)
                await director.close()
                app.stop()
                await asyncio.gather(running, return_exceptions=True)


async def _play(app: "Sereno", director: Director, seen: tuple[View, Told], running: "asyncio.Task[object]") -> Ending:
    """Looks, shows and moves on until every story is told and a while has passed in which nothing was told again."""
    (view, told), clock = seen, app.kit.clock
    started, settled_at = clock.monotonic(), None
    ending, scene = Ending(), Scene(0.0, {}, ())
    while not running.done():
        facts = await director.facts(told.lines())
        ending = Ending(
            stories=judge(facts, ending.stories),
            seconds=clock.monotonic() - started,
            printed_twice=printed_twice(facts.printed),
            answered_by_demo=director.answered_by_demo,
        )
        question = director.open_question(facts)
        left = 0 if question is None else director.seconds_left(question)
        scene = Scene(ending.seconds, ending.stories, facts.printed, question, left, director.answered_by_demo)
        view.show(scene)
        settled = all(story.state in (State.DONE, State.WRONG) for story in ending.stories.values())
        settled_at = (settled_at or ending.seconds) if settled else None
        if ending.seconds > ENDS_WITHIN or (settled_at is not None and ending.seconds >= settled_at + STILL):
            return ending
        await director.step(facts)
        await clock.sleep(LOOK_EVERY)
    running.result()
    view.show(replace(scene, question=None))
    ending.interrupted = True
    return ending


def _tell(ground: Ground, ending: Ending, *, keep: bool) -> None:
    """The one line of JSON."""
    stories = {
        name: {"ok": story.state is State.DONE, "says": story.says, **story.counts} for name, story in ending.stories.items()
    }
    body = {
        "stories": stories,
        "ok": ending.ok,
        "seconds": round(ending.seconds, 1),
        "missing": ending.missing,
        "printed_twice": ending.printed_twice,
        "answered_through_second_process": ending.answered_by_demo,
        "interrupted": ending.interrupted,
        "folder": str(ground.folder) if keep else None,
    }
    Output(as_json=True).answer("demo", body)


def _say_farewell(ground: Ground, ending: Ending, *, keep: bool) -> None:
    """How it went, and how to go on with real addresses."""
    out = Output(as_json=False)
    out.say()
    count = len(ending.stories) - len(ending.missing)
    how = "Interrupted" if ending.interrupted else "That was the demo"
    checked = ", says the other side's book too" if count else ""
    out.say(f"{how}: {count} of {len(ending.stories)} stories came true{checked}.")
    for name in () if ending.interrupted else ending.missing:
        out.say(f"  missing: {name}: {ending.stories[name].says}")
    if ending.answered_by_demo:
        out.say("Nobody answered the odd job's question: the demo did, in a second process.")
    if keep:
        out.say(f"Everything is left in {ground.folder}: look around with")
        out.say(f"  sereno operation list --config {ground.config}")
    else:
        out.say(f"{ground.folder} is gone again (sereno demo --keep leaves it).")
    out.say()
    out.say("Go on with a real address, and leave the demo behind:")
    out.say("  sereno init                                       # writes ./sereno.toml")
    out.say("  sereno poll add https://peps.python.org/peps.rss  # looks, and says so")
    out.say("  sereno up                                         # watches; Ctrl-C ends")
