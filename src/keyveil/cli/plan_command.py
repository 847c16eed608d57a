"""``keyveil plan``: the public contract, by a mechanism's name or the planner's choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from ..foundation.errors import PlanError
from ..foundation.exact import rounded_up, text, total
from ..mechanisms import REGISTRY
from ..mechanisms.mechanism import CALIBRATIONS
from ..people.scale import Scale
from ..plan.plan import Plan
from ..plan.registry import parse_mechanism
from ..plan.tally import Tally
from .arguments import RANGE
from .output import as_json, counted, print_json, progress
from .output_files import OUTPUT, PICTURE, writes_files
from .plan_options import AUTO, QUERIES, PlanOptions, check_together

if TYPE_CHECKING:
    from ..planner.advice import Advice
    from .plan_expectation import Expectation

SET = (
    "A parameter of the mechanism. One that is a value or a spread is on the scale of --range; if keys "
    "have different ranges, in half ranges, as --mean and --spread."
)


class PlanCommand(click.Command):
    """A command that says how to set a parameter of a mechanism if it is typed as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-").replace("-", "_")
            if not any(name in kind.parameters for kind in REGISTRY.values()):
                raise
            message = f"No such option: {error.option_name}; a mechanism's parameter is --set {name}="
            raise click.UsageError(f"{message}VALUE", ctx) from None


@click.command(cls=PlanCommand)
@click.option(
    "--keys",
    type=click.Path(),
    metavar="FILE|N",
    help="A file (one key a line, or columns key,low,high), or how many: 0, 1, ...",
)
@click.option("--range", "ends", help=f"LOW,HIGH of the values.  [default: {RANGE}]")
@click.option("--epsilon", help="The promise, like 1 or 0.5.")
@click.option(
    "--mechanism",
    help="auto, the one with the least predicted error, or one of: " + ", ".join(REGISTRY) + ". "
    "graded:levels=5 sets a parameter, as --set does.",
)
@click.option(
    "--calibrate",
    type=click.Choice(CALIBRATIONS),
    help="As published, or the largest parameters that keep the promise.  [default: paper; auto: tight]",
)
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help=SET)
@click.option(
    "--next",
    "chain",
    nargs=2,
    type=click.Path(),
    metavar="PLAN TALLY",
    help="The next round after PLAN, from its TALLY.",
)
@click.option(
    "--people", help="How many people will answer, like 1e5: says what to expect. Auto needs it."
)
@click.option(
    "--ask",
    help="For auto: both (frequency and mean of every key), frequency, mean, conditional (every key "
    "given every other), or queries separated by semicolons; for workload: queries.  [default: both]",
)
@click.option(
    "--held",
    help="With --people: the average number of keys that a person holds.  [default: three in ten keys; "
    "auto: anything from one key to most]",
)
@click.option(
    "--pilot",
    nargs=2,
    type=click.Path(),
    metavar="PILOT TALLY",
    help="For auto: how many keys people hold, from a pilot's TALLY; PILOT is the first plan of sized.",
)
@click.option(
    "--mean",
    help="With --people: where values lie on average, on the scale of --range.  [default: its middle]",
)
@click.option(
    "--spread",
    help="With --people: the standard deviation of values, on the scale of --range.  [default: a "
    "quarter of it] If keys have different ranges, --mean and --spread are in half ranges: -1 is the "
    "low end of each key's range, 1 the high end.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="With --people: what to expect, for auto with the table of options and a picture, on standard "
    "output. The plan is written with -o; without it --keys is 100 and --epsilon 1 if not given.",
)
@click.option(
    "--plot", type=PICTURE, help="For auto: draw the error against epsilon and people in a file."
)
@click.option(
    "--one-round",
    is_flag=True,
    help="For auto, if it is not told how many keys people hold: one plan for everyone. Without this, "
    "auto makes the plan of a first round where that pays.",
)
@click.option("--anyway", is_flag=True, help="For auto: make the best plan even if it cannot answer.")
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    help="Where to write the plan.  [default: standard output, unless --json or --explain is there]",
)
@as_json
@click.pass_context
@writes_files
def plan(context: click.Context, **options: Any) -> None:
    """Make the public contract: keys, mechanism, and integers that prove epsilon."""
    given = PlanOptions(**options)
    check_together(context, given)
    if given.chain:
        result = _next_round(given, given.chain)
    elif given.mechanism == AUTO:
        result = _planner_choice(given)
    else:
        result = _named_plan(given)
    for note in result.notes if given.output or not given.explain else ():
        click.echo(note, err=True)
    if given.output:
        result.plan.save(given.output)
    if given.machine:
        facts = {**_facts(result.plan), "written_to": given.output, "outlook": None}
        print_json({**facts, **result.facts})
    else:
        _show(given, result)


@dataclass(frozen=True)
class PlanResult:
    """A plan, and what is said about it."""

    plan: Plan
    notes: Sequence[str] = ()
    """What was assumed about the keys."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Members of the JSON besides those of every plan."""
    expectation: Expectation | None = None


# -- the next round, a named mechanism, the planner's choice -----------------------------------------


