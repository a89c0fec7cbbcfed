"""The locks: `python -m scripts.locks write [--upgrade]` makes them from pyproject.toml, `python -m scripts.locks check` proves them in step.

A lock is a requirement file with hashes and without index addresses, one for each extra (`core` has none). Writing needs uv and a
package index. Checking needs neither: it compares the digest of the dependency tables that the lock was made from, and that each
requirement is pinned in the lock at a version that it allows, with at least one hash.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
MARK = "# pyproject-digest: "
FIRST = "dev"
"""Resolved first; the others are held to its versions, so that all locks agree."""
ALONE = {"build", "conformance"}
"""Extras that are not installed beside Sereno itself: their locks leave out what Sereno needs."""
FREE = {"conformance"}
"""Waiters of others, in an environment of their own: some need other releases than we do, so nothing holds them to ours."""


def tables(root: Path) -> dict[str, Sequence[str]]:
    """Reads the requirements of each lock from pyproject.toml; references to own extras are resolved."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras: Mapping[str, Sequence[str]] = project["optional-dependencies"]
    core = project["dependencies"]
    found = {"core": list(core)}
    for name in extras:
        found[name] = sorted({*(() if name in ALONE else core), *_flat(extras, name)})
    return found


def _flat(extras: Mapping[str, Sequence[str]], name: str) -> Iterator[str]:
    for text in extras[name]:
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) == "sereno":
            for extra in sorted(requirement.extras):
                yield from _flat(extras, extra)
        else:
            yield text


def digest(root: Path) -> str:
    """Hashes what decides a resolution: the dependency tables and the Python range."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    decides = [project["dependencies"], project["optional-dependencies"], project["requires-python"]]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)


def pins(text: str) -> dict[str, list[tuple[Version, bool]]]:
    """Reads a lock: for each name its versions (markers can give several) and whether a hash follows."""
    found: dict[str, list[tuple[Version, bool]]] = {}
    starts = list(_PIN.finditer(text))
    for match, after in zip(starts, [*starts[1:], None], strict=True):
        block = text[match.start() : after.start() if after else len(text)]
        found.setdefault(canonicalize_name(match[1]), []).append((Version(match[2]), "--hash=sha256:" in block))
    return found


def faults_of_lock(name: str, text: str, requirements: Sequence[str], wanted: str) -> Iterator[str]:
    """Lists what is out of step in one lock."""
    if f"{MARK}{wanted}" not in text.splitlines():
        yield f"requirements/{name}.txt: made from other dependency tables; run `make lock`"
    if re.search(r"^\s*(-i|--index-url|--extra-index-url|--find-links|-f)\b|https?://", text, re.MULTILINE):
        yield f"requirements/{name}.txt: names an address; a lock holds names, versions and hashes only"
    have = pins(text)
    for package, versions in have.items():
        if not all(hashed for _, hashed in versions):
            yield f"requirements/{name}.txt: {package} has no hash"
    for requirement in map(Requirement, requirements):
        versions = have.get(canonicalize_name(requirement.name), [])
        if not any(requirement.specifier.contains(version, prereleases=True) for version, _ in versions):
            yield f"requirements/{name}.txt: {requirement} is not pinned at an allowed version"


def check(root: Path) -> list[str]:
    """Lists every fault of every lock, and locks that nobody asks for."""
    wanted, found = digest(root), tables(root)
    faults: list[str] = []
    for name, requirements in found.items():
        path = root / "requirements" / f"{name}.txt"
        if path.exists():
            faults += faults_of_lock(name, path.read_text(), requirements, wanted)
        else:
            faults.append(f"requirements/{name}.txt: missing; run `make lock`")
    strays = {path.stem for path in (root / "requirements").glob("*.txt")} - found.keys()
    return faults + [f"requirements/{name}.txt: no such extra" for name in sorted(strays)]


def write(root: Path, uv: Sequence[str]) -> None:
    """Resolves every lock for all platforms and Python versions; `uv` is the command with its extra options."""
    names = [FIRST, *(name for name in tables(root) if name != FIRST)]
    for name in names:
        out = root / "requirements" / f"{name}.txt"
        _resolve(root, uv, name, out)
        body = out.read_text().splitlines()[2:]
        head = ["# Made by `make lock` from pyproject.toml; do not edit.", MARK + digest(root)]
        out.write_text("\n".join([*head, *body]) + "\n")
        print(f"{out.relative_to(root)}: {len(pins(out.read_text()))} packages")


def _resolve(root: Path, uv: Sequence[str], name: str, out: Path) -> None:
    command = [uv[0], "pip", "compile", *uv[1:], "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--output-file", str(out)]
    command += [] if name in {FIRST, *FREE} else ["--constraints", str(root / "requirements" / f"{FIRST}.txt")]
    if name in ALONE:
        subprocess.run([*command, "-"], check=True, cwd=root, input="\n".join(tables(root)[name]).encode())
        return
    extra = [] if name == "core" else ["--extra", name]
    subprocess.run([*command, *extra, "pyproject.toml"], check=True, cwd=root)


def main(arguments: Sequence[str]) -> int:
    """Runs `write` or `check`; prints each fault on a line."""
    if arguments[:1] == ["write"]:
        uv = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
        if not Path(uv).exists():
            print("locks: writing needs uv (pip install uv)", file=sys.stderr)
            return 2
        write(ROOT, [uv, *arguments[1:]])
    faults = check(ROOT)
    print("\n".join(faults) if faults else "locks: in step with pyproject.toml")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
