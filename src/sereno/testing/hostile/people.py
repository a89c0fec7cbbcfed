"""People at their screens: they answer some questions with any option, cancel some jobs, hand in call-backs, and write that down."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from sereno.core.errors import RequestError
from sereno.core.escalation import Verb
from sereno.core.operation import OperationState
from sereno.service.escalations import Escalations
from sereno.testing.yard import Yard


@dataclass(slots=True)
class People:
    """Who acts beside the driver, and the book of what they did, by operation."""

    yard: Yard
    dice: Random
    answered: dict[str, list[datetime]] = field(default_factory=dict)
    disturbed: dict[str, list[datetime]] = field(default_factory=dict)
    """Cancels and call-backs that were taken: one that comes while an answer is on its way has the job looked at once more."""
    cancels: Counter[str] = field(default_factory=Counter)
    verbs: Counter[str] = field(default_factory=Counter)
    pushes: int = 0
    failed_by_hand: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)
    granted: set[str] = field(default_factory=set)
    """Operations of which some unknown word counts as pending for a while."""

    async def work(self, seconds: float) -> None:
        """Looks at the open questions every two minutes, and at some operations."""
        clock, questions = self.yard.clock, Escalations(self.yard.deps)
        until = clock.monotonic() + seconds
        while clock.monotonic() < until:
            await clock.sleep(120)
            for question in await questions.list(limit=1000):
                if self.dice.random() < 0.02:
                    await self._answer(questions, question.id)
            for operation in await self._some():
                await self._disturb(operation)
                await asyncio.sleep(0)

    async def _answer(self, questions: Escalations, escalation: str) -> None:
        question = await questions.get(escalation)
        option = self.dice.choice(list(question.options))
        try:
            await questions.answer(escalation, option.key, digest=question.digest)
        except RequestError:
            return
        self.verbs[option.verb] += 1
        self.answered.setdefault(question.operation, []).append(self.yard.clock.now())
        self.cancels[question.operation] += option.verb is Verb.CANCEL
        if option.verb is Verb.TREAT_AS_FAILED:
            self.failed_by_hand.add(question.operation)
        if option.verb is Verb.ACCEPT_PARTIAL:
            self.accepted.add(question.operation)
        if option.verb is Verb.TREAT_AS_PENDING:
            self.granted.add(question.operation)

    async def _some(self) -> list[str]:
        waiting = await self.yard.operations.list(state=OperationState.WAITING, limit=200)
        return [record.operation.id for record in waiting if self.dice.random() < 0.03]

    async def _disturb(self, operation: str) -> None:
        try:
            if self.dice.random() < 0.4:
                await self.yard.operations.cancel(operation)
                self.cancels[operation] += 1
                self.verbs["cancelled unasked"] += 1
            else:
                await self.yard.operations.push(operation, b'{"status": "done"}')
                self.pushes += 1
        except RequestError:
            self.verbs["refused"] += 1
            return
        self.disturbed.setdefault(operation, []).append(self.yard.clock.now())
