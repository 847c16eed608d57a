"""``keyveil plan --pilot``: what a pilot's plan and tally say for the plan that follows."""

from __future__ import annotations

from typing import Any

import click

from ..errors import PlanError
from ..exact import decimal, epsilon_of, text
from ..pilot import check_pilot, pilot_prior
from ..plan import Plan
from ..prior import Prior
from ..schema import Schema
from ..tally import Tally
from .read import read_range, read_schema


def taken_from(
    paths: tuple[str, str],
    keys: str | None,
    ends: str | None,
    epsilon: str | None,
    mean: str | None,
    spread: str | None,
) -> tuple[Schema, str, Prior]:
    """Schema, epsilon and prior: the pilot's own where nothing else is said.

    Other keys or ranges than the pilot's are refused. Another epsilon is not: everyone answers one plan
    and spends that plan's; it is said in a line.
    """
    pilot = Plan.load(paths[0])
    check_pilot(pilot)
    given: dict[str, Any] = {
        name: float(decimal(value, f"--{name}"))
        for name, value in (("mean", mean), ("spread", spread))
        if value is not None
    }
    prior = pilot_prior(pilot, Tally.load(pilot, paths[1]), **given)
    schema = pilot.schema
    own = ",".join(text(end) for end in schema.ranges[0])
    if keys is not None:
        asked = read_schema(keys, ends or own)
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
    return schema, epsilon or text(pilot.promised), prior
