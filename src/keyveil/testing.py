"""Conformance checks: what every channel and every plan must satisfy, ours and yours.

Each check takes a plan or a channel and returns nothing. It raises an ``AssertionError`` that says what
is wrong. ``check_mechanism`` runs all checks over a grid for a registered name. To check a mechanism of
your own, put it into ``REGISTRY`` first; put an encoding of your own into ``ENCODINGS`` and use
``check_encoding``. Only ``check_sampler``, ``check_simulation`` and ``check_reports`` use random draws;
all else is exact or linear algebra. Needs SciPy: ``keyveil[testing]``.

For clients of your own there are ``StandIn`` (a collector within the process), ``NOW`` (its time),
``REASONS`` (why it refuses), ``encode_binary`` (a binary batch), ``writing`` (a batch file) and
``canonical`` (the bytes that a plan's hash is taken of).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import product
from math import inf, isnan
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from .channel import Channel, Proof
from .channel.law import MOST_WRITTEN
from .channel.law_arrays import as_laws
from .channel.shapes.seed_pool import pool_of
from .estimate import estimate
from .estimate.decoding import decoding_of
from .estimate.forecast.key_forecast import forecast_key
from .estimate.linear import by_least_squares, key_weights, single_moments
from .foundation.arrays import WORD, Floats, Integers
from .foundation.coins import Coins, Stream, address
from .foundation.errors import ReportError
from .foundation.exact import Number
from .foundation.lazy_names import loaded_later
from .mechanisms import mechanism_named
from .mechanisms.mechanism import CALIBRATIONS
from .people.people import People, place_type
from .people.population import Population
from .people.schema import Record, Schema
from .plan.encoding import Encoding, Held, State, StateLaw
from .plan.plan import Plan
from .plan.report import Report, Reports
from .plan.tally import Tally

if TYPE_CHECKING:
    from .plan.plan_document import canonical as canonical
    from .plan.report_file import writing as writing
    from .service.client.stand_in import NOW as NOW
    from .service.client.stand_in import StandIn as StandIn
    from .service.collector.http.batches import encode_binary as encode_binary
    from .service.collector.process.problems import REASONS as REASONS

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

TIGHT = Decimal("0.999")
"""The share of the promised epsilon that a plan without waste must use."""

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

REACHED = 1e-5
"""Maximum distance of the nearest state from a limit of honest counts."""

_MANY = 1 << 36
"""Number of reports of a tally without noise; doubles still resolve differences of likelihood."""

_RUN = 1 << 14

_SMALL = 1 << 16
"""Maximum number of cells of a tally that is tested in many places."""

GRID = 6
"""Number of values that represent all words in ``check_encoding``; divisible by two and three."""

_WORDS = 1e-8
"""Tolerance between shares of 2^32 words and exact fractions: a few words."""


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
        _check_ratio(law, channel.proof())
    check_distances(channel)
    check_limits(channel)
    check_choices(channel)
    check_sampler(channel, draws, seed)
    check_simulation(channel, draws, seed)


def example_plan(schema: Schema, name: str, epsilon: Number = 1, calibrate: str = "paper") -> Plan:
    """An example plan of a mechanism, with the parameters that it requires."""
    return Plan.of(schema, name, epsilon, calibrate, **mechanism_named(name).example(schema))


def speaks_singly(plan: Plan) -> bool:
    """Whether the answer for every key comes from one law: its own view, a drawn item, signs or sets.

    If several views hold a key, or views hold several keys, answers combine many laws. Such mechanisms
    have their own tests, and only their channels are checked here.
    """
    if plan.parts is not None:
        return all(speaks_singly(own) for own in plan.part_plans)
    if plan.encoding.speaks_of_views:
        return sorted(plan.views.keys) == [(place,) for place in range(len(plan.schema.keys))]
    return True


# -- privacy ---------------------------------------------------------------------------------------


def check_privacy(plan: Plan) -> None:
    """Check that every row is a law, and that the integers keep the promise and use it up."""
    if plan.parts is not None:
        _check_each_part(plan, check_privacy)
        largest = max(own.proven for own in plan.part_plans)
        _require(plan.proven == largest, f"proves {plan.proven}, and its worst part {largest}")
        return
    _check_records(plan)
    for channel in plan.channels:
        law = channel.output_law()
        if law is None:
            continue
        _require(bool((law >= 0).all()), "a probability is negative")
        # Sums of multiples of 2^-32 are exact; products of many positions are rounded.
        _require(bool((np.abs(law.sum(axis=1) - 1.0) <= 1e-12).all()), "a row is no law")
        _check_ratio(law, channel.proof())
    chained = plan.chain is not None and int(plan.chain["round"]) > 1
    if plan.calibrate == "tight" or not plan.mechanism.wasteful or chained:
        _require(
            plan.proven >= TIGHT * plan.promised,
            f"promises {plan.promised} and proves only {plan.proven}",
        )


def _check_each_part(plan: Plan, check: Callable[[Plan], None]) -> None:
    for own in plan.part_plans:
        check(own)


def _check_records(plan: Plan) -> None:
    """Check the promise over records with values at the ends of their ranges, if these are few."""
    keys, ends = len(plan.schema.keys), (plan.schema.low, plan.schema.high)
    for number, channel in enumerate(plan.channels):
        proof = plan.encoding.proof(channel, keys)
        _require(proof.keeps(plan.promised), f"promised {plan.promised}, but {proof}")
        view = next(iter(plan.views_of(number)), None)
        law = channel.output_law()
        if view is None or law is None or plan.encoding.speaks_of_sets:
            continue
        places = plan.views.keys[view]
        if 3 ** len(places) * channel.states > MOST_WRITTEN:
            continue
        states = []
        for digits in product((0, 1, 2), repeat=len(places)):
            held = {k: float(ends[x - 1][k]) for k, x in zip(places, digits, strict=True) if x}
            states.append(record_law(plan, held, view))
        _check_ratio(np.array(states) @ law, proof)


def _check_ratio(law: Floats, proof: Proof) -> None:
    """Check that the true epsilon of a law, the largest log ratio of two rows, is at most the proven."""
    columns = law[:, law.max(axis=0) > 0]
    least = columns.min(axis=0)
    worst = float(np.log(columns.max(axis=0) / least).max()) if least.all() else inf
    # The proof is rounded up in its 18th digit; the law here is in doubles.
    _require(worst <= float(proof.epsilon) * (1 + 1e-9) + 1e-12, f"{worst} is worse than {proof}")


def check_distances(channel: Channel) -> None:
    """Check that the stated total variation is not too small and the stated blanket not too large.

    Laws that are not written out are skipped.
    """
    law = channel.output_law()
    if law is None:
        return
    apart = max(float(np.abs(law[first:] - row).sum(axis=1).max()) / 2 for first, row in enumerate(law))
    shared = float(law.min(axis=0).sum())
    stated = float(channel.total_variation())
    _require(stated >= apart * (1 - 1e-12), f"two states are {apart} apart, not {stated}")
    stated = float(channel.blanket())
    _require(stated <= shared * (1 + 1e-12), f"all states share {shared}, not {stated}")


def check_limits(channel: Channel) -> None:
    """Check that all states lie within the limits of honest counts, and some state reaches each limit.

    The expected marks of each state serve as counts. Shapes without limits, and laws that are not
    written out, are skipped. In a pool of seeds, limits may remain unreached.
    """
    limits = channel.limits(np.zeros(channel.cells))
    written = channel.output_law() is not None or channel.state_kind == "number"
    if limits is None or not written or channel.states * channel.cells > MOST_WRITTEN:
        return
    by_state = [channel.limits(row[: channel.cells]) for row in channel.expected()]
    counts = np.array([state.counts for state in by_state if state is not None])
    low, high = counts.min(axis=0), counts.max(axis=0)
    inside = (low >= limits.least - 1e-12) & (high <= limits.most + 1e-12)
    _require(bool(inside.all()), f"limits leave out what a state sends, as of count {inside.argmin()}")
    near = (low <= limits.least + REACHED) & (high >= limits.most - REACHED)
    _require(bool(near.all()) or channel.seeds > 0, f"no state comes near limit {near.argmin()}")


# -- the estimator ---------------------------------------------------------------------------------


def check_decoder(plan: Plan) -> None:
    """Check that law times decoder is the identity for all answers, and NaN where none is unbiased.

    Also, every estimator with an interval must recover the truth from a tally without noise.
    """
    if plan.parts is not None:
        _check_each_part(plan, check_decoder)
        if speaks_singly(plan):
            _check_estimators(plan)
        return
    for channel in plan.channels:
        if channel.state_kind == "signs":
            _check_signs(channel)
        elif channel.state_kind == "number":
            _check_weights(plan, channel)
    if speaks_singly(plan) and (plan.chain is None or plan.chain["round"] == 1):
        _check_estimators(plan)


def _check_signs(channel: Channel) -> None:
    law = channel.output_law()
    if law is None:
        return
    signs = channel.in_draw_form(np.arange(channel.states)) * 2.0 - 1.0
    _same(law @ channel.sign_decoder(), signs, 1 / channel.pull, "signs")


def _check_weights(plan: Plan, channel: Channel) -> None:
    law = channel.expected()
    columns = np.eye(channel.states)
    if plan.encoding.speaks_of_views and speaks_singly(plan):
        wanted = key_weights(plan.schema)
        solved = by_least_squares(channel, wanted)
        needs = {"frequency": (0,), "mean": (0, 1), "mass": (1,)}
        for answer in plan.mechanism.answers:
            for column in needs[answer]:
                cells = solved[:, column : column + 1]
                _same(law @ cells, wanted[:, column : column + 1], np.abs(cells).max(), answer)
        columns = np.concatenate([columns, np.nan_to_num(wanted)], axis=1)
    solved = channel.decoder(columns)
    best = np.linalg.lstsq(law, columns, rcond=None)[0]
    # Relative to the solution's size: cancellation loses digits as epsilon falls.
    known = np.abs(law @ best - columns).max(axis=0) <= 1e-7
    _require(
        bool((np.isnan(solved).all(axis=0) == ~known).all()),
        "the decoder is NaN exactly where no estimator is unbiased, and it is not",
    )
    for place in np.flatnonzero(known):
        cells = solved[:, [place]]
        _same(law @ cells, columns[:, [place]], np.abs(cells).max(), "decoder")


def _check_estimators(plan: Plan) -> None:
    shares = np.linspace(0.2, 0.7, len(plan.schema.keys))
    means = np.linspace(-0.6, 0.5, len(plan.schema.keys))
    tally, truth = ideal_tally(plan, shares, means)
    for name in decoding_of(plan).estimators:
        for place, answer in enumerate(estimate(plan, tally, name)):
            low, high = float(plan.schema.low[place]), float(plan.schema.high[place])
            frequency, mass = truth[place]
            goals = {
                "frequency": (answer.frequency, frequency),
                "mean": (answer.mean, low + (mass / frequency + 1) / 2 * (high - low)),
                "mass": (answer.mass, mass),
            }
            for what in plan.mechanism.answers:
                result, goal = goals[what]
                if result is None:
                    raise AssertionError(f"estimator {name} has no {what}")
                if isnan(result.stderr) or not result.bounded:
                    continue  # the estimator states that it is biased or unbounded
                # Counts are rounded to integers, and likelihood stops 1e-3 nats from the maximum.
                # Both effects are far below the standard error.
                slack = 0.1 * result.stderr + 1e-9 * (high - low)
                _require(
                    abs(result.value - goal) <= slack,
                    f"estimator {name}: {what} of a tally without noise is {result.value}, not {goal}",
                )


def ideal_tally(plan: Plan, shares: Floats, means: Floats) -> tuple[Tally, Floats]:
    """A tally without noise, and the true frequency and mass on [-1, 1] of each key, ``(keys, 2)``.

    ``shares`` of people hold each key, independently of other keys, with values of mean ``means`` at
    the ends of the range. If only some of a person's keys count, the shares are scaled to sum to one
    half, and nobody holds two keys.
    """
    shares, means = np.asarray(shares, np.float64), np.asarray(means, np.float64)
    plans = plan.part_plans
    capped = any(own.encoding.most_counted(own.cap) is not None for own in plans)
    if capped:
        shares = shares / shares.sum() / 2
    sets = any(own.encoding.speaks_of_sets for own in plans)
    many = _MANY << 10 if sets else _MANY  # there may be 2^22 cells
    weights = [1.0] if plan.parts is None else [part.share for part in plan.parts]
    counts = np.concatenate(
        [
            _ideal_counts(own, shares, means, capped, weight * many)
            for own, weight in zip(plans, weights, strict=True)
        ]
    )
    return Tally(plan, counts), np.stack([shares, shares * means], axis=1)


def _ideal_counts(plan: Plan, shares: Floats, means: Floats, capped: bool, many: float) -> Integers:
    """The counts of ``ideal_tally`` for a plan without parts, of ``many`` reports."""
    counts = np.zeros(plan.layout.cells, np.int64)
    for view, channel in enumerate(plan.view_channels):
        law: StateLaw = {}
        for chance, held in _ideal_records(plan, view, shares, means, capped):
            for state, share in _record_law(plan, view, held).items():
                law[state] = law.get(state, 0.0) + chance * share
        reports = round(float(plan.views.shares[view]) * many)
        own = int(plan.layout.own[view])
        seen = np.rint(_marks(channel, law) * reports).astype(np.int64)
        counts[own + 1 : own + 1 + channel.cells] = seen[: channel.cells]
        counts[own] = seen.sum() if channel.one_cell else reports
    return counts


def _ideal_records(
    plan: Plan, view: int, shares: Floats, means: Floats, capped: bool
) -> Iterator[tuple[float, Held]]:
    """The records of ``ideal_tally`` over the keys of a view, each with its probability."""
    options: list[list[tuple[float, Held]]] = []
    for place in plan.views.keys[view]:
        share, mean = float(shares[place]), float(means[place])
        low, high = float(plan.schema.low[place]), float(plan.schema.high[place])
        low_chance, high_chance = share * (1 - mean) / 2, share * (1 + mean) / 2
        held = [(low_chance, {place: low}), (high_chance, {place: high})]
        options.append(list(held) if capped else [(1 - share, {}), *held])
    if capped:
        yield 1 - float(shares.sum()), {}
        for alone in options:
            yield from alone
        return
    for parts in product(*options):
        record = {place: value for _, part in parts for place, value in part.items()}
        yield float(np.prod([chance for chance, _ in parts])), record


def check_covariance(plan: Plan) -> None:
    """Check the covariance against a sum over all outputs, and the forecast against the plug-in."""
    if plan.parts is not None:
        _check_each_part(plan, check_covariance)
        return
    for channel in plan.channels:
        outputs = channel.output_law()
        if outputs is None or channel.state_kind != "number":
            continue
        marks = channel.output_marks()
        weights = np.eye(channel.states)
        decoder = channel.decoder(weights)
        decoder = decoder[:, ~np.isnan(decoder).any(axis=0)]
        sums = marks @ decoder
        for tilt in (0.0, 3.0):
            law = np.exp(-tilt * np.arange(channel.states) / channel.states)
            law /= law.sum()
            seen = law @ outputs
            apart = sums - seen @ sums
            _same(
                channel.covariance(decoder, law),
                (apart * seen[:, None]).T @ apart,
                1.0 + float((decoder**2).max(initial=0.0)),
                "covariance",
            )
    if plan.encoding.speaks_of_views and speaks_singly(plan):
        _check_plug_in(plan)


def _check_plug_in(plan: Plan) -> None:
    """Check that the estimated variance of a tally without noise is the predicted one."""
    keys = len(plan.schema.keys)
    shares, means = np.linspace(0.3, 0.8, keys), np.linspace(-0.5, 0.7, keys)
    tally, _ = ideal_tally(plan, shares, means)
    moments = single_moments(plan, tally)
    for view, (place,) in enumerate(plan.views.keys):
        forecast = forecast_key(
            plan, tally.reports, float(shares[place]), float(means[place]), view=view
        )
        spread = moments.covariance[place]
        for part, name in enumerate(("frequency", "mass")):
            value, goal = spread[part, part], getattr(forecast, name)
            if isnan(goal):
                _require(isnan(value), f"{name} cannot be known, yet has a variance")
            else:
                # Allows for integer counts out of _MANY, and cancellation of squares.
                _require(abs(value - goal) <= 1e-6 * goal, f"variance of {name}: {value}, not {goal}")


# -- the tally -------------------------------------------------------------------------------------


def check_support(plan: Plan) -> None:
    """Check that the tally admits exactly what an honest device can send, singly and in a batch."""
    layout = plan.layout
    for view in sorted({0, len(plan.views) // 2, len(plan.views) - 1}):
        channel, own = plan.view_channels[view], int(layout.own[view])
        if channel.one_cell:
            _check_codes(plan, view)
        for cells in _drawn_cells(channel, own, 16 if layout.cells <= _SMALL else 1):
            _require(_admitted(plan, cells), f"an honest device marks {cells}, and is refused")
        last = own + 1 + channel.cells
        refused = [(own + 1,), (own, last), (own, own), (own, own + 1, own + 1), (-1, own + 1)]
        if channel.one_cell:
            refused += [(own,), (own, own + 1, own + 2)]
        for cells in refused:
            _require(not _admitted(plan, cells), f"no honest device marks {cells}")
    _require(not _admitted(plan, (layout.cells,)), "the tally has no such cell")


def _check_codes(plan: Plan, view: int) -> None:
    """Check that a cell is admitted if and only if some state sends it."""
    layout, channel, own = plan.layout, plan.view_channels[view], int(plan.layout.own[view])
    law = channel.output_law()
    for cell in _spread(channel.cells, 64 if layout.cells <= _SMALL else 4):
        possible = law is None or bool(law[:, cell].max() > 0)
        cells = (own, own + 1 + cell)
        _require(_admitted(plan, cells) == possible, f"cells {cells}: possible is {possible}")
        if not layout.one_cell:
            continue  # a row of bits, in a plan of parts
        code = np.array([layout.first_code[view] + cell], layout.code_type)
        try:
            counts = Tally(plan).add(Reports(plan.hash, codes=code)).counts
        except ReportError:
            _require(not possible, f"code {code[0]} is refused")
        else:
            marked = np.flatnonzero(counts).tolist()
            _require(possible and marked == list(cells), f"code {code[0]} marks {marked}")


def _drawn_cells(channel: Channel, own: int, draws: int) -> set[tuple[int, ...]]:
    """The cells of drawn reports from a few states."""
    reports = set()
    for state in _spread(channel.states, 4):
        drawn = _drawn(channel, state, draws, "support")
        for output in drawn:
            marks = [output] if drawn.ndim == 1 else np.flatnonzero(output)
            reports.add((own, *(own + 1 + int(cell) for cell in marks)))
    return reports


def _admitted(plan: Plan, cells: tuple[int, ...]) -> bool:
    """Whether the tally takes a report with these cells. A refused report must leave no marks."""
    tally = Tally(plan)
    try:
        tally.add(Report(plan.hash, cells))
    except ReportError:
        _require(not tally.counts.any(), "a refused report left marks")
        return False
    marked = np.flatnonzero(tally.counts).tolist()
    _require(marked == sorted(cells) and tally.reports == 1, f"{cells} left other marks")
    return True


def check_choices(channel: Channel) -> None:
    """Check that the possible reports of fakes are exactly the admitted ones.

    All sets of cells are tested if they are few, else random sets.
    """
    choices = channel.choices()
    if choices.outputs is not None:
        _require(choices.outputs.size == channel.cells, "an output for every cell")
        for cell in _spread(channel.cells, 64):
            possible = bool(choices.outputs.flat[cell])
            _require(channel.admits((cell,)) == possible, f"output {cell}: possible is {possible}")
        return
    _require(choices.positions * choices.marks == channel.cells, "positions do not make up the cells")
    if channel.cells <= 16:
        marked = (np.arange(1 << channel.cells)[:, None] >> np.arange(channel.cells) & 1) == 1
    else:
        generator = Coins.stated("choices").generator()
        marked = generator.random((4096, channel.cells)) < generator.random((4096, 1)) ** 2
    rows = marked.astype(np.uint8)
    marks = rows.reshape(len(rows), choices.positions, choices.marks).sum(axis=2)
    chosen = (marks <= 1).all(axis=1) & ((choices.size is None) | (marks.sum(axis=1) == choices.size))
    off = np.flatnonzero(channel.admits_rows(rows) != chosen)
    _require(not len(off), f"admitted or a choice, not both: row {off[:1]}")


# -- the sampler -----------------------------------------------------------------------------------


def check_sampler(channel: Channel, draws: int = 20_000, seed: int | str = 0) -> None:
    """Check that each state's outputs follow the channel's row. False alarm: ``ALPHA`` per state."""
    laws = channel.expected() if channel.one_cell else None
    for state in _spread(channel.states, 64 if channel.one_cell else 16):
        drawn = _drawn(channel, state, draws, f"sampler {seed} {state}")
        if laws is not None:
            check_counts(_counted(drawn, channel.cells), laws[state], f"state {state}")
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
        _require(bool((single.sum(axis=1) == 1).all()), "a report marks more or less than one cell")
        return
    rows = single.astype(np.uint8)
    _require(bool((rows == single).all() and channel.admits_rows(rows).all()), "no device marks these")
    law, marks = channel.output_law(), channel.output_marks
    if law is not None:
        outputs = {row.tobytes(): number for number, row in enumerate(marks()[:, :-1].astype(np.uint8))}
        drawn = np.array([outputs[row.tobytes()] for row in rows])
        check_counts(_counted(drawn, law.shape[1]), states @ law, "simulated outputs")


def _drawn(channel: Channel, state: int, draws: int, key: str) -> np.ndarray:
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
    _require(not len(outside), f"{what}: output {outside[:1]} is impossible and was drawn")
    _check_tails(seen, draws, law, what)
    expected, observed = _pooled(law * draws, seen)
    if len(expected) > 1:
        misfit = float(((observed - expected) ** 2 / expected).sum())
        tail = float(stats.chi2.sf(misfit, len(expected) - 1))
        _require(tail > ALPHA / 2 / HEAVY, f"{what}: chi-square {misfit:.1f} has a tail of {tail:.2g}")


def _check_tails(seen: Integers, draws: int, law: Floats, what: str) -> None:
    """Check that no count lies in its two-sided exact tail; the level is split over all counts."""
    tails = np.minimum(stats.binom.sf(seen - 1, draws, law), stats.binom.cdf(seen, draws, law))
    worst = int(np.argmin(tails))
    _require(
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
        counts = _counted(reports.codes.astype(np.int64), plan.layout.codes)
        check_counts(counts, report_law(plan, record), plan.mechanism_name)
        return
    counts = Tally(plan).add(reports).counts
    check_counts(counts[plan.layout.own], plan.views.shares, "views")
    _check_tails(counts[plan.layout.code_cells], draws, report_law(plan, record), plan.mechanism_name)


def crowd(schema: Schema, record: Record, count: int) -> People:
    """``count`` people who hold the same record, each with their own coins."""
    held = schema.checked(record)
    places = sorted(held)
    return People(
        address(np.arange(count)),
        np.arange(count + 1, dtype=np.int64) * len(places),
        np.tile(np.array(places, place_type(schema)), count),
        np.tile(np.array([held[place] for place in places], np.float64), count),
    )


def report_law(plan: Plan, record: Record) -> Floats:
    """Pr[cell | record] of every cell that is no view's own, over part, view, encoding and channel."""
    held = plan.schema.checked(record)
    laws = []
    for view, (share, channel) in enumerate(zip(plan.views.shares, plan.view_channels, strict=True)):
        laws.append(share * _marks(channel, _record_law(plan, view, held))[: channel.cells])
    return np.concatenate(laws)


