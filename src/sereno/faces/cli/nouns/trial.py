"""`sereno contract test`: recorded answers run through a contract, and one saved answer read as a wait would read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sereno.core.errors import Fault, NotFound, SetupError
from sereno.core.observation import ObservationKind
from sereno.core.values import parse_duration
from sereno.faces.cli.given import read_given
from sereno.faces.cli.output import EXIT_BUG, EXIT_OK, Output
from sereno.faces.cli.session import DEFAULT, Flags, run_plain
from sereno.faces.cli.show.contracts import fault_lines, show_foreseen, show_trial, trial_row
from sereno.settings import Loaded

if TYPE_CHECKING:
    from sereno.service.contracts import Contracts

MOST_ANSWER = 1_000_000
MOST_CASES = 10_000_000
"""Bytes that are read of a saved answer, and of a file of cases."""

File = Annotated[Path, Parameter(help="A contract file, TOML.")]


@Parameter(name="*")
@dataclass(frozen=True)
class AnswerFlags:
    """One saved answer, and what was asked for it."""

    answer: Annotated[
        Path | None,
        Parameter(name="--answer", help="Read this one saved answer instead, and say what a wait would see and do next."),
    ] = None
    job_id: Annotated[
        str | None, Parameter(name="--job-id", help="With --answer: the job that was asked about. Default: the one it names.")
    ] = None
    after: Annotated[str, Parameter(name="--after", help="With --answer: how long after the job's start it came.")] = "60s"
    param: Annotated[
        tuple[str, ...], Parameter(name="--param", help="With --answer: a parameter, as name=value; may be repeated.")
    ] = ()


_CASES = AnswerFlags()


def test(
    file: File,
    cases: Annotated[
        Path | None, Parameter(help="Its cases, TOML. Default: FILE with .cases.toml, or cases/NAME.toml beside it.")
    ] = None,
    /,
    *,
    allow_missing: Annotated[bool, Parameter(name="--allow-missing", help="A word of the contract may have no case.")] = False,
    one: AnswerFlags = _CASES,
    flags: Flags = DEFAULT,
) -> int:
    """Run recorded answers through a contract: exit code 1 where one is read otherwise or a word has no case."""

    async def body(loaded: Loaded, out: Output) -> int:
        contracts = contracts_here(loaded)
        try:
            contract = contracts.check(file)
        except SetupError as error:
            return tell_faults(out, error, file)
        if one.answer is not None:
            return _try_answer(contracts, out, file, one.answer, one)
        return _try_cases(contracts, out, file, cases or _cases_of(file, contract.name), allow_missing)

    return run_plain(flags, body)


def _try_cases(contracts: "Contracts", out: Output, file: Path, cases: Path, allow_missing: bool) -> int:
    text = read_given("CASES", f"@{cases}", MOST_CASES).decode("utf-8", "replace")
    trial = contracts.test(file, contracts.cases(text, str(cases)))
    show_trial(out, trial)
    good = not any(tried.differences for tried in trial.tried) and (allow_missing or not trial.missing)
    out.answer("contract_test", {"file": str(file), "cases_file": str(cases), "ok": good, **trial_row(trial)})
    return EXIT_OK if good else EXIT_BUG


def _cases_of(file: Path, name: str) -> Path:
    """Where the cases of a contract usually are. Raises NotFound."""
    places = [file.with_name(f"{file.stem}.cases.toml"), *(file.parent / "cases" / f"{one}.toml" for one in (file.stem, name))]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        tried = " nor ".join(str(place) for place in dict.fromkeys(places))
        raise NotFound("there are no cases", subject=str(file), hint=f"there is neither {tried}")
    return found


def _try_answer(contracts: "Contracts", out: Output, file: Path, answer: Path, flags: AnswerFlags) -> int:
    from sereno.service.contracting.foreseen import Asking

    try:
        after = parse_duration(flags.after)
    except ValueError as error:
        raise SetupError("the answer cannot be tried", [Fault("--after", str(error))]) from None
    asking = Asking(flags.job_id, after, _pairs(flags.param))
    found = contracts.foresee(file, contracts.answer(read_given("--answer", f"@{answer}", MOST_ANSWER), answer.name), asking)
    show_foreseen(out, found)
    if found.observation.kind is ObservationKind.UNKNOWN_OPERATION:
        out.say(f"The answer is read as one of {flags.after} after the start; --after 5s reads it as an early one.")
    row: dict[str, Any] = {"file": str(file), "answer": str(answer), "job_id": found.job_id, "observation": found.observation}
    decided = {"state": found.decision.state, "category": found.decision.category, "reason": found.decision.reason}
    looks = {"earliest": found.earliest, "latest": found.latest, "source": found.decision.delay_source}
    out.answer("contract_answer", {**row, "then": decided, "next_look": looks if found.earliest is not None else None})
    return EXIT_OK


def _pairs(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise SetupError("the answer cannot be tried", [Fault("--param", "is not name=value", "write --param repo=name")])
        found[name] = value
    return found


def tell_faults(out: Output, error: SetupError, file: Path) -> int:
    """Shows each fault with the line of the file that it is about; in JSON mode the error as it is."""
    if out.as_json or not error.faults:
        return out.fail(error)
    from sereno.app import without_secrets

    code = out.fail(SetupError(error.message, hint=error.hint))
    for line in fault_lines(error.faults, file):
        out.remark(without_secrets(line))
    return code


def contracts_here(loaded: Loaded) -> "Contracts":
    """The contracts that hold here, without a database."""
    from sereno.app import contracts_of

    return contracts_of(loaded)
