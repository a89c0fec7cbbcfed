"""Submits and cancels at the simulated provider: contracts with and without keys, and the provider's own book of what it took on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sereno.core.values import Json

HOST = "sim.example"
KEYED, PLAIN = "sim-keyed", "sim-plain"
WINDOW = timedelta(hours=2)


@dataclass
class Order:
    """What was ordered for one operation: each request that reached the provider, and the jobs that were really started."""

    ref: str
    arrivals: list[datetime] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    bodies: set[bytes] = field(default_factory=set)
    jobs: list[str] = field(default_factory=list)


def _document(name: str, submit: Mapping[str, object], *, repeatable: bool) -> dict[str, Json]:
    return {
        "format": 1,
        "contract": name,
        "version": 1,
        "title": "A simulated job",
        "source": "the simulated provider",
        "verified": "verified: it is written beside this contract",
        "status": {"url": f"https://{HOST}/jobs/{{job_id}}", "origins": [f"https://{HOST}"], "observational": "it only looks"},
        "job": {"id": "id"},
        "handover": [{"path": "moved_to"}],
        "state": {"path": "status"},
        "states": {"pending": ["queued", "running"], "success": ["done"], "failure": ["broken"], "cancelled": ["cancelled"]},
        "result": {
            "ref": "result",
            "fields": [{"path": "result", "type": "url"}],
            "keep": {"from": "answer", "path": "result"},
        },
        "delays": {"first": "2s", "base": "5s", "max": "2m", "min_gap": "1s"},
        "limits": {"deadline": "25m", "requests": 40, "transport_failures": 5, "throttles": 5},
        "submit": {
            "method": "POST",
            "url": f"https://{HOST}/submit",
            "effects": "starts a job",
            "job_id": "id",
            **submit,
        },
        "cancel": {
            "method": "POST",
            "url": f"https://{HOST}/cancel/{{job_id}}",
            "effects": "ends the job",
            "repeatable": repeatable,
        },
    }


_KEY: Mapping[str, object] = {"place": "header", "name": "Idempotency-Key", "duplicate": "replay", "window": "2h"}
DOCUMENTS: Mapping[str, Mapping[str, Json]] = {
    KEYED: _document(KEYED, {"idempotency": dict(_KEY)}, repeatable=True),
    PLAIN: _document(PLAIN, {}, repeatable=False),
}
MOST_CANCELS = {KEYED: 3, PLAIN: 1}
"""How often the cancel that one person asked for may reach the provider."""
