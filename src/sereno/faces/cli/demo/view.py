"""How the demo looks: a calm view on a terminal, or one plain line a story."""

import io
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sereno.core.escalation import Escalation
from sereno.faces.cli.demo.director import OPTION
from sereno.faces.cli.demo.ground import Ground
from sereno.faces.cli.demo.stories import LABELS, State, Story
from sereno.faces.cli.output import safe

_STYLES = {State.GOING: "dim", State.ASKS: "bold yellow", State.DONE: "green", State.WRONG: "bold red"}
_MARKS = {State.GOING: "...", State.ASKS: "you?", State.DONE: "done", State.WRONG: "wrong"}
_FIXED = 7
"""Lines beside stories, notifications and question: two of the heading, three between, the settings, one that the terminal needs."""
_COMMAND = 5
"""Lines of a question, for which room is kept so that the view does not jump."""
_MOST_TOLD = 4


class Told(io.StringIO):
    """The stream that is handed to the console action; what it was told is shown by the view."""

    def lines(self) -> list[str]:
        """The lines so far."""
        return self.getvalue().splitlines()


@dataclass(frozen=True, slots=True)
class Scene:
    """What is to be seen at one moment."""

    seconds: float
    stories: Mapping[str, Story]
    told: Sequence[str]
    question: Escalation | None = None
    seconds_left: int = 0
    answered_by_demo: bool = False


class View(Protocol):
    """Shows scenes."""

    def __enter__(self) -> "View": ...

    def __exit__(self, *error: object) -> None: ...

    def show(self, scene: Scene) -> None:
        """Shows one moment; shows nothing where nothing has changed."""
        ...


def answer_command(question: Escalation, ground: Ground, width: int) -> list[str]:
    """The command that answers, as shell lines that belong together: to be copied as it is, from any folder.

    A line that is too long for the screen goes on at the left edge of the next one, behind a backslash, which a shell joins again.
    """
    beside = Path(sys.executable).with_name("sereno")
    program = [str(beside)] if beside.is_file() else [sys.executable, "-m", "sereno.faces.cli.main"]
    lines = [
        f"{shlex.join([*program, 'escalation', 'answer'])} \\",
        f"  {shlex.join([question.id, OPTION])} --digest {question.digest[:12]} \\",
        f"  {shlex.join(['--config', str(ground.config)])}",
    ]
    return [part for line in lines for part in _folded(line, width)]


def _folded(line: str, width: int) -> list[str]:
    parts = []
    while len(line) > width:
        # Never between a backslash and what it joins.
        cut = width - 1 if not line[: width - 1].endswith("\\") else width - 2
        parts.append(line[:cut] + "\\")
        line = line[cut:]
    return [*parts, line]


@dataclass(slots=True)
class PlainLines:
    """One line for each story as it ends, and for the question; for pipes, logs and programs."""

    ground: Ground
    stream: TextIO
    _seen: dict[str, object] = field(default_factory=dict)

    def __enter__(self) -> "PlainLines":
        self._line(0, "playground", f"{self.ground.base}, settings {self.ground.config}, database {self.ground.database}")
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def show(self, scene: Scene) -> None:
        """Prints what ended since the last scene."""
        for name, story in scene.stories.items():
            if self._seen.get(name) is not story.state and story.state is not State.GOING:
                self._line(scene.seconds, LABELS[name], f"{_MARKS[story.state]}  {story.says}")
            self._seen[name] = story.state
        if scene.answered_by_demo and not self._seen.get("answered"):
            self._seen["answered"] = True
            self._line(scene.seconds, LABELS["odd"], f"answered  {OPTION}, through a second process")

    def _line(self, seconds: float, label: str, says: str) -> None:
        print(f"{seconds:5.1f}s  {label.ljust(10)}  {says}", file=self.stream, flush=True)


class LiveView:
    """The view on a terminal, redrawn in place only when something has changed. Fits 80 x 24."""

    def __init__(self, ground: Ground, console: Console):
        self._ground = ground
        self._console = console
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._last = ""

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, scene: Scene) -> None:
        """Draws the scene."""
        lines = self._lines(scene)
        drawn = "\n".join(line.markup for line in lines)
        if drawn != self._last:
            self._last = drawn
            self._live.update(Group(*lines), refresh=True)

    def _lines(self, scene: Scene) -> list[Text]:
        stories = [_story(LABELS[name], story) for name, story in scene.stories.items()]
        heading = _line(("Sereno at work", "bold"), (f"   {scene.seconds:3.0f} s   playground {self._ground.base}", "dim"))
        feet, question = _line((f"settings {self._ground.config}, database beside   Ctrl-C ends", "dim")), self._question(scene)
        room = self._console.size.height - len(stories) - _FIXED - max(_COMMAND, len(question))
        return [heading, _line(), *stories, _line(), *self._told(scene, min(_MOST_TOLD, room)), feet, *question]

    def _told(self, scene: Scene, room: int) -> list[Text]:
        if room < 1:
            return []
        lines = [f"  {safe(line.partition('  ')[2], most=300)}" for line in scene.told[-room:]]
        lines += [""] * (room - len(lines))
        return [_line(("Told (the notifications, each once)", "dim")), *map(_line, lines), _line()]

    def _question(self, scene: Scene) -> list[Text]:
        question = scene.question
        if question is None:
            return []
        left = f"  (or the demo does, in {scene.seconds_left} s)" if scene.seconds_left else "  (the demo does it now)"
        head = _line(("Answer the odd job from another terminal:", "bold yellow"), (left, "dim"))
        commands = answer_command(question, self._ground, self._console.size.width)
        return [_line(), head, *(Text(line, no_wrap=True, overflow="ignore") for line in commands)]


def _line(*parts: str | tuple[str, str]) -> Text:
    line = Text.assemble(*parts)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _story(label: str, story: Story) -> Text:
    style = _STYLES[story.state]
    return _line(
        (_MARKS[story.state].ljust(6), style), label.ljust(12), (story.says, "dim" if story.state is State.GOING else "")
    )
