"""The shape ``coco``: like ``collision``, with the two signs of a key in mirrored cells.

CoCo of Wang et al., arXiv 2304.04410. A state is a set of at most ``held`` signed keys. Under a seed a
key falls into a cell. Its high sign is that cell, its low sign the cell half way round, its *mirror*.
The two are a pair of cells, and each key claims its pair: the signed cell gets the weight ``high``, the
mirror ``low``. If several keys claim one pair, the key with the lowest *rank* gets it, and the others
are dropped. The cells of unclaimed pairs share the remaining weight evenly.

A dropped key gives no information on its sign, and larger sets drop more keys. So everyone claims as
many pairs as a holder of ``held`` keys: dummies, which are fresh words and not keys, replace the
missing ones. Then a held sign exceeds its opposite by (high - low) times the probability of not being
dropped, which does not depend on what else is held. The pair of a held key has exactly high + low.

A key's word under a seed is h = mixed(mixed(seed ^ salt) ^ mixed(key + 0x9E3779B9)); h * small is
2^32 * cell + rank. A dummy's word is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from ...foundation.arrays import WORD, Floats, Integers, Words
from ...foundation.errors import ChannelError
from ...foundation.exact import at_most
from ...foundation.search import largest_fitting
from ...foundation.stream import Stream
from ..law import FastDraw
from ..proof import Proof
from .hash import MOST_CELLS, item_words, words_of
from .seed_pool import (
    BOUNDS,
    MOST_ITEMS,
    PairSquares,
    SeedPool,
    SumsOfSquares,
    agreement,
    pairs_of_reports,
    runs_of,
)

MOST_SMALL = 1 << 21


@dataclass(frozen=True)
class CoCo(SeedPool):
    """Item 2 key + 1 is the key's high sign, 2 key its low one."""

    shape: ClassVar[str] = "coco"
    state_kind: ClassVar[str] = "items"
    bounds = {**BOUNDS, "high": (1, WORD), "low": (1, WORD)}

    high: int
    low: int

    def __post_init__(self) -> None:
        if self.items % 2 or not 2 <= self.items <= MOST_ITEMS or not 1 <= self.held <= self.items // 2:
            raise ChannelError("a coco has two items for each key, and one or more keys are held")
        if self.small % 2 or not 2 * self.held < self.small <= MOST_SMALL:
            raise ChannelError("a coco has an even number of cells, more than two for each held key")
        left = WORD - self.held * (self.high + self.low)
        if self.low < 1 or self.high < self.low or left < self.small - 2 * self.held:
            raise ChannelError("a coco leaves at least one unit for every cell that no one claims")
        super().__post_init__()
        self._derive(words=2 + self.held)

    @classmethod
    def of(
        cls, items: int, held: int, epsilon: Decimal, pool: int, salt: int, small: int | None = None
    ) -> CoCo:
        """The channel with the largest ``high`` that keeps the promise.

        ``small`` is the number of cells, by default the best one that fits.
        """
        if small is None:
            most = min(MOST_CELLS // max(pool, 1), MOST_SMALL) & ~1
            small = max(2 * held + 2, min(best_cells(held, epsilon), most))
        if held < 1 or 2 * held >= small:
            raise ChannelError("a coco has an even number of cells, more than two for each held key")
        high = largest_fitting(
            1,
            (WORD - (small - held)) // held,
            lambda high: high <= at_most((WORD - held * high) // (small - held), epsilon),
        )
        return cls(items, held, small, pool, salt, high, (WORD - held * high) // (small - held))

    # -- the law ---------------------------------------------------------------------------------

    def left(self, claimed: int) -> tuple[int, int]:
        """The weight of an unclaimed cell, and the number of cells with one unit more."""
        return divmod(WORD - claimed * (self.high + self.low), self.small - 2 * claimed)

    def proof(self) -> Proof:
        """Over all numbers of claimed pairs; the remainders count as if in the worst cell.

        What is left for one cell rises with the number of pairs or falls with it, so that its ends are
        at no claimed pair and at ``held`` of them.
        """
        likely, unlikely = (self.high, 1), (self.low, 1)
        for claimed in (0, self.held):
            weight, rest = self.left(claimed)
            likely = max(likely, (weight + (rest > 0), claimed))
            unlikely = min(unlikely, (weight, claimed))
        return Proof(likely[0], unlikely[0], (likely[1], unlikely[1]), "a cell (states: pairs claimed)")

    @property
    def survival(self) -> float:
        """The probability that a held key is not dropped."""
        return float(_survival(self.held, self.small))

    @property
    def gains(self) -> tuple[float, float]:
        """What a holder adds to the share of a key's pair, and to the difference of its two signs."""
        pair_gain = (self.high + self.low) / WORD - 2.0 / self.small
        return pair_gain, (self.high - self.low) / WORD * self.survival

    @property
    def places(self) -> int:
        return self.small // 2

    @property
    def noise(self) -> Floats:
        return np.array(_noise(self.small, *self.gains))

    @property
    def key_noise(self) -> Floats:
        return self.noise

    def relative_survival(self, words: np.ndarray) -> Floats:
        """A key's probability of not being dropped under each seed, over its mean, from its words.

        With uniform ranks of the others it is (1 - 2 rank / t)^(held - 1), whose mean is ``survival``.
        """
        rank = (words & np.uint64(WORD - 1)).astype(np.float64) / WORD
        return np.asarray((1.0 - 2.0 * rank / self.small) ** (self.held - 1) / self.survival)

    def pool_variance(self, of_frequency: float, of_mass: float = 0.0) -> Floats:
        half = self.places
        return np.array([of_frequency / (half - 1), of_mass / half]) / self.pool

    def key_energy(self, squares: Floats) -> Floats:
        return squares[..., 0]

    def named_shares(self, values: Floats) -> tuple[Floats, Floats]:
        both, apart = 2.0 / self.small + self.gains[0] * values[:, 0], self.gains[1] * values[:, 1]
        named = np.stack([(both - apart) / 2, (both + apart) / 2], axis=1)
        return named, np.zeros(len(values))

    def cell_weights(self, values: Floats) -> Floats:
        pair_gain, sign_gain = self.gains
        even = pair_gain / (1.0 - 2.0 / self.small) * values[:, 0] / 2  # of either cell of a key's pair
        odd = sign_gain / 2 * values[:, 1] * _relative_survivals(self, len(values))
        return np.stack([even - odd, even + odd], axis=-1)

    def pair_squares(self, squared: SumsOfSquares, low: Floats, high: Floats) -> PairSquares:
        held, signed = low + high, high - low
        return PairSquares(squared(held, held), squared(signed, held) + squared(held, signed))

    def second_order(self, squares: PairSquares, count: Floats) -> Floats:
        """Only one of two colliding keys contributes its sign, so masses have half the variance."""
        own, signed, half = squares.own, squares.signed, self.places
        assert signed is not None
        covariance = np.zeros((*own.shape, 2, 2))
        every = (own * count).sum(axis=-1, keepdims=True) / 2
        covariance[..., 0, 0] = own / half + every / half**2
        covariance[..., 1, 1] = signed / (2 * half)
        return covariance / self.pool

    def key_cells(self, keys: Integers) -> Integers:
        high = self.hashes(keys)
        return np.stack([self._mirror(high), high], axis=-1)

    def energies(self, grid: Floats) -> tuple[float, float]:
        low, high = grid[:, self.places :], grid[:, : self.places]
        both, apart = low + high, high - low
        pair_gain, sign_gain = self.gains
        pairs = pairs_of_reports(grid)
        of_mass = float((apart**2 - both).sum()) / pairs if pairs > 0 else 0.0
        return agreement(both, self.places) / pair_gain**2, of_mass / sign_gain**2

    def cores(self, keys: int) -> list[tuple[int, int]]:
        return [(2 * keys, keys)]

    # -- the sampler -----------------------------------------------------------------------------

    def words_under(self, keys: np.ndarray) -> np.ndarray:
        """2^32 * cell + rank of each key under every seed of the pool, a row for each seed."""
        word = words_of(self.salt, np.arange(self.pool)[:, None], np.asarray(keys)[None, :])
        return np.asarray(word * np.uint64(self.small))

    def hashes(self, keys: np.ndarray) -> Integers:
        """The cell of each key's high sign under every seed of the pool, a row for each seed."""
        return (self.words_under(keys) >> np.uint64(32)).astype(np.int64)

    def item_cells(self, items: Integers) -> Integers:
        high = self.hashes(items // 2)
        return np.where(items % 2, high, self._mirror(high))

    def fast_draw(self, loops: Any) -> FastDraw:
        """States are a row of items for each place, and 2^32 - 1 where a person has none."""
        lows = np.array([self.left(count) for count in range(self.held + 1)], np.int64)
        facts = self.salt, self.pool, self.small, self.high, self.low, lows

        def draw(words: Words, column: int, states: np.ndarray, out: np.ndarray) -> None:
            loops.name_coco(words, column, states, *facts, out)

        return draw

    def draw(self, states: np.ndarray, stream: Stream) -> Integers:
        """Word 0 is the seed, word 1 is sliced (signed cells, mirrors, others), the rest are dummies."""
        sets = np.asarray(states, np.int64)
        if sets.ndim == 1:
            sets = self.sets(sets)
        words = stream.words(0, 2 + self.held)
        seeds = (words[:, 0].astype(np.int64) * self.pool) >> 32
        claimed, count = self._claimed(seeds, sets, words[:, 2:])
        word = words[:, 1].astype(np.int64)
        lefts = np.array([self.left(j) for j in range(self.held + 1)], np.int64)
        weight, rest = lefts[count, 0], lefts[count, 1]
        over = word - count * (self.high + self.low)
        heavy = rest * (weight + 1)
        place = np.where(over < heavy, over // (weight + 1), rest + (over - heavy) // weight)
        mirrors = np.where(claimed < self.small, self._mirror(claimed), self.small)
        taken = np.sort(np.concatenate([claimed, mirrors], axis=1), axis=1)
        for column in range(taken.shape[1]):  # step over the claimed cells, which are ascending
            place += place >= taken[:, column]
        own = np.clip(word // self.high, 0, self.held - 1)
        other = np.clip((word - count * self.high) // self.low, 0, self.held - 1)
        signed = np.take_along_axis(claimed, own[:, None], axis=1)[:, 0]
        mirror = np.take_along_axis(mirrors, other[:, None], axis=1)[:, 0]
        cell = np.where(word < count * self.high, signed, np.where(over < 0, mirror, place))
        return seeds * self.small + cell

    def _mirror(self, cells: Integers) -> Integers:
        return np.asarray((cells + self.small // 2) % self.small)

    def _order(self, words: np.ndarray, signs: Integers) -> Integers:
        """One number to sort claims by: pair, rank, then the upper half and the high sign last."""
        words, half = words.astype(np.int64), self.places
        cell, rank = words >> 32, words & (WORD - 1)
        return (((cell % half) << 32 | rank) << 2) | (cell >= half).astype(np.int64) << 1 | signs

    def _claimed(
        self, seeds: Integers, sets: Integers, dummies: np.ndarray
    ) -> tuple[Integers, Integers]:
        """The signed cells of the claimed pairs, ascending, filled up with ``small``; their number."""
        half = self.small // 2
        word = words_of(self.salt, seeds[:, None], np.maximum(sets, 0) // 2)
        word = np.where(sets < 0, dummies.astype(np.uint64), word) * np.uint64(self.small)
        order = np.sort(self._order(word, np.where(sets < 0, 1, sets % 2)), axis=1)
        pair = order >> 34
        cells = pair + half * _is_upper(order)
        cells[:, 1:][pair[:, 1:] == pair[:, :-1]] = self.small
        cells = np.sort(cells, axis=1)
        return cells, (cells < self.small).sum(axis=1)

    def mixture(self, sets: Integers, shares: Floats) -> Floats:
        """Pr[output] over all dummies, if people hold these sets with these shares.

        A key keeps its pair if no dummy that falls into it ranks lower: (1 - rank / pairs)^dummies.
        Otherwise a dummy gets it, with either sign. All pairs that no key claims have equal weights.
        """
        half, middle = self.small // 2, (self.high + self.low) / 2
        items, place = np.unique(sets, return_inverse=True)
        order = self._order(self.words_under(np.maximum(items, 0) // 2), items % 2)
        order[:, items < 0] = half << 34
        count = np.arange(self.held + 1)
        lefts = (WORD - count * 2 * middle) / (self.small - 2 * count)
        both, apart = np.zeros((2, self.pool, half + 1))
        seeds = np.arange(self.pool)[:, None, None]
        for rows in runs_of(len(sets), self.pool * sets.shape[1]):
            claims = np.sort(order[:, place.reshape(sets.shape)[rows]], axis=2)
            pair = claims >> 34
            pair[:, :, 1:][pair[:, :, 1:] == pair[:, :, :-1]] = half
            dummies = self.held - (sets[rows] >= 0).sum(axis=1)
            surviving = (1.0 - (claims >> 2 & (WORD - 1)) / (WORD * half)) ** dummies[:, None]
            left = lefts[(pair < half).sum(axis=2)]
            at = (seeds * (half + 1) + pair).ravel()
            more = np.broadcast_to((shares[rows] * (middle - left))[:, :, None], pair.shape)
            both += np.bincount(at, more.ravel(), both.size).reshape(both.shape)
            both += (left @ shares[rows])[:, None]
            signed = np.where(_is_upper(claims), 1.0, -1.0) * surviving * shares[rows][:, None]
            apart += np.bincount(at, signed.ravel(), apart.size).reshape(apart.shape)
        both, apart = both[:, :-1], apart[:, :-1] * (self.high - self.low) / 2
        return np.concatenate([both - apart, both + apart], axis=1).ravel() / WORD / self.pool

    def table_draw(self, loops: Any, keys: int, pairs: bool) -> tuple[Any, tuple[Any, ...]]:
        lefts = np.array([self.left(count) for count in range(self.held + 1)], np.int64)
        words = item_words(np.arange(keys))
        fixed = (words, self.salt, self.pool, self.small, self.high, self.low, lefts)
        return loops.draw_coco, fixed

    def weight_variance(self, held: float) -> float:
        """Everyone claims ``self.held`` pairs, whatever they hold."""
        empty = self.left(self.held)[0]
        apart = (self.high - empty) ** 2 + (self.low - empty) ** 2
        return self.held * apart / WORD**2

    # -- what the shuffle model asks -------------------------------------------------------------

    def total_variation(self) -> Fraction:
        """The largest distance of two sets that claim i and j pairs of a seed.

        The most distant sets have no pair in common, or have all of them with the other sign.
        """
        high, low, small = self.high, self.low, self.small
        left = [self.left(count)[0] for count in range(self.held + 1)]
        worst = 0
        for i in range(self.held + 1):
            for j in range(i, self.held + 1):
                for both in {max(0, i + j - small // 2), i}:
                    off = 2 * both * (high - low)
                    off += (i - both) * (abs(high - left[j]) + abs(low - left[j]))
                    off += (j - both) * (abs(high - left[i]) + abs(low - left[i]))
                    off += (small - 2 * (i + j - both)) * abs(left[i] - left[j])
                    worst = max(worst, off)
        return Fraction(worst + 2 * small, 2 * WORD)  # plus the units that are left over

    def blanket(self) -> Fraction:
        left = (self.left(count)[0] for count in range(self.held + 1))
        return Fraction(self.small * min(self.low, *left), WORD)


def _is_upper(order: Integers) -> Integers:
    """1 if the signed cell of a claim, given by its ``_order``, is in the upper half, else 0."""
    return (order >> 1 & 1) ^ (1 - (order & 1))


def _survival(held: int, cells: Any) -> Any:
    """The probability that a held key is not dropped, if ``held`` keys claim one of cells / 2 pairs."""
    free = 1.0 - 2.0 / cells
    return (1.0 - free**held) / (held * (1.0 - free))


def _noise(cells: Any, pair_gain: Any, sign_gain: Any) -> tuple[Any, Any]:
    """One report's variance of frequency and mass of a key that hardly anyone holds."""
    part = 2.0 / cells
    return part * (1.0 - part) / pair_gain**2, part / sign_gain**2


@lru_cache(maxsize=4)
def _relative_survivals(channel: CoCo, keys: int) -> Floats:
    return channel.relative_survival(channel.words_under(np.arange(keys)))


def variances(held: int, odds: float, cells: Any) -> tuple[Any, Any]:
    """One report's variance of the mass, and of the frequency, of a key that hardly anyone holds."""
    total = held * (odds + 1.0) + cells - 2 * held
    pair_gain = (odds + 1.0) / total - 2.0 / cells
    sign_gain = (odds - 1.0) / total * _survival(held, cells)
    return _noise(cells, pair_gain, sign_gain)[::-1]


def best_cells(held: int, epsilon: Decimal, weight: float = 1 / 3) -> int:
    """The even number of cells with the least variance of the mass plus ``weight`` x the frequency's.

    The variance of a mean is that of the mass plus the squared mean times that of the frequency, and 1/3
    is the average square of a mean that is uniform on [-1, 1].
    """
    odds = float(epsilon.exp())
    thinly = np.geomspace(held + 1, max(8 * held * odds, 1e4), 1 << 12).astype(np.int64)
    cells = 2 * np.unique(np.minimum(thinly, MOST_SMALL // 2))
    for _ in range(2):  # first a coarse grid, then all numbers around the best
        mass, frequency = variances(held, odds, cells)
        best = int(cells[np.argmin(mass + weight * frequency)])
        cells = best + 2 * np.arange(-2048, 2048)
        cells = cells[(cells > 2 * held) & (cells <= MOST_SMALL)]
    return best
