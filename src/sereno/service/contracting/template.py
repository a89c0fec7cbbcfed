"""Templates of contracts: a commented starting file, and the cases file beside it, from a name, an address and sample answers.

Whatever a person has to find out is a `TODO` that `sereno contract check` lists; nothing is guessed into a meaning.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from sereno.core.contract import Via, origin_of
from sereno.core.errors import Fault, SetupError
from sereno.core.reading.templates import BASE, names_in
from sereno.core.writing.toml import comment, toml_block, toml_text, toml_value
from sereno.service.contracting.answers import Answer
from sereno.service.contracting.proposals import Place, Proposals, propose, text_at, word_at

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
_RESERVED = ("job_id", "base")


@dataclass(frozen=True, slots=True)
class Started:
    """The two files of a new contract, as text, and the words that were seen."""

    contract: str
    cases: str
    words: Sequence[str]


def start_contract(name: str, via: Via, url: str | None, answers: Sequence[Answer]) -> Started:
    """Writes both files. Raises SetupError for a name that no contract can have, and an address that is none."""
    if not _NAME.fullmatch(name):
        says = "must be made of lower-case letters, digits and hyphens, at most 64"
        raise SetupError("nothing was written", [Fault("NAME", says, "write for example acme-render")])
    seen = propose(answers, url)
    template = _template_of(url, seen)
    sections = [
        _head(name),
        _status(via, template),
        _state(seen),
        _states(seen),
        _job(seen),
        _result(seen),
        _error(seen),
        _http(seen, via),
        _timing(seen, via),
        _calls(via, template),
    ]
    return Started(
        "\n".join(line for lines in sections for line in [*lines, ""]).rstrip() + "\n",
        _cases(name, seen, answers, template),
        seen.words,
    )


def _template_of(url: str | None, seen: Proposals) -> str | None:
    """The address with `{job_id}` where the samples' id stands; an address that is not https begins with `{base}`."""
    if url is None:
        return None
    if not url.startswith(BASE):
        try:
            origin_of(url.replace("{", "").replace("}", ""))
        except ValueError as error:
            raise SetupError("nothing was written", [Fault("--url", str(error))]) from None
    if "{job_id}" not in url and seen.ids:
        url = re.sub(rf"(?<=[/=]){re.escape(str(seen.ids[0].value))}(?=[/?&]|$)", "{job_id}", url)
    if url.startswith("http://"):
        parts = urlsplit(url)
        url = BASE + url.removeprefix(f"{parts.scheme}://{parts.netloc}")
    return url


def _head(name: str) -> Iterator[str]:
    yield "# Started by `sereno contract new`. `sereno contract check FILE` lists what is still to be decided, line by line."
    yield "# The format: docs/reference/contract-format.md. Whatever starts with TODO has to go before the contract can be used."
    yield "format = 1"
    yield f"contract = {toml_text(name)}"
    yield "version = 1"
    yield 'title = "TODO: what kind of job this is, in a few words"'
    yield 'source = "TODO: the page of the documentation that this is from, and when you read it"'
    yield 'verified = "TODO: what you saw to be true, and what you only read: verified: words, id; unverified: what 404 means"'


def _status(via: Via, template: str | None) -> Iterator[str]:
    yield "# The look: the call that asks for the state of one job."
    yield "[status]"
    if via is not Via.HTTP:
        yield f'via = "{via}"'
    if via is Via.AWS:
        yield from _aws_status()
    elif via is Via.PUSH:
        yield "# The provider calls back: [state] reads the body that it sends."
    else:
        yield from _http_status(via, template)
    if via is not Via.PUSH:
        yield 'observational = "TODO: the sentence of the documentation that says that this call only reads; without one, delete this line"'
    yield '# credential = "acme"        # the usual NAME under [credentials] in sereno.toml; never a value'


def _aws_status() -> Iterator[str]:
    yield 'service = "TODO: the name that botocore has for the service, such as athena"'
    yield 'operation = "TODO: the operation that says the state, such as GetQueryExecution"'
    yield '# body = { QueryExecutionId = "{job_id}" }    # its input, with the job id in it'
    yield 'parameters = ["region"]'


