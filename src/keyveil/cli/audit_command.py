"""``keyveil mechanisms`` and ``audit``: the known mechanisms, and the proof of a plan."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal, localcontext
from typing import Any

import click

from ..channel.proof import Proof, written_state
from ..foundation.errors import PlanError
from ..foundation.exact import rounded_up, text, total
from ..foundation.files import named_content
from ..mechanisms import REGISTRY
from ..people.schema import MOST_KEYS, Schema
from ..plan.audit import audit as audit_plan
from ..plan.plan import Plan
from .arguments import read_plan
from .output import as_json, counted, print_json, print_table, whole_number

MANY_KEYS = 100


@click.command()
@whole_number("--keys", "keys", 1, MANY_KEYS, "Keys to count the bits for.", most=MOST_KEYS)
@as_json
def mechanisms(keys: int, machine: bool) -> None:
    """List the mechanisms, their names in papers, and the true epsilon of each.

    The defaults in the JSON are for values from -1 to 1, the default --range of plan.
    """
    from ..estimate.decoding import decoding_of

    rows: list[dict[str, Any]] = []
    for name, kind in REGISTRY.items():
        used = max(min(keys, kind.most_keys), kind.fewest_keys)
        schema = Schema.of(used)
        plan = Plan.of(schema, name, 1, **kind.example(schema))
        rows.append(
            {
                "name": name,
                "paper_name": kind.paper_name or None,
                "source": kind.source,
                "speaks_of": kind.speaks_of,
                "answers": list(kind.answers),
                "true_epsilon_at_1": float(kind.true_epsilon(Decimal(1))),
                "bits_per_report": round(plan.bits_per_report, 4),
                "bits_formula": kind.bits,
                "bits_for_keys": used,
                "estimators": list(decoding_of(plan).estimators),
                "parameters": {n: p.default for n, p in kind.parameters.items()},
                "note": kind.note,
            }
        )
    if machine:
        print_json(rows)
        return
    bits, cells = f"bits at {counted(keys, 'key')}", []
    for row in rows:
        used = row["bits_for_keys"]
        size = f"{row['bits_per_report']:.2f}" + (f" (at {used})" if used != keys else "")
        epsilon, answers = f"{row['true_epsilon_at_1']:.3f}", ", ".join(row["answers"])
        cells.append([row["name"], row["paper_name"] or "", answers, epsilon, size, row["speaks_of"]])
    print_table(
        ["name", "in papers", "answers", "true epsilon at 1", bits, "one report speaks of"], cells
    )


@click.command()
@click.argument("path", metavar="PLAN", type=click.Path())
@as_json
def audit(path: str, machine: bool) -> int:
    """Prove a plan's epsilon again from its integers, without trusting it."""
    content = read_plan(path)
    if content.strip() and (what := named_content(content)) not in (None, "a plan"):
        raise PlanError(f"{path}: this is {what}, not a plan")
    if content.strip() and not content.lstrip().startswith(b"{"):
        raise PlanError(f"{path}: this is not a plan; keyveil plan makes one")
    result = audit_plan(content)
    promised, proven, worst = result.promised, result.proven, result.worst
    if machine:
        facts: dict[str, Any] = {
            "sound": result.sound,
            "promised": None if promised is None else float(promised),
            "proven": None if proven is None else float(proven),
            "proven_exactly": None if proven is None else text(proven),
            "worst": None,
            "chain": _chain(result.plan),
            "findings": list(result.findings),
        }
        if worst is not None:
            ratio = [worst.numerator, worst.denominator]
            facts["worst"] = {"states": list(worst.states), "output": worst.output, "ratio": ratio}
        print_json(facts)
    else:
        if promised is not None and proven is not None:
            click.echo(f"promised  {text(promised)}")
            click.echo(f"proven    {rounded_up(proven)} (rounded up; --json has all digits)")
        if worst is not None:
            click.echo(f"worst     {_in_words(worst)}")
            if (words := states_in_words(result.plan, worst.states)) is not None:
                click.echo(f"states    {words}")
        for name, value in (_chain(result.plan) or {}).items():
            click.echo(f"chain     {name.replace('_', ' ')}: {value}")
        for finding in result.findings:
            click.echo(f"broken    {finding}")
        click.echo("sound" if result.sound else "NOT sound: do not answer this plan")
    return 0 if result.sound else 4


def _in_words(worst: Proof) -> str:
    """The worst ratio in three digits, rounded up; ``--json`` has its two integers."""
    ratio = shown_ratio(worst.numerator, worst.denominator)
    likely, unlikely = map(written_state, worst.states)
    return (
        f"output {worst.output} is at most {ratio} times (e^{rounded_up(worst.epsilon)}) as likely "
        f"from state {likely} as from state {unlikely}"
    )


def shown_ratio(numerator: int, denominator: int) -> str:
    """A ratio of at least 1 for people: three digits, never less than it is."""
    with localcontext(Context(prec=3, rounding=ROUND_CEILING)):
        ratio = Decimal(numerator) / Decimal(denominator)
    return f"{ratio:,.2f}" if ratio < 10 else f"{ratio:,.1f}" if ratio < 100 else f"{ratio:,.0f}"


ORDINALS = ("first", "second", "third", "fourth")


def states_in_words(plan: Plan | None, states: tuple[int, int]) -> str | None:
    """What the two states of a proof say about the keys of a view; None if views differ in size."""
    if plan is None or plan.encode != "views" or len({len(view) for view in plan.views.keys}) != 1:
        return None
    keys, values = len(plan.views.keys[0]), plan.schema.levels + 1
    if keys > len(ORDINALS):
        return None
    return "; ".join(f"{state} is {_state_in_words(state, keys, values)}" for state in states)


def _state_in_words(state: int, keys: int, values: int) -> str:
    """The levels of a view's keys, whose digits a state's number has; the first key comes first."""
    levels = [state // values ** (keys - 1 - place) % values for place in range(keys)]
    if not any(levels):
        return "no key of the view held" if keys > 1 else "the key not held"
    names = {1: "a low value", 2: "a high value"} if values == 3 else {}
    held = [
        f"the {f'{ORDINALS[place]} ' if keys > 1 else ''}key held with "
        f"{names.get(level, f'level {level} of {values - 1}')}"
        for place, level in enumerate(levels)
        if level
    ]
    return " and ".join(held) + (", no other" if len(held) < keys else "")


def _chain(plan: Plan | None) -> dict[str, Any] | None:
    if plan is None or plan.chain is None:
        return None
    spent = total((Decimal(plan.chain["spent"]), plan.proven))
    return {
        "round": plan.chain["round"],
        "promised_in_all": float(plan.chain["total"]),
        "proven_if_one_person_answers_every_round_so_far": float(spent),
    }
