"""The table of an advice: how errors and answers are written, for Python and the command."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import TYPE_CHECKING

from ..people.scale import Scale
from .options import Option

if TYPE_CHECKING:
    from .advice import Advice

HEADINGS = ("mechanism", "error", "frequency ±", "mean ±", "bits", "answers")
"""The columns of the table."""
COMPARED = {
    ("frequency", "mean"): "frequency and mean alike",
    ("frequency",): "the frequency",
    ("mean",): "the mean",
}
"""By the statistics that count: how the table describes the errors."""


def errors_compared(advice: Advice, few: bool) -> str:
    """What the column of errors measures."""
    if advice.ask == "conditional":
        return f"conditional {COMPARED[advice.counted].removeprefix('the ')}, as estimated"
    return COMPARED[advice.counted] + ("" if few else ", after shrinkage across keys")


def told_nothing(advice: Advice) -> bool:
    """Whether the advice is for beliefs none of which is likelier than another."""
    return advice.beliefs is not None and advice.beliefs.weights is None


def answer_cell(option: Option, advice: Advice) -> str:
    """Whether an option can answer, or under which beliefs, or the people it would need."""
    if option.people_factor <= 1:
        return "yes"
    if advice.beliefs is not None and min(option.people_factors) <= 1:
        return f"if they hold {advice.able(option)}"
    factor = advice.factor(option)
    if not isfinite(factor):
        return "no"
    return f"with {factor:.1f} times the people" if factor >= 1.1 else "with a few more people"


def relative_error(option: Option, advice: Advice) -> str:
    """The error over the first's; told nothing, the range of regrets over beliefs."""
    if told_nothing(advice):
        return f"{ratio_cell(min(option.regrets))} to {ratio_cell(max(option.regrets))}"
    best = advice.best
    return ratio_cell(option.score / best.score) if best.score > 0 else "-"


def ratio_cell(ratio: float) -> str:
    """A ratio with two decimals; a large one without."""
    return f"{ratio:.2f}" if ratio < 1000 else f"{ratio:,.0f}"


def option_cells(option: Option, advice: Advice) -> list[str]:
    return [
        option.name,
        relative_error(option, advice),
        f"{sqrt(option.frequency):.4f}",
        error_cell(sqrt(option.mean) * Scale.of(option.plan.schema).half),
        f"{option.plan.bits_per_report:.1f}",
        answer_cell(option, advice),
    ]


def error_cell(error: float) -> str:
    """An error in four digits; a dash if it is unknown."""
    if not isfinite(error):
        return "-"
    return f"{error:.4f}" if 0.001 <= error < 1000 else f"{error:.4g}"