def _http_status(via: Via, template: str | None) -> Iterator[str]:
    if template is None:
        example = "https://mcp.acme.example/" if via is Via.MCP else "https://api.acme.example/v1/jobs/{job_id}"
        yield f'url = "TODO: the address of the status call: {example}, or {{base}}/… for a service that everybody hosts"'
    else:
        yield f"url = {toml_text(template)}"
        names = [name for name in dict.fromkeys(names_in(template)) if name not in _RESERVED]
        if names:
            yield f"parameters = {toml_value(list(names))}"
        if template.startswith("https://"):
            yield f"origins = [{toml_text(origin_of(template.split('{')[0]))}]"
    if via is Via.MCP:
        yield 'era = "TODO: 2025-11-25, or extension for io.modelcontextprotocol/tasks"'


def _shown(places: Sequence[Place], most: int = 6) -> str:
    return ", ".join(f"{place.path} ({toml_value(place.value)[:60]})" for place in places[:most])


def _state(seen: Proposals) -> Iterator[str]:
    yield '# Where an answer says the state: a path (JMESPath). Other forms: from = "http", from = "conditions".'
    yield "[state]"
    if not seen.states:
        yield '# path = "status"'
        return
    yield f"path = {toml_text(seen.states[0].path)}"
    if len(seen.states) > 1:
        yield comment(f"other fields that might be it: {_shown(seen.states[1:])}")


def _states(seen: Proposals) -> Iterator[str]:
    yield "# Every word that the documentation names, once, under its meaning. A word that is not here stops the wait and asks you."
    yield "[states]"
    if seen.words:
        yield f"TODO_seen = {toml_value(list(seen.words))}"
    else:
        yield 'TODO = "every word of the state that the documentation names, under its meaning"'
    yield "pending = []                # still at it"
    yield "success = []                # done, and the result is there"
    yield "failure = []"
    for key, says in (
        ("cancelled", "somebody cancelled it"),
        ("expired", "the provider gave up on it"),
        ("needs_input", "waits for a person or another system: stops and asks"),
        ("partial", "a part of the result is there: stops and asks"),
        ("result_expired", "it succeeded, but the result is gone: stops and asks"),
    ):
        yield f"# {key} = []".ljust(28) + f"# {says}"


def _job(seen: Proposals) -> Iterator[str]:
    yield "# Where an answer names its job: an answer about another job is then never taken for this one."
    if not seen.ids:
        yield "# [job]"
        yield '# id = "id"'
        return
    yield "[job]"
    yield f"id = {toml_text(seen.ids[0].path)}"
    if len(seen.ids) > 1:
        yield comment(f"other fields that might be it: {_shown(seen.ids[1:])}")


def _result(seen: Proposals) -> Iterator[str]:
    yield "# What success must bring: without it, success is a contradiction and asks you."
    yield "[result]"
    what = f"seen: {_shown(seen.results)}" if seen.results else "none seen"
    says = f"TODO: which field must be there in a success ({what})? Write a [[result.fields]]; where success brings nothing, delete this line"
    yield f"TODO = {toml_text(says.removeprefix('TODO: '))}"
    path = seen.results[0].path if seen.results else "output.url"
    yield comment(f"ref = {toml_text(path)}    # what to record as the place of the result")
    yield "# [[result.fields]]"
    yield comment(f"path = {toml_text(path)}")
    kind = "url" if seen.results and str(seen.results[0].value).startswith(("https://", "http://")) else "any"
    yield f'# type = "{kind}"'.ljust(31) + "# any, string, number, integer, boolean, object, array, url"


def _error(seen: Proposals) -> Iterator[str]:
    yield "# Where a failure says why."
    if not seen.texts and not seen.codes:
        yield "# [error]"
        yield '# text = "error.message"'
        return
    if seen.only_bad_errors:
        yield "# REVIEW: only answers other than 2xx had these. A failed job may say it elsewhere: save the answer of one, or read on."
    yield "[error]"
    if seen.codes:
        yield f"code = {toml_text(seen.codes[0].path)}"
    if seen.texts:
        yield f"text = {toml_text(seen.texts[0].path)}"


def _http(seen: Proposals, via: Via) -> Iterator[str]:
    if via is Via.PUSH:
        return
    yield "# Without a line here: 401 and 403 stop; 429 is throttled; 404 and 410 are an unknown job; 408, 425 and 5xx are tried again;"
    yield "# everything else stops and asks. Where the documentation says more, for example that a new job is not found at once:"
    if seen.statuses:
        yield comment(f"seen in the samples: HTTP {', '.join(map(str, seen.statuses))}")
    yield "# [[http]]"
    yield '# status = "404"'
    yield '# meaning = "not_found_yet"'
    yield '# grace = "30s"'


