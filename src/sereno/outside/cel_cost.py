"""What a condition may cost: bounds computed from its text once, and compared with the weight of each object (I33).

The engine stops after 10,000 iterations, but one iteration may copy a whole list or a long text, and a pattern may walk a text
slowly. A unit here is about one byte touched: 30 million units took 0.1 to 0.4 s where measured.
"""

import re
from dataclasses import dataclass

MOST_UNITS = 30_000_000
ITERATIONS = 10_000
"""The engine's own budget for one evaluation."""
DEEPEST_LOOP = 2
MOST_REPLACES = 3
LONGEST_REPLACEMENT = 4
"""Characters of the literal that `replace` may put in, so that a text cannot grow without bound."""
MOST_REPEATS = 1_000
"""The engine refuses patterns that repeat more, nested repetitions multiplied."""
_ITEM = 8
"""Units that one element of a list or map stands for."""
_LOOPS = frozenset({"all", "exists", "exists_one", "map", "filter"})
_REFUSED = frozenset({"join", "format", "quote"})
_TOKEN = re.compile(
    r"""(?P<raw>[bB]?[rR][bB]?(?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*'))"""
    r"""|(?P<string>[bB]?(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))"""
    r"""|(?P<comment>//[^\n]*)|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<number>[0-9][A-Za-z_0-9.]*)|(?P<space>\s+)|(?P<mark>.)""",
    re.DOTALL,
)
_REPEAT = re.compile(r"(\))?\{(\d*),?(\d*)\}")


@dataclass(slots=True)
class Weight:
    """What one judgement reads: all characters, all elements, the longest text, the largest container, and the largest container
    inside an element of a list (two levels down or more)."""

    characters: int = 0
    elements: int = 0
    longest: int = 0
    largest: int = 0
    inner: int = 0

    def text(self, length: int) -> None:
        """Counts a text."""
        self.characters += length
        self.longest = max(self.longest, length)

    def container(self, size: int, depth: int) -> None:
        """Counts a list or map; `depth` is 0 for the whole object."""
        self.elements += size
        self.largest = max(self.largest, size)
        if depth > 1:
            self.inner = max(self.inner, size)


@dataclass(frozen=True, slots=True)
class Cost:
    """What the text of a condition can do with what it reads."""

    names: frozenset[str]
    """All names in it; only those are handed over."""
    length: int
    reads: int
    growth: int
    """How many times longer `+` and `replace` can make a text, the copies on the way included."""
    states: int
    """States of all patterns together: a slow match takes that many steps a character."""
    loops: int
    depth: int
    """How deep loops are nested: 0, 1 or 2."""
    plain: bool
    """Each loop runs over a field, not over a literal or the result of a call."""
    rereads: bool
    """A loop body reads `object` or `before` again: each iteration may copy its largest part."""

    def refusal(self, weight: Weight) -> str | None:
        """Says why this object is too large for this condition, or None."""
        units = self._walk(weight.characters, weight.elements) + weight.characters + _ITEM * weight.elements
        if self.loops:
            units += self._iterations(weight) * (self.length + self._copies(weight))
        if units <= MOST_UNITS:
            return None
        return (
            f"the object is too large for this condition: {weight.characters} characters, {weight.elements} values, "
            f"{units / MOST_UNITS:.1f} times the work allowed"
        )

    def _walk(self, characters: int, elements: int) -> int:
        """Reading so much once at each place that reads."""
        return self.reads * (characters * self.growth + _ITEM * elements) + self.states * characters

    def _iterations(self, weight: Weight) -> int:
        if not self.plain:
            return ITERATIONS
        if self.depth == 1 or not self.rereads:
            return min(ITERATIONS, self.loops * (weight.largest if self.depth == 1 else weight.elements))
        return min(ITERATIONS, self.loops * weight.largest * weight.largest)

    def _copies(self, weight: Weight) -> int:
        """What one iteration can copy. One loop over elements of its own is counted by the walk over the whole."""
        if self.rereads:
            return self._walk(weight.longest, weight.largest)
        return self._walk(weight.longest, weight.inner) if self.depth > 1 or not self.plain else 0


def cost_of(text: str) -> Cost:
    """Reads the bounds off a condition that compiles. Raises ValueError for what cannot be bounded."""
    tokens = [match for match in _TOKEN.finditer(text) if match.lastgroup not in ("space", "comment")]
    words = [match[0] for match in tokens]
    calls = [at for at in range(1, len(words) - 1) if words[at - 1] == "." and words[at + 1] == "("]
    refused = sorted({words[at] for at in calls} & _REFUSED)
    if refused:
        raise ValueError(f"{refused[0]} is not offered in conditions: its result may grow without bound")
    replaces = [at for at in calls if words[at] == "replace"]
    if len(replaces) > MOST_REPLACES:
        raise ValueError(f"replace is used {len(replaces)} times; at most {MOST_REPLACES} are allowed")
    for at in replaces:
        _check_replacement(words[at + 2 : _closing(words, at + 1)])
    loops = [at for at in calls if words[at] in _LOOPS]
    bodies = [(at, _closing(words, at + 1)) for at in loops]
    deepest = max((sum(start < at < end for start, end in bodies) + 1 for at in loops), default=0)
    if deepest > DEEPEST_LOOP:
        raise ValueError(f"loops are nested {deepest} deep; at most {DEEPEST_LOOP} are allowed")
    return Cost(
        names=frozenset(match[0] for match in tokens if match.lastgroup == "name"),
        length=len(text),
        reads=sum(word in (".", "[") for word in words),
        growth=(1 + words.count("+")) ** 2 * (1 + LONGEST_REPLACEMENT) ** len(replaces),
        states=sum(_pattern_states(words, at) for at in range(len(words) - 1) if words[at] == "matches" and words[at + 1] == "("),
        loops=len(loops),
        depth=deepest,
        plain=all(words[at - 2][-1] not in ")]}" for at in loops),
        rereads=any(word in ("object", "before") for start, end in bodies for word in words[start + 2 : end]),
    )


def _closing(words: list[str], opening: int) -> int:
    """Finds the bracket that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(words)):
        depth += (words[at] in "([{") - (words[at] in ")]}")
        if depth == 0:
            return at
    return len(words)


def _check_replacement(arguments: list[str]) -> None:
    put_in = arguments[2] if len(arguments) == 3 and arguments[1] == "," else ""
    if not put_in or put_in[-1] not in "'\"" or len(put_in) > LONGEST_REPLACEMENT + 2:
        raise ValueError(f"replace takes two literals in conditions; the second has at most {LONGEST_REPLACEMENT} characters")


def _pattern_states(words: list[str], at: int) -> int:
    """Bounds the states of a pattern: its length, each counted repetition added, that of a group multiplied."""
    arguments = words[at + 2 : _closing(words, at + 1)]
    pattern = arguments[-1] if arguments and arguments[-2:-1] in ([], [","]) else ""
    if not pattern or pattern[-1] not in "'\"":
        raise ValueError("matches takes a literal pattern, as in object.title.matches('^v[0-9]+')")
    states = len(pattern)
    for group, low, high in _REPEAT.findall(pattern):
        times = max(int(low or 0), int(high or 0), 1)
        states = states * times if group else states + times
    return min(states, MOST_REPEATS * len(pattern))
