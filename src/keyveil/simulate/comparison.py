"""``keyveil.compare``: what local privacy would cost on a table of one's own, as one function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat

from ..foundation.coins import Coins, given_coins
from ..foundation.errors import PlanError
from ..foundation.exact import Number, count_of, epsilon_of, text
from ..foundation.frame_output import library_of
from ..foundation.notices import ComparisonWarning, notice
from ..foundation.progress_bar import progress_bar
from ..foundation.result_table import ResultTable
from ..foundation.shown_result import ShownResult
from ..mechanisms import mechanism_named
from ..people.people import People
from ..people.population import Population
from ..people.scale import ExactScale, Scale
from ..people.schema import Schema
from .comparison_table import SHORT, cells, footnotes, headings
from .contest import Contest
from .contest_row import on_scale
from .parallel import ContestResult, measure
from .planner_ways import (
    AUTO,
    WAYS,
    all_competitors,
    is_auto,
    prior_if_held,
    way_named,
    ways_of_auto,
)

if TYPE_CHECKING:
    from ..plot.style import Axes

ALL = "all"
"""The name that stands for every mechanism."""
Epsilon = Number
MOST = 1e15
"""The largest number of people."""
MOST_PILOTS = 10
"""The most pilots at one epsilon if ``auto`` has a row after a first round; each needs advice."""
HIDDEN = ("runs", "skipped", "choices", "mean_scale")
"""Members of a row that are no numbers, so that a frame does not have them."""


@dataclass(frozen=True, repr=False)
class MechanismComparison(ShownResult):
    """The measured errors of mechanisms on people like those of a table."""

    column_kinds = {"planner_estimator": str, "keys_together": int}

    rows: tuple[Mapping[str, Any], ...]
    """A row for each mechanism, estimator and epsilon; means on the scale of the values."""
    skipped: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By mechanism and epsilon: why there are no rows."""
    by_estimator: bool = False
    """Whether pictures draw every estimator apart."""
    frame_library: str | None = field(default=None, compare=False)
    """The kind of frame that the data came from, which ``to_frame`` returns, too."""

    def columns(self) -> dict[str, list[Any]]:
        """A row for each mechanism, estimator and epsilon; errors are mean squared and mean absolute."""
        names = [name for name in self.rows[0] if name not in HIDDEN]
        return {name: [row.get(name) for row in self.rows] for name in names}

    def table(self, most: int | None = None, error: str = "squared") -> ResultTable:
        """The errors as a table, with notes that explain it; ``error`` is "squared" or "absolute"."""
        if error not in SHORT:
            raise PlanError(f"unknown error {error!r}; known: {', '.join(SHORT)}")
        rows = [dict(row) for row in self.rows]
        first, scale = rows[0], Scale.parse(rows[0]["mean_scale"])
        title = (
            f"{first['d']:,} keys, {first['n']:,} people, {first['repetitions']:,} repetitions, "
            f"means {scale}"
        )
        lines = tuple(tuple(cells(row, error)) for row in rows)
        table = ResultTable(tuple(headings(error)), lines, title, tuple(footnotes(rows)))
        return table.first(most, "rows")

    def plot(self, ax: Axes | None = None, error: str = "squared", of: str | None = None) -> Axes:
        """Errors against epsilon, a panel for each statistic; at one epsilon, a row for each mechanism.

        ``of`` "frequency" or "mean" draws one statistic. On ``ax`` the first one is drawn.
        """
        from ..plot.comparison_plots import plot_rows

        return plot_rows(self.rows, None, error, self.by_estimator, ax, of)


