"""Real processes under a clock of the test's making: libfaketime moves their wall clock, the time since the host's start stays true."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "faketime"
DRIFT_EVERY_S = 0.05
"""How often a drifting clock is set; between two times it runs as all clocks do."""


def library() -> Path | None:
    """Finds the library of the Debian package `faketime`; installs it where that is possible. None = neither."""
    if _found() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", PACKAGE]):
            subprocess.run(command, capture_output=True, timeout=300, check=False, env=quiet)
    return _found()


def _found() -> Path | None:
    """Where the package puts it: one folder for each machine type."""
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


@dataclass(frozen=True, slots=True)
class FakeClock:
    """A wall clock that can be set while processes run under it. `file` holds what is said of it, in the words of faketime(1).

    The library's own rates are not used: it would stretch what a process waits for as well.
    """

    library: Path
    file: Path

    def set(self, said: str) -> None:
        """Sets it, for example to `-24h` or `+10y`; the file is never seen half written."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{said}\n")
        new.rename(self.file)

    @contextmanager
    def drifting(self, rate: float) -> Iterator[None]:
        """Lets it run at another rate than time from now on: 2 = twice as quick."""
        over, began = threading.Event(), time.monotonic()

        def drift() -> None:
            while not over.wait(DRIFT_EVERY_S):
                self.set(f"{(time.monotonic() - began) * (rate - 1):+.3f}")

        self.set("+0")
        thread = threading.Thread(target=drift, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def environment(self) -> Mapping[str, str]:
        """What a process needs to live under it."""
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Else the library stretches the interpreter's own waits, which are on the monotonic clock.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "NO_FAKE_STAT": "1",
        }
