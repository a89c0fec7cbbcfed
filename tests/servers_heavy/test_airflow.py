"""DAG runs of an Airflow server that nobody here wrote, done by its own scheduler: submit, wait, result, failure, cancel, a second try."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sereno.core.escalation import Category
from sereno.core.operation import OperationState
from tests.peers.serving import free_port, opened, submitted, waited
from tests.servers_heavy.running import asked, begun, running, until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

DAGS = Path(__file__).parent / "airflow_dags.py"
NAMES = ("good", "bad", "long")
GIVEN = {"logical_date": None, "note": "from a test"}
LONG = {"deadline": timedelta(minutes=5)}
"""A run of a DAG takes its time, mostly before it starts."""
S = OperationState


@dataclass(frozen=True)
class Airflow:
    """A server whose runs are done by itself."""

    port: int
    token: str
    process: "subprocess.Popen[bytes]"

    def asked(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """What the server answers to one who may."""
        return asked(f"http://127.0.0.1:{self.port}/api/v2/{path}", body, method, token=self.token)

    def state_of(self, dag: str, run: str) -> str:
        """The state of a run's only task."""
        return str(self.asked(f"dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"][0]["state"])


def settings(folder: Path, port: int) -> dict[str, str]:
    """A server on loopback, with files, database and ports of its own; whoever asks for a token is its administrator."""
    own = f"http://127.0.0.1:{port}"
    return {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": own,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{own}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """An Airflow server that has read three DAGs."""
    folder, port = tmp_path_factory.mktemp("airflow"), free_port()
    (folder / "dags").mkdir()
    shutil.copy(DAGS, folder / "dags/three.py")
    given = settings(folder, port)
    with running(("airflow", "standalone"), folder=folder, more=given, server="airflow") as process:
        until(process, lambda: asked(f"http://127.0.0.1:{port}/auth/token") is not None, seconds=300, what="the Airflow server")
        found = Airflow(port, asked(f"http://127.0.0.1:{port}/auth/token")["access_token"], process)
        until(process, lambda: found.asked("dags")["total_entries"] == len(NAMES), seconds=180, what="the DAGs")
        for name in NAMES:
            assert found.asked(f"dags/{name}", {"is_paused": False}, "PATCH")["is_paused"] is False
        yield found


async def test_W31_runs_of_dags_from_submit_to_their_ends(
    server: Airflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One ends well, one fails, one is cancelled while it runs; the token reaches the server and no file."""
    monkeypatch.setenv("PEER_AIRFLOW", server.token)
    terms: dict[str, Any] = {"base": f"http://127.0.0.1:{server.port}", "account": "airflow"}
    async with opened(tmp_path, server.port, more=account(server)) as app:

        async def start(name: str) -> str:
            return await submitted(app, "airflow-dag-run", GIVEN, parameters={"dag": name}, **terms, **LONG)

        found = await waited(app, await start("good"))
        assert (found.state, found.last_state) == (S.SUCCEEDED, "success")
        assert f"/dags/good/dagRuns/{found.job_id}" in (found.result_ref or "")
        found = await waited(app, await start("bad"))
        assert (found.state, found.last_state) == (S.FAILED, "failed")
        operation = await start("long")
        run = await begun(app, operation)
        until(server.process, lambda: server.state_of("long", run) == "running", seconds=180, what="the run")
        await app.operations.cancel(operation)
        found = await waited(app, operation)
        assert (found.state, found.last_state) == (S.CANCELLED, "failed")
    assert server.token not in "".join(
        path.read_bytes().decode(errors="replace") for path in tmp_path.iterdir() if path.is_file()
    )


async def test_W17_a_token_that_is_none_is_refused_once(server: Airflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person is asked after the first refusal, and no run was made."""
    monkeypatch.setenv("PEER_AIRFLOW", "no-token")
    terms: dict[str, Any] = {"base": f"http://127.0.0.1:{server.port}", "account": "airflow", "parameters": {"dag": "good"}}
    before = server.asked("dags/good/dagRuns")["total_entries"]
    async with opened(tmp_path, server.port, more=account(server)) as app:
        found = await waited(app, await submitted(app, "airflow-dag-run", GIVEN, **terms))
    assert (found.state, found.category) == (S.ESCALATED, Category.AUTHORIZATION_DENIED)
    assert server.asked("dags/good/dagRuns")["total_entries"] == before


def account(server: Airflow) -> str:
    """The settings of the account."""
    return f'[credentials.airflow]\norigin = "http://127.0.0.1:{server.port}"\nvalue = {{ env = "PEER_AIRFLOW" }}\n'
