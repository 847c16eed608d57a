"""The proof of a channel's epsilon: its worst ratio as two exact integers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from ..foundation.exact import keeps, log_up

_LONG = 256
"""Maximum number of bits of an integer that a message writes out."""


@dataclass(frozen=True)
class Proof:
    """The worst ratio of any output between two states, as two exact integers."""

    numerator: int
    denominator: int
    states: tuple[int, int]
    output: str

    @property
    def epsilon(self) -> Decimal:
        """The logarithm of the ratio, rounded up."""
        return log_up(self.numerator, self.denominator)

    def keeps(self, promised: Decimal) -> bool:
        """Whether the law is ``promised``-locally differentially private, exactly."""
        return keeps(self.numerator, self.denominator, promised)

    def exceeds(self, other: Proof) -> bool:
        """Whether this ratio is larger than the other, exactly."""
        return self.numerator * other.denominator > other.numerator * self.denominator

    def __str__(self) -> str:
        likely, unlikely = (written_state(state) for state in self.states)
        long = max(self.numerator, self.denominator).bit_length() > _LONG
        ratio = "" if long else f"{self.numerator}/{self.denominator} = "
        return (
            f"output {self.output} is {ratio}e^{self.epsilon:.12f} times as likely from state {likely} "
            f"as from state {unlikely}"
        )


def written_state(state: int) -> str:
    """The number of a state in digits, or its size as a power of two if it is very large."""
    bits = state.bit_length()
    if bits <= _LONG:
        return str(state)
    return f"2^{bits} - 1" if state + 1 == 1 << bits else f"about 2^{bits - 1}"


def worst_of(proofs: Iterable[Proof]) -> Proof:
    """The proof with the largest ratio; of equal ratios the first."""
    remaining = iter(proofs)
    worst = next(remaining)
    for proof in remaining:
        if proof.exceeds(worst):
            worst = proof
    return worst
