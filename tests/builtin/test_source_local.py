"""The `file` and `command` sources: only what may be read, ended whole, nothing of our environment."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from sereno.builtin.process import Ended, Run, run
from sereno.builtin.sources.command import CommandSource
from sereno.builtin.sources.file import FileSource
from sereno.core.change import FailedReading, ReadFailure
from tests.builtin.feeds.scripted import guarded

FILE = FileSource()
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/home/x",
    "LANG": "C.UTF-8",
    "SECRET": "hunter2-value",
    "WANTED": "yes-please",
}
COMMAND = CommandSource(environ=ENVIRONMENT)


async def read_file(path, cursor=None, **options):
    """Reads a file once."""
    return await FILE.read({"path": str(path), **options}, cursor, guarded())


async def read_command(*argv, cursor=None, seconds=30.0, **options):
    """Runs a command once."""
    return await COMMAND.read({"argv": list(argv), **options}, cursor, guarded(seconds=seconds))


async def test_P04_a_file_is_one_object_and_unchanged_until_its_content_changes(tmp_path: Path):
    """The hash is the cursor; a new time stamp alone is no change."""
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    first = await read_file(path)
    assert first.objects[0].payload["text"] == "one\ntwo" and first.complete and first.requests == 0
    os.utime(path, (1, 1))
    assert (await read_file(path, first.cursor)).unchanged
    path.write_text("one\n")
    assert not (await read_file(path, first.cursor)).unchanged


async def test_lines_and_json_items_of_a_file(tmp_path: Path):
    """Each different line is an object of its own."""
    path = tmp_path / "a"
    path.write_text("b\na\nb\n")
    assert [found.title for found in (await read_file(path, format="lines")).objects] == ["b", "a"]
    path.write_text('[{"id": 1}, {"id": 2}]')
    assert [found.external_id for found in (await read_file(path, items="@", id="id")).objects] == ["1", "2"]


async def test_a_missing_file_is_missing_and_a_large_one_is_bad_content(tmp_path: Path):
    """Neither is an empty reading."""
    assert (await read_file(tmp_path / "no")).failure is ReadFailure.MISSING
    assert (await read_file(tmp_path / "no" / "deeper")).failure is ReadFailure.MISSING
    (tmp_path / "big").write_bytes(b"x" * 101)
    assert (await read_file(tmp_path / "big", max_bytes=100)).failure is ReadFailure.BAD_CONTENT


async def test_only_regular_files_are_read(tmp_path: Path):
    """A pipe does not make the reader wait; a link is followed only where the poll says so."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "link"):
        result = await asyncio.wait_for(read_file(path), 60)
        assert isinstance(result, FailedReading) and result.failure is ReadFailure.REFUSED
    assert (await read_file(tmp_path / "link", symlinks=True)).objects
    (tmp_path / "device").symlink_to("/dev/zero")
    assert (await read_file(tmp_path / "device", symlinks=True)).failure is ReadFailure.REFUSED


@pytest.mark.parametrize("path", ["relative", "/dev/null", "/proc/self/environ", "/tmp/../proc/1/environ", "", "/a\x00b", 5])
def test_check_refuses_paths_that_hold_no_files_to_watch(path):
    """System trees and relative paths are faults."""
    assert FILE.check({"path": path}, origin="cli")


@pytest.mark.parametrize(("source", "options"), [(FILE, {"path": "/etc/hostname"}), (COMMAND, {"argv": ["true"]})])
def test_local_sources_come_from_the_configuration_or_the_local_command_line_only(source, options):
    """An API user reads no files and runs no programs."""
    assert source.check(options, origin="config") == source.check(options, origin="cli") == []
    assert "may not be set from api" in str(source.check(options, origin="api")[0])


async def test_a_command_sees_a_clean_environment_and_no_shell():
    """Only PATH, HOME, LANG and what is named; arguments are not expanded."""
    result = await read_command("env", env=["WANTED"])
    names = {line.partition("=")[0] for line in result.objects[0].payload["text"].splitlines()}
    assert names == {"PATH", "HOME", "LANG", "WANTED"}
    assert (await read_command("echo", "$HOME; id *")).objects[0].payload["text"] == "$HOME; id *"


