"""Simulation: tallies of made-up people, mechanisms side by side, the paper's experiments."""

from ..people.population import Population
from .simulation_segments import simulate_on
from .tallies import simulate, simulate_runs

__all__ = ["Population", "simulate", "simulate_on", "simulate_runs"]
