"""Tables that tell compiled loops where to begin the search for the slot of a word."""

from __future__ import annotations

import numpy as np

from .arrays import WORD


def slot_guide(ends: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Upper ends of all slots, a guide, and the bits by which a word is shifted to give its run.

    Rows of ``ends`` are the upper ends of slots of [0, 2^32) but the last. There are ``2^bits`` runs of
    words, and ``guide[row, run]`` is the number of ends up to the first word of the run.
    """
    runs = np.arange(1 << bits, dtype=np.uint64) << np.uint64(32 - bits)
    guide = np.array([np.searchsorted(row, runs, side="right") for row in ends])
    kind = np.uint16 if ends.shape[1] < 1 << 16 else np.uint32
    last = np.full((len(ends), 1), WORD, np.uint64)
    return np.concatenate([ends, last], axis=1), guide.astype(kind), 32 - bits
