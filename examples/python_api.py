"""Watches a feed from Python: adds a poll, runs it once, and shows what was told.

Needs the playground: python -m sereno.testing.playground 8765
"""

import asyncio
import tempfile
import urllib.request  # plays the author of the feed; Sereno sends through its own gate
from pathlib import Path

import sereno

PLAYGROUND = "http://127.0.0.1:8765"
SETTINGS = Path(__file__).with_name("settings.toml")


async def main(folder: str) -> None:
    # Opening starts nothing by itself. The database is made if it is not there.
    async with sereno.open(f"sqlite:///{folder}/sereno.db", config=str(SETTINGS)) as s:
        poll = sereno.Poll.model_validate(
            {
                "name": "notes",
                "source": {"type": "feed", "url": f"{PLAYGROUND}/feed.xml"},
                "every": "1h",
                "when": "change == 'new'",
                "actions": ["console"],  # one line on standard error
            }
        )
        record, preview = await s.polls.add(poll)
        print(f"added {record.poll.spec.name}: {preview.count if preview else 0} entries are there")

        await s.once()  # the first run takes a baseline and tells nothing
        publish()
        await s.polls.run("notes")  # due now instead of in an hour
        await s.once()
        await s.polls.run("notes")
        await s.once()  # nothing is told twice

        for told in await s.deliveries.list(subject=record.poll.id):
            print(f"told {told.delivery.effect.title}: {told.delivery.state}")
        for run in reversed(await s.runs.list("notes")):
            print(f"run {run.id.rpartition('.')[2]}: {run.summary}")


def publish() -> None:
    """Lets the feed grow by one entry."""
    urllib.request.urlopen(f"{PLAYGROUND}/control/feed?add=1", data=b"").close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(folder))
