"""Conformance checks: what every channel and every plan must satisfy, ours and yours.

Each check takes a plan or a channel and returns nothing. It raises an ``AssertionError`` that says what
is wrong. ``check_mechanism`` runs all checks over a grid for a registered name. To check a mechanism of
your own, put it into ``REGISTRY`` first; put an encoding of your own into ``ENCODINGS`` and use
``check_encoding``. Only ``check_sampler``, ``check_simulation`` and ``check_reports`` use random draws;
all else is exact or linear algebra. These three need SciPy: ``keyveil[testing]``.

For clients of your own there are ``StandIn`` (a collector within the process), ``NOW`` (its time),
``REASONS`` (why it refuses), ``encode_binary`` (a binary batch), ``writing`` (a batch file) and
``canonical`` (the bytes that a plan's hash is taken of).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..channel import Channel
from ..foundation.lazy_names import loaded_later
from ..mechanisms.mechanism import CALIBRATIONS
from ..people.schema import Schema
from .encoding_checks import GRID, check_encoding
from .estimator_checks import check_covariance, check_decoder, ideal_tally
from .privacy_checks import REACHED, TIGHT, check_distances, check_limits, check_privacy, check_ratio
from .record_laws import crowd, example_plan, record_law, report_law, speaks_singly
from .sampler_checks import (
    ALPHA,
    FALSE_ALARM,
    HEAVY,
    MOST_TESTS,
    POOLED,
    check_counts,
    check_reports,
    check_sampler,
    check_simulation,
)
from .tally_checks import check_choices, check_support

if TYPE_CHECKING:
    from ..plan.plan_document import canonical as canonical
    from ..plan.report_file import writing as writing
    from ..service.client.stand_in import NOW as NOW
    from ..service.client.stand_in import StandIn as StandIn
    from ..service.collector.http.batches import encode_binary as encode_binary
    from ..service.collector.process.problems import REASONS as REASONS

_FOR_CLIENTS = {
    "NOW": "service.client.stand_in",
    "REASONS": "service.collector.process.problems",
    "StandIn": "service.client.stand_in",
    "canonical": "plan.plan_document",
    "encode_binary": "service.collector.http.batches",
    "writing": "plan.report_file",
}
"""Names for those who write a client of their own, and their modules."""

__getattr__ = loaded_later(__name__, _FOR_CLIENTS, below="keyveil")


EPSILONS = ("0.01", "0.1", "0.5", "1", "3", "5", "10")
"""The promised epsilons that ``check_mechanism`` tests."""


def check_mechanism(name: str, draws: int = 20_000, seed: int = 0) -> None:
    """All checks at every epsilon and calibration, for two and three keys; draws at epsilon 1 only."""
    for keys in (2, 3):
        schema = Schema.of(keys, 1, 5)
        for calibrate in CALIBRATIONS:
            for epsilon in EPSILONS:
                plan = example_plan(schema, name, epsilon, calibrate)
                check_privacy(plan)
                check_decoder(plan)
                check_covariance(plan)
                check_support(plan)
            plan = example_plan(schema, name, 1, calibrate)
            check_encoding(plan)
            for channel in plan.channels:
                check_channel(channel, draws, seed)
            for record in ({}, {"0": 2.2}, {"0": 5, "1": 1.5}):
                check_reports(plan, record, draws, seed)


def check_channel(channel: Channel, draws: int = 20_000, seed: int | str = 0) -> None:
    """All checks of the methods of a shape, on one small channel of that shape."""
    law = channel.output_law()
    if law is not None:
        check_ratio(law, channel.proof())
    check_distances(channel)
    check_limits(channel)
    check_choices(channel)
    check_sampler(channel, draws, seed)
    check_simulation(channel, draws, seed)


__all__ = [
    "ALPHA",
    "EPSILONS",
    "FALSE_ALARM",
    "GRID",
    "HEAVY",
    "MOST_TESTS",
    "NOW",
    "POOLED",
    "REACHED",
    "REASONS",
    "TIGHT",
    "StandIn",
    "canonical",
    "check_channel",
    "check_choices",
    "check_counts",
    "check_covariance",
    "check_decoder",
    "check_distances",
    "check_encoding",
    "check_limits",
    "check_mechanism",
    "check_privacy",
    "check_reports",
    "check_sampler",
    "check_simulation",
    "check_support",
    "crowd",
    "encode_binary",
    "example_plan",
    "ideal_tally",
    "record_law",
    "report_law",
    "speaks_singly",
    "writing",
]
