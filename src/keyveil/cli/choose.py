"""``keyveil plan --mechanism auto``: the planner's choice, why, and what it looks like."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any

import click

from ..errors import PlanError
from ..estimate.forecast import forecast
from ..estimate.shrink import FEWEST
from ..exact import decimal, text
from ..plan import Plan
from ..planner import ASKS, Advice, Option, advise, curves
from ..prior import Prior
from ..schema import Schema
from .show import counted, print_table

COMPARED = {
    "both": "frequency and mean alike, after shrinkage across keys",
    "frequency": "the frequency, after shrinkage across keys",
    "mean": "the mean, after shrinkage across keys",
    "conditional": "conditional frequency and mean alike, as estimated",
}
"""What the options' errors are of, for each thing that may be asked."""


FAKES = 0.01
"""The share of fake clients that an explanation speaks of."""


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
        name: float(decimal(value, f"--{name}"))
        for name, value in (("held", held), ("mean", mean), ("spread", spread))
        if value is not None
    }
    return Prior.of(keys, **given)


def advice_for(schema: Schema, epsilon: str, people: int, ask: str, prior: Prior) -> Advice:
    """The planner's advice; it may be that nothing can answer."""
    return advise(schema, epsilon, people, ask=asked(ask), prior=prior)


def refusal(advice: Advice) -> PlanError:
    """Why no plan is made."""
    return PlanError(f"{advice} (--force makes the best plan all the same)")


def explain(advice: Advice) -> None:
    """The table of options, and what else a reader should know."""
    best = advice.best
    if advice.answers:
        click.echo(str(advice))
    who = counted(advice.people, "person", "people")
    print_table(
        ["mechanism", "error", "frequency ±", "mean ±", "bits", "answers"],
        [_cells(option, advice) for option in advice.runners_up(20)],
        f"{who} at epsilon {text(advice.epsilon)}, expecting {advice.prior.source}",
    )
    one = "one conditional answer" if advice.ask == "conditional" else "one key's answer"
    click.echo(f"error: squared error over the first's: {COMPARED[advice.ask]}")
    click.echo(f"±: how far {one} is off before any shrinkage, means on [-1, 1]")
    if not advice.answers:
        click.echo(
            "answers: with the row's plan as it is; with more people the planner turns to other plans, "
            f"which answer with {advice.people_needed / advice.people:.1f} times the people"
        )
    if advice.ask != "conditional":
        few = len(best.plan.schema.keys) < FEWEST
        click.echo(
            f"with fewer than {FEWEST} keys answers are not shrunk in the end"
            if few
            else "chosen for answers that are shrunk: keyveil estimate --estimator shrunk"
        )
    _outside(best.plan, advice.people, advice.ask, advice.prior)


def explain_plan(made: Plan, said: str, people: int, believed: Prior) -> None:
    """Of a mechanism that was named: what to expect, what a shuffler adds, and what fakes could do."""
    click.echo(said)
    answers = made.kind.answers
    both = len(made.kind.answers) > 1
    _outside(made, people, "both" if both else "mean" if "mass" in answers else answers[0], believed)


def _outside(made: Plan, people: int, ask: str, prior: Prior) -> None:
    """What someone learns who sees all reports, and what fakes could do."""
    from ..poison import line as poison_line
    from ..shuffle import line as shuffle_line

    click.echo(shuffle_line(made, people))
    click.echo(poison_line(made, FAKES, ask, prior))


def _answers(option: Option, advice: Advice) -> str:
    """Whether it can answer, and with how many more people it could."""
    if option.lacks <= 1:
        return "yes"
    factor = advice.factor(option)
    return f"with {factor:.1f} times the people" if isfinite(factor) else "no"


def _cells(option: Option, advice: Advice) -> list[str]:
    best = advice.best
    return [
        option.name,
        f"{option.score / best.score:.2f}" if best.score > 0 else "-",
        f"{sqrt(option.frequency):.4f}",
        f"{sqrt(option.mean):.4f}" if option.mean == option.mean else "-",
        f"{option.plan.bits_per_report:.1f}",
        _answers(option, advice),
    ]


def picture(advice: Advice, schema: Schema, path: str) -> None:
    """Predicted error against epsilon and against people."""
    from ..plot import plot_curves

    plot_curves(curves(schema, advice), path, float(advice.epsilon), advice.people)


def expected(plan: Plan, people: int, prior: Prior) -> dict[str, Any]:
    """How far answers of a plan that speaks of single keys will be off, before any shrinkage."""
    told = forecast(plan, people, prior)
    answers, weight = plan.kind.answers, prior.weight
    errors = {
        "frequency": told.clipped_frequency(prior) if "frequency" in answers else None,
        "mean": told.clipped_mean(prior) if "mean" in answers else None,
        "mass": told.covariance[:, 1, 1] + told.bias[:, 1] ** 2 if "mass" in answers else None,
    }
    return {
        "people": people,
        "prior": prior.source,
        "chain": plan.chain is not None,
        **{
            f"{name}_error": None if each is None or not isfinite(weight @ each) else sqrt(weight @ each)
            for name, each in errors.items()
        },
    }


def expectation(facts: dict[str, Any]) -> str:
    """The same in one line."""
    parts = [
        f"{name} by about {facts[f'{name}_error']:.3g}{scale}"
        for name, scale in (("frequency", ""), ("mean", " on [-1, 1]"), ("mass", " on [-1, 1]"))
        if facts[f"{name}_error"] is not None
    ]
    who = counted(facts["people"], "person", "people")
    when = " after this round" if facts["chain"] else ""
    said = f"with {who}{when} a key's answers will be off: {' and '.join(parts)}"
    return f"{said} (expecting {facts['prior']})"
