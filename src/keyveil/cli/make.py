"""``keyveil mechanisms``, ``plan`` and ``audit``: before anyone has answered."""

from __future__ import annotations

import csv
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..audit import audit as audit_plan
from ..errors import KeyveilError, PlanError, SchemaError
from ..exact import decimal, text
from ..mechanism import CALIBRATIONS
from ..mechanisms import REGISTRY
from ..plan import Plan
from ..schema import Schema
from ..tally import Tally
from .show import as_json, counted, print_json, print_table

if TYPE_CHECKING:
    from ..planner import Advice

MANY_KEYS = 100
MOST = 10**15
"""People, or keys, beyond which no one means it."""


@click.command()
@click.option("--keys", default=MANY_KEYS, show_default=True, help="Keys to count the bits for.")
@as_json
def mechanisms(keys: int, machine: bool) -> None:
    """List the mechanisms, what they speak of and what they really cost."""
    rows: list[dict[str, Any]] = []
    for name, kind in REGISTRY.items():
        used = max(min(keys, kind.most_keys), kind.fewest_keys)
        schema = Schema.of(used)
        plan = Plan.of(schema, name, 1, **kind.example(schema))
        rows.append(
            {
                "name": name,
                "source": kind.source,
                "speaks_of": kind.speaks_of,
                "answers": list(kind.answers),
                "true_epsilon_at_1": float(kind.true_epsilon(Decimal(1))),
                "bits_per_report": round(plan.bits_per_report, 4),
                "bits_formula": kind.bits,
                "bits_for_keys": used,
                "estimators": list(kind.estimators),
                "parameters": {n: p.default for n, p in kind.parameters.items()},
                "note": kind.note,
            }
        )
    if machine:
        print_json(rows)
        return
    print_table(
        [
            "name",
            "answers",
            "true epsilon at 1",
            f"bits at {counted(keys, 'key')}",
            "one report speaks of",
        ],
        [
            [
                row["name"],
                ", ".join(row["answers"]),
                f"{row['true_epsilon_at_1']:.4f}",
                f"{row['bits_per_report']:.2f}"
                + (f" (at {row['bits_for_keys']})" if row["bits_for_keys"] != keys else ""),
                row["speaks_of"],
            ]
            for row in rows
        ],
    )


@click.command()
@click.option("--keys", help="A file (one key a line, or CSV key,low,high), or how many: 0, 1, ...")
@click.option("--range", "ends", default="-1,1", show_default=True, help="LOW,HIGH of the values.")
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
@click.option("--mean", help="With --people: where values lie on average, on [-1, 1].")
@click.option("--spread", help="With --people: the standard deviation of values on [-1, 1], at most 1.")
@click.option(
    "--explain",
    is_flag=True,
    help="With --people: what to expect, for auto with the table of options, on standard output; the "
    "plan is written with -o.",
)
@click.option(
    "--plot", type=click.Path(), help="For auto: draw the error against epsilon and against people."
)
@click.option("--force", is_flag=True, help="For auto: make the best plan even if it cannot answer.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="Where to write the plan.  [default: standard output, unless --json or --explain is there]",
)
@as_json
@click.pass_context
def plan(
    context: click.Context,
    keys: str | None,
    ends: str,
    epsilon: str | None,
    mechanism: str | None,
    calibrate: str | None,
    given: tuple[str, ...],
    chain: tuple[str, str] | None,
    people: str | None,
    ask: str | None,
    held: str | None,
    mean: str | None,
    spread: str | None,
    explain: bool,
    plot: str | None,
    force: bool,
    output: str | None,
    machine: bool,
) -> None:
    """Make the public contract: keys, mechanism, and integers that prove epsilon."""
    _check_together(context, chain is not None, mechanism == "auto", people is not None)
    count = None if people is None else read_count(people, "--people")
    advice, expected = None, None
    facts: dict[str, Any] = {}
    if chain:
        before = Plan.load(chain[0])
        made = before.next(Tally.load(before, chain[1]))
    else:
        schema = read_schema(str(keys), ends)
        if mechanism == "auto":
            advice = _advice(schema, str(epsilon), count, ask or "both", (held, mean, spread))
            _show_advice(advice, explain, plot, output, force, machine)
            made = advice.plan
            facts["advice"] = advice.document()
        else:
            made = Plan.of(
                schema, str(mechanism), str(epsilon), calibrate or "paper", **_parameters(given)
            )
    if advice is None and count is not None:
        expected = _expected(made, count, (held, mean, spread))
        facts |= expected.facts
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
            f"{output}: {made.mechanism}, {counted(len(made.schema.keys), 'key')}, "
            f"promises epsilon {text(made.promised)}, "
            f"proves {made.proven:.9f}, {made.bits_per_report:.2f} bits a report"
        )
    elif explain:
        click.echo("no plan was written: -o FILE writes it", err=True)
    else:
        click.echo(made.dumps())


