"""A collection's rate: how many reports a second it takes from whoever sends them."""

from __future__ import annotations

from ..process.problems import Problem

MOST_DEBT = 5
"""Seconds' worth of reports that one request may carry, at most, where a collection has a rate."""


class Rate:
    """A bucket of reports that fills at a collection's rate, a second's worth deep.

    Only reports that could be read, that honest clients could send and that are not known to be sent
    again are taken from it, and what the store then does not take is given back.
    """

    def __init__(self, now: float, rate: int) -> None:
        self.at, self.left, self.rate = now, float(rate), rate

    def take(self, now: float, number: int, rate: int) -> float:
        """Take so many; how many seconds until there are enough, 0 if there are now.

        A request larger than a second's worth passes when the bucket is full, and leaves a debt, of
        less than ``MOST_DEBT`` seconds; a larger one is refused, however long it waits.
        """
        if number > most_at(rate):
            raise Problem("too_many", f"a request carries at most {most_at(rate)} reports at this rate")
        if rate != self.rate:
            self.rate, self.left = rate, min(self.left, float(rate))
        self.left = min(float(rate), self.left + max(0.0, now - self.at) * rate)
        self.at = now
        if self.left < min(number, rate):
            return (min(number, rate) - self.left) / rate
        self.left -= number
        return 0.0

    def give_back(self, number: int) -> None:
        """So many were not taken after all."""
        self.left = min(float(self.rate), self.left + number)


def most_at(rate: int) -> int:
    """Reports that one request may carry at a rate."""
    return MOST_DEBT * rate
