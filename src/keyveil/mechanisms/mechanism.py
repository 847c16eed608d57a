"""Mechanism: a named family of channels. One file, one line in the registry."""

from __future__ import annotations

from ..estimate.decoding import Decoding, Estimator, NamedEstimators
from ..plan.recipe import (
    CALIBRATIONS,
    Choice,
    Draft,
    Parameter,
    Recipe,
    Text,
    fitted,
    largest,
    with_parameters,
)


class Mechanism(Recipe, Decoding):
    """A subclass has its facts as attributes, drafts plans and names its estimators."""


__all__ = [
    "CALIBRATIONS",
    "Choice",
    "Draft",
    "Estimator",
    "Mechanism",
    "NamedEstimators",
    "Parameter",
    "Text",
    "fitted",
    "largest",
    "with_parameters",
]
