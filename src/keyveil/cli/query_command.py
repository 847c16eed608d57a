"""``keyveil query`` and ``conditional``: what goes together, from a tally."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isfinite

import click

from ..estimate.answer import Estimate
from ..estimate.together.conditional import ESTIMATORS, Conditionals, QueryAnswer
from ..estimate.together.query import KINDS, Query
from ..plan.plan import Plan
from ..plan.tally import Tally
from .output import as_json, print_json, print_table
from .output_files import PICTURE, writes_files

NOTE = (
    "range: no view of this plan holds these keys together, so there is no estimate. The interval "
    "covers every value that agrees with the views, widened for sampling error. A plan that measures "
    "it: keyveil plan --mechanism auto --ask 'QUERY' --people N"
)
GUESS = "guess: one of the values in the range (maximum entropy); only the range bounds its error"
NEEDS_SCIPY = "the interval of a range needs SciPy: pip install 'keyveil[bounds]'"

_estimator = click.option("--estimator", type=click.Choice(ESTIMATORS), default="pooled")
_level = click.option("--level", default=0.95, help="Level of the intervals.")


@click.command()
@click.argument("plan_path", metavar="PLAN", type=click.Path())
@click.argument("tally_path", metavar="TALLY", type=click.Path())
@click.argument("queries", metavar="QUERY...", nargs=-1, required=True)
@_estimator
@_level
@as_json
def query(
    plan_path: str,
    tally_path: str,
    queries: tuple[str, ...],
    estimator: str,
    level: float,
    machine: bool,
) -> None:
    """Answer queries like 'mean(Pepsi | Hamburger, !Fries)', 'lift(Pepsi | Hamburger)'."""
    plan = Plan.load(plan_path)
    parsed = [Query.parse(text) for text in queries]
    for question in parsed:
        question.places(plan.schema)
    source = Conditionals(plan, Tally.load(plan, tally_path), estimator, level)
    answers = source.answers(parsed)
    if machine:
        print_json([answer.document() for answer in answers])
        return
    headings = ["query", "value", "± stderr", f"{level:.0%} interval", "from"]
    rows = [[str(a.query), *_cells(a), a.how] for a in answers]
    if any(a.how == "range" for a in answers):
        headings.append("guess")
        rows = [[*row, _guess(a)] for row, a in zip(rows, answers, strict=True)]
    print_table(headings, rows)
    _explain_ranges(answers)
    if any(a.guess is not None for a in answers):
        click.echo(GUESS)


def _explain_ranges(answers: Iterable[QueryAnswer]) -> None:
    """Explain ranges, if there are any."""
    ranges = [answer for answer in answers if answer.how == "range"]
    if ranges:
        click.echo(NOTE)
    if any(answer.estimate.low == -inf for answer in ranges):
        click.echo(NEEDS_SCIPY)


def _guess(answer: QueryAnswer) -> str:
    return "" if answer.guess is None else f"{answer.guess:.4f}"


def _cells(answer: QueryAnswer) -> list[str]:
    estimate = answer.estimate
    stderr = f"{estimate.stderr:.4f}" if isfinite(estimate.stderr) else ""
    known = isfinite(estimate.value) and estimate.bounded
    value = "" if answer.how == "range" else f"{estimate.value:.4f}" if known else "unknown"
    return [value, stderr, _interval(estimate)]


def _interval(estimate: Estimate, digits: int = 4) -> str:
    if estimate.bounded:
        return f"[{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"
    return f"at least {estimate.low:.{digits}f}" if isfinite(estimate.low) else "not estimable"


@click.command()
@click.argument("plan_path", metavar="PLAN", type=click.Path())
@click.argument("tally_path", metavar="TALLY", type=click.Path())
@click.option("--kind", type=click.Choice(KINDS), default="frequency")
@click.option("--plot", type=PICTURE, help="Also draw a heat map (PNG, SVG or PDF).")
@_estimator
@_level
@as_json
@writes_files
def conditional(
    plan_path: str,
    tally_path: str,
    kind: str,
    plot: str | None,
    estimator: str,
    level: float,
    machine: bool,
) -> None:
    """The whole matrix: KIND of each key given each other key, with intervals."""
    plan = Plan.load(plan_path)
    source = Conditionals(plan, Tally.load(plan, tally_path), estimator, level)
    matrix = source.matrix(kind)
    if plot:
        from ..plot import plot_matrix

        plot_matrix(plan.schema.keys, matrix, plot, f"{kind} of the row's key given the column's")
    if machine:
        print_json(
            [
                {"target": k, "given": c, **cell.document()}
                for k, row in zip(plan.schema.keys, matrix, strict=True)
                for c, cell in zip(plan.schema.keys, row, strict=True)
                if cell is not None
            ]
        )
        return
    shown = plan.schema.keys[:12]
    rows = []
    for k, row in zip(shown, matrix, strict=False):
        cells = [k]
        cells += ["" if cell is None else _short(cell) for cell in row[: len(shown)]]
        rows.append(cells)
    print_table([f"{kind} of \\ given", *shown], rows)
    if len(shown) < len(plan.schema.keys):
        click.echo(f"the first {len(shown)} of {len(plan.schema.keys)} keys; --json has them all")
    _explain_ranges(cell for row in matrix for cell in row if cell is not None)


def _short(cell: QueryAnswer) -> str:
    """One cell of the matrix: a value with half its interval, or a range."""
    estimate = cell.estimate
    if cell.how == "range":
        return _interval(estimate, 2)
    return (
        f"{estimate.value:.3f} ±{(estimate.high - estimate.low) / 2:.3f}"
        if estimate.bounded
        else "unknown"
    )
