"""What befalls processes and clocks, at any await: killed, stopped, drained, the whole host asleep, the wall clock set."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from sereno.testing.simulation.process.ground import Ground
from sereno.testing.simulation.process.lives import FUSE, Worker
from sereno.testing.simulation.process.loop import PROCESS, Process
from sereno.testing.simulation.terms import LONGEST_SLEEP, Death, Group, Pause

PROCESS_KINDS = ("killed", "stalled", "suspended", "drained", "asleep")
CLOCK_KINDS = ("back_minutes", "back_hours", "forward_minutes", "forward_hours", "forward_years", "rate", "drift")
LIFE_KINDS = ("skew", "mono_rate")
"""Drawn when a process starts."""
_DAY = 86_400.0
_MOST_SLEEPS = 3


class Fate:
    """Strikes by the plan whenever the fuse of a process is burnt down."""

    def __init__(self, ground: Ground, workers: Sequence[Worker]) -> None:
        self._ground, self._workers = ground, workers
        self._sleeps = 0
        self._years = False
        self._strikes: Mapping[str, Callable[[Process], None]] = {
            "killed": self._kill,
            "stalled": self._stall,
            "suspended": self._suspend,
            "drained": self._drain,
            "asleep": self._sleep,
        }

    def strike(self, process: Process) -> None:
        """Looks at one process that is about to run."""
        ground = self._ground
        if ground.plan.calm:
            process.fuse = 0
            return
        process.fuse = ground.dice.randint(*FUSE)
        kinds = PROCESS_KINDS if self._sleeps < _MOST_SLEEPS else PROCESS_KINDS[:-1]
        kind = ground.plan.draw(Group.PROCESS, kinds, share=0.5)
        if kind is not None:
            ground.note(process.name, kind)
            self._strikes[kind](process)
        clock_kinds = [kind for kind in CLOCK_KINDS if kind != "forward_years" or not self._years]
        step = ground.plan.draw(Group.CLOCK, clock_kinds, share=0.3)
        if step is not None:
            ground.note("", f"clock: {step}")
            self._set_clock(step)

    def _kill(self, process: Process) -> None:
        self._ground.book.deaths.append(Death(process.name, self._ground.true.now(), ""))
        process.die()

    def _pause(self, process: Process, seconds: float) -> None:
        book, true = self._ground.book, self._ground.true
        at = true.now()
        self._ground.loop.stop_process(process, seconds, lambda: book.pauses.append(Pause(process.name, at, true.now())))

    def _stall(self, process: Process) -> None:
        lease = self._ground.options.times.lease.total_seconds()
        self._pause(process, lease * self._ground.plan.dice(Group.PROCESS).choice((0.3, 0.95, 1.0, 1.05, 2.5)))

    def _suspend(self, process: Process) -> None:
        self._pause(process, self._ground.plan.dice(Group.PROCESS).uniform(600.0, 4 * 3600.0))

    def _drain(self, process: Process) -> None:
        for worker in self._workers:
            if worker.process is process and worker.driver is not None:
                token = PROCESS.set(process)
                worker.driver.stop()
                PROCESS.reset(token)

    def _sleep(self, process: Process) -> None:
        self._sleeps += 1
        self.sleep(self._ground.plan.dice(Group.PROCESS).uniform(3600.0, LONGEST_SLEEP.total_seconds()))

    def sleep(self, seconds: float) -> None:
        """The whole host sleeps, now."""
        now = self._ground.true.now()
        self._ground.book.pauses.append(Pause("", now, now + timedelta(seconds=seconds)))
        self._ground.loop.asleep += seconds

    def _set_clock(self, kind: str) -> None:
        host, dice = self._ground.host, self._ground.plan.dice(Group.CLOCK)
        match kind:
            case "back_minutes":
                self._step(-dice.uniform(30.0, 1800.0))
            case "back_hours":
                self._step(-dice.uniform(1800.0, _DAY))
            case "forward_minutes":
                self._step(dice.uniform(5.0, 1800.0))
            case "forward_hours":
                self._step(dice.uniform(1800.0, 2 * _DAY))
            case "forward_years":
                self._years = True
                self._step(dice.uniform(0.1, 10.0) * 365.25 * _DAY)
            case "rate":
                host.run_at(dice.choice((0.5, 0.8, 1.25, 2.0)))
            case _:
                host.run_at(1.0 + dice.uniform(-2e-4, 2e-4))

    def _step(self, seconds: float) -> None:
        """Never further back than a day behind true time."""
        self._ground.host.step(max(seconds, -_DAY - self._ground.host.ahead))
