"""Azure long-running operations: 202 with Operation-Location, then the operation resource (Azure REST API guidelines)."""

from conformance.dialects.speech import Answer, Body, Dialect, Moment


class Azure(Dialect):
    """`POST /jobs` answers 202 and an Operation-Location; `GET /operations/ID` answers id, status, result or error."""

    name = "azure"
    words = {
        "queued": "NotStarted", "running": "Running", "succeeded": "Succeeded", "failed": "Failed", "cancelled": "Canceled",
        "unknown": "Recalibrating", "unknown-terminal": "Rejected", "paused": "AwaitingApproval", "partial": "PartiallySucceeded",
    }  # fmt: skip
    speaks = frozenset({"body", "not-found", "state", "result", "error", "id", "status-url", "submit"})
    look_path = r"/operations/[^/]+"

    def look(self, moment: Moment) -> Answer:
        """The operation resource."""
        body: Body = {"id": moment.id, "status": moment.word(self.words)}
        if "id" in moment.step.without:
            del body["id"]
        if "state" in moment.step.without:
            del body["status"]
        if moment.has("result"):
            body["result"] = {"url": moment.result_url}
        if moment.has("error"):
            body["error"] = {"code": "JobFailed", "message": "the job failed"}
        return Answer(body)

    def submit(self, moment: Moment) -> Answer:
        """202 with the address of the operation resource."""
        return Answer(
            {"id": moment.job, "status": "NotStarted"}, {"Operation-Location": f"{moment.base}/operations/{moment.job}"}, 202
        )
