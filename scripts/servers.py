"""The heavy servers of others: `python -m scripts.servers write` makes their locks, `check` proves them whole, `run` meets all servers.

Each server has a lock of its own in requirements/servers (names, versions and hashes; no index addresses) and an environment of its own in
.cache/servers, made by whoever asks for it first. The name of an environment holds the digest of its lock, and a stamp is written last: a
changed lock and an install that broke off are both made anew. `run` ends with one line of JSON; it fails where a test fails or is skipped.
"""

import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from scripts import locks

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "requirements/servers"
ENVIRONMENTS = ROOT / ".cache/servers"
HEAVY = {
    "airflow": ["apache-airflow==3.3.2"],
    "prefect": ["prefect==3.9.1"],
    "ray": ["ray[default]==2.60.0"],
}
"""What each environment is asked to hold."""
SERVERS = {
    "a2a": "a2a-sdk",
    "airflow": "airflow",
    "aws": "moto",
    "mcp-task": "server-everything",
    "mcp-task-extension": "fastmcp-tasks",
    "prefect": "prefect",
    "ray": "ray",
}
"""Which server a contract speaks with: by its whole name, else by the first word of it."""
MARK = "# requirements-digest: "
INSTALL_SECONDS = 900


def digest(requirements: Sequence[str]) -> str:
    """Hashes what a lock was made from."""
    return hashlib.sha256(json.dumps(list(requirements)).encode()).hexdigest()


def check() -> list[str]:
    """Lists every fault of every lock, and locks that no server asks for."""
    faults: list[str] = []
    for name, requirements in HEAVY.items():
        path = LOCKS / f"{name}.txt"
        if not path.exists():
            faults.append(f"requirements/servers/{name}.txt: missing; run `python -m scripts.servers write`")
            continue
        text = path.read_text()
        if f"{MARK}{digest(requirements)}" not in text.splitlines():
            faults.append(f"requirements/servers/{name}.txt: made for something else; run `python -m scripts.servers write`")
        faults += _faults(name, text, requirements)
    strays = {path.stem for path in LOCKS.glob("*")} - HEAVY.keys()
    return faults + [f"requirements/servers/{name}.txt: no such server" for name in sorted(strays)]


def _faults(name: str, text: str, requirements: Sequence[str]) -> Iterator[str]:
    """Lists what is wrong with the pins: an address, a missing hash, a version that was not asked for."""
    if "://" in text or "--index-url" in text or "--find-links" in text:
        yield f"requirements/servers/{name}.txt: names an address; a lock holds names, versions and hashes only"
    have = locks.pins(text)
    yield from (
        f"requirements/servers/{name}.txt: {package} has no hash"
        for package, versions in have.items()
        if not all(hashed for _, hashed in versions)
    )
    for requirement in map(Requirement, requirements):
        found = have.get(locks.canonicalize_name(requirement.name), [])
        if not any(requirement.specifier.contains(version) for version, _ in found):
            yield f"requirements/servers/{name}.txt: {requirement} is not pinned"


def write() -> None:
    """Resolves every lock for all platforms; needs uv and a package index."""
    LOCKS.mkdir(parents=True, exist_ok=True)
    for name, requirements in HEAVY.items():
        out = LOCKS / f"{name}.txt"
        command = [_uv() or "uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
        command += ["--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--no-header", "--output-file", str(out), "-"]
        subprocess.run(command, check=True, cwd=ROOT, input="\n".join(requirements).encode(), env=_trusting())
        head = ["# Made by `python -m scripts.servers write`; do not edit.", MARK + digest(requirements)]
        out.write_text("\n".join([*head, out.read_text()]))
        print(f"requirements/servers/{name}.txt: {len(locks.pins(out.read_text()))} packages")


def environment(name: str) -> Path:
    """The folder of the programs (python among them) of a server's environment, made here where it is not there yet.

    One process makes it at a time. A broken install raises, within fifteen minutes.
    """
    lock = LOCKS / f"{name}.txt"
    stamp = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = ENVIRONMENTS / f"{name}-{stamp}"
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (home / ".ready").exists():
            _make(home, lock)
    return home / "bin"


def _make(home: Path, lock: Path) -> None:
    """Makes an environment from nothing and installs exactly what the lock names."""
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(home), *(["--without-pip"] if _uv() else [])], check=True)
    python = str(home / "bin/python")
    pip = [str(_uv()), "pip", "install", "--python", python] if _uv() else [python, "-m", "pip", "install", "--no-input"]
    command = [*pip, "--quiet", "--no-deps", "--require-hashes", "-r", str(lock)]
    subprocess.run(command, check=True, timeout=INSTALL_SECONDS, env=_trusting())
    (home / ".ready").touch()


def _uv() -> str | None:
    own = ROOT / ".venv/bin/uv"
    return shutil.which("uv") or (str(own) if own.exists() else None)


def _trusting() -> dict[str, str]:
    """The environment in which uv trusts what this machine trusts, as pip does."""
    return {"UV_NATIVE_TLS": "1", "UV_SYSTEM_CERTS": "1", **os.environ}


def operations(folder: Path) -> dict[str, Counter[str]]:
    """Counts the operations of all Sereno databases under a folder: for each server, how many in which state."""
    found: dict[str, Counter[str]] = {}
    for path in sorted(Path(place) / "sereno.db" for place, _, files in os.walk(folder) if "sereno.db" in files):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            for contract, state in connection.execute("SELECT contract, state FROM operation"):
                server = SERVERS.get(contract) or SERVERS.get(contract.partition("-")[0], contract)
                found.setdefault(server, Counter())[state] += 1
        connection.close()
    return found


def run(more: Sequence[str]) -> int:
    """Runs the tests with light and heavy servers, one after another; the last line is JSON. Options go on to pytest."""
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="sereno-servers-"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/peers",
        "tests/servers_heavy",
        "-m",
        "",
        "-q",
        "--basetemp",
        str(folder / "t"),
    ]
    code = subprocess.run([*command, *more], cwd=ROOT, env={**os.environ, "SERENO_NO_SKIPS": "1"}, check=False).returncode
    books = operations(folder)
    shutil.rmtree(folder, ignore_errors=True)
    missing = sorted(set(SERVERS.values()) - books.keys())
    print(
        json.dumps(
            {
                "passed": code == 0 and not missing,
                "servers": len(books),
                "missing": missing,
                "operations": {server: dict(sorted(ends.items())) for server, ends in sorted(books.items())},
                "seconds": round(time.monotonic() - began),
            }
        )
    )
    return code or int(bool(missing))


def main(arguments: Sequence[str]) -> int:
    """Runs `write`, `check` or `run`; prints each fault on a line."""
    if arguments[:1] == ["run"]:
        return run(arguments[1:])
    if arguments[:1] == ["write"]:
        write()
    faults = check()
    print("\n".join(faults) if faults else "locks of servers: whole")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
