"""The planner: which plan has the least predicted error for these keys, people and epsilon."""

from ..people.beliefs import Beliefs
from .advice import Advice
from .first_round import FirstRound, pilot_people
from .pilot import pilot_beliefs, pilot_prior
from .planner import advise

__all__ = [
    "Advice",
    "Beliefs",
    "FirstRound",
    "advise",
    "pilot_beliefs",
    "pilot_people",
    "pilot_prior",
]
