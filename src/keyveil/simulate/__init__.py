"""Simulation: tallies of made-up people, mechanisms side by side, the paper's experiments."""

from ..people.population import Population
from .tallies import simulate, simulate_runs

__all__ = ["Population", "simulate", "simulate_runs"]
