"""Conformance checks: what every channel and every plan must satisfy, ours and yours.

Each check takes a plan or a channel, returns nothing and raises ``AssertionError`` that says what is
wrong; ``check_mechanism`` runs them all over a grid for a registered name. To check a mechanism of
your own, put it into ``REGISTRY`` first. Only ``check_sampler`` and ``check_reports`` draw; all else
is exact or linear algebra. Needs SciPy: ``keyveil[testing]``.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations, product
from math import isnan

import numpy as np
from scipy import stats

from .channel import Channel, CoCo, Collision, Halfspace, Symbols
from .estimate import estimate
from .estimate.decoding import decoding_of
from .estimate.forecast.key_forecast import forecast_key
from .estimate.linear import by_least_squares, key_weights, single_moments
from .foundation.arrays import WORD, Bits, Floats, Integers
from .foundation.coins import Coins, Stream, address
from .foundation.errors import ReportError
from .mechanisms import mechanism_named
from .mechanisms.mechanism import CALIBRATIONS
from .people.people import People, place_type
from .people.schema import Record, Schema
from .plan.encoding import SETS, bucket_of, pair_item, proof_over_records
from .plan.plan import Plan
from .plan.report import Report, Reports
from .plan.tally import Tally

EPSILONS = ("0.01", "0.1", "0.5", "1", "3", "5", "10")
"""The promises that ``check_mechanism`` goes through."""

TIGHT = Decimal("0.999")
"""The share of its promise that a plan without waste proves."""

FALSE_ALARM = 1e-9
"""The chance that a run of at most ``MOST_TESTS`` comparisons rejects samplers that are right."""

MOST_TESTS = 10_000
"""How many laws a run may be compared with; Bonferroni gives each an equal part of the alarm."""

ALPHA = FALSE_ALARM / MOST_TESTS
"""The level of one comparison: half for the exact binomial tails, half for chi-square."""

POOLED = 1000.0
"""Chi-square's bins are expected so often. At our level its tail is then too light by less than
``HEAVY`` (with the usual five it would be by 10^5), so a tenth of the level is what it may use."""

HEAVY = 10.0

_MANY = 1 << 36
"""Reports of a tally without noise: few enough for the gap of likelihood to be seen in doubles."""

_RUN = 1 << 14

_SMALL = 1 << 16
"""Tallies with more cells are probed in fewer places."""

_DENSE = 1 << 22
"""Laws with more entries are not written out."""


def check_mechanism(name: str, draws: int = 20_000, seed: int = 0) -> None:
    """Every check at every epsilon and calibration, for two keys and for three; draws at epsilon 1."""
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
            for channel in plan.channels:
                check_sampler(channel, draws, seed)
            for record in ({}, {"0": 2.2}, {"0": 5, "1": 1.5}):
                check_reports(plan, record, draws, seed)


def example_plan(
    schema: Schema, name: str, epsilon: float | str | Decimal = 1, calibrate: str = "paper"
) -> Plan:
    """A plan that shows a mechanism, whatever it must be told (what queries to answer, say)."""
    return Plan.of(schema, name, epsilon, calibrate, **mechanism_named(name).example(schema))


def speaks_singly(plan: Plan) -> bool:
    """Whether every key is answered from one law: a view of its own, a drawn item, signs or sets.

    Where a key is spoken of in several views, or with others, answers are put together from many
    laws; such mechanisms bring tests of their own, and only their channels are checked here.
    """
    if plan.encode == "views":
        return sorted(plan.views.keys) == [(place,) for place in range(len(plan.schema.keys))]
    return True


# -- privacy ---------------------------------------------------------------------------------------


def check_privacy(plan: Plan) -> None:
    """Every row is a law, the integers keep the promise, and without waste they use it up."""
    _check_records(plan)
    for channel in plan.channels:
        proof = channel.proof()
        law = _law(channel)
        if law is None:
            continue
        _require(bool((law >= 0).all()), "a probability is negative")
        # Sums of multiples of 2^-32 are exact; products of many positions are rounded.
        _require(bool((np.abs(law.sum(axis=1) - 1.0) <= 1e-12).all()), "a row is no law")
        worst = _worst_ratio(law)
        # The proof is rounded up in its 18th digit; the law here is in doubles.
        _require(worst <= float(proof.epsilon) * (1 + 1e-9) + 1e-12, f"{worst} is worse than {proof}")
    chained = plan.chain is not None and int(plan.chain["round"]) > 1
    if plan.calibrate == "tight" or not plan.mechanism.wasteful or chained:
        _require(
            plan.proven >= TIGHT * plan.promised,
            f"promises {plan.promised} and proves only {plan.proven}",
        )


def _check_records(plan: Plan) -> None:
    """The promise is over records; where encoding hides a state among others, they are written out."""
    keys = len(plan.schema.keys)
    for channel in plan.channels:
        proof = proof_over_records(plan.encode, channel, keys)
        _require(proof.keeps(plan.promised), f"promised {plan.promised}, but {proof}")
        if plan.encode != "padded" or not channel.one_cell or 3**keys * channel.states > _DENSE:
            continue
        states = []
        for digits in product((0, 1, 2), repeat=keys):
            ends = plan.schema.low, plan.schema.high
            held = {k: float(ends[x - 1][k]) for k, x in enumerate(digits) if x}
            states.append(_state_law(plan, 0, held))
        worst = _worst_ratio(np.array(states) @ channel.expected())
        _require(worst <= float(proof.epsilon) * (1 + 1e-9) + 1e-12, f"{worst} is worse than {proof}")


def _worst_ratio(law: Floats) -> float:
    columns = law[:, law.max(axis=0) > 0]
    least = columns.min(axis=0)
    if not least.all():
        return float("inf")
    return float(np.log(columns.max(axis=0) / least).max())


def _law(channel: Channel) -> Floats | None:
    """Pr[output | state] written out, or None where that is too large or positions are apart."""
    if isinstance(channel, Halfspace):
        return channel.expected() if channel.signs <= 10 else None
    if not channel.one_cell or channel.states * channel.cells > _DENSE:
        return None
    return channel.expected()


# -- the estimator ---------------------------------------------------------------------------------


def check_decoder(plan: Plan) -> None:
    """Decoder times law is the identity for all a plan answers, and NaN where nothing can be known.

    And every estimator that claims an interval gives back the law that a tally without noise is of.
    """
    for channel in plan.channels:
        if isinstance(channel, Halfspace):
            _check_signs(channel)
        elif not isinstance(channel, Collision | CoCo):  # decoded item by item, not set by set
            _check_weights(plan, channel)
    if speaks_singly(plan) and (plan.chain is None or plan.chain["round"] == 1):
        _check_estimators(plan)


def _check_signs(channel: Halfspace) -> None:
    law = _law(channel)
    if law is None:
        return
    codes = np.arange(1 << channel.signs)[:, None] >> np.arange(channel.signs)
    signs = np.asarray((codes & 1) * 2.0 - 1.0, np.float64)
    _same(law @ channel.sign_decoder(), signs, 1 / channel.pull, "signs")


def _check_weights(plan: Plan, channel: Channel) -> None:
    law = channel.expected()
    columns = np.eye(channel.states)
    if plan.encode == "views" and speaks_singly(plan):
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
    for one in np.flatnonzero(known):
        cells = solved[:, [one]]
        _same(law @ cells, columns[:, [one]], np.abs(cells).max(), "decoder")


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
                made, goal = goals[what]
                if made is None:
                    raise AssertionError(f"estimator {name} has no {what}")
                if isnan(made.stderr) or not made.bounded:
                    continue  # says itself that it is biased, or that it cannot tell
                # Counts are rounded to whole ones, and likelihood stops 1e-3 nats from the best:
                # both are far below the standard error of so many reports.
                slack = 0.1 * made.stderr + 1e-9 * (high - low)
                _require(
                    abs(made.value - goal) <= slack,
                    f"estimator {name}: {what} of a tally without noise is {made.value}, not {goal}",
                )


def ideal_tally(plan: Plan, shares: Floats, means: Floats) -> tuple[Tally, Floats]:
    """A tally without noise, and each key's frequency and mass on [-1, 1] that it is of.

    ``shares`` of people hold each key with a value of mean ``means``, all at the ends of the range.
    For plans that draw one held key, or speak of sets, the shares are scaled to sum to one half: one
    key a person.
    """
    shares = np.asarray(shares, np.float64)
    means = np.asarray(means, np.float64)
    counts = np.zeros(plan.layout.cells, np.int64)
    if plan.encode in SETS:
        shares = shares / shares.sum() / 2
        ends = np.stack([shares * (1 - means) / 2, shares * (1 + means) / 2], axis=1).ravel()
        sets: dict[tuple[int, ...], float] = {(): 1 - float(ends.sum())}
        sets.update({(item,): float(share) for item, share in enumerate(ends)})
        many = _MANY << 10  # there may be 2^22 cells
        seen = np.rint(_mixed(plan, sets) * many).astype(np.int64)
        counts[0], counts[1:] = seen.sum(), seen
        return Tally(plan, counts), np.stack([shares, shares * means], axis=1)
    if plan.encode == "item":
        shares = shares / shares.sum() / 2
        laws = [np.concatenate([[1 - shares.sum()], shares])]
    elif plan.encode == "size":
        shares = shares / shares.sum() / 2
        laws = [np.concatenate([[1 - shares.sum(), shares.sum()], np.zeros(plan.cap - 2)])]
    elif plan.encode == "padded":
        shares = shares / shares.sum() / 2
        ends = np.stack([shares * (1 - means) / 2, shares * (1 + means) / 2], axis=1).ravel() / plan.cap
        laws = [np.concatenate([ends, np.full(2 * plan.cap, (1 - ends.sum()) / (2 * plan.cap))])]
    elif plan.encode == "signs":
        high = (1 + shares * means) / 2
        law = np.ones(1)
        for up in high:  # the first key is the least significant bit
            law = np.concatenate([law * (1 - up), law * up])
        laws = [law]
    else:
        laws = []
        for (place,) in plan.views.keys:
            held = np.zeros(plan.schema.levels)
            held[0] += shares[place] * (1 - means[place]) / 2
            held[-1] += shares[place] * (1 + means[place]) / 2
            laws.append(np.concatenate([[1 - shares[place]], held]))
    for view, (channel, law) in enumerate(zip(plan.view_channels, laws, strict=True)):
        reports = round(float(plan.views.shares[view]) * _MANY)
        own = int(plan.layout.own[view])
        seen = np.rint(channel.mix(law) * reports).astype(np.int64)
        counts[own + 1 : own + 1 + channel.cells] = seen[: channel.cells]
        counts[own] = seen.sum() if channel.one_cell else reports
    return Tally(plan, counts), np.stack([shares, shares * means], axis=1)


def check_covariance(plan: Plan) -> None:
    """Covariance is that of all outputs written out; so are its plug-in and the predicted error."""
    for channel in plan.channels:
        written = _outputs(channel)
        if written is None:
            continue
        outputs, marks = written
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
    if plan.encode == "views" and speaks_singly(plan):
        _check_plug_in(plan)


def _check_plug_in(plan: Plan) -> None:
    """What the tally says of its own error, without noise, is what was predicted for it."""
    keys = len(plan.schema.keys)
    shares, means = np.linspace(0.3, 0.8, keys), np.linspace(-0.5, 0.7, keys)
    tally, _ = ideal_tally(plan, shares, means)
    moments = single_moments(plan, tally)
    for view, (place,) in enumerate(plan.views.keys):
        forecast = forecast_key(
            plan, tally.reports, float(shares[place]), float(means[place]), view=view
        )
        spread = moments.covariance[place]
        for name, value, goal in (
            ("frequency", spread[0, 0], forecast.frequency),
            ("mass", spread[1, 1], forecast.mass),
        ):
            if isnan(goal):
                _require(isnan(value), f"{name} cannot be known, yet has a variance")
            else:
                # Whole counts out of _MANY, and cancellation of squares of the decoder.
                _require(abs(value - goal) <= 1e-6 * goal, f"variance of {name}: {value}, not {goal}")


def _outputs(channel: Channel) -> tuple[Floats, Floats] | None:
    """Pr[output | state] over all outputs, and the marks of each with a last one for the report."""
    if isinstance(channel, Halfspace | Collision | CoCo):
        return None  # decoded sign by sign, item by item
    if channel.one_cell:
        law = _law(channel)
        return None if law is None else (law, np.eye(channel.cells))
    if not isinstance(channel, Symbols) or channel.alphabet**channel.positions > 1 << 16:
        return None
    size = channel.alphabet
    laws = np.array(channel.laws, np.float64) / WORD
    rows, marks = [], []
    for state in range(channel.states):
        row = np.ones(1)
        for position in range(channel.positions):
            own = channel.marked(state)
            row = np.multiply.outer(laws[own[1] if own and own[0] == position else 0], row).ravel()
        rows.append(row)
    for position in range(channel.positions):
        digit = np.arange(size**channel.positions) // size**position % size
        marks += [digit == symbol for symbol in range(1, size)]
    marks.append(np.ones(size**channel.positions, bool))
    return np.array(rows), np.array(marks, np.float64).T


# -- the tally -------------------------------------------------------------------------------------


def check_support(plan: Plan) -> None:
    """The tally admits exactly what an honest device can send, one by one and in a batch."""
    layout = plan.layout
    for view in sorted({0, len(plan.views) // 2, len(plan.views) - 1}):
        channel, own = plan.view_channels[view], int(layout.own[view])
        if channel.one_cell:
            _check_codes(plan, view)
        for cells in _sent(channel, own, 16 if layout.cells <= _SMALL else 1):
            _require(_admitted(plan, cells), f"an honest device marks {cells}, and is refused")
        last = own + 1 + channel.cells
        refused = [(own + 1,), (own, last), (own, own), (own, own + 1, own + 1), (-1, own + 1)]
        if channel.one_cell:
            refused += [(own,), (own, own + 1, own + 2)]
        for cells in refused:
            _require(not _admitted(plan, cells), f"no honest device marks {cells}")
    _require(not _admitted(plan, (layout.cells,)), "the tally has no such cell")


def _check_codes(plan: Plan, view: int) -> None:
    """A cell is admitted if and only if some state sends it."""
    layout, channel, own = plan.layout, plan.view_channels[view], int(plan.layout.own[view])
    law = _law(channel)
    for cell in _spread(channel.cells, 64 if layout.cells <= _SMALL else 4):
        possible = law is None or bool(law[:, cell].max() > 0)
        cells = (own, own + 1 + cell)
        _require(_admitted(plan, cells) == possible, f"cells {cells}: possible is {possible}")
        code = np.array([layout.first_code[view] + cell], layout.code_type)
        try:
            counts = Tally(plan).add(Reports(plan.hash, codes=code)).counts
        except ReportError:
            _require(not possible, f"code {code[0]} is refused")
        else:
            marked = np.flatnonzero(counts).tolist()
            _require(possible and marked == list(cells), f"code {code[0]} marks {marked}")


def _sent(channel: Channel, own: int, draws: int) -> set[tuple[int, ...]]:
    """The cells of some reports that were really drawn, from some of the states."""
    found = set()
    for state in _spread(channel.states, 4):
        drawn = _drawn(channel, state, draws, "support")
        for output in drawn:
            marks = [output] if drawn.ndim == 1 else np.flatnonzero(output)
            found.add((own, *(own + 1 + int(cell) for cell in marks)))
    return found


def _admitted(plan: Plan, cells: tuple[int, ...]) -> bool:
    tally = Tally(plan)
    try:
        tally.add(Report(plan.hash, cells))
    except ReportError:
        _require(not tally.counts.any(), "a refused report left marks")
        return False
    marked = np.flatnonzero(tally.counts).tolist()
    _require(marked == sorted(cells) and tally.reports == 1, f"{cells} left other marks")
    return True


# -- the sampler -----------------------------------------------------------------------------------


def check_sampler(channel: Channel, draws: int = 20_000, seed: int | str = 0) -> None:
    """Each state's outputs follow the channel's row. False alarm: ``ALPHA`` for each state."""
    laws = channel.expected() if channel.one_cell else None
    for state in _spread(channel.states, 64 if channel.one_cell else 16):
        drawn = _drawn(channel, state, draws, f"sampler {seed} {state}")
        if laws is not None:
            check_counts(_counted(drawn, channel.cells), laws[state], f"state {state}")
        else:
            law = _marginals(channel, state)
            _check_tails(drawn.sum(axis=0, dtype=np.int64), draws, law, f"state {state}")
            if isinstance(channel, Symbols):
                _check_pairs(channel, drawn, law, state)


def _drawn(channel: Channel, state: int, draws: int, key: str) -> np.ndarray:
    """Outputs of as many people who are all in one state, drawn in runs that stay small."""
    one = np.array([0 if isinstance(channel, Halfspace) else state])
    if isinstance(channel, Halfspace):
        one = _signs(channel, state)[None, :]
    coins, parts = Coins.stated(key), []
    for first in range(0, draws, _RUN):
        people = np.arange(first, min(first + _RUN, draws))
        states = np.repeat(one, len(people), axis=0)
        parts.append(channel.draw(states, Stream(coins, address(people))))
    return np.concatenate(parts)


def _signs(channel: Halfspace, state: int) -> Bits:
    return np.array([state >> place & 1 for place in range(channel.signs)], np.uint8)


def _check_pairs(channel: Symbols, drawn: np.ndarray, law: Floats, state: int) -> None:
    """Neighbouring positions are independent: how often both are marked is a product."""
    step = channel.alphabet - 1
    both = (drawn[:, :-step] & drawn[:, step:]).sum(axis=0, dtype=np.int64)
    _check_tails(both, len(drawn), law[:-step] * law[step:], f"neighbours, state {state}")


def _marginals(channel: Channel, state: int) -> Floats:
    """How often each cell is marked from a state, for channels that mark many."""
    if isinstance(channel, Halfspace):
        signs = _signs(channel, state) * 2.0 - 1.0
        return np.asarray((1.0 + channel.pull * signs) / 2.0, np.float64)
    one = np.zeros(channel.states)
    one[state] = 1.0
    return channel.mix(one)[:-1]


def check_counts(seen: Integers, law: Floats, what: str = "the sampler") -> None:
    """Counts of independent draws follow a law; a correct one is rejected with chance ``ALPHA``.

    Nothing may lie outside the support. Each output has its exact binomial tails, which hold however
    rare it is; chi-square, over bins pooled to ``POOLED`` expected draws, sees what is spread out.
    A bin without draws counts its full expectation.
    """
    draws = int(seen.sum())
    outside = np.flatnonzero((law <= 0) & (seen > 0))
    _require(not len(outside), f"{what}: output {outside[:1]} is impossible and was drawn")
    _check_tails(seen, draws, law, what)
    expected, found = _pooled(law * draws, seen)
    if len(expected) > 1:
        misfit = float(((found - expected) ** 2 / expected).sum())
        tail = float(stats.chi2.sf(misfit, len(expected) - 1))
        _require(tail > ALPHA / 2 / HEAVY, f"{what}: chi-square {misfit:.1f} has a tail of {tail:.2g}")


def _check_tails(seen: Integers, draws: int, law: Floats, what: str) -> None:
    """No count lies in its two-sided exact tail; the level is split over all counts."""
    tails = np.minimum(stats.binom.sf(seen - 1, draws, law), stats.binom.cdf(seen, draws, law))
    worst = int(np.argmin(tails))
    _require(
        bool(tails[worst] > ALPHA / 4 / len(law)),
        f"{what}: output {worst} was drawn {seen[worst]} times, {draws * law[worst]:.1f} are expected",
    )


def _pooled(expected: Floats, seen: Integers) -> tuple[Floats, Floats]:
    """Bins of at least ``POOLED`` expected draws: the rarest outputs first, together."""
    order = np.argsort(expected, kind="stable")
    bins: list[tuple[float, float]] = []
    many, found = 0.0, 0.0
    for place in order:
        many, found = many + float(expected[place]), found + float(seen[place])
        if many >= POOLED:
            bins.append((many, found))
            many, found = 0.0, 0.0
    if many and bins:
        bins[-1] = (bins[-1][0] + many, bins[-1][1] + found)
    return np.array([b[0] for b in bins]), np.array([b[1] for b in bins])


def check_reports(plan: Plan, record: Record, draws: int = 20_000, seed: int | str = 0) -> None:
    """The whole device path: one record's reports follow the law of its mixture of states."""
    reports = plan.privatise(crowd(plan.schema, record, draws), Coins.stated(f"reports {seed}"))
    if reports.codes is not None:
        counts = _counted(reports.codes.astype(np.int64), plan.layout.codes)
        check_counts(counts, report_law(plan, record), plan.mechanism_name)
        return
    counts = Tally(plan).add(reports).counts
    check_counts(counts[plan.layout.own], plan.views.shares, "views")
    law = np.concatenate(
        [
            share * channel.mix(_state_law(plan, view, plan.schema.checked(record)))[:-1]
            for view, (share, channel) in enumerate(
                zip(plan.views.shares, plan.view_channels, strict=True)
            )
        ]
    )
    _check_tails(counts[plan.layout.code_cells], draws, law, plan.mechanism_name)


