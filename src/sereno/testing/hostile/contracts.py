"""The contracts of the hostile provider: jobs that are there already, and jobs that are submitted with and without a key."""

from collections.abc import Mapping

from sereno.core.values import Json
from sereno.testing.hostile.options import BASE


def document(name: str, **more: Json) -> dict[str, Json]:
    """A contract of this provider; `more` adds tables or replaces them."""
    return {
        "format": 1,
        "contract": name,
        "version": 1,
        "title": "A job of a hostile provider",
        "source": "the hostile provider's own code",
        "verified": "verified: it is written beside this contract",
        "status": {"url": f"{BASE}/jobs/{{job_id}}", "origins": [BASE], "observational": "a look changes nothing there"},
        "job": {"id": "id", "progress": "percent", "pins": ["attempt"]},
        "handover": [{"path": "moved_to"}],
        "state": {"path": "status"},
        "states": {
            "pending": ["queued", "running"],
            "success": ["done"],
            "failure": ["failed"],
            "cancelled": ["cancelled"],
            "expired": ["expired"],
            "needs_input": ["paused"],
            "partial": ["partial"],
        },
        "result": {"ref": "result", "fields": [{"path": "result", "type": "url"}]},
        "error": {"code": "error.code", "text": "error.message"},
        "delays": {"first": "3s", "base": "5s", "max": "2m", "min_gap": "2s"},
        "hints": [
            {"header": "x-poll-after-ms", "unit": "milliseconds"},
            {"path": "poll_after", "unit": "seconds"},
            {"path": "next_check_at", "unit": "at"},
        ],
        "expiry": {"path": "expires_at"},
        "limits": {"deadline": "30m", "requests": 25, "transport_failures": 8, "throttles": 5},
        **more,
    }


def submit(idempotency: Mapping[str, Json] | None, **more: Json) -> dict[str, object]:
    """The submit of a contract, with a key where `idempotency` says how."""
    call: dict[str, object] = {
        "method": "POST",
        "url": f"{BASE}/submit",
        "effects": "starts a job",
        "job_id": "id",
        "accepts": ["200", "201", "202"],
        **more,
    }
    return call if idempotency is None else {**call, "idempotency": dict[str, object](idempotency)}


def cancel(*, repeatable: bool) -> dict[str, object]:
    """The cancel of a contract."""
    url = f"{BASE}/cancel/{{job_id}}"
    return {"method": "POST", "url": url, "effects": "ends as cancelled", "repeatable": repeatable}


HEADER: Mapping[str, Json] = {"place": "header", "name": "Idempotency-Key", "window": "1h"}

DOCUMENTS: Mapping[str, Mapping[str, Json]] = {
    "hostile-there": document("hostile-there", cancel=cancel(repeatable=False)),
    "hostile-plain": document("hostile-plain", submit=submit(None), cancel=cancel(repeatable=True)),
    "hostile-replay": document("hostile-replay", submit=submit({**HEADER, "duplicate": "replay"})),
    "hostile-reject": document(
        "hostile-reject",
        submit=submit({**HEADER, "duplicate": "reject"}, duplicate={"status": ["409"], "path": "error.code", "value": "exists"}),
    ),
}
_KEYED = ("-replay", "-reject")


def is_keyed(ref: str) -> bool:
    """True for an operation whose provider honours keys; a reference starts with the name of the contract."""
    return ref.rpartition("-")[0].endswith(_KEYED)


def rejects(ref: str) -> bool:
    """True for an operation whose provider answers a known key with a refusal that names the job."""
    return ref.rpartition("-")[0].endswith("-reject")