PRIOR = {"held", "mean", "spread"}
ONLY_AUTO = {"ask", "plot", "force"}
OF_A_CHAIN = (
    {"keys", "ends", "epsilon", "mechanism", "calibrate", "given", "explain"} | PRIOR | ONLY_AUTO
)


def _check_together(context: click.Context, chain: bool, auto: bool, people: bool) -> None:
    """Options that are missing, or that would be ignored beside the others: refuse, never ignore."""
    names = {option.name: option.opts[-1] for option in context.command.params}
    used = {
        str(name): str(names[name])
        for name in names
        if context.get_parameter_source(str(name)) is click.core.ParameterSource.COMMANDLINE
    }
    if chain:
        _refuse(used, OF_A_CHAIN, "the next round takes this from PLAN")
        return
    missing = [names[name] for name in ("keys", "epsilon", "mechanism") if name not in used]
    if missing:
        raise click.UsageError(f"plan needs {', '.join(missing)} (or --next PLAN TALLY)")
    if not auto:
        _refuse(used, ONLY_AUTO, "only for --mechanism auto")
        if not people:
            _refuse(used, PRIOR | {"explain"}, "only with --people")
        return
    if not people:
        raise click.UsageError("--mechanism auto needs --people: how many will answer")
    if "given" in used:
        raise PlanError("--set is for a mechanism that you name; auto sets the parameters itself")
    if context.params["calibrate"] == "paper":
        raise PlanError(
            "--calibrate paper is for a mechanism that you name; auto makes all tight, to compare them "
            "at equal true epsilon"
        )


def _refuse(used: dict[str, str], names: set[str], why: str) -> None:
    wrong = [option for name, option in used.items() if name in names]
    if wrong:
        raise click.UsageError(f"{', '.join(wrong)}: {why}")


def _advice(
    schema: Schema,
    epsilon: str,
    people: int | None,
    ask: str,
    believed: tuple[str | None, str | None, str | None],
) -> Advice:
    from .choose import advice_for, prior_of

    assert people is not None
    return advice_for(schema, epsilon, people, ask, prior_of(len(schema.keys), *believed))


def _show_advice(
    advice: Advice, explain: bool, plot: str | None, output: str | None, force: bool, machine: bool
) -> None:
    """Why this plan, in a line, a table or a picture; a refusal leaves after these."""
    from .choose import explain as explained
    from .choose import picture, refusal

    refused = not advice.answers and not force
    if plot:
        picture(advice, advice.plan.schema, plot)
    if machine:
        if refused:
            print_json({**advice.document(), "chosen": None})
    elif explain:
        explained(advice)
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
    from ..outlook import outlook
    from .choose import expectation, prior_of
    from .choose import expected as single

    try:
        foreseen = outlook(made, people)
    except KeyveilError:
        foreseen = None  # its views hold several keys, but not to be asked together
    if foreseen is not None:
        return _Expected(str(foreseen), foreseen.answers, {"outlook": foreseen.document()})
    try:
        facts = single(made, people, prior_of(len(made.schema.keys), *believed))
    except KeyveilError as error:
        return _Expected(f"nothing is said of what to expect: {error}", True, {"expected": None})
    return _Expected(expectation(facts), True, {"expected": facts})


def _explain_named(
    made: Plan, said: str, people: int | None, believed: tuple[str | None, str | None, str | None]
) -> None:
    from .choose import explain_plan, prior_of

    assert people is not None
    explain_plan(made, said, people, prior_of(len(made.schema.keys), *believed))


def _facts(made: Plan) -> dict[str, Any]:
    facts = {
        "hash": made.hash,
        "mechanism": made.mechanism,
        "calibrate": made.calibrate,
        "parameters": dict(made.parameters),
        "keys": len(made.schema.keys),
        "promised": float(made.promised),
        "proven": float(made.proven),
        "bits_per_report": round(made.bits_per_report, 4),
    }
    if made.chain is not None:
        spent = Decimal(made.chain["spent"]) + made.proven
        facts["round"] = made.chain["round"]
        facts["chain_proven_so_far"] = float(spent)
        facts["chain_promised"] = float(made.chain["total"])
    return facts


