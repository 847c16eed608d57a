"""The public contract and what is sent under it: plans, reports, tallies, a device's budget."""

from .plan import Plan
from .report import Report, Reports
from .tally import Tally

__all__ = ["Plan", "Report", "Reports", "Tally"]
