"""Query: what an analyst asks, in text or Python: ``mean(Pepsi | Hamburger, !Fries)``.

::

    query      = ("frequency" | "mean" | "lift") "(" key [ "|" condition { "," condition } ] ")"
    condition  = [ "!" ] key                      held, or with ! not held
    key        = bare words, or any text in double quotes with \\" and \\\\ inside

Several queries in one text have ; between them.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from ...foundation.errors import QueryError, UnknownKeyError, choices, nearest
from ...people.key_list import MOST_LETTERS, name_of
from ...people.schema import Schema

KINDS = ("frequency", "mean", "lift")
"""Names of the statistics."""
_MARKS = '()|,!"'
"""Characters that end a bare key."""
QUOTED = 'mean("Up (2009)")'
"""A key with marks of its own."""
MOST_TEXT = 1 << 16
"""Largest number of characters of a query."""
_MEANT = (
    (
        re.compile("[<>=]"),
        "a condition is a key that people hold, or with ! do not hold; values cannot be conditions",
    ),
    (re.compile("^not ", re.IGNORECASE), "write !key for people who do not hold it, not the word"),
    (re.compile(" given ", re.IGNORECASE), "write | before conditions, not the word: mean(key | other)"),
    (
        re.compile("&| and ", re.IGNORECASE),
        "write a comma between conditions: mean(key | other, another)",
    ),
    (re.compile(" or ", re.IGNORECASE), "ask for each of them; conditions cannot be joined by or"),
)
"""What an unknown key has in it, and what would be right."""
_QUOTATION = re.compile(r"""[^"\\]*(?:\\.[^"\\]*)*\"""", re.DOTALL)
"""The text after an opening quote, up to and including the closing quote."""
_SPLIT = re.compile('[;"]')
"""The end of a query, or the start of a quotation."""


@dataclass(frozen=True)
class Query:
    """A statistic of ``target`` among the people who meet the conditions.

    ``frequency`` is the share who hold the target. ``mean`` is the mean value among those who hold it.
    ``lift`` is the frequency given the conditions divided by the frequency among all people.
    """

    kind: str
    target: str
    given: tuple[tuple[str, bool], ...] = ()
    """The key of each condition, and whether it is held."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise QueryError(f"unknown statistic {self.kind!r}; {choices(self.kind, KINDS)}")
        if any(type(key) is not str for key in self.keys):  # keys of other kinds are named by text
            object.__setattr__(self, "target", name_of(self.target))
            object.__setattr__(self, "given", tuple((name_of(key), held) for key, held in self.given))
        seen: dict[str, bool] = {}
        for key, held in self.given:
            if key == self.target:
                raise QueryError(f"the target {key!r} cannot be a condition of itself")
            if key in seen:
                also = "both held and not held" if seen[key] != held else "given twice"
                raise QueryError(f"the condition {key!r} is {also}; give it once")
            seen[key] = held
        if self.kind == "lift" and not self.given:
            raise QueryError("lift compares with a condition; write lift(key | condition)")

    @classmethod
    def of(
        cls,
        kind: str,
        target: Hashable,
        given: Iterable[Hashable] = (),
        without: Iterable[Hashable] = (),
    ) -> Query:
        """A query in Python: among those who hold ``given`` and do not hold ``without``.

        Keys are named as the schema was given them: by text, whole numbers, dates and so on.
        """
        if isinstance(given, str) or isinstance(without, str):
            raise QueryError("given and without are lists of keys, also for one key")
        conditions = (
            *((name_of(key), True) for key in given),
            *((name_of(key), False) for key in without),
        )
        return cls(kind, name_of(target), conditions)

    @classmethod
    def parse(cls, text: str) -> Query:
        """A query from text; an error names the position and what is expected there."""
        if not isinstance(text, str):
            raise QueryError('a query is text, like "mean(Pepsi | Hamburger)"')
        if len(text) > MOST_TEXT:
            raise QueryError(f"a query has at most {MOST_TEXT:,} characters; this one has {len(text):,}")
        return _Parser(text).query()

    @classmethod
    def parse_all(cls, text: str) -> tuple[Query, ...]:
        """The queries of a text that has ; between them."""
        try:
            return tuple(cls.parse(part) for part in split_queries(text))
        except QueryError as error:
            if ";" not in text:
                raise
            hint = "a key with ; in it stands in double quotes"
            raise QueryError(followed(str(error), hint)) from None

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key of the query, the target first."""
        return (self.target, *(key for key, _ in self.given))

    def places(self, schema: Schema) -> tuple[int, tuple[tuple[int, bool], ...]]:
        """Places in a schema of the target and of the conditions; the error names the nearest key."""
        return _place(schema, self.target), tuple((_place(schema, k), held) for k, held in self.given)

    def __str__(self) -> str:
        conditions = ", ".join(("" if held else "!") + _quoted(key) for key, held in self.given)
        return f"{self.kind}({_quoted(self.target)}{' | ' + conditions if conditions else ''})"


def _place(schema: Schema, key: str) -> int:
    """A key's place; if the schema lacks it, the error says which mark was meant by a word in it."""
    try:
        return schema.place(key)
    except UnknownKeyError as error:
        marks = [mark for wrong, mark in _MEANT if wrong.search(key)]
        if not marks:
            raise
        raise UnknownKeyError(followed(error.args[0], marks[0])) from None


