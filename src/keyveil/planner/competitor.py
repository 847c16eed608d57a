"""Names of competitors: a mechanism with its parameters as one word, like ``graded:levels=5``."""

from __future__ import annotations

from typing import Any

from ..plan.plan import Plan
from ..plan.registry import parse_mechanism as parse_competitor
from .padding import NAMES as PADDING_NAMES


def competitor_name(plan: Plan) -> str:
    """The mechanism with its stated parameters; a cap or padding length is always stated.

    ``parse_competitor`` reads the name back.
    """
    if plan.parts is not None:
        return f"{plan.mechanism_name}:{plan.parameters['parts']}"
    stated = stated_parameters(plan)
    shown = {
        name: value for name, value in plan.parameters.items() if name in stated or name in PADDING_NAMES
    }
    words = "+".join(f"{name}={value}" for name, value in shown.items())
    return f"{plan.mechanism_name}:{words}" if words else plan.mechanism_name


def stated_parameters(plan: Plan) -> dict[str, Any]:
    """The parameters of a plan that are not at their default."""
    known = plan.mechanism.parameters
    return {
        name: value for name, value in plan.parameters.items() if str(value) != str(known[name].default)
    }


__all__ = ["competitor_name", "parse_competitor", "stated_parameters"]
