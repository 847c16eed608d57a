"""Prior: what is believed of people before anyone has answered.

It steers which plan is chosen and what error is predicted; no estimate ever uses it. Keys are spoken
of by *representatives*, each standing for a number of keys: which key is which does not matter to a
choice, only how many are held how often and how their values lie.

**Defaults**, where nothing is said: people hold three keys in ten on average; how often single keys are
held follows the law 1 - (1 - u)^(1 / b) (many seldom, few often; even when half are held); keys' means
lie a fifth of the range to either side of its middle; values spread by a quarter of the range around
their key's mean; how many keys one person holds is a beta-binomial with shape 2, about as uneven as
shops and film ratings are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from ..foundation.arrays import Floats
from ..foundation.coins import Coins
from ..foundation.errors import PlanError
from .prior_laws import CLASSES, GRID, HELD, POINTS, class_frequencies, usual_sizes, value_law
from .rounding import between_levels, rounding
from .scale import Scale
from .table_sample import Sample

if TYPE_CHECKING:
    from .people import People
    from .schema import Schema


SPREAD = 0.5
"""The default standard deviation of a key's values on [-1, 1]."""
BETWEEN = 0.4
"""The default distance of keys' means to either side of their middle."""
MOST_TOGETHER = 1 << 22
"""The most cells (keys by numbers of keys) of a table that a prior keeps."""
MOST_VIEWS = 1 << 10
"""The number of views that are sampled, where there are more."""
FEWEST_SAMPLED = 1 << 9
"""The least number of people per sampled view."""
MOST_LOOKED = 1 << 20
"""The target number of (person, view) samples."""


def three_digits(number: float) -> str:
    """An average number of keys in three digits: 2.11, 15, 2,520."""
    return f"{float(f'{number:.3g}'):,.10g}"


def enough_people(people: int) -> str:
    """A needed number of people in three digits, rounded up so that it is enough: 946,000,000."""
    unit = 10 ** max(0, len(str(people)) - 3)
    return f"{-(-people // unit) * unit:,}"


def keys_in_words(held: float) -> str:
    """An average number of keys with its noun."""
    return f"{three_digits(held)} {'key' if round(held, 2) == 1 else 'keys'}"


