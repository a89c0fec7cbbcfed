"""What a dialect is: routes, words, and the body of an answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from conformance.clock import START
from conformance.scenario import Step

Json = object
Body = dict[str, Json]
RESULT_URL = "https://results.example/{job}.json"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Moment:
    """What an answer is made for."""

    job: str
    base: str
    now: float
    step: Step
    request: Request

    def word(self, words: Mapping[str, str]) -> str:
        """The provider's word for what the step says."""
        return words[self.step.say or "running"]

    def has(self, part: str) -> bool:
        """Whether this answer has a result or an error: as the state asks, but for what the step leaves out or puts beside."""
        usual = {"result": self.step.say in ("succeeded", "partial"), "error": self.step.say == "failed"}[part]
        return part not in self.step.without and (usual or part in self.step.beside)

    @property
    def id(self) -> str:
        """The job's id, or the wrong one that the step gives."""
        return self.step.id or self.job

    @property
    def result_url(self) -> str:
        """Where the result would be."""
        return RESULT_URL.replace("{job}", self.job)


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back: a JSON body, or bytes, and headers of the dialect."""

    body: Body
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


class Dialect:
    """One wire protocol. Subclasses say their words and bodies."""

    name = ""
    words: Mapping[str, str] = {}
    speaks: frozenset[str] = frozenset()
    """Capabilities of conformance.scenario that the protocol can express, beside those its words show."""
    look_path = r"/jobs/[^/]+"
    submit_path = r"/jobs"
    look_method = "GET"

    def can(self) -> frozenset[str]:
        """Everything that can be said in this dialect."""
        return self.speaks | self.words.keys()

    def kind(self, request: Request) -> str:
        """What a request is: look, submit or other."""
        path = request.path.split("?")[0]
        if request.method == self.look_method and re.fullmatch(self.look_path, path):
            return "look"
        if request.method == "POST" and re.fullmatch(self.submit_path, path):
            return "submit"
        return "other"

    def submit_key(self, request: Request) -> str | None:
        """What makes two submits one job, where the provider honours such a thing."""
        return None

    def look(self, moment: Moment) -> Answer:
        """The answer to a look."""
        raise NotImplementedError

    def submit(self, moment: Moment) -> Answer:
        """The answer to a submit; by default that of a look at the new job."""
        return self.look(moment)

    def other(self, moment: Moment) -> Answer:
        """The answer to anything else."""
        return Answer({"error": "no such path"}, status=404)

    def failure(self, moment: Moment, status: int) -> Answer:
        """The body that usually comes with an HTTP error."""
        return Answer({"error": {"code": f"http_{status}", "message": f"status {status}"}}, status=status)

    def wrap(self, request: Request, body: bytes) -> bytes:
        """Puts a raw body into the envelope of the protocol, where there is one."""
        return body


def stamp(seconds: float) -> str:
    """An instant as RFC 3339."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch(seconds: float) -> int:
    """An instant as Unix time."""
    return int((START + timedelta(seconds=seconds)).timestamp())
