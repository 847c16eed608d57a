"""What plans and tallies say of themselves: a few facts in a table, and their content as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..foundation.exact import text
from ..foundation.result_table import ResultTable

if TYPE_CHECKING:
    from .plan import Plan
    from .tally import Tally

FEW = 4
"""Number of keys that a description names."""


def plan_facts(plan: Plan) -> ResultTable:
    """What a plan promises, a fact in each row."""
    names = ", ".join(plan.schema.keys[:FEW])
    more = len(plan.schema.keys) - FEW
    ends = plan.schema.shared_range
    span = "each key has its own" if ends is None else f"{text(ends[0])} to {text(ends[1])}"
    facts = {
        "mechanism": plan.mechanism_name,
        "keys": f"{len(plan.schema.keys):,}: {names}" + (f" and {more:,} more" if more > 0 else ""),
        "range of values": span,
        "epsilon": f"{text(plan.promised)} promised, {float(plan.proven):.6g} proven",
        "a report": f"{plan.bits_per_report:.1f} bits; {plan.mechanism.speaks_of}",
        "hash": plan.hash[:12],
    }
    return ResultTable(("plan", ""), tuple(facts.items()))


def plan_columns(plan: Plan) -> dict[str, list[Any]]:
    """The keys of a plan, their ranges, and the share of reports that speak of each."""
    schema, shares = plan.schema, np.zeros(len(plan.schema.keys))
    for view, share in zip(plan.views.keys, plan.views.shares.tolist(), strict=True):
        shares[list(view)] += share
    return {
        "key": list(schema.keys),
        "low": schema.low.tolist(),
        "high": schema.high.tolist(),
        "share_of_reports": np.minimum(shares, 1.0).tolist(),
    }


def tally_facts(tally: Tally) -> ResultTable:
    """How many reports a tally has, and of which plan."""
    plan = tally.plan
    facts = {
        "reports": f"{tally.reports:,}",
        "cells": f"{len(tally.counts):,}",
        "plan": f"{plan.mechanism_name}, {len(plan.schema.keys):,} keys, epsilon {text(plan.promised)}",
        "hash": plan.hash[:12],
    }
    return ResultTable(("tally", ""), tuple(facts.items()))


def tally_columns(tally: Tally) -> dict[str, list[Any]]:
    """The count of every cell: its view, the keys of the view, and the output, -1 for all reports."""
    plan, layout = tally.plan, tally.plan.layout
    names = [", ".join(plan.schema.keys[k] for k in keys[:FEW]) for keys in plan.views.keys]
    sizes = [1 + int(size) for size in layout.sizes]
    views = np.repeat(np.arange(len(sizes)), sizes).tolist()
    return {
        "view": views,
        "keys": [names[view] for view in views],
        "output": [output - 1 for size in sizes for output in range(size)],
        "count": tally.counts.tolist(),
    }
