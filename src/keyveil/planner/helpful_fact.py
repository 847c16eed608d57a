"""The fact that would help the planner most, if it is told nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..people.prior import Prior
from ..people.scale import Scale
from .options import Option, options_for

if TYPE_CHECKING:
    from .robust import BeliefComparison

HELPS = 1.1
"""A fact helps if not knowing it can raise the error by at least this factor."""
OFF = 0.6
"""The mean of a prior with values near one end of their range, on [-1, 1]."""


class HelpfulFact(NamedTuple):
    """A question, how to state its answer, and the regret that it removes."""

    question: str
    state_it: str
    regret: float
    """The largest factor by which the choice's error may exceed that of a planner who knew the fact."""

    def __str__(self) -> str:
        words = f"what would help most: {self.question} ({self.state_it})"
        if self.regret < HELPS:
            return words
        return f"{words}; without it the error may be {self.regret:.2f} times as large"

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"question": self.question, "state_it": self.state_it, "regret": self.regret}


HELD = "how many keys do people hold?", "--held N, or ask some of them in a first round"
MEAN = "where do values lie on average?", "--mean VALUE"


def helpful_fact(comparison: BeliefComparison, choice: Option) -> HelpfulFact | None:
    """The fact whose lack can cost the choice most; None if none helps."""
    facts = [HelpfulFact(*HELD, max(choice.regrets))]
    if comparison.beliefs.mean is None:
        facts.append(HelpfulFact(*MEAN, _regret_of_mean(comparison)))
    best = max(facts, key=lambda fact: fact.regret)
    return best if best.regret >= HELPS else None


def held_fact(choice: Option) -> HelpfulFact | None:
    """For conditionals: how many keys people hold, if it changes the plan or whether it can answer."""
    regret = max(choice.regrets)
    if regret < HELPS and choice.people_factor <= 1:
        return None
    return HelpfulFact(HELD[0], "--held N", regret)


def _regret_of_mean(comparison: BeliefComparison) -> float:
    """The regret of the choice if values lie near the upper end of their range."""
    schema, prior = comparison.schema, comparison.beliefs.prior
    mean = Scale.of(schema).value(OFF)
    other = Prior.of(schema, mean=mean, spread=comparison.beliefs.spread, sizes=prior.sizes)
    costs = comparison.costs_under(other)
    best = options_for(schema, comparison.epsilon, comparison.people, comparison.ask, (), other)
    own = float(costs[comparison.simulated.choice()])
    return max(1.0, own / min(float(costs.min()), best[0].score))
