"""``keyveil plan --mechanism auto``: the planner's choice, why, and what it looks like."""

from __future__ import annotations

from math import sqrt

import click

from ..errors import PlanError
from ..exact import decimal, text
from ..planner import ASKS, Advice, Option, advise, curves
from ..prior import Prior
from ..schema import Schema
from .show import print_table


def asked(words: str) -> str | list[str]:
    """One of the words the planner knows, or queries with ; between them."""
    if words in ASKS:
        return words
    if "(" not in words:
        raise PlanError(f"--ask is one of {', '.join(ASKS)}, or queries with ; between them")
    return [part.strip() for part in words.split(";") if part.strip()]


def prior_of(keys: int, held: str | None, mean: str | None, spread: str | None) -> Prior:
    """The prior that the options state; what is not said stays at its default."""
    given = {
        name: float(decimal(value, name))
        for name, value in (("held", held), ("mean", mean), ("spread", spread))
        if value is not None
    }
    return Prior.of(keys, **given)


def advice_for(schema: Schema, epsilon: str, people: int, ask: str, prior: Prior, force: bool) -> Advice:
    """The planner's advice, or its refusal."""
    made = advise(schema, epsilon, people, ask=asked(ask), prior=prior)
    if not made.answers and not force:
        raise PlanError(f"{made} (--force makes the best plan all the same)")
    return made


def explain(advice: Advice) -> None:
    """The table of options, and what else a reader should know."""
    from ..poison import line as poison_line
    from ..shuffle import line as shuffle_line

    best = advice.best
    click.echo(str(advice))
    print_table(
        ["mechanism", "error", "frequency ±", "mean ±", "bits", "answers"],
        [_cells(option, best) for option in advice.runners_up(20)],
        f"{advice.people:,} people at epsilon {text(advice.epsilon)}, expecting {advice.prior.source}",
    )
    click.echo(
        "error: relative to the first, frequency and mean alike, after shrinkage across keys; "
        "±: standard error of one key's answer as estimated"
    )
    if advice.ask != "conditional":
        click.echo("chosen for answers that are shrunk: keyveil estimate --estimator shrunk")
    click.echo(shuffle_line(best.plan, advice.people))
    click.echo(poison_line(best.plan, 0.01))


def _cells(option: Option, best: Option) -> list[str]:
    return [
        option.name,
        f"{option.score / best.score:.2f}" if best.score > 0 else "-",
        f"{sqrt(option.frequency):.4f}",
        f"{sqrt(option.mean):.4f}" if option.mean == option.mean else "-",
        f"{option.plan.bits_per_report:.1f}",
        "yes" if option.lacks <= 1 else f"with {option.lacks:.1f} times the people",
    ]


def picture(advice: Advice, schema: Schema, path: str) -> None:
    """Predicted error against epsilon and against people."""
    from ..plot import plot_curves

    plot_curves(curves(schema, advice), path, float(advice.epsilon), advice.people)
