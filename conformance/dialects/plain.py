"""Plain JSON over HTTP: what most job APIs look like."""

from conformance.dialects.speech import Answer, Body, Dialect, Moment, stamp


class Plain(Dialect):
    """`GET /jobs/ID` answers id, status, result or error."""

    name = "plain"
    words = {
        "queued": "queued", "running": "running", "succeeded": "succeeded", "failed": "failed", "cancelled": "cancelled",
        "expired": "expired", "paused": "awaiting_approval", "partial": "partially_succeeded", "unknown": "recalibrating",
        "unknown-terminal": "aborted",
    }  # fmt: skip
    speaks = frozenset({"body", "not-found", "state", "result", "error", "id", "expiry", "poll-hint", "status-url", "submit"})

    def look(self, moment: Moment) -> Answer:
        """The job as an object."""
        body: Body = {"id": moment.id, "status": moment.word(self.words), "created_at": stamp(0)}
        if "id" in moment.step.without:
            del body["id"]
        if "state" in moment.step.without:
            del body["status"]
        if moment.has("result"):
            body["result"] = {"url": moment.result_url}
        if moment.has("error"):
            body["error"] = {"code": "job_failed", "message": "the job failed"}
        if moment.step.expires is not None:
            body["expires_at"] = stamp(moment.step.expires)
        if moment.step.hint is not None:
            body["poll_after_seconds"] = moment.step.hint
        return Answer(body)

    def submit(self, moment: Moment) -> Answer:
        """202 with the job and its address."""
        answer = self.look(moment)
        return Answer(answer.body, {"Location": f"{moment.base}/jobs/{moment.job}"}, 202)