def read_schema(keys: str, ends: str) -> Schema:
    """Keys from a file or a number, with one range or one for each."""
    low, high = read_range(ends)
    if _is_number(keys):
        return Schema.of(read_count(keys, "the number of keys"), low, high)
    path = Path(keys)
    try:
        content = path.read_text("utf-8-sig")
    except OSError as error:
        raise SchemaError(f"cannot read the keys {keys}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SchemaError(f"the keys {keys} are not UTF-8 text") from None
    if path.suffix.lower() != ".csv":
        names = [line.strip() for line in content.splitlines() if line.strip()]
        return Schema.of(names, low, high)
    rows = list(csv.DictReader(content.splitlines()))
    if not rows or "key" not in rows[0]:
        raise SchemaError(f"the CSV {keys} needs a first line key,low,high and a line for each key")
    ranges = {}
    for row in rows:
        one, two = (row.get("low") or "").strip(), (row.get("high") or "").strip()
        if bool(one) != bool(two):
            raise SchemaError(f"a key of {keys} has only one end of its range; give low and high")
        if one:
            ranges[(row["key"] or "").strip()] = (one, two)
    return Schema.of([(row["key"] or "").strip() for row in rows], low, high, ranges=ranges)


def _is_number(words: str) -> bool:
    try:
        return isfinite(float(words))
    except ValueError:
        return False


def read_range(ends: str) -> tuple[Decimal, Decimal]:
    """LOW,HIGH as two decimals."""
    parts = ends.split(",")
    if len(parts) != 2:
        raise PlanError("a range is LOW,HIGH, like --range 1,5")
    return decimal(parts[0].strip(), "LOW"), decimal(parts[1].strip(), "HIGH")


def read_count(words: str, name: str) -> int:
    """A whole number of at least 1, as it is or like 1e6."""
    wrong = f"{name} must be a whole number of at least 1 and at most 1e15, like 100000 or 1e6"
    try:
        number = decimal(words, name)
    except PlanError:
        raise PlanError(wrong) from None
    if not 1 <= number <= MOST or number != int(number):
        raise PlanError(wrong)
    return int(number)


def _parameters(given: tuple[str, ...]) -> dict[str, str]:
    parameters = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise PlanError("a parameter is given as --set NAME=VALUE")
        parameters[name.strip()] = value.strip()
    return parameters


@click.command()
@click.argument("path", metavar="PLAN", type=click.Path())
@as_json
def audit(path: str, machine: bool) -> int:
    """Prove a plan's epsilon again from its integers, without trusting it."""
    try:
        found = audit_plan(Path(path).read_bytes())
    except OSError as error:
        raise PlanError(f"cannot read the plan {path}: {error.strerror}") from None
    if machine:
        print_json(
            {
                "sound": found.sound,
                "promised": None if found.promised is None else float(found.promised),
                "proven": None if found.proven is None else float(found.proven),
                "proven_exactly": None if found.proven is None else text(found.proven),
                "worst": None
                if found.worst is None
                else {
                    "states": list(found.worst.states),
                    "output": found.worst.output,
                    "ratio": [found.worst.numerator, found.worst.denominator],
                },
                "chain": _chain(found.plan),
                "findings": list(found.findings),
            }
        )
    else:
        if found.promised is not None and found.proven is not None:
            click.echo(f"promised  {text(found.promised)}")
            click.echo(f"proven    {text(found.proven)}")
        if found.worst is not None:
            click.echo(f"worst     {found.worst}")
        for name, value in (_chain(found.plan) or {}).items():
            click.echo(f"chain     {name.replace('_', ' ')}: {value}")
        for finding in found.findings:
            click.echo(f"broken    {finding}")
        click.echo("sound" if found.sound else "NOT sound: do not answer this plan")
    return 0 if found.sound else 4


def _chain(plan: Plan | None) -> dict[str, Any] | None:
    if plan is None or plan.chain is None:
        return None
    spent = Decimal(plan.chain["spent"])
    return {
        "round": plan.chain["round"],
        "promised_in_all": float(plan.chain["total"]),
        "proven_if_one_person_answers_every_round_so_far": float(spent + plan.proven),
    }