def _record_law(plan: Plan, view: int, held: Held) -> StateLaw:
    """The law of the states of one record in one view."""
    own, number = plan.part_of(view)
    return own.encoding.record_law(own.schema, own.views.keys[number], held, own.cap)


def record_law(plan: Plan, held: Held, view: int = 0) -> Floats:
    """The law ``(states,)`` of one record's state in one view, if states have numbers."""
    return _dense(plan.view_channels[view], _record_law(plan, view, held))


def _dense(channel: Channel, law: StateLaw) -> Floats:
    """The law ``(states,)`` over all states. Signs are the bits of a number, the first key lowest."""
    dense = np.zeros(channel.states)
    for state, chance in law.items():
        number = state if isinstance(state, int) else sum(sign << i for i, sign in enumerate(state))
        dense[number] += chance
    return dense


def _marks(channel: Channel, law: StateLaw) -> Floats:
    """The law of the outputs, or the expected marks, if states follow ``law``."""
    if channel.state_kind != "items":
        return channel.mix(_dense(channel, law))
    channel = pool_of(channel)
    seen = np.zeros(channel.cells)
    for items, chance in law.items():
        seen += chance * channel.law_of(np.array(items, np.int64))
    return seen


# -- the encoding ----------------------------------------------------------------------------------


def check_encoding(plan: Plan) -> None:
    """Check the stated laws of a plan's encoding by enumeration, for at most three keys.

    ``record_law`` is compared with the states of a grid of words. The grid has ``GRID`` numbers for
    every word, and values are multiples of its step, so both have the same shares up to 2^-32.
    ``population_law`` is compared with the average of ``record_law`` over people.
    """
    if plan.parts is not None:
        _check_each_part(plan, check_encoding)
        return
    keys = len(plan.schema.keys)
    _require(keys <= 3, "the grid of words is for plans of at most three keys")
    low, high = plan.schema.low, plan.schema.high
    records: list[Held] = [
        {k: float(low[k] + (high[k] - low[k]) * ((2 * k + 1) % GRID) / GRID) for k in places}
        for places in _subsets(keys)
    ]
    for view in range(len(plan.views)):
        for held in records:
            _check_record_law(plan, view, held)
        _check_population_law(plan, view, records)
        _check_facts(plan, view, records)


