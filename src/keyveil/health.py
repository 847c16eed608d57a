"""Health of a tally: what no honest population could have sent, each check with its false-alarm rate.

Whatever people hold, some things about their reports are known beforehand. ``views`` and ``seeds``:
devices draw them with public weights. ``mixture``: the outputs of a view, or the signs of a key, follow
a mixture of the channel's rows. ``shares``: no cell, position or item, and no key by either sign, is met
less or more often than the channel allows from any record, so that no frequency lies above 1, no mass
above its frequency, and no sum of frequencies above the cap.
``marks``: how many positions reports mark. ``change``, with a second tally: whether both are draws from
one population.

People are a fixed, unknown crowd. Their reports are independent but not alike, and every test allows for
that: a count of unlike coins lies between the binomials of the least and the most likely one, and is no
further out than a binomial of their mean (Hoeffding 1956, 1963). P-values are exact or bounds, except
where chi-square is named (then every cell expects ten), and are corrected for how many were looked at
(Holm). A check that does not apply says so; nothing is dropped.

What stays inside these limits cannot be told from people: fakes that draw their view and lie about one
key look like more people who hold it. ``poison`` says how far that can go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np

from .arrays import WORD, Floats, Integers
from .channel import (
    Channel,
    CoCo,
    Collision,
    Halfspace,
    Hash,
    Product,
    Subset,
    Symbols,
    Symmetric,
    Table,
)
from .encode import SETS
from .errors import PlanError
from .estimate.likelihood import fit
from .estimate.project import onto_simplex
from .plan import Plan
from .poollimits import MOST_HASHED, cells_of, coco_limits, collision_limits, one_sided, too_many
from .tails import above, below, chi_square_above, entropy_above
from .tally import Tally

FALSE_ALARM = 1e-3
EXPECTED = 10.0
"""What every cell of a chi-square expects at least; cells that expect less are put together."""
MOST_STATES = 128
MOST_NAMED = 20


@dataclass(frozen=True)
class Finding:
    """One check: what was found, how likely that is by chance, and what it means."""

    check: str
    statistic: float
    p_value: float
    """The chance, or a bound on it, that an honest tally is found as odd as this one."""
    false_alarm: float
    """A p-value below this is suspicious; so honest tallies are found suspicious at most so often."""
    verdict: str
    """fine, suspicious or not checked."""
    meaning: str
    where: tuple[str, ...] = ()
    """Views, keys or seeds that are suspicious each by itself."""

    @property
    def suspicious(self) -> bool:
        """Whether honest people would hardly ever be found like this."""
        return self.verdict == "suspicious"

    def document(self) -> dict[str, Any]:
        """As JSON."""
        made = dict(self.__dict__)
        made["where"] = list(self.where)
        if self.verdict == "not checked":
            made["statistic"] = made["p_value"] = None
        return made


@dataclass(frozen=True)
class Health:
    """The findings of all checks."""

    reports: int
    findings: tuple[Finding, ...]

    @property
    def suspicious(self) -> bool:
        """Whether any check is."""
        return any(finding.suspicious for finding in self.findings)

    @property
    def false_alarm(self) -> float:
        """How often, at most, an honest tally has any suspicious finding."""
        return sum(f.false_alarm for f in self.findings if f.verdict != "not checked")

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "reports": self.reports,
            "suspicious": self.suspicious,
            "false_alarm": self.false_alarm,
            "findings": [finding.document() for finding in self.findings],
        }


def health(
    plan: Plan, tally: Tally, other: Tally | None = None, *, false_alarm: float = FALSE_ALARM
) -> Health:
    """All checks of a tally, each with the stated rate of false alarms; ``other`` is compared to it."""
    tally.belongs_to(plan)
    if not 0 < false_alarm < 1:
        raise PlanError("a rate of false alarms lies between 0 and 1, like 0.001")
    if not tally.reports or (other is not None and not other.reports):
        raise PlanError("a tally without reports has no health; count some first")
    made = [
        check_views(plan, tally, false_alarm),
        check_seeds(plan, tally, false_alarm),
        check_mixture(plan, tally, false_alarm),
        check_shares(plan, tally, false_alarm),
        check_marks(plan, tally, false_alarm),
    ]
    if other is not None:
        other.belongs_to(plan)
        made.append(check_change(plan, tally, other, false_alarm))
    return Health(tally.reports, tuple(made))


def _unchecked(check: str, why: str, false_alarm: float) -> Finding:
    return Finding(check, 0.0, 1.0, false_alarm, "not checked", why)


def _finding(
    check: str,
    statistic: float,
    p_value: float,
    false_alarm: float,
    fine: str,
    odd: str,
    where: Sequence[str] = (),
) -> Finding:
    odd_one = p_value < false_alarm
    named = tuple(where[:MOST_NAMED]) if odd_one else ()
    verdict = "suspicious" if odd_one else "fine"
    return Finding(
        check, float(statistic), min(1.0, p_value), false_alarm, verdict, odd if odd_one else fine, named
    )


def holm(p_values: Floats, rate: float) -> np.ndarray:
    """Which of many p-values are suspicious at a rate that is for all of them together."""
    order = np.argsort(p_values, kind="stable")
    many = len(p_values)
    kept = np.minimum.accumulate(p_values[order] * (many - np.arange(many)) < rate)
    found = np.zeros(many, bool)
    found[order[kept]] = True
    return found


def _corrected(p_values: Floats) -> float:
    """The p-value of the oddest of many."""
    return min(1.0, float(p_values.min(initial=1.0)) * len(p_values))


# -- what devices draw -------------------------------------------------------------------------------


def drawn_evenly(counts: Integers, weights: Floats) -> tuple[float, float, Floats]:
    """Whether counts are draws with these weights: statistic, p-value, and each one's own p-value.

    Half of the rate is for the oddest count by itself (exact binomial, as many tests as counts), half
    for all together (chi-square, neighbours put together until each expects ten).
    """
    n = int(counts.sum())
    each = np.minimum(1.0, 2 * np.minimum(above(counts, n, weights), below(counts, n, weights)))
    merged, expected = _merged(counts.astype(np.float64), n * weights)
    statistic = float(((merged - expected) ** 2 / expected).sum())
    all_of_them = chi_square_above(statistic, len(merged) - 1) if len(merged) > 1 else 1.0
    return statistic, min(1.0, 2 * min(all_of_them, _corrected(each))), each


def _merged(counts: Floats, expected: Floats) -> tuple[Floats, Floats]:
    """Neighbouring cells put together until each expects enough; the last takes what is left."""
    if expected.min(initial=np.inf) >= EXPECTED:
        return counts, expected
    number = np.floor(np.cumsum(expected) / EXPECTED * (1 - 1e-12)).astype(np.int64)
    number = np.minimum(number, max(0, int(expected.sum() / EXPECTED) - 1))
    first = np.concatenate([[True], number[1:] != number[:-1]])
    at = np.flatnonzero(first)
    seen, due = np.add.reduceat(counts, at), np.add.reduceat(expected, at)
    small = np.flatnonzero(due < EXPECTED)
    if len(small) and len(due) > 1:  # a heavy cell may leave a light one before it
        keep = due >= EXPECTED
        rest_seen, rest_due = seen[~keep].sum(), due[~keep].sum()
        seen, due = seen[keep], due[keep]
        if len(due):
            seen[-1], due[-1] = seen[-1] + rest_seen, due[-1] + rest_due
    return seen, due


def check_views(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """The drawn views follow the plan's public weights, whatever people hold."""
    if len(plan.views) == 1:
        return _unchecked("views", "this plan has one view: no device draws any", false_alarm)
    counts = tally.counts[plan.layout.own]
    statistic, p_value, each = drawn_evenly(counts, plan.views.shares)
    odd = np.flatnonzero(holm(each, false_alarm))
    odd = odd[np.argsort(each[odd], kind="stable")]
    return _finding(
        "views",
        statistic,
        p_value,
        false_alarm,
        "views were drawn with the plan's weights",
        "views were not drawn with the plan's weights: someone chose what to speak of",
        [_view_name(plan, int(view)) for view in odd],
    )


