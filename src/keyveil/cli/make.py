"""``keyveil mechanisms``, ``plan`` and ``audit``: before anyone has answered."""

from __future__ import annotations

import csv
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..audit import audit as audit_plan
from ..errors import PlanError, SchemaError
from ..exact import decimal, text
from ..mechanism import CALIBRATIONS
from ..mechanisms import REGISTRY
from ..plan import Plan
from ..schema import Schema
from ..tally import Tally
from .show import as_json, print_json, print_table

if TYPE_CHECKING:
    from ..planner import Advice

MANY_KEYS = 100


@click.command()
@click.option("--keys", default=MANY_KEYS, show_default=True, help="Keys to count the bits for.")
@as_json
def mechanisms(keys: int, machine: bool) -> None:
    """List the mechanisms, what they speak of and what they really cost."""
    rows: list[dict[str, Any]] = []
    for name, kind in REGISTRY.items():
        counted = max(min(keys, kind.most_keys), kind.fewest_keys)
        schema = Schema.of(counted)
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
                "bits_for_keys": counted,
                "estimators": list(kind.estimators),
                "parameters": {n: p.default for n, p in kind.parameters.items()},
                "note": kind.note,
            }
        )
    if machine:
        print_json(rows)
        return
    print_table(
        ["name", "answers", "true epsilon at 1", f"bits at {keys} keys", "one report speaks of"],
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
    help="One of: " + ", ".join(REGISTRY) + "; or auto, the one with the least predicted error.",
)
@click.option(
    "--calibrate",
    type=click.Choice(CALIBRATIONS),
    default="paper",
    show_default=True,
    help="As published, or the largest parameters that keep the promise.",
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
@click.option("--people", help="How many people will answer, like 1e5: says what to expect.")
@click.option(
    "--ask",
    default="both",
    show_default=True,
    help="For auto: both, frequency, mean, conditional, or queries with ; between them.",
)
@click.option("--held", help="For auto: how many keys a person holds on average.")
@click.option("--mean", help="For auto: where values lie on average, on [-1, 1].")
@click.option("--spread", help="For auto: the standard deviation of values on [-1, 1].")
@click.option("--explain", is_flag=True, help="For auto: the table of options, and why.")
@click.option("--plot", type=click.Path(), help="For auto: error against epsilon and people.")
@click.option("--force", is_flag=True, help="For auto: make the best plan even if it cannot answer.")
@click.option("-o", "--output", type=click.Path(), help="Where to write the plan.")
@as_json
def plan(
    keys: str | None,
    ends: str,
    epsilon: str | None,
    mechanism: str | None,
    calibrate: str,
    given: tuple[str, ...],
    chain: tuple[str, str] | None,
    people: str | None,
    ask: str,
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
    advice = None
    if chain:
        before = Plan.load(chain[0])
        made = before.next(Tally.load(before, chain[1]))
    else:
        missing = [
            name
            for name, value in (("--keys", keys), ("--epsilon", epsilon), ("--mechanism", mechanism))
            if value is None
        ]
        if missing:
            raise click.UsageError(f"plan needs {', '.join(missing)} (or --next PLAN TALLY)")
        schema = read_schema(str(keys), ends)
        if mechanism == "auto":
            advice = _advice(schema, str(epsilon), people, ask, (held, mean, spread), given, force)
            made = advice.plan
        else:
            made = Plan.of(schema, str(mechanism), str(epsilon), calibrate, **_parameters(given))
    if advice is None and (explain or plot):
        raise click.UsageError("--explain and --plot are for --mechanism auto")
    expected = None
    if advice is not None:
        from .choose import explain as explained
        from .choose import picture

        if plot:
            picture(advice, made.schema, plot)
        if explain and not machine:
            explained(advice)
        elif not machine:
            click.echo(str(advice), err=not output)
    elif people is not None:
        from ..outlook import outlook

        expected = outlook(made, read_count(people, "people"))
    if output:
        made.save(output)
    if expected is not None and not machine:
        click.echo(str(expected), err=not expected.answers)
    if machine:
        facts = {**_facts(made), "outlook": None if expected is None else expected.document()}
        print_json(facts if advice is None else {**facts, "advice": advice.document()})
    elif output:
        facts = _facts(made)
        click.echo(
            f"{output}: {made.mechanism}, {facts['keys']} keys, promises epsilon {text(made.promised)}, "
            f"proves {made.proven:.9f}, {made.bits_per_report:.2f} bits a report"
        )
    elif not explain:
        click.echo(made.dumps())


def _advice(
    schema: Schema,
    epsilon: str,
    people: str | None,
    ask: str,
    believed: tuple[str | None, str | None, str | None],
    given: tuple[str, ...],
    force: bool,
) -> Advice:
    from .choose import advice_for, prior_of

    if people is None:
        raise click.UsageError("--mechanism auto needs --people: how many will answer")
    if given:
        raise PlanError("--set is for a mechanism that you name; auto sets the parameters itself")
    prior = prior_of(len(schema.keys), *believed)
    return advice_for(schema, epsilon, read_count(people, "people"), ask, prior, force)


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
    number = decimal(words, name)
    if number < 1 or number != int(number):
        raise PlanError(f"{name} must be a whole number of at least 1, like 100000 or 1e6")
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
