"""Jobs of a Ray cluster that nobody here wrote: submit, wait, result, failure, cancel, a second job of one id."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import sereno
from sereno.core.escalation import Category
from sereno.core.operation import OperationState
from tests.peers.serving import TERMS, free_port, opened, submitted, waited
from tests.peers.test_agents import kept
from tests.servers_heavy.running import asked, begun, running, until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

PROGRAMS = {
    "good": "echo here it is",
    "bad": "python -c 'raise SystemExit(\"out of paper\")'",
    "long": "sleep 600",
}
S = OperationState


@dataclass(frozen=True)
class Ray:
    """A cluster of one node."""

    port: int
    process: "subprocess.Popen[bytes]"

    def status(self, job: str) -> str:
        """What the cluster says of a job."""
        return str((asked(f"http://127.0.0.1:{self.port}/api/jobs/{job}") or {}).get("status"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Ray]:
    """A cluster; its folder has a short name, since its sockets lie in it."""
    folder, port = Path(tempfile.mkdtemp(prefix="ray-")), free_port()
    command = ["ray", "start", "--head", "--block", "--disable-usage-stats", "--num-cpus", "2", "--node-ip-address", "127.0.0.1"]
    command += ["--port", str(free_port()), "--dashboard-host", "127.0.0.1", "--dashboard-port", str(port)]
    command += ["--object-store-memory", "100000000", "--temp-dir", str(folder)]
    try:
        with running(command, folder=folder, more={"RAY_USAGE_STATS_ENABLED": "0"}, server="ray") as process:
            until(process, lambda: asked(f"http://127.0.0.1:{port}/api/jobs/") == [], seconds=180, what="the Ray cluster")
            jobs, probe = f"http://127.0.0.1:{port}/api/jobs/", {"entrypoint": "true"}
            until(process, lambda: asked(jobs, probe) is not None, seconds=120, what="the agent that starts jobs")
            yield Ray(port, process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_W31_jobs_from_submit_to_their_ends(cluster: Ray, tmp_path: Path) -> None:
    """One ends well and what it printed is kept, one fails, one is stopped while it runs."""
    base = f"http://127.0.0.1:{cluster.port}"
    async with opened(tmp_path, cluster.port) as app:
        ids = {name: await submitted(app, "ray-job", program, base=base) for name, program in PROGRAMS.items()}
        job = await begun(app, ids["long"])
        found = await waited(app, ids["good"])
        assert (found.state, found.last_state) == (S.SUCCEEDED, "SUCCEEDED")
        assert "here it is" in await kept(app, ids["good"])
        found = await waited(app, ids["bad"])
        assert found.state is S.FAILED and "exit code 1" in (found.error_text or "")
        until(cluster.process, lambda: cluster.status(job) == "RUNNING", seconds=120, what="the job")
        await app.operations.cancel(ids["long"])
        found = await waited(app, ids["long"])
        assert (found.state, found.last_state) == (S.CANCELLED, "STOPPED")


async def test_W39_a_job_of_somebody_else_is_not_taken_for_ours(cluster: Ray, tmp_path: Path) -> None:
    """The cluster refuses a second job of one id with a 500 at our first try: nothing was started, and a person is asked."""
    base, name = f"http://127.0.0.1:{cluster.port}", "night-7"
    assert asked(f"{base}/api/jobs/", {"submission_id": name, "entrypoint": PROGRAMS["good"]})["submission_id"] == name
    before = len(asked(f"{base}/api/jobs/"))
    async with opened(tmp_path, cluster.port) as app:
        wanted = sereno.WantedSubmit("ray-job", PROGRAMS["bad"], base=base, key=name, **TERMS)
        found = await waited(app, str((await app.operations.submit(wanted)).record.operation.id))
    assert (found.state, found.category) == (S.ESCALATED, Category.CONTRADICTION)
    assert len(asked(f"{base}/api/jobs/")) == before


async def test_W16_a_job_that_the_cluster_does_not_know(cluster: Ray, tmp_path: Path) -> None:
    """Looked at again within its grace, then a person is asked; it never counts as failed."""
    base = f"http://127.0.0.1:{cluster.port}"
    async with opened(tmp_path, cluster.port) as app:
        registered = await app.operations.register(sereno.Wanted("ray-job", "raysubmit_none", base=base, **TERMS))
        found = await waited(app, str(registered.record.operation.id))
    assert (found.state, found.category) == (S.ESCALATED, Category.UNKNOWN_OPERATION)
    assert found.spend.status_requests > 1
