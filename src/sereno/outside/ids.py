"""Seam 2: new ids and dice. The only place that draws them from the system."""

from random import Random, SystemRandom

import uuid_utils

from sereno.core.values import format_id


class SystemIds:
    """UUIDv7 ids, and the system's own generator for every decision."""

    def __init__(self) -> None:
        self._system = SystemRandom()

    def new(self, prefix: str) -> str:
        """A new id; ids sort by creation time."""
        return format_id(prefix, uuid_utils.uuid7().int)

    def random(self, label: str) -> Random:
        """The system's generator; what is drawn is kept in the journal, so the label needs no seed here."""
        return self._system
