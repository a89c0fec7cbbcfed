"""Amazon Transcribe, JSON 1.1: the service of the waiter `transcription_job_completed`."""

import json

from conformance.dialects.speech import Answer, Body, Dialect, Moment, Request, epoch


class Transcribe(Dialect):
    """`POST /` with X-Amz-Target GetTranscriptionJob or StartTranscriptionJob."""

    name = "aws-transcribe"
    words = {
        "queued": "QUEUED", "running": "IN_PROGRESS", "succeeded": "COMPLETED", "failed": "FAILED", "unknown": "RECALIBRATING",
        "unknown-terminal": "ABORTED",
    }  # fmt: skip
    speaks = frozenset({"body", "not-found", "state", "result", "error", "id", "submit"})

    def kind(self, request: Request) -> str:
        """By the target header."""
        target = request.headers.get("x-amz-target", "")
        return "look" if target.endswith(".GetTranscriptionJob") else "submit" if ".StartTranscriptionJob" in target else "other"

    def submit_key(self, request: Request) -> str | None:
        """The caller chooses the name of the job; a second one of that name is refused."""
        return str(json.loads(request.body).get("TranscriptionJobName"))

    def look(self, moment: Moment) -> Answer:
        """The job under its wrapper."""
        job: Body = {
            "TranscriptionJobName": moment.id,
            "TranscriptionJobStatus": moment.word(self.words),
            "CreationTime": epoch(0),
        }
        if "id" in moment.step.without:
            del job["TranscriptionJobName"]
        if "state" in moment.step.without:
            del job["TranscriptionJobStatus"]
        if moment.has("result"):
            job["Transcript"] = {"TranscriptFileUri": moment.result_url}
        if moment.has("error"):
            job["FailureReason"] = "the job failed"
        return Answer({"TranscriptionJob": job}, {"Content-Type": "application/x-amz-json-1.1"})

    def failure(self, moment: Moment, status: int) -> Answer:
        """An error in the form of the JSON protocol."""
        codes = {
            400: "BadRequestException", 401: "UnrecognizedClientException", 403: "AccessDeniedException", 404: "NotFoundException",
            429: "LimitExceededException",
        }  # fmt: skip
        body: Body = {"__type": codes.get(status, "InternalFailureException"), "Message": f"status {status}"}
        return Answer(body, {"Content-Type": "application/x-amz-json-1.1"}, status)

    def other(self, moment: Moment) -> Answer:
        """No other operation is played."""
        return Answer({"__type": "UnknownOperationException"}, status=400)
