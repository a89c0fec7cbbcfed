"""Every option of every source and action is described."""

import io
import re
from pathlib import Path

import pytest

from sereno.builtin.actions.command import CommandAction
from sereno.builtin.actions.console import ConsoleAction
from sereno.builtin.actions.email import EmailAction
from sereno.builtin.actions.notify import NotifyAction
from sereno.builtin.actions.webhook import WebhookAction
from sereno.builtin.sources.command import CommandSource
from sereno.builtin.sources.feed import FeedSource
from sereno.builtin.sources.file import FileSource
from sereno.builtin.sources.http import HttpSource
from sereno.core.effect import Policy
from sereno.ports import Action, Source

FOLDER = Path(__file__).parents[2] / "docs/how-to"
POLICIES = {Policy.KEYED: "keyed", Policy.AT_MOST_ONCE: "at most once", Policy.AT_LEAST_ONCE: "at least once"}


def secret(name: str) -> str:
    """No name is ever resolved here."""
    raise AssertionError(name)


def options(plugin: Source | Action) -> set[str]:
    """The option names that a plug-in lists when it is given one that is like none of them."""
    hints = [fault.hint or "" for fault in plugin.check({"qqqqqqqqqq": 1}, origin="config") if "qqqqqqqqqq" in fault.where]
    assert len(hints) == 1
    return set() if hints[0] == "there are no options" else set(hints[0].removeprefix("options are ").split(", "))


def sections(page: str) -> dict[str, str]:
    """The second-level sections of a page, by heading."""
    return dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", (FOLDER / page).read_text(), re.MULTILINE))


def described(section: str) -> set[str]:
    """The options that the tables of a section name."""
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


@pytest.mark.parametrize("source", [HttpSource(), FeedSource(), FileSource(), CommandSource()], ids=lambda source: source.type)
def test_the_page_describes_each_option_of_a_source(source: Source) -> None:
    """The section of the source, with what it refers to, names exactly the options that there are."""
    page = sections("sources.md")
    section = page[source.type] + (page["Content options"] if "content options" in page[source.type] else "")
    found = described(section) | set(re.findall(r"`(\w+)`", section.split("Takes")[1]) if "Takes" in section else ())
    assert found == options(source)


ACTIONS = [ConsoleAction(io.StringIO()), WebhookAction(secret), EmailAction(secret), CommandAction(), NotifyAction(secret)]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.type)
def test_the_page_describes_each_option_and_the_policy_of_an_action(action: Action) -> None:
    """The section of the action names exactly the options that there are, and what happens by default to an unknown outcome."""
    section = sections("actions.md")[action.type]
    assert described(section) == options(action)
    assert f"Default policy: {POLICIES[action.default_policy]}." in section