def crowd(schema: Schema, record: Record, count: int) -> People:
    """So many people who all hold the same record, each with coins of their own."""
    held = schema.checked(record)
    places = sorted(held)
    return People(
        address(np.arange(count)),
        np.arange(count + 1, dtype=np.int64) * len(places),
        np.tile(np.array(places, place_type(schema)), count),
        np.tile(np.array([held[place] for place in places], np.float64), count),
    )


def report_law(plan: Plan, record: Record) -> Floats:
    """Pr[code | record], where every report is one code: view, encoding and channel together."""
    held = plan.schema.checked(record)
    if plan.encode in SETS:
        return _mixed(plan, _set_law(plan, held))
    parts = []
    for view, (share, channel) in enumerate(zip(plan.views.shares, plan.view_channels, strict=True)):
        parts.append(share * (_state_law(plan, view, held) @ channel.expected()))
    return np.concatenate(parts)


def _state_law(plan: Plan, view: int, held: dict[int, float]) -> Floats:
    """The mixture of states that encoding makes of a record."""
    if plan.encode == "item":
        law = np.zeros(len(plan.schema.keys) + 1)
        places = sorted(held)
        for number, place in enumerate(places):
            first, last = (-(-i * WORD // len(places)) for i in (number, number + 1))
            law[1 + place] = (last - first) / WORD
        law[0] = 0.0 if places else 1.0
        return law
    if plan.encode == "padded":
        return _padded_law(plan, held)
    if plan.encode == "size":
        return np.eye(plan.cap)[min(int(bucket_of(len(held))), plan.cap - 1)]
    law = np.ones(1)
    if plan.encode == "signs":
        for place in range(len(plan.schema.keys)):  # the first key is the least significant bit
            high = _digit_law(plan.schema, place, held)[2] if place in held else 0.5
            law = np.concatenate([law * (1 - high), law * high])
        return law
    for place in plan.views.keys[view]:  # the first key is the most significant digit
        law = np.multiply.outer(law, _digit_law(plan.schema, place, held)).ravel()
    return law


def _padded_law(plan: Plan, held: dict[int, float]) -> Floats:
    """The signed key that is drawn: so many words for each number, and for each dummy."""
    places, keys, length = sorted(held), len(plan.schema.keys), plan.cap

    def words(number: int, of: int) -> int:
        first, last = (-(-i * WORD // of) for i in (number, number + 1))
        return last - first

    of = max(len(places), length)
    law = np.zeros(2 * (keys + length))
    for number, place in enumerate(places):
        digits = _digit_law(plan.schema, place, held)
        law[2 * place : 2 * place + 2] = words(number, of) / WORD * digits[1:]
    left = 1.0 - law.sum()
    for dummy in range(length):
        law[2 * (keys + dummy) :][:2] = left * words(dummy, length) / WORD / 2
    return law


def _set_law(plan: Plan, held: dict[int, float]) -> dict[tuple[int, ...], float]:
    """The sets of items that encoding makes of a record with no more keys than the cap."""
    _require(len(held) <= plan.cap, "the law of a record with more keys than the cap is not offered")
    places, found = sorted(held), {}
    laws = [_digit_law(plan.schema, place, held) for place in places]
    for digits in product((1, 2), repeat=len(places)):
        items = [2 * place + digit - 1 for place, digit in zip(places, digits, strict=True)]
        if plan.encode == "pair_items":
            for one, two in combinations(tuple(items), 2):
                first = int(pair_item(len(plan.schema.keys), one // 2, two // 2))
                items.append(first + 2 * (one % 2) + two % 2)
        chances = [law[digit] for law, digit in zip(laws, digits, strict=True)]
        found[tuple(items)] = float(np.prod(chances))
    return found


def _mixed(plan: Plan, law: dict[tuple[int, ...], float]) -> Floats:
    """The law of the outputs when people hold these sets of items."""
    channel = plan.view_channels[0]
    assert isinstance(channel, Collision | CoCo)
    seen = np.zeros(channel.cells)
    for members, chance in law.items():
        if chance:
            seen += chance * channel.law_of(np.array(members, np.int64))
    return seen


def _digit_law(schema: Schema, place: int, held: dict[int, float]) -> Floats:
    """Not held, or the two levels beside the value with the chance that rounding gives them."""
    law = np.zeros(schema.levels + 1)
    if place not in held:
        law[0] = 1.0
        return law
    if schema.levels == 1:
        law[1] = 1.0
        return law
    low, high = float(schema.low[place]), float(schema.high[place])
    at = (held[place] - low) / (high - low) * (schema.levels - 1)
    below = min(int(at), schema.levels - 2)
    up = int((at - below) * WORD) / WORD
    law[below + 1], law[below + 2] = 1 - up, up
    return law


# -- small things ----------------------------------------------------------------------------------


def _require(true: bool, message: str) -> None:
    if not true:
        raise AssertionError(message)


def _same(made: Floats, goal: Floats, size: float, what: str) -> None:
    """Equal up to the cancellation of numbers of that size."""
    off = float(np.abs(made - goal).max(initial=0.0))
    _require(off <= 1e-9 * (1.0 + size), f"{what}: off by {off}")


def _counted(outputs: np.ndarray, size: int) -> Integers:
    outside = outputs[(outputs < 0) | (outputs >= size)]
    _require(not len(outside), f"output {outside[:1]} does not exist and was drawn")
    return np.bincount(outputs, minlength=size)


def _spread(count: int, most: int) -> list[int]:
    """All of few, or so many of many, first and last included."""
    if count <= most:
        return list(range(count))
    return sorted({i * (count - 1) // (most - 1) for i in range(most)})
