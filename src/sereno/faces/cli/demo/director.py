"""The director: hands in the jobs, moves the playground on when Sereno has seen the last scene, and answers when nobody else does."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sereno.core.errors import Unavailable
from sereno.core.escalation import Escalation
from sereno.faces.cli.demo.ground import Ground, second_process
from sereno.faces.cli.demo.stories import JOBS, Facts, Wait, Watch
from sereno.service.operations import Wanted

if TYPE_CHECKING:
    from sereno.app import Sereno

OPTION = "treat_as_pending"
"""What the demo answers: the new word counts as pending for a few checks."""
SCENE = 3.0
"""Seconds that each price stays at least, and the feed before it grows, so that a person can follow."""
PRICES = ("39.00", "52.00", "37.50")


@dataclass(slots=True)
class Director:
    """Drives the demo through one opened Sereno. `patience` is how long a person has to answer, in seconds; 0 without a terminal."""

    sereno: "Sereno"
    ground: Ground
    patience: float
    answered_by_demo: bool = False
    _jobs: dict[str, str] = field(default_factory=dict)
    _opened_at: float = 0.0
    _entry_added_at: float | None = None
    _scene: int = 0
    _scene_at: float = 0.0
    _asked_at: dict[str, float] = field(default_factory=dict)
    _answering: "asyncio.Task[None] | None" = None

    async def open(self) -> None:
        """Brings the three polls into the database, hands five jobs to the provider and registers the waits."""
        await self.sereno.apply()
        self._opened_at = self._scene_at = self.sereno.kit.clock.monotonic()
        for name, script in JOBS.items():
            job = await self.ground.submit(self.sereno.kit.transport, script)
            wanted = Wanted("playground-job", job, base=self.ground.base, assistant_task_id=f"demo-{name}")
            self._jobs[name] = (await self.sereno.operations.register(wanted)).record.operation.id

    async def facts(self, printed: list[str]) -> Facts:
        """Reads both sides, in an order in which nothing true can look false.

        The requests that the provider saw come first, since they were counted before; then what was told, then why, and last what
        the playground had shown and received by then.
        """
        app = self.sereno
        seen = await self.ground.books(app.kit.transport)
        watches = {}
        for record in await app.polls.list():
            deliveries = await app.deliveries.list(subject=record.poll.id)
            watches[record.poll.spec.name] = Watch(record, deliveries)
        told = {name: await app.deliveries.list(subject=operation) for name, operation in self._jobs.items()}
        questions = await app.escalations.list(state=None)
        waits = {}
        for name, operation in self._jobs.items():
            mine = [one for one in reversed(questions) if one.operation == operation]
            waits[name] = Wait(await app.operations.get(operation), told[name], mine)
        shown = await self.ground.books(app.kit.transport)
        return Facts(watches, waits, replace(seen, prices_shown=shown.prices_shown, received=shown.received), printed)

    async def step(self, facts: Facts) -> None:
        """Moves the playground on by what has been seen so far."""
        now = self.sereno.kit.clock.monotonic()
        await self._move_feed(facts, now)
        await self._move_price(facts, now)
        await self._answer(facts, now)

    async def _move_feed(self, facts: Facts, now: float) -> None:
        if self._entry_added_at is None and now >= self._opened_at + SCENE and facts.watches["feed"].record.poll.baselined:
            self._entry_added_at = now
            await self.ground.control(self.sereno.kit.transport, "feed?add=1")

    async def _move_price(self, facts: Facts, now: float) -> None:
        """The next price comes when the last one was read and, where it is low, told."""
        watch, shown = facts.watches["price"], facts.books.prices_shown
        if self._scene == len(PRICES) or now < self._scene_at + SCENE or not watch.record.poll.baselined:
            return  # nothing is left to show, or this scene is still young
        seen = self._scene == 0 or shown[-1:] == [PRICES[self._scene - 1]]
        told = len(watch.told("console")) == (self._scene + 1) // 2
        if seen and told:
            await self.ground.control(self.sereno.kit.transport, f"price?value={PRICES[self._scene]}")
            self._scene, self._scene_at = self._scene + 1, now

    def open_question(self, facts: Facts) -> Escalation | None:
        """The question of the odd job, while it waits for an answer."""
        questions = facts.waits["odd"].questions
        return questions[-1] if questions and questions[-1].state == "open" else None

    def seconds_left(self, question: Escalation) -> int:
        """How long a person still has before the demo answers by itself."""
        now = self.sereno.kit.clock.monotonic()
        asked = self._asked_at.get(question.id, now)
        return max(0, round(asked + self.patience - now))

    async def _answer(self, facts: Facts, now: float) -> None:
        if self._answering is not None and self._answering.done():
            task, self._answering = self._answering, None
            task.result()
        question = self.open_question(facts)
        if question is None or self._answering is not None:
            return
        if now - self._asked_at.setdefault(question.id, now) >= self.patience:
            self._answering = asyncio.get_running_loop().create_task(self._answer_elsewhere(question.operation))

    async def _answer_elsewhere(self, operation: str) -> None:
        """Answers through two commands of a second process, as a person or a program at another terminal would."""
        code, output = await second_process(self.ground, "escalation", "list", "--json")
        if code != 0:
            raise Unavailable("a second process could not list the questions", hint=output[:200])
        found = [one for one in json.loads(output)["escalations"] if one["operation"] == operation]
        if not found:
            return  # somebody was quicker
        words = ("escalation", "answer", found[0]["id"], OPTION, "--digest", found[0]["digest"], "--json")
        code, output = await second_process(self.ground, *words)
        self.answered_by_demo = code == 0
        if code not in (0, 6):  # 6: answered already
            raise Unavailable("a second process could not answer", hint=output[:200])

    async def close(self) -> None:
        """Ends what is under way."""
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.gather(self._answering, return_exceptions=True)