def compare(
    frame: Any,
    *,
    schema: Schema | None = None,
    mechanisms: str | Iterable[str] | None = None,
    epsilon: Epsilon | Iterable[Epsilon] = 1,
    people: SupportsFloat = 100_000,
    everyone: Any = None,
    repeat: SupportsFloat = 20,
    conditional: int | None = None,
    estimators: Iterable[str] | None = None,
    calibrate: str | None = None,
    told: str | None = None,
    held: SupportsFloat | None = None,
    coins: Coins | None = None,
    processes: int | None = None,
    progress: bool = True,
) -> MechanismComparison:
    """The errors of mechanisms on simulated people like those of a frame, side by side.

    ``frame`` is a pandas, Polars or Arrow frame, or ``People``; its columns are those that
    ``schema`` was made from with ``Schema.from_frame``. ``everyone`` is the number or the list of all
    people, if some hold nothing and have no row. ``mechanisms`` are names like "kvue" or
    "graded:levels=5"; "auto" is the planner's choice, "all" every mechanism. ``people`` is how many are
    simulated, ``repeat`` times. ``conditional=2`` asks for every key given another one.
    ``told`` is what the planner knows: the "table", "nothing", or nothing with "one_round" or a "pilot";
    without it "auto" has a row for each of "table", "one_round" and "pilot". With ``held`` it is told
    only that people hold so many keys on average.

    ``epsilon`` is one or several. ``estimators`` limits the rows to these. ``calibrate`` "tight" takes
    every mechanism at equal true epsilon, "paper" as published. Stated ``coins`` repeat a run.
    ``processes`` is how many to use, by default one for each core; ``progress`` shows a bar.
    """
    if not (conditional is None or isinstance(conditional, Integral)):
        raise PlanError("conditional is the number of keys together, target included, like 2")
    names, epsilons = _mechanisms(mechanisms, conditional), _epsilons(epsilon)
    way = way_named(told or "table")
    own = Schema.from_frame(frame) if schema is None else schema
    population = Population(own, _people(own, frame, everyone)).on_unit_scale()
    contest = Contest(
        population,
        count_of(people, "people", "100_000 or 1e6", MOST),
        count_of(repeat, "repeat", "20", MOST),
        given_coins(coins),
        calibrate or ("tight" if conditional is None else "paper"),
        None if estimators is None else _names(estimators, "estimator"),
        ask="frequency" if own.frame is not None and own.frame.value is None else "both",
        keys_together=conditional,
        named_on=ExactScale.of(own),
        pilots=MOST_PILOTS if told is None else None,
        prior=prior_if_held(population.schema, held, told),
        **WAYS[way],
    )
    competitors = competitors_of(names, contest, told is None and held is None)
    with progress_bar("comparing", len(competitors.names) * len(epsilons), progress) as on_progress:
        result = measure(
            contest,
            competitors.names,
            epsilons,
            lenient=ALL in names,
            optional=competitors.optional,
            processes=processes,
            on_progress=lambda done, _: on_progress(done),
        )
    _tell_skipped(result)
    rows = tuple(on_scale(row.document(), Scale.of(own)) for row in result.rows)
    apart = conditional is not None or len(contest.estimators or ()) > 1
    library = library_of(frame) or (None if own.frame is None else own.frame.library)
    return MechanismComparison(rows, result.skipped, apart, library)


def _people(schema: Schema, frame: Any, everyone: Any) -> People:
    if isinstance(frame, People) and everyone is None:
        return frame
    return People.from_frame(frame, schema, everyone=everyone)


def _names(words: str | Iterable[str], noun: str) -> tuple[str, ...]:
    """Names from a list, or from a text that has commas between them."""
    listed = words.split(",") if isinstance(words, str) else words
    names = tuple(str(word).strip() for word in listed)
    if not names or not all(names):
        raise PlanError(f"name at least one {noun}")
    return names


def check_mechanisms(names: Iterable[str]) -> None:
    """Refuses names of mechanisms that are not known, with the nearest one that is."""
    for name in names:
        if name != ALL and not is_auto(name):
            mechanism_named(name.partition(":")[0], AUTO, ALL)


def _mechanisms(words: str | Iterable[str] | None, conditional: int | None) -> tuple[str, ...]:
    """The mechanisms as they are named; unknown ones are refused with the nearest name."""
    usual = ("kvue", "pckv_ue", AUTO) if conditional is None else ("ioh", AUTO)
    names = usual if words is None else _names(words, "mechanism")
    check_mechanisms(names)
    if ALL in names and conditional is not None:
        raise PlanError("all is for single keys; name mechanisms for conditionals")
    return names


class Competitors(NamedTuple):
    """The competitors of a contest in their order, and those among them that may be left out."""

    names: list[str]
    optional: set[str]


def competitors_of(names: Sequence[str], contest: Contest, ways: bool) -> Competitors:
    """The names, with every mechanism and the planner's choice last instead of ``all``.

    With ``ways``, ``auto`` becomes a competitor for each way to tell the planner; only the first of them
    must be possible.
    """
    every = all_competitors(len(contest.schema.keys)) if ALL in names else []
    last = [AUTO] if ALL in names else []
    known = [n for name in names for n in (every if name == ALL else [name]) if n not in last]
    asked = [*dict.fromkeys(known), *last]
    if not ways:
        return Competitors(asked, set())
    autos = ways_of_auto(contest.keys_together, contest.people)
    listed = [*dict.fromkeys(n for name in asked for n in (autos if name == AUTO else [name]))]
    return Competitors(listed, set(listed) - set(asked))


def _epsilons(epsilon: Epsilon | Iterable[Epsilon]) -> list[str]:
    """Epsilons as text, each once, in their order."""
    if isinstance(epsilon, str):
        listed: list[Any] = epsilon.split(",")
    elif isinstance(epsilon, Iterable):
        listed = list(epsilon)
    else:
        listed = [epsilon]
    if not listed:
        raise PlanError("give at least one epsilon")
    plain = (word.strip() if isinstance(word, str) else word for word in listed)
    return list(dict.fromkeys(text(epsilon_of(number)) for number in plain))


def _tell_skipped(result: ContestResult) -> None:
    """Say which mechanisms are left out, and why."""
    for name in dict.fromkeys(name for name, _ in result.skipped):
        why = next(why for (other, _), why in result.skipped.items() if other == name)
        notice(f"{name} is left out: {why}", ComparisonWarning)
