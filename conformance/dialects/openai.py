"""OpenAI: videos."""

from conformance.dialects.speech import Answer, Body, Dialect, Moment, epoch


class Video(Dialect):
    """`GET /v1/videos/ID`; the wish when to be asked again is the header openai-poll-after-ms. The result is a call of its own."""

    name = "openai-video"
    words = {
        "queued": "queued", "running": "in_progress", "succeeded": "completed", "failed": "failed", "unknown": "recalibrating",
        "unknown-terminal": "aborted", "cancelled": "cancelled",
    }  # fmt: skip
    speaks = frozenset({"body", "not-found", "state", "error", "id", "expiry", "poll-hint", "submit"})
    look_path = r"/v1/videos/[^/]+"
    submit_path = r"/v1/videos"

    def look(self, moment: Moment) -> Answer:
        """The video job."""
        body: Body = {
            "id": moment.id, "object": "video", "model": "sora-2", "status": moment.word(self.words), "progress": 0,
            "created_at": epoch(0), "completed_at": None, "expires_at": None, "seconds": "4", "size": "720x1280", "error": None,
            "remixed_from_video_id": None, "prompt": "a boat",
        }  # fmt: skip
        if "id" in moment.step.without:
            del body["id"]
        if "state" in moment.step.without:
            del body["status"]
        if moment.has("error"):
            body["error"] = {"code": "job_failed", "message": "the job failed"}
        if moment.step.expires is not None:
            body["expires_at"] = epoch(moment.step.expires)
        headers = {} if moment.step.hint is None else {"openai-poll-after-ms": str(int(moment.step.hint * 1000))}
        return Answer(body, headers)

    def failure(self, moment: Moment, status: int) -> Answer:
        """An error object."""
        return Answer({"error": {"message": f"status {status}", "type": "error", "param": None, "code": None}}, status=status)
