"""Files of a pilot: what it tells ``keyveil plan --pilot``, its sizes for ``keyveil estimate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..foundation.errors import PlanError
from ..foundation.exact import decimal, epsilon_of, text
from ..foundation.files import named
from ..people.schema import Schema
from ..plan.plan import Plan
from ..plan.tally import Tally
from ..planner.beliefs import Beliefs
from ..planner.pilot import bucket_shares, check_pilot, pilot_beliefs
from .arguments import read_range, read_schema
from .output import print_json, print_table


def taken_from(
    paths: tuple[str, str],
    keys: str | None,
    ends: str | None,
    epsilon: str | None,
    mean: str | None,
    spread: str | None,
) -> tuple[Schema, str, Beliefs]:
    """The schema, the epsilon and what the pilot leaves possible; by default those of the pilot.

    Other keys or ranges than the pilot's are refused. Another epsilon is allowed, with a note, because
    everyone answers only one of the two plans.
    """
    pilot = _plan_first(paths)
    with named(paths[0]):
        check_pilot(pilot)
    given: dict[str, Any] = {
        name: float(decimal(value, f"--{name}"))
        for name, value in (("mean", mean), ("spread", spread))
        if value is not None
    }
    beliefs = pilot_beliefs(pilot, Tally.load(pilot, paths[1]), **given)
    schema = pilot.schema
    own = ",".join(text(end) for end in schema.ranges[0])
    if keys is not None:
        asked = read_schema(keys, ends or own, [])
        if asked.keys != schema.keys:
            raise PlanError("--keys are not the pilot's; leave --keys out to take them from its plan")
        if asked.ranges != schema.ranges:
            raise PlanError("ranges are not the pilot's; leave them out to take them from its plan")
    elif ends is not None and set(schema.ranges) != {read_range(ends)}:
        raise PlanError("--range is not the pilot's; leave --range out to take it from its plan")
    if epsilon is not None and epsilon_of(epsilon) != pilot.promised:
        click.echo(
            f"the pilot promised epsilon {text(pilot.promised)}, this plan promises "
            f"{text(epsilon_of(epsilon))}: each person spends that of the one plan they answer",
            err=True,
        )
    return schema, epsilon or text(pilot.promised), beliefs


def _plan_first(paths: tuple[str, str]) -> Plan:
    """The plan of a pair of files; an error says if the files are in the wrong order."""
    try:
        return Plan.load(paths[0])
    except PlanError as error:
        if not Path(paths[0]).is_file():
            raise
        first = "--pilot takes the pilot's plan first, then its tally"
        try:
            Plan.load(paths[1])
        except PlanError:
            raise PlanError(f"{error} ({first})") from None
        raise PlanError(f"{paths[0]} is no plan, and {paths[1]} is one: {first}") from None


def show_sizes(paths: tuple[str, str], pilot: Plan, level: float, machine: bool) -> None:
    """Print how many keys people hold, from a pilot's tally, and the next command."""
    shares = bucket_shares(pilot, Tally.load(pilot, paths[1]), level)
    next_ = f"keyveil plan --mechanism auto --people N --pilot {paths[0]} {paths[1]}"
    note = f"a pilot tells only how many keys are held; to ask about keys, plan for the others: {next_}"
    if machine:
        facts = {"mechanism": pilot.mechanism_name, "level": level, "note": note}
        print_json([{**bucket.document(), **facts} for bucket in shares])
        return
    print_table(
        ["keys held", "share of people", "± stderr", f"{level:.0%} interval"],
        [
            [
                str(bucket.least) if bucket.least == bucket.most else f"{bucket.least} to {bucket.most}",
                f"{bucket.share.value:.4f}",
                f"{bucket.share.stderr:.4f}",
                f"[{bucket.share.low:.4f}, {bucket.share.high:.4f}]",
            ]
            for bucket in shares
        ],
    )
    click.echo(f"note: {note}")
