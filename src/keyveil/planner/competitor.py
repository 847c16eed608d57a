"""Names of competitors: a mechanism with its parameters as one word, like ``graded:levels=5``."""

from __future__ import annotations

from typing import Any

from ..people.scale import ExactScale
from ..plan.plan import Plan
from ..plan.registry import parse_mechanism as parse_competitor
from .padding import NAMES as PADDING_NAMES


def competitor_name(plan: Plan, scale: ExactScale | None = None) -> str:
    """The mechanism with its stated parameters; a cap or padding length is always stated.

    Values and spreads are on ``scale``, by default that of the plan's values. ``parse_competitor`` reads
    the name back.
    """
    stated = stated_parameters(plan)
    shown = plan.parameters_on_scale if scale is None else plan.mechanism.shown(plan.parameters, scale)
    if plan.parts is not None:
        return f"{plan.mechanism_name}:{shown['parts']}"
    words = "+".join(
        f"{name}={value}" for name, value in shown.items() if name in stated or name in PADDING_NAMES
    )
    return f"{plan.mechanism_name}:{words}" if words else plan.mechanism_name


def stated_parameters(plan: Plan) -> dict[str, Any]:
    """The parameters of a plan that are not at their default, on the scale of its values."""
    known = plan.mechanism.parameters
    shown = plan.parameters_on_scale
    return {
        name: shown[name]
        for name, value in plan.parameters.items()
        if str(value) != str(known[name].default)
    }


__all__ = ["competitor_name", "parse_competitor", "stated_parameters"]
