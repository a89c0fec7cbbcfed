"""Copies of results: each reads the status anew, so each is held to what the provider asked for last (I4, W30, W35)."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from sereno.builtin.actions.keep_result import KeepResultAction
from sereno.core.contract import Contract, Via
from sereno.core.errors import LeaseLost
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.values import Json, canonical
from sereno.core.work import Work
from sereno.engine.kit import Kit
from sereno.outside.artifacts.files import FileArtifacts
from sereno.ports import Fetch
from tests.engine.desk import Desk, answer
from tests.engine.starting import ORIGIN, compiled, document, submit

JOB, FILE = f"{ORIGIN}/jobs/job-1", f"{ORIGIN}/result"
KEEP: Json = {"keep": {"from": "url", "path": "result"}}


class Site:
    """Answers the looks at the job one after the other, and the download as it stands; keeps when each look left."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.looks: list[Reply] = []
        self.file = 503
        self.asked: list[int] = []
        """Seconds since the first look."""

    async def fetch(self, request: Fetch) -> Reply:
        assert request.before_first_byte is not None
        try:
            await request.before_first_byte()
        except LeaseLost as lost:
            return NoReply(NoReplyKind.CANCELLED, str(lost), sent=False)
        if request.method == "POST":
            return answer("running", status=201)
        if request.url == JOB:
            self.asked.append(round(self._desk.hand.mono))
            return self.looks.pop(0)
        headers = (("content-type", "text/plain"),)
        if request.sink is not None and self.file == 200 and request.sink.begin(200, headers):
            await request.sink.write(b"it")
        return HttpReply(self.file, headers, b"", request.url, timedelta(0))

    async def close(self) -> None:
        return None


class Copying(Desk):
    """A desk whose results are copied."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.site = Site(self)
        self._folder = folder

    def kit(self, *given: Any, **more: Any) -> Kit:
        """Its one action copies."""
        made = super().kit()

        async def pinned(digest: str) -> Contract:
            return compiled(await self.reads.contract(digest))

        copies = KeepResultAction({Via.HTTP: made.plugins.providers[Via.HTTP]}, pinned, FileArtifacts(self._folder))
        object.__setattr__(made.plugins, "actions", {"keep_result": copies})
        object.__setattr__(made, "transport", self.site)
        return made

    async def next(self) -> str:
        """Sleeps until the next thing is due, to the microsecond, and performs it; answers what it was."""
        works: Sequence[Work] = ()
        while not works:
            due = await self.store.work.next_due()
            assert due is not None, "nothing is planned any more"
            self.hand.advance(max(0.0, (due - self.hand.now()) / timedelta(seconds=1)))
            works = (await self.store.work.claim(worker="w", limit=5, times=self.times)).works
        (work,) = works
        await self.perform(work)
        return type(work).__name__


def done(wait: int | None = None, status: int = 200) -> HttpReply:
    """A status answer; a wait of so many seconds is asked for with it."""
    asks = [] if wait is None else [("retry-after", str(wait))]
    body = canonical({"id": "job-1", "status": "done", "result": FILE})
    return HttpReply(status, (("content-type", "application/json"), *asks), body, JOB, timedelta(0))


async def test_I4_each_copy_waits_as_the_status_answer_before_it_asked(tmp_path: Path) -> None:
    """After the answer that ended the wait, after one that throttled a copy, and after one whose download failed behind it."""
    desk = Copying(tmp_path / "kept")
    await submit(desk, document(result=KEEP), deadline=timedelta(hours=5))
    desk.site.looks = [done(600), done(900, status=429), done(1200), done(1500), done()]
    kinds = [await desk.next() for _ in range(2)]
    assert (await desk.one("SELECT state FROM operation"))["state"] == "succeeded"
    kinds += [await desk.next() for _ in range(3)]
    desk.site.file = 200
    kinds += [await desk.next()]
    assert kinds == ["OperationWork"] * 2 + ["DeliveryWork"] * 4
    assert (await desk.one("SELECT state, attempt FROM delivery")) == {"state": "delivered", "attempt": 4}
    waits = [later - sooner for sooner, later in zip(desk.site.asked, desk.site.asked[1:], strict=False)]
    assert waits == [600, 900, 1200, 1500]