async def test_P04_the_same_output_is_unchanged_and_json_is_read_by_path():
    """The cursor is the hash of the output."""
    first = await read_command("echo", '[{"id":"a","n":1}]', items="@", id="id")
    assert first.objects[0].external_id == "a" and first.complete
    again = await read_command("echo", '[{"id":"a","n":1}]', items="@", id="id", cursor=first.cursor)
    assert again.unchanged


async def test_exit_status_caps_and_missing_programs_are_failures_without_secrets():
    """The message shows the last words of the program, without the values passed on by name, and safe for a terminal."""
    failed = await read_command("sh", "-c", 'printf "first\\n\\033[31mbad $SECRET\\n" >&2; exit 3', env=["SECRET"])
    assert failed.failure is ReadFailure.BAD_CONTENT and failed.message == "the command ended with status 3: \\x1b[31mbad ***"
    assert (await read_command("sh", "-c", "exit 75")).failure is ReadFailure.UNREACHABLE
    assert (await read_command("no-such-program")).failure is ReadFailure.MISSING
    assert (await read_command("yes", max_bytes=1000)).failure is ReadFailure.BAD_CONTENT


def gone(pid: int) -> bool:
    """True where the process does not run any more (a zombie that nobody collects does not run)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


async def until(condition, seconds: float = 60) -> bool:
    """Polls a condition up to a deadline."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True


NEST = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; sleep 300 & echo $!; wait' & wait"
"""A shell whose child starts a child of its own; none of them heeds SIGTERM."""


async def pids(argv_seconds: float) -> tuple[Ended, list[int]]:
    """Runs the nest into its timeout."""
    done = await run(Run(["sh", "-c", NEST], ENVIRONMENT, argv_seconds, 1000))
    return done.ended, [int(line) for line in done.output.split()]


async def test_a_timeout_ends_the_whole_process_group_the_child_of_a_child_too():
    """SIGTERM is ignored by all of them, so SIGKILL follows."""
    for seconds in (1.0, 10.0, 60.0):  # a busy machine may not have started them all within the first second
        ended, found = await pids(seconds)
        if len(found) == 2:
            break
    assert ended is Ended.TIMEOUT and len(found) == 2
    assert await until(lambda: all(map(gone, found)))


async def test_cancelling_ends_the_whole_process_group(tmp_path: Path):
    """A drained or lost lease leaves nothing running."""
    out = tmp_path / "pids"
    task = asyncio.create_task(
        run(Run(["sh", "-c", f"exec > {out}; {NEST.replace('sleep 300', 'sleep 301')}"], ENVIRONMENT, 60, 1000))
    )
    assert await until(lambda: out.exists() and len(out.read_text().split()) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await until(lambda: all(gone(int(pid)) for pid in out.read_text().split()))


async def test_what_a_finished_command_left_running_is_ended():
    """A background child that holds the output open does not make the read wait."""
    done = await run(Run(["sh", "-c", "sleep 300 & echo $!"], ENVIRONMENT, 60, 1000))
    assert done.ended is Ended.EXIT and done.code == 0, "the child holds the output open for longer than the command may take"
    assert await until(lambda: gone(int(done.output)))


def test_check_lists_faults_of_a_command():
    """A shell line, a value in env and a secret in an argument are told."""
    options = {"argv": "ls -l", "env": ["A=1"], "timeout": "2h"}
    told = "\n".join(map(str, COMMAND.check(options, origin="cli")))
    assert "source.argv: must be a list" in told and "without a value" in told and "between 1s and 600s" in told
    assert "user name or password" in str(COMMAND.check({"argv": ["curl", "https://u:p@e.com"]}, origin="cli")[0])
    assert COMMAND.check({"argv": []}, origin="cli") and COMMAND.check({"argv": [""]}, origin="cli")
