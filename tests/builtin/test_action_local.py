"""The `console`, `command` and `notify` actions."""

import io
import json
import os
import sys
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from threading import Thread

import pytest
import uvloop

from sereno.builtin.actions.command import CommandAction
from sereno.builtin.actions.console import ConsoleAction
from sereno.builtin.actions.notify import NotifyAction
from sereno.core.delivery import OutcomeKind
from sereno.core.effect import Policy
from sereno.core.errors import LeaseLost, NotAllowed
from tests.builtin.feeds.scripted import delivery, guarded
from tests.loopback import LoopbackServer

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/home/x", "LANG": "C.UTF-8", "SECRET": "hunter2-value"}
COMMAND = CommandAction(environ=ENVIRONMENT)
HOSTILE = "a\x1b]0;owned\x07\u202eb\u200bc\r\nSubject: d\U000e0041"


async def test_P13_the_console_line_is_one_line_and_steers_no_terminal():
    """Escape sequences, bidi, zero-width and tag characters are shown, not obeyed."""
    stream = io.StringIO()
    outcome = await ConsoleAction(stream).perform(delivery({}, title=HOSTILE, body=HOSTILE * 1000), guarded())
    line = stream.getvalue()
    assert outcome.kind is OutcomeKind.DONE and line.count("\n") == 1 and line.endswith("]\n") and len(line) < 600
    assert line.startswith("2026-11-30T12:00:00Z  a\\x1b]0;owned\\x07\\u202eb\\u200bc Subject: d\\U000e0041 — ")
    assert all(character.isprintable() for character in line[:-1])


async def said_of_an_operation(**more):
    """The console's line of an effect of an operation."""
    stream, effect = io.StringIO(), delivery({}, **more)
    effect = replace(effect, effect=replace(effect.effect, subject="op_1"))
    await ConsoleAction(stream).perform(effect, guarded())
    return stream.getvalue()


async def test_W20_the_console_says_in_one_whole_line_what_answers_a_question():
    """The whole text is for other actions: no sentence is cut, and the command that shows it is named."""
    title, payload = "Job 'j' at acme needs a decision: unknown_state", {"operation": "op_1", "escalation": "esc_1"}
    line = await said_of_an_operation(title=title, body="Long.\n" * 500, payload=payload)
    assert line == f"2026-11-30T12:00:00Z  {title} [op_1]; answer: sereno escalation show esc_1\n"


async def test_the_console_names_the_operation_that_ended_and_keeps_its_sentences_apart():
    """An end is one line with op_…."""
    line = await said_of_an_operation(
        title="Job 'j': succeeded", body="it is done\nlast state: 'done'", payload={"operation": "op_1"}
    )
    assert line == "2026-11-30T12:00:00Z  Job 'j': succeeded [op_1] — it is done; last state: 'done'\n"


async def test_a_console_of_few_characters_or_none_is_no_error():
    """What the stream cannot show is escaped; a closed one is tried again."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    assert (await ConsoleAction(stream).perform(delivery({}, title="Preis 9 €"), guarded())).kind is OutcomeKind.DONE
    assert b"\\u20ac" in raw.getvalue()
    stream.close()
    assert (await ConsoleAction(stream).perform(delivery({}), guarded())).kind is OutcomeKind.RETRY


def test_console_takes_no_options():
    """An unknown option is a fault."""
    assert ConsoleAction(io.StringIO()).check({"colour": True}, origin="api")


async def run_command(*argv, **more):
    """Runs an action once."""
    options = {"argv": list(argv), **more.pop("options", {})}
    return await COMMAND.perform(delivery(options, type="command", policy=Policy.AT_MOST_ONCE, **more), guarded())


async def test_the_command_gets_the_effect_on_stdin_and_the_key_in_its_environment(tmp_path):
    """Watched content is never an argument and never passes a shell."""
    out = tmp_path / "out"
    script = f'cat > {out}; env | sort | cut -d= -f1 >> {out}.env; printf "%s" "$SERENO_DEDUPE_KEY" > {out}.key'
    outcome = await run_command("sh", "-c", script, title="$(id)", payload={"untrusted": "`id`"})
    assert outcome.kind is OutcomeKind.DONE
    document = json.loads(out.read_text())
    assert document["data"]["title"] == "$(id)" and document["data"]["payload"] == {"untrusted": "`id`"}
    assert (tmp_path / "out.key").read_text() == "main:local:poll_1:a@1:notify:1"
    assert set((tmp_path / "out.env").read_text().split()) - {"PWD", "OLDPWD", "SHLVL", "_"} == {
        "PATH",
        "HOME",
        "LANG",
        "SERENO_DEDUPE_KEY",
    }


@pytest.mark.parametrize(
    ("argv", "kind"),
    [
        (["true"], OutcomeKind.DONE),
        (["sh", "-c", "exit 75"], OutcomeKind.RETRY),
        (["false"], OutcomeKind.REFUSED),
        (["no-such-program"], OutcomeKind.REFUSED),
        (["sh", "-c", "kill -9 $$"], OutcomeKind.UNKNOWN),
        (["yes"], OutcomeKind.UNKNOWN),
    ],
)
async def test_exit_status_is_the_outcome(argv, kind):
    """A run that was ended from outside may have acted."""
    assert (await run_command(*argv)).kind is kind


def test_the_command_gets_its_stdin_on_the_loop_of_production_too(tmp_path):
    """The transports of uvloop are none of asyncio's classes: the effect must reach the child there as well."""
    out = tmp_path / "out"
    outcome = uvloop.run(run_command("sh", "-c", f"cat > {out}"))
    assert outcome.kind is OutcomeKind.DONE
    assert json.loads(out.read_text())["data"]


