"""``keyveil query`` and ``conditional``: what goes together, from a tally."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite
from typing import Any

import click

from ..estimate.answer import Estimate
from ..estimate.together.conditional import ESTIMATORS, Conditionals
from ..estimate.together.query import KINDS, Query
from ..estimate.together.query_answer import GUESS_NOTE, QueryAnswer
from ..foundation.errors import installation
from ..plan.plan import Plan
from ..plan.tally import Tally
from .arguments import Given, level_option, plan_argument, tally_argument
from .output import STDERR_NOTE, as_json, figure, interval, print_json, print_table
from .output_files import PICTURE, writes_files

NOTE = (
    "range: no view of this plan holds these keys together, so there is no estimate. The interval "
    "covers every value that agrees with the views, widened for sampling error. A plan that measures "
    "it: keyveil plan --mechanism auto --ask 'QUERY' --people N"
)
NO_SIGN = (
    "no sign: the tally does not show that these go together; the value is close to the one without "
    "the condition"
)
FROM_VIEW = "from view: some reports speak of these keys together, so the answer is estimated"
FROM_KEY = "from view: some reports speak of this key, so the answer is estimated"
NEEDS_SCIPY = f"the interval of a range needs SciPy: {installation('bounds')}"
SHOWN = 12
"""Number of keys whose conditionals are printed as a table."""

SIGNS = {None: "", True: "yes", False: "no sign"}

_estimator = click.option("--estimator", type=click.Choice(ESTIMATORS), default=ESTIMATORS[0])


@click.command()
@plan_argument
@tally_argument
@click.argument("queries", metavar="QUERY...", nargs=-1, required=True)
@_estimator
@level_option
@as_json
def query(plan_path: str, tally_path: str, **options: Any) -> None:
    """Answer queries like 'mean(Pepsi | Hamburger, !Fries)', 'lift(Pepsi | Hamburger)'."""
    plan, given = Plan.load(plan_path), Given(**options)
    queries = read_queries(plan, given.queries)
    show_answers(Tally.load(plan, tally_path), queries, given)


def read_queries(plan: Plan, texts: Iterable[str]) -> list[Query]:
    """Queries about keys of a plan."""
    queries = [Query.parse(text) for text in texts]
    for question in queries:
        question.places(plan.schema)
    return queries


def show_answers(tally: Tally, queries: Sequence[Query], given: Given, title: str = "") -> None:
    """Print the answers to queries from a tally, under a title."""
    source = Conditionals(tally.plan, tally, given.estimator, given.level)
    answers = source.answers(queries)
    if given.machine:
        print_json([answer.document() for answer in answers])
        return
    headings = ["query", "value", "± stderr", f"{given.level:.0%} interval", "from"]
    rows = [[str(a.query), *_cells(a), a.how] for a in answers]
    if any(a.shown is not None for a in answers):
        headings.append("go together")
        rows = [[*row, SIGNS[a.shown]] for row, a in zip(rows, answers, strict=True)]
    if any(a.how == "range" for a in answers):
        headings.append("guess")
        rows = [
            [*row, "" if a.guess is None else figure(a.guess)]
            for row, a in zip(rows, answers, strict=True)
        ]
    print_table(headings, rows, title)
    if any(isfinite(a.estimate.stderr) for a in answers):
        click.echo(STDERR_NOTE)
    names = dict.fromkeys(a.estimator for a in answers if a.estimator)
    click.echo(f"estimator: {', '.join(names) or source.estimator}")
    if viewed := [a.query for a in answers if a.how == "view"]:
        click.echo(FROM_VIEW if any(query.given for query in viewed) else FROM_KEY)
    if any(a.shown is False for a in answers):
        click.echo(NO_SIGN)
    _explain_ranges(answers)
    if any(a.guess is not None for a in answers):
        click.echo(GUESS_NOTE)


def _explain_ranges(answers: Iterable[QueryAnswer]) -> None:
    """Explain ranges, if there are any."""
    ranges = [answer for answer in answers if answer.how == "range"]
    if ranges:
        click.echo(NOTE)
    if any(answer.estimate.low == -inf for answer in ranges):
        click.echo(NEEDS_SCIPY)


def _cells(answer: QueryAnswer) -> list[str]:
    estimate = answer.estimate
    value = figure(estimate.value) if estimate.bounded or answer.raw is not None else "unknown"
    return [
        "" if answer.how == "range" else value,
        figure(estimate.stderr, otherwise=""),
        _interval(estimate),
    ]


def _interval(estimate: Estimate, form: str = ".4f") -> str:
    if estimate.bounded:
        return interval(estimate.low, estimate.high, form)
    return f"at least {estimate.low:{form}}" if isfinite(estimate.low) else "not estimable"


@click.command()
@plan_argument
@tally_argument
@click.option("--kind", type=click.Choice(KINDS), default="frequency")
@click.option("--plot", type=PICTURE, help="Also draw a heat map (PNG, SVG or PDF).")
@_estimator
@level_option
@as_json
@writes_files
def conditional(plan_path: str, tally_path: str, kind: str, **options: Any) -> None:
    """The whole matrix: KIND of each key given each other key, with intervals."""
    plan, given = Plan.load(plan_path), Given(**options)
    keys = plan.schema.keys
    source = Conditionals(plan, Tally.load(plan, tally_path), given.estimator, given.level)
    matrix = source.matrix(kind)
    if given.plot:
        from ..plot import plot_matrix

        ends = plan.schema.shared_range
        plot_matrix(keys, matrix, given.plot, kind, ends=ends and (float(ends[0]), float(ends[1])))
    if given.machine:
        print_json(
            [
                {"target": k, "given": c, **cell.document()}
                for k, row in zip(keys, matrix, strict=True)
                for c, cell in zip(keys, row, strict=True)
                if cell is not None
            ]
        )
        return
    shown = keys[:SHOWN]
    rows = [
        [k, *("" if cell is None else _short(cell) for cell in row[: len(shown)])]
        for k, row in zip(shown, matrix, strict=False)
    ]
    print_table([f"{kind} of \\ given", *shown], rows)
    click.echo(f"estimator: {source.estimator}")
    if any(
        cell.how != "range" and cell.estimate.bounded
        for row in matrix
        for cell in row
        if cell is not None
    ):
        click.echo(f"±: half the width of the {given.level:.0%} interval")
    if any(cell.shown is False for row in matrix for cell in row if cell is not None):
        click.echo(f"~ {NO_SIGN}")
    if len(shown) < len(keys):
        click.echo(f"the first {len(shown)} of {len(keys)} keys; --json has them all")
    _explain_ranges(cell for row in matrix for cell in row if cell is not None)


def _short(cell: QueryAnswer) -> str:
    """One cell of the matrix: a value with half its interval, or a range."""
    estimate = cell.estimate
    if cell.how == "range":
        return _interval(estimate, ".2f")
    sign = " ~" if cell.shown is False else ""
    if estimate.bounded:
        return f"{estimate.value:.3f} ±{(estimate.high - estimate.low) / 2:.3f}{sign}"
    return f"{estimate.value:.3f}{sign}" if cell.raw is not None else "unknown"
