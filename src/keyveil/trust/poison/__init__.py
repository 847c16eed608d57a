"""Poisoning: what fake clients could do to the answers, and how many it takes.

Most answers are linear in the tally: a key's frequency and mass (frequency x mean) are averages over
reports of what each report is *worth* to them. So a share s of fakes among the reports that speak of a
key moves both to (1 - s) honest + s worth, and all that is left is which report is worth most. That is
read off the mechanism's own least-squares estimator, never off a formula for the mechanism. Hash pools
have several such estimators, of which the tally takes one: the largest worst case is stated. Answers
that are pooled over views by precision are not linear: the estimator itself is run (``pooled``).

Three attacks (Wu, Cao, Jia, Gong, "Poisoning attacks to local differential privacy protocols for
key-value data", USENIX Security 2022): ``crafted`` sends what serves the goal best, ``random`` any valid
report, ``pairs`` runs the honest line on a record of one target drawn at random. A crafted report may
also choose its view (``views="chosen"``), which ``health`` sees at once, or take it as it is drawn
(``"drawn"``), which it does not; and its seed where there is a pool, unless seeds are assigned with the
tokens that let clients in.

Frequencies are shares, and may leave [0, 1]: then ``health`` sees it. Means are on the keys' own scales
in results, on [-1, 1] as input, and end where their range does.
"""

from __future__ import annotations

from .attack import ATTACKS, CHOICES, GOALS
from .attack_summary import average_key, line
from .attack_table import AttackRow, compare_gains
from .conditional_attack import raised_conditional
from .fakes_needed import Needed, fakes_needed, standard_error
from .gains import Change, Gain, Shift, gain
from .reach import LEVEL, Reach, reach
from .repair import Repair, Repaired, repair

__all__ = [
    "ATTACKS",
    "CHOICES",
    "GOALS",
    "LEVEL",
    "AttackRow",
    "Change",
    "Gain",
    "Needed",
    "Reach",
    "Repair",
    "Repaired",
    "Shift",
    "average_key",
    "compare_gains",
    "fakes_needed",
    "gain",
    "line",
    "raised_conditional",
    "reach",
    "repair",
    "standard_error",
]
