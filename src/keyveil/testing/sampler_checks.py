"""Checks by random draws: of channels, of simulated counts, and of whole reports."""

from __future__ import annotations

import numpy as np

from ..channel import Channel
from ..channel.law_arrays import as_laws
from ..foundation.arrays import Floats, Integers
from ..foundation.coins import Coins, address
from ..foundation.scipy_library import scipy
from ..foundation.stream import Stream
from ..people.schema import Record
from ..plan.plan import Plan
from ..plan.tally import Tally
from .assertions import evenly_spaced, output_counts, require
from .record_laws import crowd, report_law

FALSE_ALARM = 1e-9
"""The probability that a run of at most ``MOST_TESTS`` comparisons rejects correct samplers."""

MOST_TESTS = 10_000
"""Maximum number of comparisons in a run. Each gets an equal part of the false alarm (Bonferroni)."""

ALPHA = FALSE_ALARM / MOST_TESTS
"""The level of one comparison. Half goes to the exact binomial tails, half to chi-square."""

POOLED = 1000.0
"""Minimum expected count of a bin in chi-square."""

HEAVY = 10.0
"""Upper bound on the error factor of chi-square's tail at our level, with bins of ``POOLED`` draws.

With the usual bins of five draws it would be 10^5. Chi-square gets a tenth of its level to allow for it.
"""

_RUN = 1 << 14

DRAWN = "a check by random draws"
"""What needs SciPy, for the error where it is missing."""


def check_sampler(channel: Channel, draws: int = 20_000, seed: int | str = 0) -> None:
    """Check that each state's outputs follow the channel's row. False alarm: ``ALPHA`` per state."""
    laws = channel.expected() if channel.one_cell else None
    for state in evenly_spaced(channel.states, 64 if channel.one_cell else 16):
        drawn = drawn_outputs(channel, state, draws, f"sampler {seed} {state}")
        if laws is not None:
            check_counts(output_counts(drawn, channel.cells), laws[state], f"state {state}")
        else:
            law = channel.marginals(state)
            _check_tails(drawn.sum(axis=0, dtype=np.int64), draws, law, f"state {state}")
            if channel.positions_of(np.arange(1)) is not None:
                _check_pairs(channel, drawn, law, state)


def check_simulation(channel: Channel, draws: int = 20_000, seed: int | str = 0) -> None:
    """Check that simulated counts follow the channel's law for a mixture of states.

    Reports are simulated one by one and all at once. Each cell's count is binomial either way. Single
    reports are also compared with the whole law if it is written out. False alarm: three times
    ``ALPHA``.
    """
    generator = Coins.stated(f"simulation {seed}").generator()
    states = as_laws(np.arange(1.0, channel.states + 1))
    single = channel.draw_counts(np.tile(states, (draws, 1)), np.ones(draws, np.int64), generator)
    together = channel.draw_counts(states, np.array(draws), generator)
    chances = np.clip(channel.mix(states)[: channel.cells], 0.0, 1.0)
    _check_tails(together, draws, chances, "simulated together")
    _check_tails(single.sum(axis=0), draws, chances, "simulated one by one")
    if channel.one_cell:
        require(bool((single.sum(axis=1) == 1).all()), "a report marks more or less than one cell")
        return
    rows = single.astype(np.uint8)
    require(bool((rows == single).all() and channel.admits_rows(rows).all()), "no device marks these")
    law, marks = channel.output_law(), channel.output_marks
    if law is not None:
        outputs = {row.tobytes(): number for number, row in enumerate(marks()[:, :-1].astype(np.uint8))}
        drawn = np.array([outputs[row.tobytes()] for row in rows])
        check_counts(output_counts(drawn, law.shape[1]), states @ law, "simulated outputs")


def drawn_outputs(channel: Channel, state: int, draws: int, key: str) -> np.ndarray:
    """The outputs of ``draws`` people in one state, drawn in small runs."""
    row = channel.in_draw_form(np.array([state]))
    coins, parts = Coins.stated(key), []
    for first in range(0, draws, _RUN):
        people = np.arange(first, min(first + _RUN, draws))
        states = np.repeat(row, len(people), axis=0)
        parts.append(channel.draw(states, Stream(coins, address(people))))
    return np.concatenate(parts)


def _check_pairs(channel: Channel, drawn: np.ndarray, law: Floats, state: int) -> None:
    """Check that adjacent positions are independent: the rate of both marks is a product."""
    step = channel.choices().marks
    both = (drawn[:, :-step] & drawn[:, step:]).sum(axis=0, dtype=np.int64)
    _check_tails(both, len(drawn), law[:-step] * law[step:], f"neighbours, state {state}")


def check_counts(seen: Integers, law: Floats, what: str = "the sampler") -> None:
    """Check that counts of independent draws follow a law; false alarm: ``ALPHA``.

    Nothing may lie outside the support. Each output is tested by exact binomial tails, which hold for
    rare outputs too. Chi-square, over bins of ``POOLED`` or more expected draws, detects deviations
    that are spread over many outputs. A bin without draws counts its full expectation.
    """
    draws = int(seen.sum())
    outside = np.flatnonzero((law <= 0) & (seen > 0))
    require(not len(outside), f"{what}: output {outside[:1]} is impossible and was drawn")
    _check_tails(seen, draws, law, what)
    expected, observed = _pooled(law * draws, seen)
    if len(expected) > 1:
        misfit = float(((observed - expected) ** 2 / expected).sum())
        tail = float(scipy("stats", DRAWN).chi2.sf(misfit, len(expected) - 1))
        require(tail > ALPHA / 2 / HEAVY, f"{what}: chi-square {misfit:.1f} has a tail of {tail:.2g}")


def _check_tails(seen: Integers, draws: int, law: Floats, what: str) -> None:
    """Check that no count lies in its two-sided exact tail; the level is split over all counts."""
    stats = scipy("stats", DRAWN)
    tails = np.minimum(stats.binom.sf(seen - 1, draws, law), stats.binom.cdf(seen, draws, law))
    worst = int(np.argmin(tails))
    require(
        bool(tails[worst] > ALPHA / 4 / len(law)),
        f"{what}: output {worst} was drawn {seen[worst]} times, {draws * law[worst]:.1f} are expected",
    )


def _pooled(expected: Floats, seen: Integers) -> tuple[Floats, Floats]:
    """Expected and observed counts in bins of at least ``POOLED`` expected draws, rarest first."""
    order = np.argsort(expected, kind="stable")
    bins: list[tuple[float, float]] = []
    total, observed = 0.0, 0.0
    for place in order:
        total, observed = total + float(expected[place]), observed + float(seen[place])
        if total >= POOLED:
            bins.append((total, observed))
            total, observed = 0.0, 0.0
    if total and bins:
        bins[-1] = (bins[-1][0] + total, bins[-1][1] + observed)
    return np.array([b[0] for b in bins]), np.array([b[1] for b in bins])


def check_reports(plan: Plan, record: Record, draws: int = 20_000, seed: int | str = 0) -> None:
    """Check the whole device path: one record's reports follow the law of its mixture of states."""
    reports = plan.privatise(crowd(plan.schema, record, draws), Coins.stated(f"reports {seed}"))
    if reports.codes is not None:
        counts = output_counts(reports.codes.astype(np.int64), plan.layout.codes)
        check_counts(counts, report_law(plan, record), plan.mechanism_name)
        return
    counts = Tally(plan).add(reports).counts
    check_counts(counts[plan.layout.own], plan.views.shares, "views")
    _check_tails(counts[plan.layout.code_cells], draws, report_law(plan, record), plan.mechanism_name)