@dataclass(frozen=True)
class Prior:
    """Representative keys, the law of their values, and how many keys people hold.

    ``of`` makes one from a few numbers, and ``of_people`` from a table.
    """

    count: Floats
    """How many keys each representative stands for; they sum to the number of keys."""
    frequency: Floats
    values: Floats
    """For each representative, the law of its holders' values over ``GRID``."""
    sizes: Floats
    """The share of people who hold 0, 1, 2, ... keys."""
    source: str = "stated"
    """Where it is from, in words for people."""
    together: Floats | None = None
    """Where a table tells: for each representative and each number of keys, the share of people who
    hold the one and have the other, and the sum of their values (of its key, on [-1, 1])."""
    sample: Sample | None = field(default=None, repr=False, compare=False)
    """Where a table tells: some of its people, who say how keys go together."""
    _kept: dict[tuple[Any, ...], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Results that were computed before, by the method and its arguments."""

    def __repr__(self) -> str:
        held = float(self.sizes @ np.arange(len(self.sizes)))
        known = self.source.partition(" held on average, ")[2] or self.source  # held is said once
        return f"Prior({self.count.sum():.0f} keys, {three_digits(held)} held on average, {known})"

    def __post_init__(self) -> None:
        if not len(self.count) == len(self.frequency) == len(self.values):
            raise PlanError("a prior has a count, a frequency and values for each representative key")
        if not ((self.frequency >= 0).all() and (self.frequency <= 1).all()):
            raise PlanError("a prior's frequencies lie between 0 and 1")
        for law in (self.sizes[None, :], self.values):
            if (law < 0).any() or np.abs(law.sum(axis=1) - 1.0).max() > 1e-6:
                raise PlanError("a prior's values and sizes are shares that sum to one")

    # -- making ----------------------------------------------------------------------------------

    @classmethod
    def of(
        cls,
        keys: int | Schema,
        *,
        held: SupportsFloat | None = None,
        mean: SupportsFloat | None = None,
        spread: SupportsFloat | None = None,
        between: SupportsFloat | None = None,
        sizes: ArrayLike | None = None,
    ) -> Prior:
        """A prior in a few numbers: keys held on average, and the mean and spread of values.

        ``between`` is how far keys' own means lie to either side of ``mean``; ``sizes`` the share
        of people who hold 0, 1, 2, ... keys, which then also says how many are held on average.
        For a schema, ``mean``, ``spread`` and ``between`` are on its ``Scale``: the values' own range.
        For a number of keys they are on [-1, 1].
        """
        keys, scale = _keys_of(keys)
        held = _number_or_none(held, "held")
        mean, spread, between = _on_unit_scale(
            scale,
            _number_or_none(mean, "mean"),
            _number_or_none(spread, "spread"),
            _number_or_none(between, "between"),
        )
        law = None if sizes is None else _checked_sizes(sizes, keys)
        if law is not None:
            held = float(law @ np.arange(len(law)))
        elif held is None:
            held = HELD * keys
        if not 0 < held <= keys:
            raise PlanError(
                f"keys held on average must lie above 0 and be at most {keys}, the number of keys; "
                "do not count keys that the schema lacks"
            )
        share = held / keys
        frequency = class_frequencies(share, min(CLASSES, keys))
        apart = min(BETWEEN, 1 - abs(mean)) if between is None else between
        means = np.clip([mean - apart, mean, mean + apart], -0.99, 0.99)
        count = np.full(3 * len(frequency), keys / (3 * len(frequency)))
        laws = [value_law(center, spread) for center in means]
        return cls(
            count,
            np.repeat(frequency, 3),
            np.array(laws * len(frequency)),
            usual_sizes(share, keys) if law is None else law,
            f"{keys_in_words(held)} held on average, "
            f"means near {scale.value(mean):.6g}, spread {scale.half * spread:.6g} {scale}",
        )

    @classmethod
    def of_people(cls, schema: Schema, people: People) -> Prior:
        """What a table knows: every key for itself, and how many keys its people hold."""
        keys, total = len(schema.keys), len(people)
        if not total:
            raise PlanError("a prior needs at least one person")
        place = people.keys.astype(np.int64)
        holders = np.bincount(place, minlength=keys).astype(np.float64)
        shares = schema.unit_interval(place, people.values)
        below, up = between_levels(shares * (POINTS - 1), POINTS)
        cells = place * POINTS + below
        mass = np.bincount(cells, 1.0 - up, keys * POINTS)
        mass += np.bincount(cells + 1, up, keys * POINTS)
        values = mass.astype(np.float64).reshape(keys, POINTS)
        values[holders == 0] = value_law(0.0, SPREAD)  # no one holds it: nothing is known
        values /= values.sum(axis=1, keepdims=True)
        number = np.diff(people.starts)
        sizes = np.bincount(number) / total
        together = None
        if keys * len(sizes) <= MOST_TOGETHER:
            cells = place * len(sizes) + np.repeat(number, number)
            sums = [np.bincount(cells, x, keys * len(sizes)) for x in (None, 2.0 * shares - 1.0)]
            together = np.stack(sums, axis=-1).reshape(keys, len(sizes), 2) / total
        source = f"a table of {total:,} people"
        sample = Sample.of(people, shares)
        return cls(np.ones(keys), holders / total, values, sizes, source, together, sample)

    # -- facts -----------------------------------------------------------------------------------

    @cached_property
    def keys(self) -> int:
        """How many keys there are."""
        return round(float(self.count.sum()))

    @cached_property
    def weight(self) -> Floats:
        """The share of keys that each representative stands for."""
        return self.count / self.count.sum()

    @cached_property
    def mean(self) -> Floats:
        """Each representative's mean value among its holders."""
        return self.values @ GRID

    @cached_property
    def spread(self) -> Floats:
        """The standard deviation of values among holders."""
        return np.sqrt(np.maximum(self.values @ GRID**2 - self.mean**2, 0.0))

    @cached_property
    def held(self) -> float:
        """How many keys a person holds on average."""
        return float(self.sizes @ np.arange(len(self.sizes)))

    def states(self, levels: int) -> Floats:
        """The law of each representative's states after rounding to levels: not held, then levels."""
        law = np.zeros((len(self.count), levels + 1))
        law[:, 0] = 1.0 - self.frequency
        law[:, 1:] = self.frequency[:, None] * (self.values @ rounding(GRID, levels))
        return law

    def view_laws(self, levels: int, views: Sequence[tuple[int, ...]]) -> Floats:
        """For each representative, the law of a view's states averaged over the views that hold it.

        A row is flat, with the representative's own state as the most significant digit. All ``views``
        hold the same number of keys. A table says how keys go together: a sample of its people, and of
        its views if there are many, drawn once. Without a table the other keys of a view are average
        ones, held independently.
        """
        return self._once(self._sampled_view_laws, levels, tuple(views))

    def _once(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a method, computed once for each choice of arguments."""
        name = (method.__name__, *arguments)
        if name not in self._kept:
            self._kept[name] = method(*arguments)
        return self._kept[name]

    def _sampled_view_laws(self, levels: int, views: tuple[tuple[int, ...], ...]) -> Floats:
        states, size = self.states(levels), len(views[0])
        rest = np.ones(1)
        for _ in range(size - 1):
            rest = np.asarray(np.kron(rest, self.weight @ states))
        if self.sample is None or size == 1:
            return np.einsum("ks,r->ksr", states, rest).reshape(len(states), -1)
        if len(views) > MOST_VIEWS:
            draw = Coins.stated("some of the views").generator(len(views))
            views = tuple(views[at] for at in draw.permutation(len(views))[:MOST_VIEWS].tolist())
        most = min(self.sample.people, max(MOST_LOOKED // (len(views) * size), FEWEST_SAMPLED))
        together = self._once(self.sample.fewer, most).together(self.keys, levels, views)
        own = together.sum(axis=2, keepdims=True)
        given = np.divide(together, own, out=np.broadcast_to(rest, together.shape).copy(), where=own > 0)
        return np.asarray((states[:, :, None] * given).reshape(len(states), -1))

    def pair(self, levels: int, key: int, other: int) -> Floats:
        """The law of two keys' states together, flat, as a table's people hold them."""
        return self._once(self._sampled_pair, levels, key, other)

    def _sampled_pair(self, levels: int, key: int, other: int) -> Floats:
        if self.sample is None:
            raise PlanError("only a table says how two keys go together")
        first, second = self.sample.states(levels, np.array([key, other]))
        counts = np.bincount(first * (levels + 1) + second, minlength=(levels + 1) ** 2)
        return counts / self.sample.people

    def joint(self, levels: int, keys: tuple[int, ...]) -> Floats:
        """The law of the states of several keys together, flat, as a table's people hold them."""
        if self.sample is None:
            raise PlanError("only a table says how several keys go together")
        states = self._once(self._sampled_states, levels)
        code = np.zeros(self.sample.people, np.int64)
        for key in keys:
            code = code * (levels + 1) + states[key]
        counts = np.bincount(code, minlength=(levels + 1) ** len(keys))
        return np.asarray(counts / self.sample.people)

    def _sampled_states(self, levels: int) -> np.ndarray:
        """The state of every key and sampled person."""
        assert self.sample is not None
        return self.sample.states(levels, np.arange(self.keys))

    def across(self) -> tuple[float, float]:
        """The variance across keys of the frequency, and of the mean weighed by frequency."""
        weight = self.weight
        frequency = float(weight @ self.frequency**2 - (weight @ self.frequency) ** 2)
        worth = weight * self.frequency
        worth = worth / worth.sum() if worth.sum() > 0 else weight
        return frequency, float(worth @ self.mean**2 - (worth @ self.mean) ** 2)

    def kept(self, cap: int) -> float:
        """The chance that a held key is kept, when people keep at most ``cap`` of those they hold."""
        number = np.arange(len(self.sizes))
        holds = self.sizes * number
        if not holds.sum():
            return 1.0
        return float((self.sizes * np.minimum(number, cap)).sum() / holds.sum())

    def capped(self, cap: int) -> Floats:
        """Each representative's frequency and mass when people keep at most ``cap`` of their keys.

        A table says who holds a key beside how many others. Without one it is as if people who hold
        j keys held each in proportion to its odds, with one factor for every j that makes j of them:
        then who holds a frequent key is less likely to hold many than who holds a rare one.
        """
        if self.together is not None:
            number = np.arange(self.together.shape[1])
            kept = np.minimum(1.0, cap / np.maximum(number, 1))
            return np.asarray(np.einsum("kjp,j->kp", self.together, kept))
        kept = self._kept_keys(cap)
        return np.stack([self.frequency * kept, self.frequency * self.mean * kept], axis=1)

    def _kept_keys(self, cap: int) -> Floats:
        """For each representative the chance that it is among the ``cap`` keys its holder keeps."""
        number, weight = self._holders
        kept = np.minimum(1.0, cap / np.append(number, self.keys))
        total = weight.sum(axis=0)
        return np.asarray(np.divide(kept @ weight, total, out=np.ones_like(total), where=total > 0))

    @cached_property
    def _holders(self) -> tuple[np.ndarray, Floats]:
        """Numbers of keys, and for each, then for all keys, the share of people who hold so many and
        each representative."""
        number = np.flatnonzero(self.sizes > 0)
        number = number[(number > 0) & (number < self.keys)]
        most = float(self.sizes[self.keys]) if len(self.sizes) > self.keys else 0.0
        odds = np.clip(self.frequency, 1e-12, 1 - 1e-12)
        odds = np.log(odds / (1.0 - odds))
        low, high = np.full(len(number), -60.0), np.full(len(number), 60.0)
        held = np.zeros((len(number), len(odds)))
        for _ in range(60):
            middle = (low + high) / 2
            held = 1.0 / (1.0 + np.exp(-(odds + middle[:, None])))
            few = held @ self.count < number
            low, high = np.where(few, middle, low), np.where(few, high, middle)
        weight = np.concatenate([self.sizes[number][:, None] * held, np.full((1, len(odds)), most)])
        return number, weight

    def quantile(self, share: float) -> int:
        """The number of keys that this share of people does not exceed."""
        return int(np.searchsorted(np.cumsum(self.sizes), share - 1e-12))


def _keys_of(keys: int | Schema) -> tuple[int, Scale]:
    """How many keys, and the scale of their values."""
    from .schema import Schema

    if isinstance(keys, Schema):
        return len(keys.keys), Scale.of(keys)
    if not isinstance(keys, Integral) or keys < 1:
        raise PlanError(
            "a prior is for a schema or a whole number of keys, at least 1, like Prior.of(100)"
        )
    return int(keys), Scale()


def _number_or_none(value: Any, name: str) -> float | None:
    if value is not None and not isinstance(value, Real | Decimal):
        raise PlanError(f"a prior's {name} must be a number")
    return None if value is None else float(value)


def _on_unit_scale(
    scale: Scale, mean: float | None, spread: float | None, between: float | None
) -> tuple[float, float, float | None]:
    """Mean, spread and between on [-1, 1], with the defaults for what is not said."""
    if mean is not None and not scale.low < mean < scale.high:
        raise PlanError(f"a prior's mean lies above {scale.low:g} and below {scale.high:g}{_of(scale)}")
    for name, value in (("spread", spread), ("between", between)):
        if value is not None and not 0 <= value <= scale.half:
            raise PlanError(f"a prior's {name} lies between 0 and {scale.half:g}{_of(scale)}")
    return (
        0.0 if mean is None else scale.unit(mean),
        SPREAD if spread is None else spread / scale.half,
        None if between is None else between / scale.half,
    )


def _of(scale: Scale) -> str:
    """What a limit follows from."""
    return f" ({scale.note})" if scale.note else f", for values {scale}"


def _checked_sizes(sizes: ArrayLike | Sequence[float], keys: int) -> Floats:
    law = np.asarray(sizes, np.float64)
    if law.ndim != 1 or not len(law) or (law < 0).any() or not law.sum() > 0:
        raise PlanError("sizes are the shares of people who hold 0, 1, 2, ... keys")
    if len(law) > keys + 1:
        raise PlanError(f"sizes speak of more keys than the {keys} there are")
    return law / law.sum()
