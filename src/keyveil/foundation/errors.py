"""Every error keyveil raises on purpose.

::

    KeyveilError                 exit code 1
    ├── SchemaError(ValueError)      the public keys, ranges or levels are not usable
    ├── RecordError(ValueError)      a person's record breaks a rule; never says which key or value
    ├── ChannelError(ValueError)     a law breaks its promise, or is no law
    ├── PlanError(ValueError)        a plan cannot be made, read or trusted
    ├── ReportError(ValueError)      no honest device could have sent this, or it is for another plan
    ├── BudgetError(RuntimeError)    the person's budget does not allow this answer
    ├── QueryError(ValueError)       a query cannot be read or answered
    │   └── UnknownKeyError(KeyError)    the plan has no key of this name
    ├── TableError(ValueError)       a file or table cannot be read
    ├── CoinsError(ValueError)       coins that may not be used here, or too few recorded words
    └── FinishedError(RuntimeError)  a chain of plans has no next round; exit code 3
"""

from __future__ import annotations

from collections.abc import Iterable


class KeyveilError(Exception):
    """What is wrong and what would be right, in one line."""

    exit_code = 1


class SchemaError(KeyveilError, ValueError):
    """The public keys, ranges or levels are not usable."""


class RecordError(KeyveilError, ValueError):
    """A record breaks a rule of the schema; the message never carries its content."""


class ChannelError(KeyveilError, ValueError):
    """A channel is no law, or breaks the epsilon it promises."""


class PlanError(KeyveilError, ValueError):
    """A plan cannot be made, read or trusted."""


class ReportError(KeyveilError, ValueError):
    """A report or tally that no honest device could have sent, or of another plan."""


class BudgetError(KeyveilError, RuntimeError):
    """The person's budget does not allow this answer."""


class QueryError(KeyveilError, ValueError):
    """A query that cannot be read or answered."""


class UnknownKeyError(QueryError, KeyError):
    """The plan has no key of this name; the message says which name is near."""

    __str__ = Exception.__str__  # a KeyError would show its message in quotation marks


class TableError(KeyveilError, ValueError):
    """A file or table of people cannot be read."""


class CoinsError(KeyveilError, ValueError):
    """Coins that may not be used here, or too few recorded words."""


class FinishedError(KeyveilError, RuntimeError):
    """A chain of plans is at its end: there is no next round."""

    exit_code = 3


def choices(name: object, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one, and all of them."""
    names = list(known)
    near = nearest(str(name), names)
    return ("" if near is None else f"did you mean {near}? ") + f"known: {', '.join(names)}"


def installation(extra: str) -> str:
    """The command that installs an extra, of a release or in a clone of the repository."""
    return f"pip install 'keyveil[{extra}]', or '.[{extra}]' in a clone"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one is nearest to, whatever its case; None if none is near."""
    from difflib import get_close_matches  # only a misspelt name needs it

    folded: dict[str, str] = {}
    for spelling in known:
        folded.setdefault(spelling.casefold(), spelling)
    near = get_close_matches(name.casefold(), folded, 1)
    return folded[near[0]] if near else None
