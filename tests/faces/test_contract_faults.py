"""A broken contract file of the deployment: told where it is looked for, at line and column, and in nobody else's way."""

from pathlib import Path

from tests.faces.conftest import Cli
from tests.faces.provider import CONTRACT, Provider


def broken(folder: Path) -> None:
    """Adds a file with a mistyped word beside the good ones."""
    text = CONTRACT.replace('contract = "acme"', 'contract = "broken"').replace("pending =", "pendign =")
    (folder / "contracts/broken.toml").write_text(text)


def test_the_list_names_faults_with_line_and_column(cli: Cli, provider: Provider, folder: Path) -> None:
    """On standard error for people, beside the contracts for programs; the good ones are listed."""
    broken(folder)
    line = (folder / "contracts/broken.toml").read_text().splitlines().index('pendign = ["queued", "running"]') + 1
    listed = cli("contract", "list")
    assert listed.code == 0 and "acme" in listed.out and "broken" not in listed.out
    assert f"contracts/broken.toml:{line}:1" in listed.err and "pending" in listed.err
    found = cli("contract", "list", "--json").json
    assert len(found["faults"]) == 1 and found["faults"][0]["where"].endswith(f":{line}:1")


def test_only_who_asks_for_the_broken_contract_is_stopped(cli: Cli, provider: Provider, folder: Path) -> None:
    """Another wait is registered; the broken one is refused with its fault; doctor warns."""
    broken(folder)
    assert cli("wait", "acme", "job-1", "--base", provider.base, "--detach").code == 0
    refused = cli("wait", "broken", "job-1", "--base", provider.base, "--detach")
    assert refused.code == 2 and "pendign" in refused.err
    doctor = cli("doctor")
    assert doctor.code == 0 and "faults of contract files: 1" in doctor.out


def test_check_tells_every_fault_at_its_place(cli: Cli, provider: Provider, folder: Path) -> None:
    """Two faults, two places."""
    text = CONTRACT.replace("pending =", "pendign =").replace('path = "status"', 'path = "status["')
    (folder / "two.toml").write_text(text)
    checked = cli("contract", "check", "two.toml", "--json")
    assert checked.code == 2
    places = [fault["where"] for fault in checked.json["error"]["faults"]]
    assert len(places) == 2 and all(place.startswith("two.toml:") and place.count(":") == 2 for place in places)
