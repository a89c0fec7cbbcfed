"""Gemini API: the operation of a video, and the batch job."""

from conformance.dialects.google import GoogleOperation
from conformance.dialects.speech import Answer, Body, Dialect, Moment, stamp


class VideoOperation(GoogleOperation):
    """`GET /v1/models/veo/operations/ID`."""

    name = "genai-video"
    words = {"running": "", "succeeded": "", "failed": ""}
    speaks = frozenset({"body", "not-found", "result", "error", "id"})
    look_path = r"/v1(?:beta)?/models/[^/]+/operations/[^/]+"

    def operation(self, job: str) -> str:
        """Operations belong to a model."""
        return f"models/veo/operations/{job}"

    def response(self, moment: Moment) -> Body:
        """One video."""
        return {"generateVideoResponse": {"generatedSamples": [{"video": {"uri": moment.result_url}}]}}


class Batch(Dialect):
    """`GET /v1/batches/ID`."""

    name = "genai-batch"
    words = {
        "queued": "JOB_STATE_PENDING", "running": "JOB_STATE_RUNNING", "succeeded": "JOB_STATE_SUCCEEDED",
        "failed": "JOB_STATE_FAILED", "cancelled": "JOB_STATE_CANCELLED", "expired": "JOB_STATE_EXPIRED",
        "paused": "JOB_STATE_PAUSED", "partial": "JOB_STATE_PARTIALLY_SUCCEEDED", "unknown": "JOB_STATE_RECALIBRATING",
        "unknown-terminal": "JOB_STATE_REJECTED",
    }  # fmt: skip
    speaks = frozenset({"body", "not-found", "state", "result", "error", "id", "submit"})
    look_path = r"/v1(?:beta)?/batches/[^/]+"
    submit_path = r"/v1(?:beta)?/models/[^/]+:batchGenerateContent"

    def look(self, moment: Moment) -> Answer:
        """The batch as an operation with its state in the metadata."""
        metadata: Body = {
            "model": "models/gemini",
            "state": moment.word(self.words),
            "createTime": stamp(0),
            "displayName": "job",
        }
        body: Body = {"name": f"batches/{moment.id}", "metadata": metadata}
        if "id" in moment.step.without:
            del body["name"]
        if "state" in moment.step.without:
            del metadata["state"]
        if moment.has("result"):
            metadata["output"] = {"responsesFile": f"files/{moment.job}"}
        if moment.has("error"):
            body["error"] = {"code": 13, "message": "the job failed"}
        return Answer(body)

    def failure(self, moment: Moment, status: int) -> Answer:
        """An error in Google's form."""
        return Answer({"error": {"code": status, "message": f"status {status}", "status": "UNKNOWN"}}, status=status)
