"""``keyveil plan``: the public contract, by a mechanism's name or the planner's choice."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..foundation.errors import KeyveilError, PlanError
from ..foundation.exact import text, total
from ..mechanisms import REGISTRY, mechanism_named
from ..mechanisms.mechanism import CALIBRATIONS
from ..people.scale import Scale
from ..people.schema import Schema
from ..plan.plan import Plan
from ..plan.tally import Tally
from .arguments import RANGE, read_count, read_schema
from .output import as_json, counted, print_json
from .output_files import OUTPUT, PICTURE, writes_files

if TYPE_CHECKING:
    from ..people.prior import Prior
    from ..planner.planner import Advice


@click.command()
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
    help="auto, the one with the least predicted error, or one of: " + ", ".join(REGISTRY) + ".",
)
@click.option(
    "--calibrate",
    type=click.Choice(CALIBRATIONS),
    help="As published, or the largest parameters that keep the promise.  [default: paper; auto: tight]",
)
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A parameter.")
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
    "given every other), or queries with ; between them.  [default: both]",
)
@click.option("--held", help="With --people: how many keys a person holds on average.")
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
def plan(
    context: click.Context,
    keys: str | None,
    ends: str | None,
    epsilon: str | None,
    mechanism: str | None,
    calibrate: str | None,
    given: tuple[str, ...],
    chain: tuple[str, str] | None,
    people: str | None,
    ask: str | None,
    held: str | None,
    pilot: tuple[str, str] | None,
    mean: str | None,
    spread: str | None,
    explain: bool,
    plot: str | None,
    anyway: bool,
    output: str | None,
    machine: bool,
) -> None:
    """Make the public contract: keys, mechanism, and integers that prove epsilon."""
    _check_together(context, chain is not None, mechanism == "auto", people is not None)
    count = None if people is None else read_count(people, "--people")
    advice, expected = None, None
    facts: dict[str, Any] = {}
    notes: list[str] = []
    if chain:
        before = Plan.load(chain[0])
        made = before.next(Tally.load(before, chain[1]))
    else:
        believed = None
        if pilot:
            from .pilot_files import taken_from

            schema, epsilon, believed = taken_from(pilot, keys, ends, epsilon, mean, spread)
        else:
            keys, epsilon = _assumed(keys, epsilon, machine)
            schema = read_schema(keys, ends, notes)
        if mechanism == "auto":
            advice = _advice(
                schema, epsilon, count, "both" if ask is None else ask, (held, mean, spread), believed
            )
            _show_advice(advice, explain, plot, output, anyway, machine)
            made = advice.plan
            facts["advice"] = advice.document()
        else:
            mechanism_named(str(mechanism), "auto")
            made = Plan.of(schema, str(mechanism), epsilon, calibrate or "paper", **_parameters(given))
    if advice is None and count is not None:
        expected = _expected(made, count, (held, mean, spread))
        facts |= expected.facts
    for note in notes if output or not explain else ():
        click.echo(note, err=True)
    if output:
        made.save(output)
    if machine:
        print_json({**_facts(made), "written_to": output, "outlook": None, **facts})
        return
    if expected is not None and explain:
        _explain_named(made, expected.said, count, (held, mean, spread))
    elif expected is not None:
        click.echo(expected.said, err=not output or not expected.answers)
    if output:
        click.echo(
            f"{output}: {made.mechanism_name}, {counted(len(made.schema.keys), 'key')}, "
            f"promises epsilon {text(made.promised)}, "
            f"proves {made.proven:.9f}, {made.bits_per_report:.2f} bits a report"
        )
    elif explain:
        click.echo("no plan was written: -o FILE writes it", err=True)
    else:
        click.echo(made.dumps())


ASSUMED = {"keys": "100", "epsilon": "1"}
"""What an explanation is of where nothing is said."""
PRIOR = {"held", "mean", "spread"}
ONLY_AUTO = {"ask", "plot", "anyway", "pilot"}
OF_A_CHAIN = (
    {"keys", "ends", "epsilon", "mechanism", "calibrate", "given", "explain"} | PRIOR | ONLY_AUTO
)


def _check_together(context: click.Context, chain: bool, auto: bool, people: bool) -> None:
    """Options that are missing, or that would be ignored beside the others: refuse, never ignore."""
    names = {option.name: option.opts[-1] for option in context.command.params}
    used = {str(name): str(names[name]) for name in names if _is_given(context, str(name))}
    if chain:
        _refuse(used, OF_A_CHAIN, "the next round takes this from PLAN")
        return
    by_itself = context.params["explain"] and not context.params["output"]
    spared = ASSUMED if by_itself or "pilot" in used else {}
    needed = [name for name in ("keys", "epsilon", "mechanism") if name not in spared]
    missing = [names[name] for name in needed if name not in used]
    if missing:
        raise click.UsageError(f"plan needs {', '.join(missing)} (or --next PLAN TALLY)")
    if not auto:
        _refuse(used, ONLY_AUTO, "only for --mechanism auto")
        if not people:
            _refuse(used, PRIOR | {"explain"}, "only with --people")
        return
    if not people:
        raise click.UsageError("--mechanism auto needs --people: how many will answer")
    if "pilot" in used:
        _refuse(used, {"held"}, "the pilot tells how many keys are held")
    if "given" in used:
        raise PlanError("--set is for a mechanism that you name; auto sets the parameters itself")
    if context.params["calibrate"] == "paper":
        raise PlanError(
            "--calibrate paper is for a mechanism that you name; auto makes all tight, to compare them "
            "at equal true epsilon"
        )


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _assumed(keys: str | None, epsilon: str | None, machine: bool) -> tuple[str, str]:
    """Keys and epsilon; an explanation that writes no plan takes its own where they are not given."""
    given = {"keys": keys, "epsilon": epsilon}
    used = {name: ASSUMED[name] if words is None else words for name, words in given.items()}
    missing = [f"--{name}" for name, said in (("keys", keys), ("epsilon", epsilon)) if said is None]
    if missing:
        what = {"--keys": f"{used['keys']} keys", "--epsilon": f"epsilon {used['epsilon']}"}
        said = " and ".join(what[name] for name in missing)
        click.echo(f"no {' and no '.join(missing)} given: explained for {said}", err=machine)
    return used["keys"], used["epsilon"]


def _refuse(used: dict[str, str], names: set[str], why: str) -> None:
    wrong = [option for name, option in used.items() if name in names]
    if wrong:
        raise click.UsageError(f"{', '.join(wrong)}: {why}")


def _advice(
    schema: Schema,
    epsilon: str,
    people: int | None,
    ask: str,
    stated: tuple[str | None, str | None, str | None],
    believed: Prior | None,
) -> Advice:
    from .planner_output import advice_for, prior_of

    assert people is not None
    prior = believed or prior_of(schema, *stated)
    return advice_for(schema, epsilon, people, ask, prior)


def _show_advice(
    advice: Advice, explain: bool, plot: str | None, output: str | None, anyway: bool, machine: bool
) -> None:
    """Why this plan, in a line, a table or a picture; a refusal leaves after these."""
    from .planner_output import explain as explained
    from .planner_output import picture, refusal, sketch

    refused = not advice.answers and not anyway
    drawn = picture(advice, plot) if plot else None
    if machine:
        if refused:
            print_json({**advice.document(), "chosen": None})
    elif explain:
        explained(advice)
        sketch(advice, drawn)
    if refused:
        raise refusal(advice)
    if not machine and (not explain or not advice.answers):
        click.echo(str(advice), err=not output or not advice.answers)


class _Expected(NamedTuple):
    """What so many people's answers to a plan will be worth."""

    said: str
    answers: bool
    facts: dict[str, Any]
    """As JSON."""


