"""A filter of fixed size that recognises nearly every new id as new."""

from __future__ import annotations

import numpy as np

from ....foundation.arrays import Integers

_TWO_BITS = np.array([1 << (n & 63) | 1 << (n >> 6) for n in range(1 << 12)], np.uint64)


class IdFilter:
    """A filter that says whether an image may be present: four bits in one word per image."""

    def __init__(self, words: int) -> None:
        self._words = np.zeros(words, np.uint64)
        self._shift = np.uint64(65 - words.bit_length())

    def __len__(self) -> int:
        return len(self._words)

    def add(self, images: np.ndarray) -> None:
        """Add images."""
        np.bitwise_or.at(self._words, self._places(images), _masks(images))

    def maybe(self, images: np.ndarray) -> Integers:
        """The places of images that may be present."""
        masks = _masks(images)
        return np.flatnonzero(self._words[self._places(images)] & masks == masks)

    def _places(self, images: np.ndarray) -> Integers:
        return (images[:, 0] >> self._shift).astype(np.int64)


def _masks(images: np.ndarray) -> np.ndarray:
    low, last = images[:, 1], np.uint64(len(_TWO_BITS) - 1)
    first, second = (low & last).view(np.int64), (low >> np.uint64(12) & last).view(np.int64)
    masks: np.ndarray = _TWO_BITS[first] | _TWO_BITS[second]
    return masks