def _view_name(plan: Plan, view: int) -> str:
    keys = plan.views.keys[view]
    if len(keys) > 1 and len(keys) == len(plan.schema.keys):
        return "all keys"
    return " + ".join(plan.schema.keys[key] for key in keys)


def _pool(channel: Channel) -> int:
    """How many seeds a channel draws from; 0 if it has none."""
    return channel.pool if isinstance(channel, Hash | Collision | CoCo) else 0


def check_seeds(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """The drawn seeds are even over the pool."""
    pool = _pool(plan.channels[0])
    if pool < 2:
        return _unchecked("seeds", "reports of this plan carry no seed", false_alarm)
    counts = tally.view_counts(0)[1].reshape(pool, -1).sum(axis=1)
    statistic, p_value, each = drawn_evenly(counts, np.full(pool, 1.0 / pool))
    odd = np.flatnonzero(holm(each, false_alarm))
    return _finding(
        "seeds",
        statistic,
        p_value,
        false_alarm,
        "seeds were drawn evenly from the pool",
        "seeds were not drawn evenly: someone searched for those under which keys collide",
        [f"seed {seed}" for seed in odd],
    )


# -- what channels allow -----------------------------------------------------------------------------


def _parts(plan: Plan, tally: Tally) -> Iterator[tuple[Channel, list[str], Floats]]:
    """Channels with a row of output counts for each of some names: views, digits of one view, or keys.

    Only those whose laws can be written out.
    """
    if plan.encode == "padded" and isinstance(plan.channels[0], Symbols | Symmetric):
        yield _signs(plan, plan.channels[0], tally)
    for number, channel in enumerate(plan.channels):
        views = plan.views_of(number)
        if not channel.one_cell or _pool(channel) or not views:
            continue
        cells = plan.layout.own[views][:, None] + 1 + np.arange(channel.cells)
        counts = tally.counts[cells].astype(np.float64)
        names = [_view_name(plan, view) for view in views]
        if isinstance(channel, Product):
            shape = (channel.inner.cells,) * channel.digits
            for view, row in zip(views, counts, strict=True):
                grid, keys = row.reshape(shape), plan.views.keys[view]
                digits = [
                    grid.sum(axis=tuple(i for i in range(channel.digits) if i != place))
                    for place in range(channel.digits)
                ]
                yield channel.inner, [plan.schema.keys[key] for key in keys], np.array(digits)
        elif channel.states <= MOST_STATES and not isinstance(channel, Halfspace):
            yield channel, names, counts


def _signs(plan: Plan, channel: Symbols | Symmetric, tally: Tally) -> tuple[Channel, list[str], Floats]:
    """Of every key of a padded record: how often neither, its low or its high sign is met.

    A report is about the key with a chance of one in the length at the most. So the three shares are a
    mixture of three laws, and outside of it a frequency lies above 1 or a mass above its frequency.
    """
    keys, drawn = list(plan.schema.keys), _drawn(plan)
    n, cells = tally.view_counts(0)
    counts = cells.astype(np.float64)
    if isinstance(channel, Symbols):
        law = np.array(channel.laws, np.float64) / WORD
        counts = counts @ channel.shown if channel.one_cell else counts
    else:
        keep, lie = channel.keep / WORD, (WORD - channel.keep) / (channel.states - 1) / WORD
        law = np.array([[lie, lie], [keep, lie], [lie, keep]])
        law = np.column_stack([1.0 - law.sum(axis=1), law])
    law = law[0] + drawn * (law - law[0])
    signs = counts.reshape(-1, law.shape[1] - 1)[: len(keys)]
    return Table.rounded(law), keys, np.column_stack([n - signs.sum(axis=1), signs])


def check_mixture(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Each view's outputs are a mixture of its channel's rows, by the best-fitting one.

    The statistic is the log-likelihood that the best mixture lacks, in nats; that of the true mean law
    is no smaller, and its tail is bounded for any number of reports (``tails.entropy_above``).
    """
    p_values: list[float] = []
    names: list[str] = []
    worst = 0.0
    for channel, views, counts in _parts(plan, tally):
        lacking = _lacking(channel, counts)
        cells = int((channel.possible > 0).sum())
        p_values += [entropy_above(nats, cells) for nats in lacking.tolist()]
        names += views
        worst = max(worst, float(lacking.max(initial=0.0)))
    if not p_values:
        why = "the tally keeps no whole outputs that a mixture could be fitted to"
        return _unchecked("mixture", why, false_alarm)
    each = np.array(p_values)
    odd = np.flatnonzero(holm(each, false_alarm))
    return _finding(
        "mixture",
        worst,
        _corrected(each),
        false_alarm,
        "some honest population would have sent these outputs",
        "no honest population would have sent these outputs, whatever it holds",
        [names[row] for row in odd],
    )


def _lacking(channel: Channel, counts: Floats) -> Floats:
    """For each row of counts, the nats by which the best mixture falls short of the counts' own law."""
    n = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, n, out=np.zeros_like(counts), where=n > 0)

    def short(laws: Floats) -> Floats:
        seen = np.maximum(channel.mix(laws), 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(counts > 0, counts * np.log(shares / seen), 0.0)
        return np.asarray(np.maximum(each.sum(axis=1), 0.0))

    # Any mixture at all is at least as far; only rows that one near at hand does not explain are fitted.
    near = onto_simplex(shares @ np.linalg.pinv(channel.expected()))
    found = short(0.999 * near + 0.001 / channel.states)
    cells = int((channel.possible > 0).sum())
    rows = np.flatnonzero([entropy_above(nats, cells) < 0.5 for nats in found.tolist()])
    if len(rows):
        best = fit(channel, counts[rows])
        exact = np.full(len(counts), np.inf)
        exact[rows] = np.maximum(_rows(short, best.laws, rows, len(counts)) - best.gap, 0.0)
        found = np.minimum(found, exact)
    return found


def _rows(short: Any, laws: Floats, rows: Integers, count: int) -> Floats:
    whole = np.full((count, laws.shape[1]), 1.0 / laws.shape[1])
    whole[rows] = laws
    return np.asarray(short(whole)[rows])


@dataclass(frozen=True)
class _Met:
    """How often something is met in so many reports, and the least and most often it may be."""

    names: list[str]
    counts: Floats
    reports: Floats
    least: Floats
    most: Floats


def _met(plan: Plan, tally: Tally) -> Iterator[_Met]:
    """Cells, positions' symbols, signs and items, each with the channel's limits."""
    for number, channel in enumerate(plan.channels):
        for view in plan.views_of(number):
            n, cells = tally.view_counts(view)
            made = _met_in(plan, channel, _view_name(plan, view), n, cells.astype(np.float64))
            if made is not None:
                yield made


def _met_in(plan: Plan, channel: Channel, name: str, n: int, cells: Floats) -> _Met | None:
    def made(names: list[str], counts: Floats, least: Any, most: Any) -> _Met:
        shape = (len(counts),)
        low, high = (np.broadcast_to(np.asarray(end, np.float64), shape) for end in (least, most))
        return _Met(names, counts, np.full(shape, float(n)), low, high)

    keys = plan.schema.keys
    if isinstance(channel, Halfspace):
        marks = cells @ channel._vectors() if channel.one_cell else cells
        return made(list(keys), marks, (1 - channel.pull) / 2, (1 + channel.pull) / 2)
    if _pool(channel):
        return _met_items(plan, channel, n, cells)
    if isinstance(channel, Symbols) and not channel.one_cell:
        law = np.array(channel.laws, np.float64)[:, 1:] / WORD
        law = law[0] + _drawn(plan) * (law - law[0])
        low, high = (np.tile(end, channel.positions) for end in (law.min(axis=0), law.max(axis=0)))
        return made(_cell_names(plan, channel, name), cells, low, high)
    if isinstance(channel, Subset) and not channel.one_cell:
        show = channel.show / WORD
        fake = (channel.size - show) / (channel.states - 1)
        # The sampler's own rounding is below a millionth of a share.
        return made([name] * len(cells), cells, min(show, fake) - 1e-6, max(show, fake) + 1e-6)
    if isinstance(channel, Symmetric):
        lie = (channel.lie + bool(channel.rest)) / WORD
        most = lie + _drawn(plan) * max(channel.keep / WORD - lie, 0.0)
        return made(_cell_names(plan, channel, name), cells, channel.lie / WORD, most)
    if isinstance(channel, Product) or not channel.one_cell:
        return None  # a product's digits are each looked at as a mixture
    rows = channel.expected()
    return made([name] * len(cells), cells, rows.min(axis=0), rows.max(axis=0))


def _drawn(plan: Plan) -> float:
    """The chance, at most, that a report is about one key: one in the length of padded ones."""
    return -(-WORD // plan.cap) / WORD if plan.encode == "padded" else 1.0


def _cell_names(plan: Plan, channel: Channel, view: str) -> list[str]:
    """What each cell stands for: its view, or where a report names one item, the item's key."""
    keys = plan.schema.keys
    if plan.encode not in ("item", "padded") or not isinstance(channel, Symbols | Symmetric):
        return [view] * channel.cells
    first = ["no key"] if plan.encode == "item" and isinstance(channel, Symmetric) else []
    per = (channel.cells - len(first)) // (channel.states // 2 if plan.encode == "padded" else len(keys))
    named = [*first, *(key for key in keys for _ in range(per))]
    return named + ["a dummy key"] * (channel.cells - len(named))


def _met_items(plan: Plan, channel: Channel, n: int, cells: Floats) -> _Met | None:
    """How often the cell of each item is named, over all seeds."""
    keys, limits = plan.schema.keys, None
    grid = cells.reshape(_pool(channel), -1)
    if isinstance(channel, Hash):
        law = channel.inner.expected()
        names, count, of = list(keys), len(keys), (float(law.min()), float(law.max()))
    else:
        assert isinstance(channel, Collision | CoCo)
        proof = channel.proof()
        names, count = [key for key in keys for _ in (0, 1)], 2 * len(keys)
        of = (proof.denominator / WORD, max(channel.high, proof.numerator) / WORD)
        if isinstance(channel, Collision):
            limits = collision_limits(channel, plan.encode, len(keys), plan.cap)
    if count * len(grid) > MOST_HASHED:
        return None
    named = np.zeros(count)
    step = max(1, (1 << 22) // len(grid))
    seeds = np.arange(len(grid))[:, None]
    for first in range(0, count, step):
        items = np.arange(first, min(first + step, count))
        at = channel.hashes[:, items] if isinstance(channel, Hash) else cells_of(channel, items)
        named[items] = grid[seeds, at].sum(axis=0)
    least = np.full(count, of[0]) if limits is None else limits.item
    return _Met(names, named, np.full(count, float(n)), least, np.full(count, of[1]))


def _met_keys(plan: Plan, tally: Tally) -> _Met | None:
    """How often each key is met by either sign, and the least and most often it may be.

    Signs may each stay within their limits where both together say that more than everyone holds the
    key. A report meets a key or does not, so these are counts of coins like the others.
    """
    channel, keys = plan.channels[0], plan.schema.keys
    if plan.encode not in ("padded", *SETS) or len(plan.views) > 1:
        return None
    n, cells = tally.view_counts(0)
    counts = cells.astype(np.float64)
    if plan.encode in SETS:
        found = _both_signs(channel, plan.encode, len(keys), plan.cap, counts)
        if found is None:
            return None
        met, least, most = found
        return _Met(list(keys), met, np.full(len(keys), float(n)), least, most)
    drawn, rows = _drawn(plan), len(keys)
    names = [*keys, "all keys"]
    if isinstance(channel, Symmetric):
        signs = counts.reshape(-1, 2)[:rows].sum(axis=1)
        keep, lie = channel.keep / WORD, channel.lie / WORD
        lie_ = (channel.lie + bool(channel.rest)) / WORD
        own = 2 * lie_ + drawn * max(keep - lie_, 0.0)
        # Of all keys together: what no dummy gets, and what a record that is all dummies leaves them.
        ends = max(0.0, 1.0 - keep - (2 * plan.cap - 1) * lie_), 1.0 - 2 * plan.cap * lie
        low, high = np.full(rows + 1, 2 * lie), np.full(rows + 1, own)
        low[-1], high[-1] = ends
        met = np.append(signs, signs.sum())
        return _Met(names, met, np.full(rows + 1, float(n)), low, high)
    if not isinstance(channel, Symbols) or channel.alphabet < 3:
        return None
    if channel.one_cell:
        counts = counts @ channel.shown
    marked = counts.reshape(channel.positions, -1)[:rows].sum(axis=1)
    law = 1.0 - np.array(channel.laws, np.float64)[:, 0] / WORD
    law = law[0] + drawn * (law - law[0])
    low, high = np.full(rows, law.min()), np.full(rows, law.max())
    return _Met(list(keys), marked, np.full(rows, float(n)), low, high)


def _both_signs(
    channel: Channel, encode: str, keys: int, cap: int, counts: Floats
) -> tuple[Floats, Floats, Floats] | None:
    """Of a pool's keys: how often the cell of either sign is named, the least and the most."""
    pool = _pool(channel)
    if not isinstance(channel, Collision | CoCo) or 2 * keys * pool > MOST_HASHED:
        return None
    if isinstance(channel, Collision):
        limits = collision_limits(channel, encode, keys, cap)
        if limits is None:
            return None
        least, most = limits.least, limits.most
    else:
        # A pair of cells that is claimed has exactly high + low; another one what is left, twice.
        left = [channel.left(claimed) for claimed in range(channel.held + 1)]
        pair = channel.high + channel.low
        least = np.full(keys, min(pair, *(2 * weight for weight, _ in left)) / WORD)
        most = np.full(keys, max(pair, *(2 * (weight + bool(rest)) for weight, rest in left)) / WORD)
    at = cells_of(channel, np.arange(2 * keys))
    low, high = at[:, ::2], at[:, 1::2]
    grid, seeds = counts.reshape(pool, -1), np.arange(pool)[:, None]
    met = grid[seeds, high].sum(axis=0) + np.where(low != high, grid[seeds, low], 0.0).sum(axis=0)
    return met, least, most


def _of_sets(plan: Plan, tally: Tally) -> Iterator[tuple[str, float]]:
    """Of keys in hash pools, each with a bound on its chance: a mass above its frequency, and all keys
    held by more people than each may hold."""
    channel, keys = plan.channels[0], plan.schema.keys
    n, cells = tally.view_counts(0)
    grid = cells.astype(np.float64).reshape(_pool(channel) or 1, -1)
    if isinstance(channel, CoCo) and 2 * len(keys) * channel.pool <= MOST_HASHED:
        mirrored = coco_limits(channel, len(keys))
        if mirrored is not None:
            at = cells_of(channel, np.arange(2 * len(keys)))
            signs = grid[np.arange(channel.pool)[:, None], at].sum(axis=0).reshape(-1, 2)
            p_values = one_sided(channel, mirrored, float(n), signs)
            yield from zip([key for key in keys for _ in (0, 1)], p_values.ravel().tolist(), strict=True)
    if isinstance(channel, Collision) and plan.encode == "items":
        limits = collision_limits(channel, plan.encode, len(keys), plan.cap)
        if limits is not None:
            yield "all keys", too_many(channel, len(keys), grid, limits)


def check_shares(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """No cell, position, sign, item or key is met less or more often than from any record."""
    found = list(_met(plan, tally))
    by_key = _met_keys(plan, tally)
    if by_key is not None:
        found.append(by_key)
    if not found:
        why = "what is met in these reports has no limits that are looked at one by one"
        return _unchecked("shares", why, false_alarm)
    counts, reports, least, most = (
        np.concatenate([getattr(met, part) for met in found])
        for part in ("counts", "reports", "least", "most")
    )
    sets = list(_of_sets(plan, tally))
    p_values = np.concatenate(
        [above(counts, reports, most), below(counts, reports, least), [chance for _, chance in sets]]
    )
    names = [name for met in found for name in met.names] * 2 + [name for name, _ in sets]
    odd = np.flatnonzero(holm(p_values, false_alarm))
    where = list(dict.fromkeys(names[row] for row in odd))
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.nan_to_num(np.maximum(counts / reports - most, least - counts / reports))
    return _finding(
        "shares",
        float(max(over.max(initial=0.0), 0.0)),
        _corrected(p_values),
        false_alarm,
        "nothing is met more or less often than honest reports allow",
        "something is met more or less often than from any honest person, even if all were alike",
        where,
    )


def check_marks(plan: Plan, tally: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """How many positions a report marks: the channel says so, all but one whatever the record is."""
    channel = plan.channels[0]
    if channel.one_cell or len(plan.views) > 1 or not isinstance(channel, Symbols | Subset):
        why = "reports of this plan mark one cell, or any number of them"
        return _unchecked("marks", why, false_alarm)
    n, cells = tally.view_counts(0)
    fine = "reports mark as many positions as honest ones do"
    odd = "reports mark more or fewer positions than honest ones do: someone marks many keys at once"
    if isinstance(channel, Subset):
        marks, due = int(cells.sum()), n * channel.size
        return _finding("marks", abs(marks - due), float(marks == due), false_alarm, fine, odd)
    symbols = cells.reshape(channel.positions, -1).sum(axis=0)
    law = np.array(channel.laws, np.float64)[:, 1:] / WORD
    p_values, worst = [], 0.0
    for symbol, total in enumerate(symbols.tolist()):
        back, own = float(law[0, symbol]), law[1:, symbol]
        if channel.silent:
            own = np.append(own, back)
        rest = (channel.positions - 1) * back
        low, high = n * (rest + float(own.min())), n * (rest + float(own.max()))
        worst = max(worst, (total - high) / n, (low - total) / n)
        p_values += [
            _chernoff(total, n, channel.positions - 1, back, float(own.max()), up=True),
            _chernoff(total, n, channel.positions - 1, back, float(own.min()), up=False),
        ]
    return _finding("marks", max(worst, 0.0), _corrected(np.array(p_values)), false_alarm, fine, odd)


def _chernoff(total: int, n: int, others: int, back: float, own: float, *, up: bool) -> float:
    """A bound on the chance that n reports have so many marks, ``others`` positions each and one own."""
    mean = n * (others * back + own)
    if (total <= mean) if up else (total >= mean):
        return 1.0

    def exponent(tilt: float) -> float:
        grown = exp(tilt) - 1
        return n * (others * np.log1p(back * grown) + np.log1p(own * grown)) - tilt * total

    low, high = (0.0, 1.0) if up else (-1.0, 0.0)
    while up and exponent(2 * high) < exponent(high) and high < 50:
        high *= 2
    while not up and exponent(2 * low) < exponent(low) and low > -50:
        low *= 2
    low, high = 2 * low, 2 * high
    for _ in range(200):  # the exponent is convex in the tilt
        one, two = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, two) if exponent(one) < exponent(two) else (one, high)
    return exp(min(0.0, max(-700.0, float(exponent((low + high) / 2)))))


# -- two tallies -------------------------------------------------------------------------------------


def check_change(plan: Plan, tally: Tally, other: Tally, false_alarm: float = FALSE_ALARM) -> Finding:
    """Whether two tallies of a plan, such as those of two days, are draws from one population."""
    tally.belongs_to(plan)
    other.belongs_to(plan)
    p_values: list[float] = []
    names: list[str] = []
    one, two = list(_parts(plan, tally)), list(_parts(plan, other))
    for (_, views, first), (_, _, second) in zip(one, two, strict=True):
        for name, a, b in zip(views, first, second, strict=True):
            names.append(name)
            p_values.append(_alike(a, b))
    if not one:
        for met, met_ in zip(_met(plan, tally), _met(plan, other), strict=True):
            names += met.names
            for a, n, b, m in zip(met.counts, met.reports, met_.counts, met_.reports, strict=True):
                p_values.append(_alike(np.array([a, n - a]), np.array([b, m - b])))
    if not p_values:
        return _unchecked(
            "change", "what two tallies of this plan have in common is not compared", false_alarm
        )
    each = np.array(p_values)
    odd = np.flatnonzero(holm(each, false_alarm))
    return _finding(
        "change",
        float(-np.log10(max(each.min(), 1e-300))),
        _corrected(each),
        false_alarm,
        "both tallies may be draws from one population",
        "the two tallies are not draws from one population: people changed, or someone began to cheat",
        list(dict.fromkeys(names[row] for row in odd)),
    )


def _alike(one: Floats, two: Floats) -> float:
    """Whether two rows of counts have one law: chi-square, or for few counts an exact bound."""
    n, m = one.sum(), two.sum()
    if n == 0 or m == 0:
        return 1.0
    seen = one + two
    order = np.argsort(-seen, kind="stable")
    one, two, seen = one[order], two[order], seen[order]
    part = min(n, m) / (n + m)
    enough = seen * part >= EXPECTED
    if enough.sum() >= 2 or (enough.any() and not enough.all()):
        kept = int(enough.sum())
        rows = np.array([np.append(row[:kept], row[kept:].sum()) for row in (one, two)])
        if rows[:, -1].sum() * part < EXPECTED:  # what is left is too little for a cell of its own
            rows[:, -2] += rows[:, -1]
            rows = rows[:, :-1]
        if rows.shape[1] >= 2:
            due = rows.sum(axis=0) * (np.array([[n], [m]]) / (n + m))
            return chi_square_above(float(((rows - due) ** 2 / due).sum()), rows.shape[1] - 1)
    # The rarer outputs given how often they were seen in all: binomial, which is wider than exact.
    rare = float(seen[1:].sum())
    share = float(n / (n + m))
    count = float(one[1:].sum())
    both = min(float(above(count, rare, share)), float(below(count, rare, share)))
    return min(1.0, 2 * both)


__all__ = [
    "FALSE_ALARM",
    "Finding",
    "Health",
    "check_change",
    "check_marks",
    "check_mixture",
    "check_seeds",
    "check_shares",
    "check_views",
    "drawn_evenly",
    "health",
    "holm",
]
