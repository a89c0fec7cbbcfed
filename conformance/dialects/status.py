"""The HTTP status alone says it: 404 while the job is not done, 200 once it is."""

from conformance.dialects.speech import Answer, Dialect, Moment


class HttpStatus(Dialect):
    """`GET /jobs/ID`; there is no way to say that the job failed."""

    name = "http-status"
    words = {"running": "404", "succeeded": "200"}
    speaks = frozenset()

    def look(self, moment: Moment) -> Answer:
        """404 or 200."""
        return Answer({}, status=int(moment.word(self.words)))
