"""Advice: the plans that could be taken with their predicted errors, best first, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, inf, isfinite, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ..foundation.errors import PlanError
from ..foundation.exact import text
from ..foundation.result_table import ResultTable
from ..foundation.shown_result import MOST_SHOWN, ShownResult
from ..people.beliefs import Beliefs, in_words
from ..people.prior import Prior, enough_people, keys_in_words, three_digits
from ..people.scale import Scale
from ..plan.plan import Plan
from .advice_table import HEADINGS, option_cells, told_nothing
from .first_round import FirstRound
from .helpful_fact import HelpfulFact
from .key_scores import refined_factor
from .options import ALIKE, Option

if TYPE_CHECKING:
    from ..plot.style import Axes

ALMOST_ONE = 0.995
"""A ratio below this is not written as 1.00."""
IF_KNOWN = (
    "If you know how many keys people hold on average, pass held=...; "
    "from a table of such people prior=Prior.of_people(schema, people) knows more"
)
"""What to tell the planner if it knows nothing of the people."""
AXES = ("epsilon", "people")
"""What errors can be drawn against."""


@dataclass(frozen=True, repr=False)
class Advice(ShownResult):
    """The options from best to worst, and whether any can answer at all."""

    options: tuple[Option, ...]
    epsilon: Decimal
    people: int
    ask: str
    prior: Prior
    epsilon_needed: str | None = None
    """If no plan can answer: the least epsilon of two digits at which one can."""
    people_needed: int = 0
    """The number of people with which the planner's choice can answer."""
    counted: tuple[str, ...] = ("frequency", "mean")
    """The errors that count in the score."""
    beliefs: Beliefs | None = None
    """What was held possible, if no single prior was given; ``prior`` is the one that is shown."""
    first_round: FirstRound | None = None
    """The first round that pays, if nothing was known about how many keys people hold."""
    fact: HelpfulFact | None = None
    """The fact that would help most, if nothing was known."""

    @property
    def best(self) -> Option:
        return self.options[0]

    @property
    def plan(self) -> Plan:
        return self.best.plan

    @property
    def answers(self) -> bool:
        """Whether any plan can answer; with several beliefs, whether the choice can under each."""
        if self.beliefs is not None:
            return self.best.people_factor <= 1
        return least_factor(self.options) <= 1

    @property
    def may_answer(self) -> bool:
        """Whether any plan can answer under some belief."""
        if self.beliefs is None:
            return self.answers
        return any(min(option.people_factors) <= 1 for option in self.options)

    @property
    def estimator(self) -> str | None:
        """The estimator with the least predicted error; None for conditionals."""
        return self.best.estimator

    def runners_up(self, most: int = 8) -> list[Option]:
        """The best option of each mechanism, best first."""
        seen: dict[str, Option] = {}
        for option in self.options:
            seen.setdefault(option.family, option)
        return list(seen.values())[:most]

    def factor(self, option: Option) -> float:
        """The factor of people that an option needs to answer; at most 1 if it can already."""
        first, prior = option.people_factor, self._hardest(option)
        return refined_factor(option.plan, self.people, self.ask, prior, first)

    def _hardest(self, option: Option) -> Prior:
        """The prior under which an option needs the most people."""
        if self.beliefs is None:
            return self.prior
        return self.beliefs.priors[int(np.argmax(option.people_factors))]

    def _over_beliefs(self) -> str:
        """Why the choice was made if several beliefs are possible, and when it can answer."""
        assert self.beliefs is not None
        best, beliefs = self.best, self.beliefs
        if beliefs.weights is None:
            start = f", from {beliefs.possible[0].words} on" if self.ask == "conditional" else ""
            words = f"{best.name} is the best plan, whatever number of keys people hold{start}"
            if best.score >= 2 - ALMOST_ONE:
                words = (
                    f"{best.name} is the safest choice: its error is at most {best.score:.2f} times "
                    f"that of the best plan, whatever number of keys people hold{start}"
                )
        else:
            words = f"{best.name} has the least predicted error over what the pilot leaves possible"
        if self.answers:
            return words
        able = self.able(best)
        if not able:
            return f"{words}; but {self._what_would_help()}"
        return f"{words}; but answers are useful only if people hold {able}{self._in_numbers(best)}"

    def _what_would_help(self) -> str:
        """If the choice can answer under no belief: the people that it needs, and who answers now."""
        factor = self.factor(self.best)
        needed = (
            f": it takes about {enough_people(ceil(self.people * factor))}" if isfinite(factor) else ""
        )
        other = next(option for option in self.options if min(option.people_factors) <= 1)
        return (
            f"its answers are not useful with {self.people:,} people{needed}; "
            f"those of {other.name} are if people hold {self.able(other)}"
        )

    def _in_numbers(self, option: Option) -> str:
        """The fewest keys with which an option can answer, if a belief is no number by itself."""
        assert self.beliefs is not None
        if self.beliefs.weights is not None:
            return ""
        place = [factor <= 1 for factor in option.people_factors].index(True)
        held = self.beliefs.priors[place].held
        return f" (on average {three_digits(held)} of {self.prior.keys:,})"

    def able(self, option: Option) -> str:
        """The beliefs under which an option can answer, in words; empty without any."""
        names = [] if self.beliefs is None else [belief.words for belief in self.beliefs.possible]
        able = [name for name, factor in zip(names, option.people_factors, strict=True) if factor <= 1]
        if len(able) > 1 and able == names[-len(able) :]:
            return f"{able[0]} or more"
        return in_words(able) if able else ""

    @property
    def why(self) -> str:
        """Why this plan is chosen, or what it would take to answer, in one sentence."""
        best = self.best
        if self.beliefs is not None and self.may_answer:
            return self._over_beliefs()
        if not self.answers:
            held = ""
            if self.ask == "conditional":
                held = f"if people hold {keys_in_words(self.prior.held)} on average, "
            if self.beliefs is not None:
                assumed = " (assumed: nothing is known)" if self.beliefs.weights is None else ""
                held = f"if people hold {keys_in_words(self.prior.held)}{assumed}, "
            either = f", or epsilon {self.epsilon_needed}" if self.epsilon_needed else ""
            return (
                f"with {self.people:,} {'people' if self.people > 1 else 'person'} at epsilon "
                f"{text(self.epsilon)} no plan can answer; "
                f"{held}it takes about {enough_people(self.people_needed)} people{either}"
            )
        able = [option for option in self.options if option.people_factor <= 1]
        others = [option for option in self.runners_up() if option.family != best.family]
        others = [option for option in others if option.people_factor <= 1]
        least = f"{best.name} has the least predicted error"
        if best.people_factor > 1:
            return (
                f"{least}; it answers with about "
                f"{enough_people(ceil(self.people * self.factor(best)))} people, "
                f"{able[0].name} now, with {able[0].score / best.score:.2f} times the error"
            )
        if any(ALIKE * option.score < best.score for option in self.options if option.people_factor > 1):
            least += " of those that can answer"
        if not others or not best.score > 0:
            return least
        ratio = others[0].score / best.score
        if ratio < ALMOST_ONE:
            return (
                f"{best.name} has nearly the least predicted error: {others[0].name} has "
                f"{100 * (1 - ratio):.0f} % less, and predictions are no more exact than "
                f"{100 * (ALIKE - 1):.0f} %"
            )
        if ratio < ALIKE:
            return f"{least}, and {others[0].name} as little within {100 * (ALIKE - 1):.0f} %"
        return f"{least}, {ratio:.2f} times below {others[0].name}, the next"

    @property
    def warning(self) -> str:
        """Why useful answers cannot be expected of the plan, and what would change that."""
        if self.beliefs is None or not self.may_answer:
            return self.why
        return f"{self.why}. {IF_KNOWN}"

    def document(self) -> dict[str, Any]:
        """As JSON; errors of means are on ``mean_scale``."""
        return {
            "chosen": self.best.document(),
            "estimator": self.estimator,
            "why": self.why,
            "ask": self.ask,
            "people": self.people,
            "epsilon": float(self.epsilon),
            "prior": self.prior.source if self.beliefs is None else self.beliefs.source,
            "beliefs": self._beliefs_document(),
            "first_round": None if self.first_round is None else self.first_round.document(),
            "fact": None if self.fact is None else self.fact.document(),
            "mean_scale": Scale.of(self.plan.schema).document(),
            "answers": self.answers,
            "people_needed": self.people_needed,
            "epsilon_needed": self.epsilon_needed,
            "options": [option.document() for option in self.runners_up(99)],
        }

    def _beliefs_document(self) -> list[dict[str, Any]] | None:
        """For each belief, the regret of the choice and whether it can answer."""
        if self.beliefs is None:
            return None
        weights = self.beliefs.weights
        return [
            {
                "people_hold": belief.words,
                "probability": None if weights is None else float(weights[place]),
                "regret": self.best.regrets[place],
                "answers": self.best.people_factors[place] <= 1,
            }
            for place, belief in enumerate(self.beliefs.possible)
        ]

    def __str__(self) -> str:
        return self.why

    def __repr__(self) -> str:
        return str(self.table())

    @property
    def frame_library(self) -> str | None:  # type: ignore[override]
        """The kind of frame that the schema was made from, which ``to_frame`` returns, too."""
        frame = self.plan.schema.frame
        return None if frame is None else frame.library

    def columns(self) -> dict[str, list[Any]]:
        """The best plan of each mechanism with its predicted errors, best first.

        ``error`` is the squared error that decides, over the first's. If nothing was known it is the
        worst regret: the largest ratio to the best plan's error under any belief. Other errors are roots
        of mean squared ones before shrinkage, means on the scale of the values.
        """
        options, half = self.runners_up(99), Scale.of(self.plan.schema).half
        best, nothing = self.best.score, told_nothing(self)
        return {
            "mechanism": [option.mechanism for option in options],
            "name": [option.name for option in options],
            "error": [max(o.regrets) if nothing else o.score / best if best else None for o in options],
            "frequency_error": [_root(option.frequency) for option in options],
            "mean_error": [_root(option.mean * half**2) for option in options],
            "bits_per_report": [float(option.plan.bits_per_report) for option in options],
            "answers": [bool(option.people_factor <= 1) for option in options],
        }

    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The best plan of each mechanism with its predicted errors, best first; and why it is first."""
        rows = tuple(tuple(option_cells(option, self)) for option in self.runners_up(99))
        over = (
            "the best plan's, from the best to the worst belief" if told_nothing(self) else "the first's"
        )
        notes = (
            f"error: predicted squared error over {over}",
            f"±: how far an answer is off before any shrinkage, means {Scale.of(self.plan.schema)}",
        )
        title = f"{self.why} ({self._who()}, epsilon {text(self.epsilon)})"
        return ResultTable(HEADINGS, rows, title, notes).first(most, "mechanisms")

    def _who(self) -> str:
        return f"{self.people:,} {'people' if self.people > 1 else 'person'}"

    def plot(self, ax: Axes | None = None, against: str | None = None) -> Axes:
        """The predicted errors of the best plans, a row each.

        ``against`` "epsilon" or "people" draws them as lines around what was asked, which takes longer.
        """
        from ..plot.option_plots import draw_lines, plot_options

        number = len(self.plan.schema.keys)
        setting = [f"{number:,} key{'' if number == 1 else 's'}"]
        setting += [self._who()] if against != "people" else []
        setting += [f"epsilon {text(self.epsilon)}"] if against != "epsilon" else []
        words = ", ".join(setting)
        if against is None:
            return plot_options(self.columns(), words, str(Scale.of(self.plan.schema)), self.ask, ax)
        if against not in AXES:
            raise PlanError(f"errors are drawn against one of {', '.join(AXES)}, not {against!r}")
        from .curves import curves

        here = float(self.epsilon) if against == "epsilon" else self.people
        return draw_lines(curves(self.plan.schema, self), words, against, here, ax)


def _root(square: float) -> float:
    return sqrt(square) if isfinite(square) else inf


def least_factor(options: Sequence[Option]) -> float:
    """The least factor of people among the options."""
    return min(option.people_factor for option in options)
