"""What callers of other waiters complain about, shown on the command line: lost handles, and looks that cost something."""

import json
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.faces.conftest import Cli, QuickClock
from tests.faces.provider import Books, Provider
from tests.faces.test_decisions import look_once, waiting
from tests.faces.test_processes import read_until, sereno

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy


class HeldBooks(Books):
    """Books of a provider that answers nothing before the test says so; `reached` is set by the first request."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.released = threading.Event(), threading.Event()
        self.requests = _Held(self)  # type: ignore[assignment]


class _Held(list[Any]):
    """A list of requests that holds whoever appends."""

    def __init__(self, books: HeldBooks) -> None:
        super().__init__()
        self._books = books

    def append(self, item: Any) -> None:
        super().append(item)
        self._books.reached.set()
        assert self._books.released.wait(300)


@pytest.fixture
def held(provider: Provider, folder: Path) -> Iterator[HeldBooks]:
    """The provider of the folder, which holds every answer, and a contract that bears with it; the lease of whoever is killed is short."""
    settings = (folder / "sereno.toml").read_text()
    short = 'tick = "50ms"\nlease = "4s"\ntotal_deadline = "1s"\nguard = "1s"\ncommit_time = "1s"'
    (folder / "sereno.toml").write_text(settings.replace('tick = "50ms"', short))
    contract = folder / "contracts" / "acme.toml"
    patient = contract.read_text().replace("requests = 20", "requests = 200").replace("failures = 3", "failures = 100")
    contract.write_text(patient)
    books = HeldBooks()
    provider._server.RequestHandlerClass.books = books  # type: ignore[attr-defined]
    yield books
    books.released.set()


@pytest.mark.parametrize("words", [("wait", "acme", "job-9"), ("submit", "acme", "--input", "{}")])
@pytest.mark.parametrize("as_json", [False, True])
def test_W36_the_handle_comes_before_any_wait(
    cli: Cli, folder: Path, provider: Provider, held: HeldBooks, words: tuple[str, ...], as_json: bool
) -> None:
    """status-polling §2 row 29: it is printed while the provider still keeps its first answer; killed, the wait is found under it."""
    with sereno(folder, *words, "--base", provider.base, *(["--json"] if as_json else [])) as caller:
        assert caller.stderr is not None
        line = caller.stderr.readline()
        operation = json.loads(line)["operation_id"] if as_json else line.split(":", 1)[0]
        assert operation.startswith("op_"), line
        assert held.reached.wait(300)
        caller.send_signal(signal.SIGKILL)
        caller.wait(300)
    found = cli("operation", "show", operation, "--json")
    assert found.code == 0 and found.json["status"] in ("waiting", "submitting")
    held.released.set()
    if words[0] == "wait":
        assert cli("wait", operation).code == 0
        assert cli("operation", "show", operation, "--json").json["status"] == "succeeded"


def test_W36_detached_the_handle_comes_without_any_wait(cli: Cli, provider: Provider, held: HeldBooks) -> None:
    """status-polling §2 row 29: a caller that must not wait at all gets the handle, and nothing was sent."""
    operation = waiting(cli, provider)
    assert cli("operation", "show", operation, "--json").json["status"] == "waiting"
    assert not held.reached.is_set() and held.requests == []


@pytest.mark.usefixtures("quick")
def test_W36_asking_early_costs_nothing_and_says_when(cli: Cli, provider: Provider, quick: QuickClock) -> None:
    """status-polling §2 row 30: however often it is asked, the provider hears nothing, and each answer names the next look."""
    provider.books.headers, provider.books.script = [("Retry-After", "3000")], ["running"]
    operation = waiting(cli, provider, "acme", "--deadline", "2h")
    begun = quick.now()
    look_once(cli, provider, operation)
    quick.speed = 1.0  # so that the pause is over in an hour, not in two minutes
    assert len(provider.books.requests) == 1
    for _ in range(3):
        row = cli("operation", "show", operation, "--json").json
        next_at = datetime.fromisoformat(row["next_poll_at"])
        assert next_at >= begun + timedelta(seconds=3000)
        assert row["status_requests_used"] == 1
        assert cli("once").code == 0
        listed = cli("operation", "list", "--json").json["operations"]
        assert [one["next_poll_at"] for one in listed] == [row["next_poll_at"]]
    local = next_at.astimezone(UTC).strftime("%H:%M:%S")
    text = cli("operation", "show", operation).out
    assert local in text and "Retry-After" in text, text
    assert len(provider.books.requests) == 1


def test_W36_whoever_comes_back_early_waits_for_the_planned_look(cli: Cli, folder: Path, provider: Provider) -> None:
    """status-polling §2 row 30: `sereno wait op_…` follows the plan: whoever comes back makes no look before its time."""
    provider.books.headers, provider.books.script = [("Retry-After", "3000")], ["running"]
    operation = waiting(cli, provider, "acme", "--deadline", "2h")
    with sereno(folder, "wait", operation) as first:
        assert first.stderr is not None
        read_until(first.stderr, "running, 1/20 requests")  # the look is answered: the count alone stands before it is sent
        first.send_signal(signal.SIGKILL)
    for _ in range(2):
        with sereno(folder, "wait", operation) as again:
            assert again.stderr is not None
            read_until(again.stderr, "running, 1/20 requests")
            again.send_signal(signal.SIGINT)
            assert again.wait(300) == 130
    assert len(provider.books.requests) == 1