def _subsets(keys: int) -> list[list[int]]:
    """All sets of places of ``keys`` keys."""
    return [[k for k in range(keys) if number >> k & 1] for number in range(1 << keys)]


def _check_record_law(plan: Plan, view: int, held: Held) -> None:
    encoding, places = plan.encoding, plan.views.keys[view]
    taken = encoding.words(plan.schema, len(places), plan.cap)
    numbers = [(2 * i + 1) * WORD // (2 * GRID) for i in range(GRID)]
    words = np.array(list(product(numbers, repeat=taken)), np.uint32).reshape(GRID**taken, taken)
    people = crowd(plan.schema, {plan.schema.keys[k]: value for k, value in held.items()}, len(words))
    stream = Stream(Coins.stated("not used"), people.addresses, ready=words)
    picked = np.full(len(people), view)
    states = encoding.encode(plan.schema, plan.views, people, picked, stream, plan.cap)
    seen: StateLaw = {}
    rows, counts = np.unique(states.reshape(len(words), -1), axis=0, return_counts=True)
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        state = _as_state(encoding, row)
        seen[state] = seen.get(state, 0.0) + count / len(words)
    law = _record_law(plan, view, held)
    for state in {*seen, *law}:
        enumerated, stated = seen.get(state, 0.0), law.get(state, 0.0)
        _require(
            abs(enumerated - stated) <= _WORDS,
            f"{encoding.name}: state {state} of {len(held)} held keys has chance {enumerated} over all "
            f"words, and record_law says {stated}",
        )


def _as_state(encoding: Encoding, row: list[int]) -> State:
    """A row of ``encode`` in the form of the states of ``record_law``."""
    if encoding.speaks_of_sets:
        return tuple(sorted(item for item in row if item >= 0))
    return row[0] if encoding.state_kind == "number" else tuple(row)


def _check_facts(plan: Plan, view: int, records: list[Held]) -> None:
    """Check the largest probability of a state, and that a state of a key means that the key is held."""
    encoding, largest = plan.encoding, plan.encoding.largest_chance(plan.cap)
    owner = {s: place for place in plan.views.keys[view] for s in encoding.key_states(place)}
    for held in records:
        law = _record_law(plan, view, held)
        most = max(law.values())
        _require(
            most <= largest + _WORDS, f"{encoding.name}: a state has chance {most}, above {largest}"
        )
        if encoding.keyless:
            named = {owner[state] for state in law if state in owner}
            _require(named == set(held), f"{encoding.name}: states name {named}, not {set(held)}")
    laws = [_record_law(plan, view, held) for held in ({}, *encoding.telling_records(plan.schema))]
    several = all(first != second for at, first in enumerate(laws) for second in laws[:at])
    _require(several, f"{encoding.name}: two of its telling records have the same law")


def _check_population_law(plan: Plan, view: int, records: list[Held]) -> None:
    encoding, names = plan.encoding, plan.schema.keys
    table = [{names[k]: value for k, value in held.items()} for held in records]
    population = Population(plan.schema, People.of_records(plan.schema, table), plan.schema.levels)
    law = encoding.population_law(population, plan.views.keys[view], plan.cap)
    numbers = encoding.state_kind == "number"
    _require((law is not None) == numbers, f"{encoding.name}: only numbers have a population_law")
    if law is None:
        return
    average = np.mean([record_law(plan, held, view) for held in records], axis=0)
    off = float(np.abs(law - average).max())
    _require(off <= _WORDS, f"{encoding.name}: population_law is off the records' average by {off}")


# -- small things ----------------------------------------------------------------------------------


def _require(true: bool, message: str) -> None:
    if not true:
        raise AssertionError(message)


def _same(values: Floats, goal: Floats, size: float, what: str) -> None:
    """Check that arrays are equal up to the cancellation of numbers of that size."""
    difference = float(np.abs(values - goal).max(initial=0.0))
    _require(difference <= 1e-9 * (1.0 + size), f"{what}: off by {difference}")


def _counted(outputs: np.ndarray, size: int) -> Integers:
    outside = outputs[(outputs < 0) | (outputs >= size)]
    _require(not len(outside), f"output {outside[:1]} does not exist and was drawn")
    return np.bincount(outputs, minlength=size)


def _spread(count: int, most: int) -> list[int]:
    """At most ``most`` numbers below ``count``, evenly spaced, with the first and the last."""
    if count <= most:
        return list(range(count))
    return sorted({i * (count - 1) // (most - 1) for i in range(most)})
