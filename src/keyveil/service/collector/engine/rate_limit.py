"""The rate of a collection: the number of reports per second that it accepts from all senders."""

from __future__ import annotations

from ..process.problems import Problem

MOST_DEBT = 5
"""Maximum size of one request, in seconds of the collection's rate."""


class Rate:
    """A token bucket that fills at the collection's rate and holds one second's worth of reports.

    Only reports that are readable, possible and not known as repeated are taken from it. Reports that
    the store then refuses are returned.
    """

    def __init__(self, now: float, rate: int) -> None:
        self.at, self.left, self.rate = now, float(rate), rate

    def take(self, now: float, number: int, rate: int) -> float:
        """Take ``number`` reports; the seconds to wait until there is room, 0 if there is now.

        A request larger than one second's worth passes when the bucket is full and leaves a debt of less
        than ``MOST_DEBT`` seconds. A request above that is always refused.
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
        """Return reports that the store did not accept."""
        self.left = min(float(self.rate), self.left + number)


def most_at(rate: int) -> int:
    """Maximum number of reports in one request at a rate."""
    return MOST_DEBT * rate
