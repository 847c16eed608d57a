"""Files of a pilot: what it tells ``keyveil plan --pilot``, its sizes for ``keyveil estimate``."""

from __future__ import annotations

from pathlib import Path

import click

from ..foundation.errors import PlanError
from ..foundation.exact import epsilon_of, text
from ..foundation.files import named
from ..people.beliefs import Beliefs
from ..people.schema import Schema
from ..plan.plan import Plan
from ..plan.tally import Tally
from ..planner.pilot import bucket_shares, check_pilot, pilot_beliefs
from .arguments import Given, read_numbers, read_range, read_schema
from .output import STDERR_NOTE, figure, interval, print_json, print_table


def taken_from(options: Given) -> tuple[Schema, str, Beliefs]:
    """The schema, the epsilon and what the pilot leaves possible; by default those of the pilot.

    Other keys or ranges than the pilot's are refused. Another epsilon is allowed, with a note, because
    everyone answers only one of the two plans.
    """
    paths, keys, ends, epsilon = options.pilot, options.keys, options.ends, options.epsilon
    pilot = _plan_first(paths)
    with named(paths[0]):
        check_pilot(pilot)
    beliefs = pilot_beliefs(
        pilot, Tally.load(pilot, paths[1]), **read_numbers(options, "mean", "spread")
    )
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


def show_sizes(tally: Tally, level: float, machine: bool, files: str, title: str = "") -> None:
    """Print how many keys people hold, from a pilot's tally, and the next command.

    A share is shown within 0 and 1; as JSON it is the unbiased estimate, which may lie outside.
    """
    pilot = tally.plan
    shares = bucket_shares(pilot, tally, level)
    next_ = f"keyveil plan --mechanism auto --people N --pilot {files}"
    note = f"a pilot tells only how many keys are held; to ask about keys, plan for the others: {next_}"
    if machine:
        facts = {"mechanism": pilot.mechanism_name, "level": level, "note": note}
        print_json([{**bucket.document(), **facts} for bucket in shares])
        return
    rows = []
    for bucket in shares:
        least, most, share = bucket.least, bucket.most, bucket.share
        sizes = str(least) if least == most else f"{least} to {most}"
        value, low, high = (min(max(end, 0.0), 1.0) for end in (share.value, share.low, share.high))
        rows.append([sizes, figure(value), figure(share.stderr), interval(low, high)])
    print_table(["keys held", "share of people", "± stderr", f"{level:.0%} interval"], rows, title)
    click.echo(STDERR_NOTE)
    click.echo(f"note: {note}")
