"""Waits for a job that somebody else runs, and tells the story of the wait.

Needs the playground: python -m sereno.testing.playground 8765
"""

import asyncio
import json
import tempfile
import urllib.request  # plays the one who submits the job; Sereno only waits for it
from datetime import timedelta
from pathlib import Path

import sereno

PLAYGROUND = "http://127.0.0.1:8765"
SETTINGS = Path(__file__).with_name("settings.toml")


async def main(folder: str) -> None:
    async with sereno.open(f"sqlite:///{folder}/sereno.db", config=str(SETTINGS)) as s:
        # `generic-status` reads a JSON status whose words we name; a word we do not name stops the wait and asks a person.
        # Every limit is stored before the first look, and no request leaves that was not counted first.
        registered = await s.operations.register(
            sereno.Wanted(
                "generic-status",
                submit("brief"),  # answers 503 with Retry-After at first
                state_path="status",
                states={"pending": ["queued", "running"], "success": ["succeeded"], "failure": ["failed"]},
                deadline=timedelta(minutes=2),
                max_status_requests=20,
                max_transport_failures=5,
                max_throttles=5,
            )
        )
        record = await s.operations.wait(registered.record.operation.id)  # drives this one wait; others are left alone

        operation = record.operation
        print(f"{operation.job_id}: {operation.state}, {operation.spend.status_requests} requests")
        for entry in (await s.operations.explain(operation.id)).entries:
            if entry.kind == "decision":
                print(f"{entry.at:%H:%M:%S}  {entry.facts.get('decision')}")


def submit(script: str) -> str:
    """Hands in a job and answers its status URL."""
    body = json.dumps({"script": script}).encode()
    with urllib.request.urlopen(f"{PLAYGROUND}/jobs", data=body) as reply:
        return f"{PLAYGROUND}{reply.headers['Location']}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(folder))