async def test_a_command_that_runs_too_long_is_ended_and_unknown():
    """The timeout of the action counts."""
    outcome = await run_command("sleep", "300", options={"timeout": "1s"})
    assert outcome.kind is OutcomeKind.UNKNOWN


async def test_the_last_words_of_a_command_hide_what_was_passed_on_by_name():
    """No secret reaches the row."""
    outcome = await run_command("sh", "-c", 'echo "bad $SECRET" >&2; exit 1', options={"env": ["SECRET"]})
    assert outcome.message == "the command ended with status 1: bad ***"


async def test_commands_from_elsewhere_are_refused_at_check_and_again_at_the_run(tmp_path):
    """A row that an API wrote does not run."""
    assert COMMAND.check({"argv": ["true"]}, origin="api")
    outcome = await run_command("touch", str(tmp_path / "x"), origin="api")
    assert outcome.kind is OutcomeKind.REFUSED and not (tmp_path / "x").exists()


async def test_a_lost_lease_stops_console_and_command_before_they_act(tmp_path):
    """The last check comes before the effect."""

    async def lost() -> None:
        raise LeaseLost("taken over")

    stream = io.StringIO()
    with pytest.raises(LeaseLost):
        await ConsoleAction(stream).perform(delivery({}), guarded(before_first_byte=lost))
    with pytest.raises(LeaseLost):
        await COMMAND.perform(delivery({"argv": ["touch", str(tmp_path / "x")]}), guarded(before_first_byte=lost))
    assert stream.getvalue() == "" and not (tmp_path / "x").exists()


class _Receiver(BaseHTTPRequestHandler):
    status = 200

    def do_POST(self):
        self.server.got.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def receiver():
    """A JSON receiver on loopback, in a thread of its own."""
    server = LoopbackServer(_Receiver)
    server.got = []
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


async def notify(url: str):
    """Notifies one target by Apprise in its child."""
    action = NotifyAction(lambda name, origin: url, environ=ENVIRONMENT | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")})
    return await action.perform(delivery({"target": "ME"}, title=HOSTILE), guarded())


async def test_notify_reaches_a_real_target_through_a_child_process(receiver):
    """Apprise posts the safe title."""
    outcome = await notify(f"json://127.0.0.1:{receiver.server_port}/x")
    assert outcome.kind is OutcomeKind.DONE and len(receiver.got) == 1
    sent = json.loads(receiver.got[0])
    assert sent["title"].startswith("a\\x1b]0;owned") and "From 12 to 9" in sent["message"]


async def test_notify_tells_a_target_that_refuses_from_one_that_is_none(receiver, monkeypatch):
    """Not taken is tried again; an unknown kind of URL never works, and its text is not repeated."""
    monkeypatch.setattr(_Receiver, "status", 500)
    assert (await notify(f"json://127.0.0.1:{receiver.server_port}/x")).kind is OutcomeKind.RETRY
    outcome = await notify("nonsense://user:hunter2@x")
    assert outcome.kind is OutcomeKind.REFUSED and "hunter2" not in outcome.message


async def test_notify_keeps_the_url_out_of_the_arguments(tmp_path):
    """Arguments are visible to every user of a machine."""
    fake = tmp_path / "python"
    fake.write_text(f"#!{sys.executable}\nimport sys\nopen({str(tmp_path / 'seen')!r}, 'w').write(repr(sys.argv))\n")
    fake.chmod(0o755)
    await NotifyAction(lambda name, origin: "json://hunter2@x", str(fake), ENVIRONMENT).perform(
        delivery({"target": "ME"}), guarded()
    )
    assert "notify_child" in (tmp_path / "seen").read_text() and "hunter2" not in (tmp_path / "seen").read_text()


async def test_notify_without_a_readable_target_sends_nothing():
    """The NAME is told, not a value."""

    def refuse(name: str, origin: str) -> str:
        raise NotAllowed(f"there is no [notify.{name}]")

    outcome = await NotifyAction(refuse).perform(delivery({"target": "ME"}), guarded())
    assert outcome.kind is OutcomeKind.RETRY and "[notify.ME]" in outcome.message
    assert NotifyAction(refuse).check({"target": "mailto://u:p@e.com"}, origin="cli")
