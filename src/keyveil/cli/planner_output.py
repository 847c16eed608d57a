"""``keyveil plan --mechanism auto``: the planner's choice, its reasons and a chart."""

from __future__ import annotations

import os
import sys
from math import sqrt

import click

from ..estimate.shrink.shrinkage import FEWEST
from ..estimate.together.query import Query
from ..foundation.errors import PlanError, nearest
from ..foundation.exact import text
from ..people.beliefs import Beliefs
from ..people.prior import Prior, keys_in_words
from ..people.scale import Scale
from ..people.schema import Schema
from ..plan.plan import Plan
from ..planner.advice import Advice
from ..planner.advice_table import errors_compared, option_cells, told_nothing
from ..planner.curves import A_FEW, Curves, curves
from ..planner.planner import ASKS, advise
from .output import counted, plain_only, print_table
from .terminal_chart import NARROWEST, Panel, columns, fitted, legend, say

IN_TERMINAL = 4
"""Number of lines in the terminal's chart: the chosen mechanism and the next three."""
FAKES = 0.01
"""The share of fake clients in an explanation."""


def question_of(words: str) -> str | list[str]:
    """The question for the planner: one of its words, or queries separated by semicolons."""
    if words in ASKS:
        return words
    if "(" not in words:
        near = nearest(words, ASKS)
        hint = "" if near is None else f"; did you mean {near}?"
        raise PlanError(f"--ask is one of {', '.join(ASKS)}, or queries separated by semicolons{hint}")
    return [str(query) for query in Query.parse_all(words)]


def advice_for(schema: Schema, epsilon: str, people: int, ask: str, prior: Prior | Beliefs) -> Advice:
    """The planner's advice, which may be that no plan can answer."""
    return advise(schema, epsilon, people, ask=question_of(ask), prior=prior)


def refusal(advice: Advice) -> PlanError:
    """The error that says why no plan is made."""
    return PlanError(f"{advice} (--anyway makes the best plan all the same)")


def what_was_made(advice: Advice, one_round: bool) -> list[str]:
    """Whether the plan is a first round or one for everyone, and why: a few lines."""
    lines, first = [str(advice)], advice.first_round
    if first is not None and not one_round:
        lines = [
            f"the plan is a first round ({first.plan.mechanism_name}): ask {first.people:,} of the "
            f"{advice.people:,} people how many keys they hold, then plan for the other "
            f"{first.others:,}: "
            f"keyveil plan --mechanism auto --people {first.others} --pilot PLAN TALLY",
            f"why: after it the error is at most about {first.regret:.2f} times that of the best plan; "
            f"one plan for everyone ({advice.best.name}; --one-round makes it) may have "
            f"{advice.best.score:.2f} times",
        ]
    elif told_nothing(advice) and advice.may_answer and advice.ask != "conditional":
        why = "as --one-round says" if first is not None else "a first round would not pay"
        lines = [f"the plan is one for everyone ({why})", str(advice)]
    if advice.fact is not None and advice.may_answer:
        lines.append(str(advice.fact))
    return lines


def explain(advice: Advice, one_round: bool = False) -> None:
    """Print what was made, the table of options and the notes below it."""
    best, knows_nothing = advice.best, told_nothing(advice)
    for line in what_was_made(advice, one_round) if advice.may_answer else ():
        say(line)
    who = counted(advice.people, "person", "people")
    sign = "+-" if plain_only(sys.stdout.encoding, os.environ) else "±"
    source = advice.prior.source if advice.beliefs is None else advice.beliefs.source
    say(f"{who} at epsilon {text(advice.epsilon)}, expecting {source}")
    print_table(
        ["mechanism", "error", f"frequency {sign}", f"mean {sign}", "bits", "answers"],
        [option_cells(option, advice) for option in advice.runners_up(20)],
    )
    answer = "one conditional answer" if advice.ask == "conditional" else "one key's answer"
    few = advice.ask != "conditional" and len(best.plan.schema.keys) < FEWEST
    over = "the best plan's, from the best to the worst belief" if knows_nothing else "the first's"
    say(f"error: squared error over {over}: {errors_compared(advice, few)}")
    scale = Scale.of(best.plan.schema)
    held = f" if people hold {keys_in_words(advice.prior.held)}" if knows_nothing else ""
    say(f"{sign}: how far {answer} is off before any shrinkage{held}, means {scale}")
    if scale.note:
        say(f"half ranges: {scale.note}; spread and mean of a mechanism are in half ranges, too")
    if not advice.may_answer:
        say(
            "answers: with the row's plan as it is; with more people the planner turns to other plans, "
            f"which answer with {advice.people_needed / advice.people:.1f} times the people"
        )
    if advice.ask != "conditional":
        say(f"chosen for the default answers of keyveil estimate ({advice.estimator})")
    _outside(best.plan, advice.people, advice.ask, advice.prior)


def explain_plan(plan: Plan, words: str, people: int, prior: Prior) -> None:
    """For a named mechanism: print the expected errors, the effect of shuffling and of fakes."""
    say(words)
    answers = plan.mechanism.answers
    both = len(plan.mechanism.answers) > 1
    _outside(plan, people, "both" if both else "mean" if "mass" in answers else answers[0], prior)


def _outside(plan: Plan, people: int, ask: str, prior: Prior) -> None:
    """Print the privacy after shuffling and the effect of fakes."""
    from ..trust.poison import line as poison_line
    from ..trust.shuffle import line as shuffle_line

    say(shuffle_line(plan, people))
    say(poison_line(plan, FAKES, ask, prior))


def picture(advice: Advice, path: str) -> Curves:
    """Draw the predicted error against epsilon and people into a file; the curves are returned."""
    from ..plot import plot_curves

    predicted = curves(advice.plan.schema, advice)
    plot_curves(predicted, path, float(advice.epsilon), advice.people)
    return predicted


def sketch(advice: Advice, drawn: Curves | None = None) -> None:
    """The same charts in the terminal, one row for each statistic."""
    width = columns()
    if width < NARROWEST:
        if drawn is None:
            click.echo()
            say(f"the picture takes {NARROWEST} columns; --plot FILE draws it in a file")
            click.echo()
        return
    at = A_FEW[:: 3 if advice.ask == "conditional" else 1]  # plans of larger views take a while each
    predicted = drawn or curves(advice.plan.schema, advice, IN_TERMINAL, at)
    plain = plain_only(sys.stdout.encoding, os.environ)
    sign = "+-" if plain else "±"
    names = list(predicted.by_epsilon)[:IN_TERMINAL]
    axes = (
        ("epsilon", predicted.epsilons, predicted.by_epsilon, float(advice.epsilon)),
        ("people", predicted.people, predicted.by_people, advice.people),
    )
    who = counted(advice.people, "person", "people")
    click.echo(f"\n{legend(names, width, predicted.first)}")
    for part in (advice.ask,) if advice.ask in ("frequency", "mean") else ("frequency", "mean"):
        panels = [
            Panel(
                f"{part} {sign} against {of}",
                places,
                [[sqrt(error) for error in errors[name][part]] for name in names],
                here,
            )
            for of, places, errors, here in axes
        ]
        for row in fitted(panels, width, plain):
            click.echo(row)
    say(
        f"against epsilon: {who}, at each the best parameters; against people: epsilon "
        f"{text(advice.epsilon)}, parameters as in the table; means {predicted.scale}"
    )
    click.echo()