def _timing(seen: Proposals, via: Via) -> Iterator[str]:
    if via is not Via.PUSH:
        yield "# How often to ask. The documentation may say so; Retry-After is always obeyed."
        yield "[delays]"
        yield 'first = "2s"'
        yield 'base = "5s"'
        yield 'max = "2m"'
        yield '# typical = "10m"            # how long such a job usually takes'
        if seen.hints:
            yield comment(f"these may say when to ask again, in a [[hints]] with path and unit: {_shown(seen.hints)}")
        yield ""
    yield "# How long to wait at most. Without this section whoever waits says it."
    yield "# [limits]"
    yield '# deadline = "2h"'
    if via is not Via.PUSH:
        yield "# requests = 200"
        yield "# transport_failures = 10"
        yield "# throttles = 10"
    yield ""
    yield "# How long the provider keeps the job or its result, quoted from the documentation."
    if seen.expiries:
        yield comment(f"seen: {_shown(seen.expiries)}")
    yield "# [expiry]"
    yield '# retention = "24h"'


def _calls(via: Via, template: str | None) -> Iterator[str]:
    where = template.rpartition("/{job_id}")[0] if template and "/{job_id}" in template else "https://api.acme.example/v1/jobs"
    address = [] if via in (Via.AWS, Via.MCP) else [f"url = {toml_text(where)}"]
    operation = ['operation = "StartQueryExecution"'] if via is Via.AWS else []
    yield "# How a job is started and cancelled, for `sereno submit` and `sereno operation cancel`; leave both out where you only wait."
    yield from (comment(line) for line in ("[submit]", *address, *operation))
    yield '# effects = "starts a job; billed by the minute"     # for the person who decides'
    yield '# job_id = "id"                                     # where the answer names the job'
    yield "#"
    yield from (comment(line) for line in ("[cancel]", *[line.replace(where, f"{where}/{{job_id}}/cancel") for line in address]))
    if via is Via.AWS:
        yield '# operation = "StopQueryExecution"'
        yield '# body = { QueryExecutionId = "{job_id}" }'
    yield '# effects = "ends as canceled; what ran is billed"'


_KINDS = "pending, success, failure, cancelled, expired, needs_input, partial, result_expired, throttled, unknown_operation, …"


def _cases(name: str, seen: Proposals, answers: Sequence[Answer], template: str | None) -> str:
    lines = [
        f"# Answers of the provider, and what Sereno must make of them: `sereno contract test` runs them through {name}.",
        "# Each word of the contract needs a case: a recorded answer is best, one written by the documentation is good.",
        "",
    ]
    for answer in answers:
        lines += [*_case(seen, answer, template), ""]
    if not answers:
        lines += [comment(line) for line in _EXAMPLE]
    return "\n".join(lines).rstrip() + "\n"


_EXAMPLE = (
    "[[case]]",
    'name = "still running"',
    'job_id = "job-1"',
    "[case.answer]",
    "status = 200",
    """body = '''{"id": "job-1", "status": "running"}'''""",
    "[case.expect]",
    'kind = "pending"',
    'state = "running"',
)


def _case(seen: Proposals, answer: Answer, template: str | None) -> Iterator[str]:
    yield "[[case]]"
    yield f"name = {toml_text(answer.name)}"
    job = word_at(answer, seen.ids[0].path) if seen.ids else None
    if job is None and seen.ids:
        job = str(seen.ids[0].value)
    if job is not None:
        yield f"job_id = {toml_text(job)}"
    names = [name for name in dict.fromkeys(names_in(template or "")) if name not in _RESERVED]
    if names:
        yield f"parameters = {toml_value(dict.fromkeys(names, 'x'))}"
    yield "[case.answer]"
    yield f"status = {answer.status}"
    if answer.kept_headers:
        yield f"headers = {toml_value(dict(answer.kept_headers))}"
    if answer.body:
        yield f"body = {toml_block(answer.body)}"
    yield "[case.expect]"
    yield f"kind = {toml_text(f'TODO: {_KINDS}')}"
    word = word_at(answer, seen.states[0].path) if seen.states and 200 <= answer.status < 300 else None
    if word is not None:
        yield f"state = {toml_text(word)}"
        yield from _case_error(seen, answer)


def _case_error(seen: Proposals, answer: Answer) -> Iterator[str]:
    """What the answer says where the contract looks for errors."""
    for key, places in (("error_code", seen.codes), ("error_text", seen.texts)):
        found = text_at(answer, places[0].path) if places else None
        if found is not None:
            yield f"{key} = {toml_text(found)}"
