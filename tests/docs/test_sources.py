"""Every option of every source is described."""

import re
from pathlib import Path

import pytest

from sereno.builtin.sources.command import CommandSource
from sereno.builtin.sources.feed import FeedSource
from sereno.builtin.sources.file import FileSource
from sereno.builtin.sources.http import HttpSource
from sereno.ports import Source

PAGE = (Path(__file__).parents[2] / "docs/how-to/sources.md").read_text()


def options(source: Source) -> set[str]:
    """The option names that a source lists when it is given one that is like none of them."""
    hints = [fault.hint or "" for fault in source.check({"qqqqqqqqqq": 1}, origin="config") if "qqqqqqqqqq" in fault.where]
    assert len(hints) == 1
    return set(hints[0].removeprefix("options are ").split(", "))


@pytest.mark.parametrize("source", [HttpSource(), FeedSource(), FileSource(), CommandSource()], ids=lambda source: source.type)
def test_the_page_describes_each_option_of_a_source(source: Source) -> None:
    """The section of the source, with what it refers to, names exactly the options that there are."""
    sections = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE, re.MULTILINE))
    section = sections[source.type] + (sections["Content options"] if "content options" in sections[source.type] else "")
    described = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    if source.type == "feed":
        described |= set(re.findall(r"`(\w+)`", section.split("Takes")[1]))
    assert described == options(source)
