"""W36: nothing that can be typed makes Sereno ask the provider before the planned instant."""

import re

import pytest

from sereno.faces.cli.commands import build
from sereno.faces.cli.main import NOUNS
from tests.faces.conftest import Cli, QuickClock
from tests.faces.provider import Provider
from tests.faces.test_decisions import look_once, waiting
from tests.faces.test_grammar import verbs_of

pytestmark = pytest.mark.usefixtures("quick")


def test_W36_no_command_about_operations_looks_at_once() -> None:
    """There is no `poll`, `refresh`, `run` or `retry` of an operation; `check` and `replay` read the journal alone."""
    root = build()
    verbs = {verb for noun in NOUNS if noun in ("operation", "escalation") for verb in verbs_of(root[noun])}
    assert verbs == {
        "list", "show", "explain", "answer", "cancel", "resubmit", "push", "contract", "result", "replay", "check",
    }  # fmt: skip


def test_W36_no_flag_shortens_a_wait(cli: Cli) -> None:
    """Flags of `wait`, `submit` and `operation` name limits and words, never "now"."""
    for words in (("wait",), ("submit",), *(("operation", verb) for verb in verbs_of(build()["operation"]))):
        flags = set(re.findall(r"--[a-z-]+", cli(*words, "--help").out))
        assert not {flag for flag in flags if re.search(r"now|check|immediate|refresh", flag)}, words


def test_W36_every_command_leaves_the_provider_alone_before_the_planned_look(
    cli: Cli, provider: Provider, quick: QuickClock
) -> None:
    """After one look the provider said to wait; whatever is typed then, its own book holds one request."""
    provider.books.headers = [("Retry-After", "3000")]
    provider.books.script = ["running"]
    operation = waiting(cli, provider, "acme", "--deadline", "2h")
    look_once(cli, provider, operation)
    quick.speed = 1.0  # so that the pause is over in an hour, not in two minutes
    assert len(provider.books.requests) == 1
    commands = [
        ("operation", "list"),
        ("operation", "show", operation),
        ("operation", "explain", operation),
        ("operation", "contract", operation),
        ("operation", "contract", operation, "--yes"),
        ("operation", "push", operation, "--body", '{"id": "job-9", "status": "done"}'),
        ("operation", "cancel", operation),
        ("operation", "resubmit", operation, "--yes"),
        ("wait", "acme", "job-9", "--base", provider.base, "--detach"),
        ("escalation", "list"),
        ("delivery", "list", operation),
        ("run", "list", operation),
        ("contract", "show", "acme"),
        ("doctor",),
        ("once",),
        ("once",),
    ]
    for words in commands:
        assert cli(*words).code in (0, 2, 6), words
        assert len(provider.books.requests) == 1, words
