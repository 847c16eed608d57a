"""The planner: which plan has the least predicted error for these keys, people and epsilon."""

from .pilot import pilot_people, pilot_prior
from .planner import Advice, advise

__all__ = ["Advice", "advise", "pilot_people", "pilot_prior"]
