"""How help looks: plain text in two columns, the same on every terminal and in a pipe."""

import textwrap
from typing import TYPE_CHECKING

from cyclopts.help.formatters.plain import PlainFormatter
from rich.console import Console

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import ConsoleOptions

WIDTH = 110
_COLUMN = 26


class Columns(PlainFormatter):
    """Names left, what they do right, wrapped at 110 characters."""

    def __call__(self, console: Console, options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """Prints one panel."""
        if not panel.entries:
            return
        self._print_plain(console, f"{panel.title}:")
        for entry in panel.entries:
            self._print_plain(console, _entry(entry, console))
        console.print()


def _entry(entry: "HelpEntry", console: Console) -> str:
    name = "  " + ", ".join(entry.display_labels) + (f" {entry.metavar}" if entry.metavar and not entry.positional_label else "")
    says = _text(entry.description, console) + (" [required]" if entry.required else "")
    lines = textwrap.wrap(says, WIDTH - _COLUMN) or [""]
    rest = "".join("\n" + " " * _COLUMN + line for line in lines[1:])
    if len(name) + 2 > _COLUMN:
        return f"{name}\n{' ' * _COLUMN}{lines[0]}{rest}"
    return f"{name.ljust(_COLUMN)}{lines[0]}{rest}".rstrip()


def _text(description: object, console: Console) -> str:
    if description is None:
        return ""
    with console.capture() as capture:
        console.print(description, end="", highlight=False, markup=False)
    return " ".join(capture.get().split())


def help_console() -> Console:
    """A console without colours that leaves wrapping to us."""
    return Console(width=1000, highlight=False, no_color=True, markup=False, emoji=False, soft_wrap=True)
