"""The contracts of the hostile provider: jobs that are there already, and jobs that are submitted with and without a key."""

from collections.abc import Mapping

from sereno.core.values import Json
from sereno.testing.hostile.options import BASE


def _document(name: str, **more: Json) -> dict[str, Json]:
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


def _submit(idempotency: Mapping[str, Json] | None, **more: Json) -> dict[str, object]:
    submit: dict[str, object] = {
        "method": "POST",
        "url": f"{BASE}/submit",
        "effects": "starts a job",
        "job_id": "id",
        "accepts": ["200", "201", "202"],
        **more,
    }
    return submit if idempotency is None else {**submit, "idempotency": dict[str, object](idempotency)}


def _cancel(*, repeatable: bool) -> dict[str, object]:
    url = f"{BASE}/cancel/{{job_id}}"
    return {"method": "POST", "url": url, "effects": "ends as cancelled", "repeatable": repeatable}


_HEADER: Mapping[str, Json] = {"place": "header", "name": "Idempotency-Key", "window": "1h"}

DOCUMENTS: Mapping[str, Mapping[str, Json]] = {
    "hostile-there": _document("hostile-there", cancel=_cancel(repeatable=False)),
    "hostile-plain": _document("hostile-plain", submit=_submit(None), cancel=_cancel(repeatable=True)),
    "hostile-replay": _document("hostile-replay", submit=_submit({**_HEADER, "duplicate": "replay"})),
    "hostile-reject": _document(
        "hostile-reject",
        submit=_submit(
            {**_HEADER, "duplicate": "reject"}, duplicate={"status": ["409"], "path": "error.code", "value": "exists"}
        ),
    ),
}
KEYED = ("hostile-replay", "hostile-reject")