def _expected(made: Plan, people: int, believed: tuple[str | None, str | None, str | None]) -> _Expected:
    from ..planner.outlook import outlook
    from .planner_output import expectation, prior_of
    from .planner_output import expected as single

    prior = prior_of(made.schema, *believed)
    try:
        foreseen = outlook(made, people)
    except KeyveilError:
        foreseen = None  # its views hold several keys, but not to be asked together
    if foreseen is not None:
        return _Expected(str(foreseen), foreseen.answers, {"outlook": foreseen.document()})
    try:
        facts = single(made, people, prior)
    except KeyveilError as error:
        return _Expected(f"nothing is said of what to expect: {error}", True, {"expected": None})
    return _Expected(expectation(facts, Scale.of(made.schema)), True, {"expected": facts})


def _explain_named(
    made: Plan, said: str, people: int | None, believed: tuple[str | None, str | None, str | None]
) -> None:
    from .planner_output import explain_plan, prior_of

    assert people is not None
    explain_plan(made, said, people, prior_of(made.schema, *believed))


def _facts(made: Plan) -> dict[str, Any]:
    facts = {
        "hash": made.hash,
        "mechanism": made.mechanism_name,
        "calibrate": made.calibrate,
        "parameters": dict(made.parameters),
        "keys": len(made.schema.keys),
        "promised": float(made.promised),
        "proven": float(made.proven),
        "bits_per_report": round(made.bits_per_report, 4),
    }
    if made.chain is not None:
        spent = total((Decimal(made.chain["spent"]), made.proven))
        facts["round"] = made.chain["round"]
        facts["chain_proven_so_far"] = float(spent)
        facts["chain_promised"] = float(made.chain["total"])
    return facts


def _parameters(given: tuple[str, ...]) -> dict[str, str]:
    parameters = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise PlanError("a parameter is given as --set NAME=VALUE")
        parameters[name.strip()] = value.strip()
    return parameters
