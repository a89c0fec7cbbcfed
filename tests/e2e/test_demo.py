"""The demo tells true stories: as a command in a pipe, on a terminal with a person, and interrupted; and it would notice false ones."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sereno.core.delivery import DeliveryState
from sereno.core.escalation import Category
from sereno.core.operation import OperationState
from sereno.faces.cli.demo import stories
from sereno.faces.cli.demo.ground import Books
from sereno.faces.cli.demo.stories import Facts, State, judge, printed_twice
from sereno.outside.clock import SystemClock

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

DEMO = [sys.executable, "-m", "sereno.faces.cli.main", "demo"]
NAMES = {"feed", "price", "api", "slow", "busy", "late", "hollow", "odd"}
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PATIENCE = 300.0
"""Seconds; the demo itself ends after 120 at the most and needs about 25."""


def environment(folder: Path, **more: str) -> dict[str, str]:
    """A process environment with an empty home, where temporary folders come to `folder`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SERENO_")}
    return {**kept, "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), **more}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a home, a place for temporary folders and a broken sereno.toml, which the demo must not care about."""
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "sereno.toml").write_text("this is no TOML")
    return tmp_path


def test_W19_W26_W40_P05_P07_without_a_terminal_it_tells_every_story_and_ends_with_json(place: Path) -> None:
    """One line a story, the question answered through a second process, one JSON line, exit 0; with --keep its folder stays."""
    done = run([*DEMO, "--keep"], place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    *lines, last = done.stdout.splitlines()
    report = json.loads(last)
    assert report["schema"] == "sereno.demo/1"
    assert report["ok"] is True
    assert report["missing"] == []
    assert report["answered_through_second_process"] is True
    told = report["stories"]
    assert set(told) == NAMES
    assert all(story["ok"] for story in told.values())
    for story in NAMES - {"odd"}:
        assert sum(line[8:18].strip() == stories.LABELS[story] for line in lines) == 1, lines
    assert told["feed"] | {"known": 13, "told": 1, "received": 1} == told["feed"]
    assert told["price"]["prices"] == ["49.00", "39.00", "52.00", "37.50"]
    assert (told["price"]["told"], told["price"]["received"]) == (2, 2)
    assert told["api"]["not_modified"] == told["api"]["looks"] - 1
    assert told["busy"]["gap_s"] >= 3.0
    for name, looks in {"slow": 4, "busy": 3, "late": 4, "hollow": 2, "odd": 4}.items():
        assert told[name]["requests_seen"] == told[name]["requests_counted"] == looks
    assert list((place / "tmp").iterdir()) == [Path(report["folder"])]
    story = explained(place, Path(report["folder"]) / "sereno.toml", "busy")
    assert "HTTP 503" in story
    assert "provider" in story.partition("HTTP 503")[2].splitlines()[2], "the story names whose delay it was"


def run(command: list[str], place: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a command without a terminal."""
    return subprocess.run(
        command, cwd=place, env=environment(place), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )


def explained(place: Path, config: Path, task: str) -> str:
    """The story of one wait of the demo, as `operation explain` prints it."""
    flags = ["--config", str(config)]
    listed = run([*DEMO[:-1], "operation", "list", "--json", *flags], place)
    found = [one for one in json.loads(listed.stdout)["operations"] if one["assistant_task_id"] == f"demo-{task}"]
    return run([*DEMO[:-1], "operation", "explain", found[0]["operation_id"], *flags], place).stdout


def test_ctrl_c_ends_it_at_once_and_leaves_nothing(place: Path) -> None:
    """With --json standard output is one document; Ctrl-C ends the playground too, and exit code is 130."""
    command = subprocess.Popen(
        [*DEMO, "--json"], cwd=place, env=environment(place), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with command:
        assert command.stderr is not None
        first = command.stderr.readline()
        assert "playground" in first
        for line in command.stderr:
            if "you?" in line:
                break
        playground = re.search(r"http://127\.0\.0\.1:(\d+)", first)
        assert playground is not None
        assert listens(int(playground[1]))
        command.send_signal(signal.SIGINT)
        answer, _ = command.communicate(timeout=300)
    assert command.returncode == 130
    report = json.loads(answer)
    assert (report["ok"], report["interrupted"]) == (False, True)
    assert not listens(int(playground[1]))
    assert list((place / "tmp").iterdir()) == []


def listens(port: int) -> bool:
    """Whether somebody has this port of the loopback interface."""
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(row.split()[1] == f"0100007F:{port:04X}" and row.split()[3] == "0A" for row in rows)


class Screen:
    """Our end of a pseudo-terminal of 80 x 24."""

    def __init__(self, number: int):
        self._number = number
        self._clock = SystemClock()
        self.raw = ""

    @property
    def text(self) -> str:
        """All that was written so far, without what moves the cursor and colours."""
        return ESCAPES.sub("", self.raw).replace("\r", "\n")

    def until(self, found: Callable[[str], bool]) -> None:
        """Reads until a condition on the text holds; fails after a while, or when the other side is closed too early."""
        ends = self._clock.monotonic() + PATIENCE
        while not found(self.text):
            left = ends - self._clock.monotonic()
            assert left > 0, self.text[-3000:]
            if select.select([self._number], [], [], left)[0]:
                try:
                    self.raw += os.read(self._number, 65_536).decode("utf-8", "replace")
                except OSError:
                    assert found(self.text), self.text[-3000:]


@contextmanager
def terminal(place: Path) -> Iterator[tuple[subprocess.Popen[bytes], Screen]]:
    """The demo on a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        DEMO, cwd=place, env=environment(place, TERM="xterm"), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        yield process, Screen(ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_W19_W20_on_a_terminal_a_person_answers_with_the_command_shown(place: Path) -> None:
    """The live view fits 80 x 24 and shows a command; run as it stands in another shell, it answers; the stories come true."""
    with terminal(place) as (process, screen):
        command = re.compile(r"the demo does, in \d+ s\)\s+([^()]+ escalation answer [^()]+sereno\.toml)\n")
        screen.until(lambda text: command.search(text) is not None)
        found = command.search(screen.text)
        assert found is not None
        shell = re.sub(r"\n+", "\n", found[1])
        assert len(shell.splitlines()) > 3, "the path of this test is too long for one line of the screen"
        answered = subprocess.run(shell, shell=True, cwd="/", env=environment(place), capture_output=True, text=True, timeout=300)
        assert answered.returncode == 0, answered.stderr
        assert "Answered treat_as_pending" in answered.stdout
        screen.until(lambda text: "watches; Ctrl-C ends" in text)
        assert process.wait(300) == 0
    shown = screen.text
    assert "8 of 8 stories came true" in shown
    assert "Nobody answered" not in shown
    assert "unknown state, answered treat_as_pending: succeeded" in shown
    assert max(len(line) for line in shown.partition("That was the demo")[0].splitlines()) <= 80
    ups = [len(re.findall(r"\x1b\[1A", jump)) for jump in re.findall(r"(?:\x1b\[1A(?:\x1b\[2K)?)+", screen.raw)]
    assert 10 < max(ups) < 24, "the view is redrawn in place and is lower than the terminal"
    assert "�" not in shown
    assert list((place / "tmp").iterdir()) == []


def delivered(number: int, action: str = "console") -> list[Any]:
    """So many delivered messages."""
    effect = SimpleNamespace(action=SimpleNamespace(name=action), title="feed: Harbour note 13")
    return [SimpleNamespace(delivery=SimpleNamespace(effect=effect, state=DeliveryState.DELIVERED))] * number


def watching(told: int, runs: int = 5) -> Any:
    """A poll that has told so often."""
    record = SimpleNamespace(poll=SimpleNamespace(id="poll_1", baselined=True, runs=runs), known_objects=13)
    deliveries = delivered(told)
    return SimpleNamespace(record=record, deliveries=deliveries, told=lambda action: deliveries)


def waiting(state: OperationState, counted: int, told: int, *categories: Category, question: str = "answered") -> Any:
    """A wait that stands so; the last of its questions has the given state."""
    spend, allowance = SimpleNamespace(status_requests=counted), SimpleNamespace(max_status_requests=20)
    operation = SimpleNamespace(
        job_id="job", state=state, spend=spend, allowance=allowance, category=None, result_ref="http://h/r", last_state="w",
        last_http_status=200,
    )  # fmt: skip
    questions = [SimpleNamespace(category=one, state=question, answer={"option": "treat_as_pending"}) for one in categories]
    return SimpleNamespace(record=SimpleNamespace(operation=operation), deliveries=delivered(told), questions=questions)


def world(
    *, prices: tuple[str, ...] = ("49.00", "39.00", "52.00", "37.50"), looks: int = 4, gap: float = 3.1, **changed: Any
) -> Facts:
    """Facts under which every story is true, except for what is changed."""
    ended = OperationState.SUCCEEDED
    watches = {"feed": watching(1), "price": watching(2), "api": watching(0)}
    waits = {name: waiting(ended, 4, 1) for name in ("slow", "busy", "late")}
    waits["hollow"] = waiting(OperationState.ESCALATED, 4, 1, Category.CONTRADICTION, question="open")
    waits["odd"] = waiting(ended, 4, 2, Category.UNKNOWN_STATE)
    keys = {name: {"poll_1": tuple("ab"[: len(watches[name].deliveries)])} for name in watches}
    books = Books(
        looked_at={"job": [0.0, *(gap + number for number in range(looks - 1))]},
        answered={"/api/status": 5},
        not_modified={"/api/status": 4},
        prices_shown=prices,
        received=changed.pop("received", {}),
    )
    for name, one in changed.items():
        (watches if name in watches else waits)[name] = one
    facts = SimpleNamespace(watches=watches, waits=waits, books=books, keys=keys)
    return cast(Facts, facts)


def standing(name: str, facts: Facts, received: tuple[str, ...] | None = None) -> State:
    """Where one story stands; the receiver's book is filled for that story."""
    keys = cast(Any, facts).keys.get(name, {}) if received is None else {"poll_1": received}
    cast(Any, facts).books = Books(**{**{field: getattr(facts.books, field) for field in Books.__slots__}, "received": keys})
    return judge(facts, {})[name].state


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_story_is_done_in_a_true_world(name: str) -> None:
    """The control: with nothing changed each story is done."""
    assert standing(name, world()) is State.DONE


@pytest.mark.parametrize(
    ("name", "facts", "received"),
    [
        pytest.param("feed", world(feed=watching(2)), ("a",), id="an entry was told twice"),
        pytest.param("feed", world(), ("a", "a"), id="the receiver saw the entry twice"),
        pytest.param("price", world(price=watching(3)), ("a", "b"), id="a fall was told twice"),
        pytest.param("price", world(), ("a", "b", "b"), id="the receiver saw one key twice"),
        pytest.param("price", world(prices=("49.00", "39.00")), ("a", "b"), id="told twice for one fall"),
        pytest.param("api", world(api=watching(1)), None, id="told although nothing changed"),
        pytest.param("slow", world(slow=waiting(OperationState.SUCCEEDED, 3, 1)), None, id="more requests seen than counted"),
        pytest.param("slow", world(slow=waiting(OperationState.SUCCEEDED, 4, 2)), None, id="the end was told twice"),
        pytest.param("slow", world(slow=waiting(OperationState.FAILED, 4, 1)), None, id="the job failed"),
        pytest.param("busy", world(gap=2.9), None, id="asked before Retry-After was over"),
        pytest.param("late", world(late=waiting(OperationState.ESCALATED, 4, 1)), None, id="given up too early"),
        pytest.param("hollow", world(hollow=waiting(OperationState.SUCCEEDED, 4, 1)), None, id="a hollow success was believed"),
        pytest.param("odd", world(odd=waiting(OperationState.SUCCEEDED, 4, 1)), None, id="nobody was asked"),
        pytest.param("odd", world(odd=waiting(OperationState.SUCCEEDED, 4, 3, Category.UNKNOWN_STATE)), None, id="asked twice"),
    ],
)
def test_P07_W04_W33_a_story_that_is_not_true_is_wrong(name: str, facts: Facts, received: tuple[str, ...] | None) -> None:
    """Whatever happened twice, too early or against the contract makes the story wrong, never done."""
    assert standing(name, facts, received) is State.WRONG


def test_an_open_question_is_asked_and_an_untold_end_is_not_done() -> None:
    """What is still under way is neither done nor wrong."""
    asked = waiting(OperationState.ESCALATED, 4, 1, Category.UNKNOWN_STATE, question="open")
    assert standing("odd", world(odd=asked)) is State.ASKS
    assert standing("slow", world(slow=waiting(OperationState.SUCCEEDED, 4, 0))) is State.GOING
    assert standing("feed", world(feed=watching(0)), ()) is State.GOING


def test_what_was_wrong_stays_wrong() -> None:
    """A story that was told too often is not saved by a second fall of the price."""
    early = world(prices=("49.00", "39.00"))
    cast(Any, early).books = Books({}, {}, {}, ("49.00", "39.00"), {"poll_1": ("a", "b")})
    first = judge(early, {})
    assert first["price"].state is State.WRONG
    assert standing("price", world()) is State.DONE
    assert judge(world(), first)["price"] == first["price"]


def test_lines_that_the_console_repeats_are_counted() -> None:
    """The same short id twice is one repeat."""
    assert printed_twice(["a  x [1]", "b  y [2]", "c  x [1]"]) == 1
    assert printed_twice(["a  x [1]", "b  y [2]"]) == 0
