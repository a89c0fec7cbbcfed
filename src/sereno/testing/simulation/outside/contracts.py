"""The contracts of the simulated provider, in the versions that people may move to."""

from collections.abc import Mapping, Sequence

from sereno.core.values import Json
from sereno.testing.hostile.contracts import HEADER, cancel, document, submit
from sereno.testing.yard import Contracts

THERE = ("sim-there", "sim-patient")
"""Contracts of jobs that the provider already has."""
SUBMITTED = ("sim-plain", "sim-replay", "sim-reject")
MOST_CANCELS: Mapping[str, int] = {"sim-there": 1, "sim-patient": 3, "sim-plain": 3, "sim-replay": 1, "sim-reject": 3}
"""How often the cancel that one person asked for may reach the provider: three times where the contract says that this does no harm."""
KEY_WINDOW_S = 3600.0
"""How long the provider honours a key, from its first arrival."""
PATIENT: dict[str, object] = {"settle_checks": 2}
_KEEP: dict[str, object] = {
    "ref": "result",
    "fields": [{"path": "result", "type": "url"}],
    "keep": {"from": "answer", "path": "result"},
}
KEEPING = ("sim-plain", "sim-patient", "sim-replay")
"""Contracts whose results are copied to own storage."""
_REVIEWED: Sequence[str] = ("awaiting_review", "running2", "success")


def _documents(version: int) -> dict[str, Mapping[str, Json]]:
    found: dict[str, dict[str, Json]] = {
        "sim-there": document("sim-there", cancel=cancel(repeatable=False)),
        "sim-patient": document(
            "sim-patient",
            cancel=cancel(repeatable=True),
            state={"path": "status", "steady": 2},
            result={**_KEEP, **PATIENT},
            expiry={"path": "expires_at", **PATIENT},
            http=[{"status": "404", "path": "error.code", "value": "nojob", "meaning": "not_found_yet", "checks": 3}],
        ),
        "sim-plain": document("sim-plain", submit=submit(None), cancel=cancel(repeatable=True), result=dict(_KEEP)),
        "sim-replay": document(
            "sim-replay",
            submit=submit({**HEADER, "duplicate": "replay"}),
            cancel=cancel(repeatable=False),
            result=dict(_KEEP),
        ),
        "sim-reject": document(
            "sim-reject",
            submit=submit(
                {**HEADER, "duplicate": "reject"}, duplicate={"status": ["409"], "path": "error.code", "value": "exists"}
            ),
            cancel=cancel(repeatable=True),
        ),
    }
    later: dict[str, Mapping[str, Json]] = {}
    for name, one in found.items():
        changed: dict[str, Json] = {**one, "version": version, "states": _states(one, version)}
        later[name] = changed
    return later


def _states(one: Mapping[str, Json], version: int) -> dict[str, object]:
    """A later version knows one word more."""
    states = one["states"]
    assert isinstance(states, dict)
    return {**states, "pending": ["queued", "running", *_REVIEWED[: version - 1]]}


class Versions(Contracts):
    """A catalogue of which a contract can be replaced by its next version while processes run."""

    def __init__(self) -> None:
        self._present: dict[str, Mapping[str, Json]] = _documents(1)
        self._kept: list[Mapping[str, Json]] = list(self._present.values())
        super().__init__(self._present)

    def version(self, name: str) -> int:
        """The present version of a contract."""
        found = self._present[name]["version"]
        assert isinstance(found, int)
        return found

    def publish(self, name: str) -> int:
        """Replaces a contract by its next version, which knows one word more; the last one stays. Gives the version back."""
        version = min(self.version(name) + 1, len(_REVIEWED) + 1)
        if version != self.version(name):
            self._present[name] = _documents(version)[name]
            self._kept.append(self._present[name])  # compiled contracts are found by identity: no document may go
        return version
