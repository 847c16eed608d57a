"""``keyveil estimate``: the analyst's side."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite, isnan
from typing import Any

import click

from ..estimate import DEFAULT, Estimate
from ..estimate import estimate as make_estimate
from ..estimate.projection import STEPS
from ..foundation.errors import PlanError
from ..plan.plan import Plan
from ..plan.tally import Tally
from .arguments import Given, level_option, plan_argument, tally_argument
from .output import STDERR_NOTE, as_json, figure, interval, print_json, print_table
from .output_files import PICTURE, writes_files


@click.command()
@plan_argument
@tally_argument
@click.option(
    "--estimator",
    help="By name: least_squares for raw values, another of the mechanism's own, which 'keyveil "
    "mechanisms --json' lists, or shrunk, corrected, jackknife.  [default: best, which decides from "
    "the tally whether to shrink]",
)
@level_option
@click.option(
    "--after",
    multiple=True,
    type=click.Choice(list(STEPS)),
    help="Post-processing by name; may be repeated.",
)
@click.option("--key", "keys", multiple=True, help="Only these keys; may be repeated.")
@click.option("--plot", type=PICTURE, help="Also draw a picture (PNG, SVG or PDF).")
@as_json
@writes_files
def estimate(plan_path: str, tally_path: str, **options: Any) -> None:
    """Frequency and mean of every key, each with its standard error and interval.

    Of a pilot's tally: how many keys people hold.
    """
    plan = Plan.load(plan_path)
    show_estimates(Tally.load(plan, tally_path), Given(**options), f"{plan_path} {tally_path}")


def show_estimates(tally: Tally, given: Given, files: str, title: str = "") -> None:
    """Print the estimates of a tally under a title.

    A pilot's note names its ``files``, the plan and the tally.
    """
    plan = tally.plan
    if plan.speaks_of_size:
        from .pilot_files import show_sizes

        _refuse_of_keys(given)
        show_sizes(tally, given.level, given.machine, files, title)
        return
    answers = make_estimate(plan, tally, given.estimator, given.level, given.after)
    if given.keys:
        chosen = (plan.schema.keys[plan.schema.place(key)] for key in given.keys)
        answers = replace(answers, keys=tuple(answers[key] for key in chosen))
    if given.plot:
        from ..plot import plot_answers

        plot_answers(answers, given.plot)
    if given.machine:
        facts = {k: v for k, v in answers.document().items() if k != "keys"}
        print_json([{**answer.document(), **facts} for answer in answers])
        return
    parts: list[str] = [p for p in ("frequency", "mean", "mass") if p in plan.mechanism.answers]
    headings = ["key"]
    for part in parts:
        headings += [part, "± stderr", f"{given.level:.0%} interval"]
    learned = answers.estimator in (DEFAULT, "shrunk")
    print_table(headings, [[a.key, *_cells(a, parts, learned)] for a in answers], title)
    if any(isfinite(getattr(answer, part).stderr) for answer in answers for part in parts):
        click.echo(STDERR_NOTE)
    click.echo(f"estimator: {answers.estimator}")
    if answers.note:
        click.echo(f"note: {answers.note}")


def _refuse_of_keys(given: Given) -> None:
    """Refuse options about keys for a plan that asks only for the number of keys."""
    options = {"estimator": "--estimator", "after": "--after", "keys": "--key", "plot": "--plot"}
    wrong = ", ".join(option for name, option in options.items() if getattr(given, name))
    if wrong:
        raise PlanError(f"{wrong}: this plan tells only how many keys are held, nothing of any key")


def _cells(answer: Any, parts: list[str], learned: bool) -> list[str]:
    """Value, standard error and interval of each part.

    A raw value without a bound is noise and is not shown; one that was ``learned`` from all keys is.
    """
    cells = []
    for part in parts:
        estimated: Estimate = getattr(answer, part)
        unbounded = not estimated.bounded and not isnan(estimated.low)
        ends = interval(estimated.low, estimated.high) if estimated.bounded else ""
        cells += [
            "unknown" if unbounded and not learned else figure(estimated.value),
            figure(estimated.stderr, otherwise=""),
            "unbounded" if unbounded else ends,
        ]
    return cells
