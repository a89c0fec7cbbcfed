"""Replicate: predictions."""

from conformance.dialects.speech import Answer, Body, Dialect, Moment, stamp


class Prediction(Dialect):
    """`GET /v1/predictions/ID`. `aborted` is documented by the provider and unknown to the client; `unknown-terminal` speaks it."""

    name = "replicate"
    words = {
        "queued": "starting", "running": "processing", "succeeded": "succeeded", "failed": "failed", "cancelled": "canceled",
        "unknown": "recalibrating", "unknown-terminal": "aborted",
    }  # fmt: skip
    speaks = frozenset({"body", "not-found", "state", "result", "error", "id", "submit"})
    look_path = r"/v1/predictions/[^/]+"
    submit_path = r"/v1/predictions"

    def look(self, moment: Moment) -> Answer:
        """The prediction."""
        urls = {
            "get": f"{moment.base}/v1/predictions/{moment.job}",
            "cancel": f"{moment.base}/v1/predictions/{moment.job}/cancel",
        }
        body: Body = {
            "id": moment.id, "model": "acme/render", "version": "5c7d5dc6", "input": {}, "logs": "", "output": None, "error": None,
            "status": moment.word(self.words), "created_at": stamp(0), "urls": urls,
        }  # fmt: skip
        if "id" in moment.step.without:
            del body["id"]
        if "state" in moment.step.without:
            del body["status"]
        if moment.has("result"):
            body["output"] = [moment.result_url]
        if moment.has("error"):
            body["error"] = "the job failed"
        return Answer(body)

    def submit(self, moment: Moment) -> Answer:
        """201."""
        return Answer(self.look(moment).body, status=201)

    def failure(self, moment: Moment, status: int) -> Answer:
        """A problem object."""
        return Answer({"title": f"status {status}", "status": status, "detail": "refused"}, status=status)
