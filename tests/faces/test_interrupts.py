"""Ctrl-C at any moment: exit 130 with the answer that was asked for, and never a traceback or a death by signal."""

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faces.test_processes import WAIT, read_until, sereno

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

Job = Callable[[str], str]


@pytest.mark.parametrize("apart", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("as_json", [False, True])
def test_two_interrupts_end_a_wait_with_130_and_its_answer(folder: Path, job: Job, apart: float, as_json: bool) -> None:
    """The second comes while the first is still being obeyed, or after it."""
    words = ("wait", "generic-status", job("endless"), *WAIT, *(["--json"] if as_json else []))
    with sereno(folder, *words) as waiting:
        assert waiting.stderr is not None and waiting.stdout is not None
        if as_json:
            while not list((folder / ".sereno").glob("sereno.db")):
                pass
        else:
            read_until(waiting.stderr, "requests")
        waiting.send_signal(signal.SIGINT)
        threading.Event().wait(apart)
        if waiting.poll() is None:
            waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=300)
        assert waiting.returncode == 130, err
    assert "Traceback" not in err and "fault of Sereno" not in out + err
    if as_json:
        document = json.loads(out)
        assert document["schema"] in ("sereno.wait/1", "sereno.error/1")
    else:
        assert "Interrupted; op_" in err


def test_up_says_what_it_finishes_first(folder: Path) -> None:
    """A command is under way when the end is asked for; a second Ctrl-C does not wait for it."""
    (folder / "sereno.toml").write_text(
        f"""
        [[poll]]
        name = "slow"
        every = "1h"
        source.type = "command"
        source.argv = ["sh", "-c", "touch {folder}/started; exec sleep 600"]
        """
    )
    with sereno(folder, "up") as up:
        assert up.stdout is not None and up.stderr is not None
        while not (folder / "started").exists():
            pass
        up.send_signal(signal.SIGINT)
        read_until(up.stdout, "Finishing 1 piece of work; Ctrl-C again ends at once.")
        threading.Event().wait(0.2)  # a second press of the same hand
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=300)
        assert up.returncode == 130
