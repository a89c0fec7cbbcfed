"""Each ruff ban is shown to fail on a planted violation, and to spare the one place that owns the thing."""

import json
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(400)  # real processes, on a machine that may be busy

ROOT = Path(__file__).parents[2]
RUFF = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
BANNED = sorted(RUFF["flake8-tidy-imports"]["banned-api"])

# rule, text; planted in src/sereno/service/
PLANTS = [
    ("T201", "print('x')\n"),
    ("PLC0415", "def f() -> None:\n    import json\n\n    json.dumps(1)\n"),
    ("BLE001", "def f() -> None:\n    try:\n        g()\n    except Exception:\n        h()\n"),
    ("E722", "def f() -> None:\n    try:\n        g()\n    except:\n        h()\n"),
    ("DTZ001", "import datetime\n\nX = datetime.datetime(2020, 1, 1)\n"),
    ("DTZ006", "import datetime\n\nX = datetime.datetime.fromtimestamp(1)\n"),
    ("B006", "def f(x: list[int] = []) -> list[int]:\n    return x\n"),
    ("S307", "X = eval('1')\n"),
    ("S602", "import subprocess\n\nsubprocess.run('ls', shell=True)\n"),
    ("S608", "X = 'SELECT * FROM polls WHERE name = ' + name\n"),
    (
        "C901",
        "def f(x: int) -> int:\n" + "".join(f"    if x == {n}:\n        return {n}\n" for n in range(11)) + "    return 99\n",
    ),
    ("PLR0913", "def f(a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> None: ...\n"),
    ("PGH003", "X = 1  # type: ignore\n"),
    ("PGH004", "import os  # noqa\n"),
    ("ASYNC251", "import time\n\n\nasync def f() -> None:\n    time.sleep(1)\n"),
]
# rule, the place that owns the thing, text
OWNERS = [
    ("TID251", "outside/clock.py", "import time\n\nX = time.monotonic()\n"),
    ("TID251", "outside/ids.py", "import secrets\n\nX = secrets.token_bytes(8)\n"),
    ("BLE001", "engine/guard.py", "def f() -> None:\n    try:\n        g()\n    except Exception:\n        h()\n"),
    ("T201", "faces/cli/main.py", "print('x')\n"),
    ("PLC0415", "faces/cli/main.py", "def f() -> None:\n    import json\n\n    json.dumps(1)\n"),
]


def use(name: str) -> str:
    """Writes code that uses a banned module or member, under a local name and by `from … import`."""
    module, _, member = name.rpartition(".")
    if not module or name in {"concurrent.futures", "urllib.request", "http.client"}:
        return f"import {name}\n\nX = {name}\n"
    if name.startswith("datetime."):
        return f"from datetime import date, datetime\n\nX = {name.removeprefix('datetime.')}\nY = date\nZ = datetime\n"
    return f"from {module} import {member} as x\n\nX = x\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The rules that ruff reports for each planted file, from one run."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "pyproject.toml", root)
    files = {f"service/ban_{n}.py": use(name) for n, name in enumerate(BANNED)}
    files |= {f"service/plant_{n}.py": text for n, (_, text) in enumerate(PLANTS)}
    files |= {f"service/owned_{n}.py": text for n, (_, _, text) in enumerate(OWNERS)}
    for path in {path for _, path, _ in OWNERS}:
        files[path] = "".join(f"# {n}\n{text}" for n, (_, owner, text) in enumerate(OWNERS) if owner == path)
    for path, text in files.items():
        target = root / "src/sereno" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    command = [str(Path(sys.executable).with_name("ruff")), "check", "--no-cache", "--output-format", "json", "."]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    rules: dict[str, set[str]] = defaultdict(set)
    for fault in json.loads(done.stdout):
        rules[Path(fault["filename"]).relative_to(root.resolve() / "src/sereno").as_posix()].add(fault["code"])
    return rules


@pytest.mark.parametrize("name", BANNED)
def test_each_banned_name_is_found(found: dict[str, set[str]], name: str) -> None:
    """Using a banned clock, die, id, thread or socket outside its seam fails the check."""
    assert "TID251" in found[f"service/ban_{BANNED.index(name)}.py"]


@pytest.mark.parametrize("number", range(len(PLANTS)), ids=[rule for rule, _ in PLANTS])
def test_each_rule_fails_on_a_planted_violation(found: dict[str, set[str]], number: int) -> None:
    """One line that breaks a rule is found under that rule."""
    assert PLANTS[number][0] in found[f"service/plant_{number}.py"]


@pytest.mark.parametrize("number", range(len(OWNERS)), ids=[f"{rule}-{path}" for rule, path, _ in OWNERS])
def test_the_owner_of_a_thing_is_spared_and_nobody_else(found: dict[str, set[str]], number: int) -> None:
    """The same text is allowed where the thing belongs and found elsewhere."""
    rule, path, _ = OWNERS[number]
    assert rule not in found[path]
    assert rule in found[f"service/owned_{number}.py"]


def test_the_seams_of_the_architecture_are_banned() -> None:
    """The list of the six seams is covered by the bans (methods are found by scripts/house.py)."""
    assert {
        "time.time", "time.monotonic", "datetime.datetime.now", "uuid", "secrets", "random.random", "asyncio.to_thread",
        "asyncio.TaskGroup", "asyncio.wait", "socket.getaddrinfo", "httpx", "urllib.request", "requests", "aiohttp.ClientSession",
    } <= set(BANNED)  # fmt: skip
