"""``keyveil mechanisms`` and ``audit``: the known mechanisms, and the proof of a plan."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import click

from ..estimate.decoding import decoding_of
from ..foundation.errors import PlanError
from ..foundation.exact import text, total
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
                "estimators": list(decoding_of(plan).estimators),
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
@click.argument("path", metavar="PLAN", type=click.Path())
@as_json
def audit(path: str, machine: bool) -> int:
    """Prove a plan's epsilon again from its integers, without trusting it."""
    content = read_plan(path)
    if content.strip() and (what := named_content(content)) not in (None, "a plan"):
        raise PlanError(f"{path}: this is {what}, not a plan")
    result = audit_plan(content)
    if machine:
        print_json(
            {
                "sound": result.sound,
                "promised": None if result.promised is None else float(result.promised),
                "proven": None if result.proven is None else float(result.proven),
                "proven_exactly": None if result.proven is None else text(result.proven),
                "worst": None
                if result.worst is None
                else {
                    "states": list(result.worst.states),
                    "output": result.worst.output,
                    "ratio": [result.worst.numerator, result.worst.denominator],
                },
                "chain": _chain(result.plan),
                "findings": list(result.findings),
            }
        )
    else:
        if result.promised is not None and result.proven is not None:
            click.echo(f"promised  {text(result.promised)}")
            click.echo(f"proven    {text(result.proven)}")
        if result.worst is not None:
            click.echo(f"worst     {result.worst}")
        for name, value in (_chain(result.plan) or {}).items():
            click.echo(f"chain     {name.replace('_', ' ')}: {value}")
        for finding in result.findings:
            click.echo(f"broken    {finding}")
        click.echo("sound" if result.sound else "NOT sound: do not answer this plan")
    return 0 if result.sound else 4


def _chain(plan: Plan | None) -> dict[str, Any] | None:
    if plan is None or plan.chain is None:
        return None
    spent = total((Decimal(plan.chain["spent"]), plan.proven))
    return {
        "round": plan.chain["round"],
        "promised_in_all": float(plan.chain["total"]),
        "proven_if_one_person_answers_every_round_so_far": float(spent),
    }
