"""``keyveil query`` and ``conditional``: what goes together, from a tally."""

from __future__ import annotations

from math import isfinite

import click

from ..estimate.answer import Estimate
from ..estimate.conditional import ESTIMATORS, Conditionals, QueryAnswer
from ..plan import Plan
from ..query import KINDS, Query
from ..tally import Tally
from .outputs import PICTURE, writes_files
from .show import as_json, print_json, print_table

NOTE = (
    "maximum entropy: no view holds these keys together; the value is a guess, its interval speaks of "
    "sampling alone, and possible is the range over all laws that agree with the views"
)

_estimator = click.option(
    "--estimator", type=click.Choice(ESTIMATORS), default="pooled", show_default=True
)
_level = click.option("--level", default=0.95, show_default=True, help="Level of the intervals.")


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
    for one in parsed:
        one.places(plan.schema)
    source = Conditionals(plan, Tally.load(plan, tally_path), estimator, level)
    answers = source.answers(parsed)
    if machine:
        print_json([answer.document() for answer in answers])
        return
    headings = ["query", "value", "± stderr", f"{level:.0%} interval", "from"]
    rows = [[str(a.query), *_cells(a.estimate), a.how] for a in answers]
    guessed = any(a.how == "maximum entropy" for a in answers)
    if guessed:
        headings.append("possible")
        rows = [[*row, _ends(a)] for row, a in zip(rows, answers, strict=True)]
    print_table(headings, rows)
    if guessed:
        click.echo(NOTE)


def _ends(answer: QueryAnswer) -> str:
    if answer.possible is None:
        return "" if answer.how == "view" else "unknown"
    low, high = answer.possible
    return f"[{low:.4f}, {high:.4f}]" if isfinite(high) else f"above {low:.4f}"


def _cells(made: Estimate) -> list[str]:
    known = isfinite(made.value) and made.bounded
    ends = f"[{made.low:.4f}, {made.high:.4f}]" if made.bounded else "not estimable"
    stderr = f"{made.stderr:.4f}" if isfinite(made.stderr) else ""
    return [f"{made.value:.4f}" if known else "unknown", stderr, ends]


@click.command()
@click.argument("plan_path", metavar="PLAN", type=click.Path())
@click.argument("tally_path", metavar="TALLY", type=click.Path())
@click.option("--kind", type=click.Choice(KINDS), default="frequency", show_default=True)
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
        for cell in row[: len(shown)]:
            made = None if cell is None else cell.estimate
            if made is None:
                cells.append("")
            elif made.bounded:
                cells.append(f"{made.value:.3f} ±{(made.high - made.low) / 2:.3f}")
            else:
                cells.append("unknown")
        rows.append(cells)
    print_table([f"{kind} of \\ given", *shown], rows)
    if len(shown) < len(plan.schema.keys):
        click.echo(f"the first {len(shown)} of {len(plan.schema.keys)} keys; --json has them all")
