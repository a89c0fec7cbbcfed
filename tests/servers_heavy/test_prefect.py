"""Flow runs of a Prefect server that nobody here wrote, done by its own runner: submit, wait, result, failure, cancel."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sereno.core.operation import OperationState
from tests.peers.serving import free_port, opened, submitted, waited
from tests.servers_heavy.running import asked, begun, running, until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

FLOWS = Path(__file__).parent / "prefect_flows.py"
NAMES = ("good", "bad", "long")
S = OperationState


@dataclass(frozen=True)
class Prefect:
    """A server, and the runner of its flows."""

    port: int
    api: str
    runner: "subprocess.Popen[bytes]"

    def deployments(self) -> dict[str, dict[str, Any]]:
        """What a run of each flow is given."""
        found = asked(f"{self.api}/deployments/filter", {}) or []
        scheduled = {"state": {"type": "SCHEDULED"}}
        return {one["name"]: {"flow_id": one["flow_id"], "deployment_id": one["id"], **scheduled} for one in found}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """A Prefect server with three flows."""
    folder, port = tmp_path_factory.mktemp("prefect"), free_port()
    api = f"http://127.0.0.1:{port}/api"
    more = {"PREFECT_HOME": str(folder), "PREFECT_API_URL": api, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    more |= {"PREFECT_RUNNER_POLL_FREQUENCY": "1", "DO_NOT_TRACK": "1"}
    command = ("python", "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port))
    with running(command, folder=folder, more=more, server="prefect") as process:
        until(process, lambda: asked(f"{api}/health") is True, seconds=180, what="the Prefect server")
        with running(("python", str(FLOWS)), folder=folder, more=more, server="prefect") as runner:
            found = Prefect(port, api, runner)
            until(runner, lambda: len(found.deployments()) == len(NAMES), seconds=120, what="the runner of flows")
            yield found


async def test_W31_runs_of_flows_from_submit_to_their_ends(server: Prefect, tmp_path: Path) -> None:
    """One ends well and its result is known, one fails in its own words, one is cancelled while it runs."""
    terms: dict[str, Any] = {"base": f"http://127.0.0.1:{server.port}", "deadline": timedelta(minutes=3)}
    async with opened(tmp_path, server.port) as app:
        given = server.deployments()
        assert sorted(given) == sorted(NAMES)
        found = await waited(app, await submitted(app, "prefect-flow-run", given["good"], **terms))
        assert (found.state, found.last_state) == (S.SUCCEEDED, "COMPLETED")
        assert found.result_ref == f"{server.api}/flow_runs/{found.job_id}"
        found = await waited(app, await submitted(app, "prefect-flow-run", given["bad"], **terms))
        assert found.state is S.FAILED and "out of paper" in (found.error_text or "")
        operation = await submitted(app, "prefect-flow-run", given["long"], **terms)
        run = await begun(app, operation)
        until(
            server.runner, lambda: asked(f"{server.api}/flow_runs/{run}")["state_type"] == "RUNNING", seconds=120, what="the run"
        )
        await app.operations.cancel(operation)
        found = await waited(app, operation)
        assert (found.state, found.last_state) == (S.CANCELLED, "CANCELLED")
