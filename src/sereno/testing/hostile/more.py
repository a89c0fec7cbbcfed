"""More faults of an answer to a look, for worlds in which time matters: lasting ones, late ones, and states that go back."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from sereno.testing.hostile.faults import Fault, Page, changed, raw


def _another(body: dict[str, object], dice: Random) -> Page:
    """The id of another job that really is there."""
    other = "job-1" if body["id"] != "job-1" else "job-0"
    return changed({"id": other})(body, dice)


def _flapping(body: dict[str, object], dice: Random) -> Page:
    return changed({"status": dice.choice(("queued", "running")), "result": None})(body, dice)


def _same_etag(body: dict[str, object], dice: Random) -> Page:
    return replace(changed({"percent": dice.randrange(100)})(body, dice), headers=(("etag", '"same"'),))


def _near(body: dict[str, object], dice: Random) -> Page:
    return replace(changed({})(body, dice), late=-0.05)


def _after(body: dict[str, object], dice: Random) -> Page:
    return replace(changed({})(body, dice), late=dice.uniform(0.01, 1.5))


_ON, _STOP = False, True
MORE: Mapping[str, Fault] = {
    "304": Fault(raw(b"", status=304), _STOP),
    "not there yet": Fault(raw(b'{"error": {"code": "nojob"}}', status=404), _STOP),
    "result later": Fault(changed({"result": None}), _STOP),
    "401 for a while": Fault(raw(b"{}", status=401), _STOP),
    "regress": Fault(changed({"status": "running", "result": None}), _ON),
    "flapping": Fault(_flapping, _ON),
    "percent back": Fault(changed({"percent": 0}), _ON, tells=True),
    "id of another": Fault(_another, _STOP),
    "same etag": Fault(_same_etag, _ON, tells=True),
    "near the deadline": Fault(_near, _ON, tells=True),
    "after the deadline": Fault(_after, _ON, tells=True),
}
ENDED = ("regress", "result later")
"""Faults of a job that has ended; `result later` of one that succeeded."""
LASTING: Mapping[str, int] = {"not there yet": 3, "result later": 3, "401 for a while": 2, "flapping": 4}
"""Faults that go on for up to so many looks."""
TOLERABLE = ("not there yet", "result later", "no result", "expired yet running")
"""Faults that a patient contract lets pass a few times."""