def followed(message: str, hint: str) -> str:
    """A message and a hint; after a question the hint is a sentence of its own."""
    return f"{message} {hint[0].upper()}{hint[1:]}" if message.endswith("?") else f"{message}; {hint}"


def split_queries(text: str) -> list[str]:
    """The texts between semicolons; a semicolon within double quotes is part of a key.

    A quotation without an end takes the rest of the text. So each character is read once.
    """
    pieces, start, at = [], 0, 0
    while mark := _SPLIT.search(text, at):
        at = mark.end()
        if mark[0] == ";":
            pieces.append(text[start : mark.start()])
            start = at
        elif (quotation := _QUOTATION.match(text, at)) is None:
            break
        else:
            at = quotation.end()
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def _quoted(key: str) -> str:
    if any(c in _MARKS or c in "\\;" for c in key) or key != " ".join(key.split()):
        return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return key


class _Parser:
    """Reads a query from left to right, one mark or key at a time."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def query(self) -> Query:
        kind = self._word("a statistic (" + ", ".join(KINDS) + ")")
        if kind not in KINDS:
            if "(" not in self.text and len(self.text) <= MOST_LETTERS:
                raise QueryError(
                    f"a query names a statistic first: did you mean {KINDS[0]}({self.text.strip()})? "
                    f"known: {', '.join(KINDS)}"
                )
            near = nearest(kind[:MOST_LETTERS], KINDS)
            hint = f"; known: {', '.join(KINDS)}" if near is None else f"; did you mean {near}?"
            shown = f" {kind!r}" if len(kind) <= MOST_LETTERS else ""
            raise QueryError(f"unknown statistic{shown} at position 1{hint}")
        self._mark("(")
        if self._peek() == "!":
            raise QueryError(
                f"the target at position {self.at + 1} cannot have a !; only conditions after | can: "
                f"{kind}(Pepsi | !Hamburger)"
            )
        target = self._key()
        if self._peek() == ",":
            raise QueryError(
                f"a query has one target, and the comma at position {self.at + 1} begins another; ask "
                "for each in a query of its own"
            )
        given: list[tuple[str, bool]] = []
        if self._peek() == "|":
            self._mark("|")
            given.append(self._condition())
            while self._peek() == ",":
                self._mark(",")
                given.append(self._condition())
        if self._peek() != ")":
            self._expected("',' or ')'" if given else "'|' or ')'")
        self._mark(")")
        if self._peek() == ";":
            raise QueryError(
                f"the semicolon at position {self.at + 1} begins another query; give each as a text of "
                "its own"
            )
        if self._peek():
            self._expected("the end of the query")
        return Query(kind, target, tuple(given))

    def _peek(self) -> str:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _mark(self, mark: str) -> None:
        if self._peek() != mark:
            self._expected(f"'{mark}'")
        self.at += 1

    def _condition(self) -> tuple[str, bool]:
        held = self._peek() != "!"
        if not held:
            self._mark("!")
        return self._key(), held

    def _key(self) -> str:
        quoted, start = self._peek() == '"', self.at
        key = self._quotation() if quoted else self._word("a key")
        if len(key) > MOST_LETTERS:
            raise QueryError(
                f"a key has at most {MOST_LETTERS} characters; the one at position {start + 1} has "
                f"{len(key):,}"
            )
        return key

    def _word(self, what: str) -> str:
        self._peek()
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _MARKS:
            self.at += 1
        word = self.text[start : self.at].rstrip()
        if not word:
            self.at = start
            self._expected(what)
        return word

    def _quotation(self) -> str:
        start = self.at
        self.at += 1
        letters = []
        while self.at < len(self.text) and self.text[self.at] != '"':
            if self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\"):
                self.at += 1
            letters.append(self.text[self.at])
            self.at += 1
        if self.at == len(self.text):
            raise QueryError(f"the quotation that begins at position {start + 1} has no end")
        self.at += 1
        if not letters:
            raise QueryError(f"expected a key at position {start + 1}, found empty quotes")
        return "".join(letters)

    def _expected(self, what: str) -> None:
        letter = self._peek()
        place = f"position {self.at + 1}" if letter else "the end"
        words = f"expected {what} at {place}" + (f", found {letter!r}" if letter else "")
        if letter and letter in _MARKS:
            words += f"; a key with one of {' '.join(_MARKS)} stands in quotation marks: {QUOTED}"
        raise QueryError(words)
