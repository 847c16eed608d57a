"""The integers of a channel that flips bits, of which a state sets one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..foundation.arrays import WORD, Floats


class OneHotBits(NamedTuple):
    """A channel that flips bits: the true bit is set with weight ``show``, every other with ``fake``."""

    positions: int
    silent: int
    fake: int
    show: int

    @property
    def lift(self) -> float:
        """The probability of a set true bit minus that of a set other bit."""
        return (self.show - self.fake) / WORD

    def second_moment(self, held: Floats, bits: int = 1) -> Floats:
        """The second moment of the sum of ``bits`` bits of a report, each minus its mean if it is false.

        ``held`` is the share of reports in which one of these bits is true; never two are.
        """
        fake, show = self.fake / WORD, self.show / WORD
        more = show * (1 - show) - fake * (1 - fake) + self.lift**2
        return np.asarray(bits * fake * (1 - fake) + held * more)
