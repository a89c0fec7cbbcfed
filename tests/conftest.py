"""What all tests share: in CI a skipped test is a failure, so that a missing tool cannot hide a missing proof."""

import os

import pytest


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the session when SERENO_NO_SKIPS=1 and anything was skipped, at collection or while running."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("SERENO_NO_SKIPS") != "1" or reporter is None or not reporter.stats.get("skipped"):
        return
    reporter.write_line(f"SERENO_NO_SKIPS=1: {len(reporter.stats['skipped'])} skipped, which counts as failed here", red=True)
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
