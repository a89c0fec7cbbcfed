"""google.longrunning.Operation as JSON over HTTP: `done`, then `response` or `error`. It has no words for states."""

from conformance.dialects.speech import Answer, Body, Dialect, Moment


class GoogleOperation(Dialect):
    """`GET /operations/ID`."""

    name = "google-lro"
    words = {"running": "", "succeeded": "", "failed": "", "queued": "", "cancelled": ""}
    speaks = frozenset({"body", "not-found", "result", "error", "id"})
    look_path = r"/operations/[^/]+"

    def response(self, moment: Moment) -> Body:
        """The message inside `response`."""
        return {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"url": moment.result_url}}

    def look(self, moment: Moment) -> Answer:
        """The operation."""
        body: Body = {"name": self.operation(moment.id)}
        ended = moment.step.say in ("succeeded", "failed", "cancelled")
        if ended:
            body["done"] = True
        if "id" in moment.step.without:
            del body["name"]
        if moment.has("result"):
            body["response"] = self.response(moment)
        if moment.has("error"):
            body["error"] = {"code": 13, "message": "the job failed"}
        if moment.step.say == "cancelled":
            body["error"] = {"code": 1, "message": "the job was cancelled"}
        return Answer(body)

    def operation(self, job: str) -> str:
        """The name of an operation."""
        return job

    def failure(self, moment: Moment, status: int) -> Answer:
        """An error in Google's form."""
        return Answer({"error": {"code": status, "message": f"status {status}", "status": "UNKNOWN"}}, status=status)