def _next_round(given: PlanOptions, chain: tuple[str, str]) -> PlanResult:
    """The plan of the next round of a chain."""
    people = given.count
    before = Plan.load(chain[0])
    return _with_expectation(given, before.next(Tally.load(before, chain[1])), people, ())


def _named_plan(given: PlanOptions) -> PlanResult:
    """The plan of a mechanism that is named."""
    people = given.count
    schema, epsilon, _, notes = given.schema_and_epsilon()
    parse_mechanism(str(given.mechanism), AUTO)
    calibrate, parameters = given.calibrate or "paper", given.parameters()
    if given.ask is not None:
        if QUERIES in parameters:
            raise PlanError(f"give the queries once: --ask or --set {QUERIES}=")
        if "(" not in given.ask:
            raise PlanError("workload takes queries, like --ask 'mean(A | B)'; pairs answers all pairs")
        parameters[QUERIES] = given.ask
    plan_ = Plan.of(schema, str(given.mechanism), epsilon, calibrate, **parameters)
    return _with_expectation(given, plan_, people, notes)


def _planner_choice(given: PlanOptions) -> PlanResult:
    """The planner's choice; its reasons are shown, and a refusal is raised."""
    from .planner_output import advice_for

    people = given.count
    assert people is not None
    schema, epsilon, prior, notes = given.schema_and_epsilon()
    ask = "both" if given.ask is None else given.ask
    with progress("planning"):
        advice = advice_for(schema, epsilon, people, ask, prior or given.known(schema))
    _show_advice(advice, given)
    first = None if given.one_round else advice.first_round
    facts = {"advice": advice.document(), "is_first_round": first is not None}
    return PlanResult(advice.plan if first is None else first.plan, notes, facts)


def _with_expectation(
    given: PlanOptions, plan_: Plan, people: int | None, notes: Sequence[str]
) -> PlanResult:
    """A plan with the errors to expect, if the number of people is stated."""
    if people is None:
        return PlanResult(plan_, notes)
    from .plan_expectation import expect

    expectation = expect(plan_, people, given.prior(plan_.schema))
    return PlanResult(plan_, notes, expectation.facts, expectation)


def _show(given: PlanOptions, result: PlanResult) -> None:
    """Print what to expect and the plan, or where it was written."""
    plan_, expectation = result.plan, result.expectation
    if expectation is not None and given.explain:
        from .planner_output import explain_plan

        people = given.count
        assert people is not None
        _tell_unwritten(given)
        explain_plan(plan_, expectation.words, people, given.prior(plan_.schema))
    elif expectation is not None:
        click.echo(expectation.words, err=not given.output or not expectation.answers)
    if given.output:
        click.echo(
            f"{given.output}: {plan_.mechanism_name}, {counted(len(plan_.schema.keys), 'key')}, "
            f"{_promise(plan_)}, "
            f"proves {rounded_up(plan_.proven)}, {plan_.bits_per_report:.2f} bits a report"
        )
    elif not given.explain:
        click.echo(plan_.dumps())


def _promise(plan_: Plan) -> str:
    """The promised epsilon; of a chain whose rounds share it, that of this round and of all."""
    promised = text(plan_.promised)
    if plan_.chain is None or Decimal(plan_.chain["total"]) == plan_.promised:
        return f"promises epsilon {promised}"
    return (
        f"round {plan_.chain['round']} of {plan_.parameters['rounds']} promises epsilon "
        f"{float(plan_.promised):.4g} of {plan_.chain['total']} in all"
    )


# -- what is said ------------------------------------------------------------------------------------


def _show_advice(advice: Advice, given: PlanOptions) -> None:
    """Show the planner's reasons in a line, a table or a picture, and then raise a refusal."""
    from .planner_output import explain, picture, refusal, sketch, what_was_made

    refused = not advice.may_answer and not given.anyway
    drawn = picture(advice, given.plot) if given.plot else None
    if given.machine:
        if refused:
            print_json({**advice.document(), "chosen": None})
    elif given.explain:
        if not refused:
            _tell_unwritten(given)
        explain(advice, given.one_round)
        sketch(advice, drawn)
    if refused:
        raise refusal(advice)
    if not given.machine and (not given.explain or not advice.may_answer):
        words = what_was_made(advice, given.one_round)
        click.echo("\n".join(words), err=not given.output or not advice.may_answer)


def _tell_unwritten(given: PlanOptions) -> None:
    """Before a long explanation: that it is all, unless a file is named."""
    if not given.output:
        click.echo("no plan is written: -o FILE writes it", err=True)


def _facts(plan_: Plan) -> dict[str, Any]:
    facts = {
        "hash": plan_.hash,
        "mechanism": plan_.mechanism_name,
        "calibrate": plan_.calibrate,
        "parameters": plan_.parameters_on_scale,
        "mean_scale": Scale.of(plan_.schema).document(),
        "keys": len(plan_.schema.keys),
        "promised": float(plan_.promised),
        "proven": float(plan_.proven),
        "bits_per_report": round(plan_.bits_per_report, 4),
    }
    if plan_.chain is not None:
        spent = total((Decimal(plan_.chain["spent"]), plan_.proven))
        facts["round"] = plan_.chain["round"]
        facts["chain_proven_so_far"] = float(spent)
        facts["chain_promised"] = float(plan_.chain["total"])
    return facts
