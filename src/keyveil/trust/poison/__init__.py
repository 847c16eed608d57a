"""Poisoning: what fake clients could do to the answers, and how many it takes.

Most answers are linear in the tally. A key's frequency and mass (frequency x mean) are averages over
reports; the term of one report is its *influence*. So a share s of fakes among the reports on a key
turns both into (1 - s) honest + s influence, and the worst attack sends the report with the largest
influence. The influence comes from the mechanism's own least-squares estimator, not from a formula for
the mechanism. Hash pools have several such estimators, and the tally decides which is used; the largest
worst case is stated. Answers that are averaged over views are not linear if fakes choose their views, so
the estimator itself is run (``averaged_attack``).

There are three attacks (Wu, Cao, Jia, Gong, "Poisoning attacks to local differential privacy protocols
for key-value data", USENIX Security 2022). ``crafted`` sends what serves the goal best, ``random`` sends
any valid report, and ``pairs`` reports honestly on a record of one random target. A crafted report may
choose its view (``views="chosen"``), which ``health`` detects at once, or draw it (``"drawn"``), which
``health`` cannot detect. It may also choose its seed if there is a pool, unless seeds are assigned with
the tokens that admit clients.

Frequencies are shares. They may leave [0, 1], which ``health`` detects. Means are on the keys' own
scales in results and on [-1, 1] as input; they stop at the ends of their range.
"""

from __future__ import annotations

from ..health.collision_limits import collision_limits
from .attack import ATTACKS, CHOICES, GOALS
from .attack_summary import AttackRow, average_key, compare_gains, line
from .conditional_attack import raised_conditional
from .fakes import fake_tally
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
    "collision_limits",
    "compare_gains",
    "fake_tally",
    "fakes_needed",
    "gain",
    "line",
    "raised_conditional",
    "reach",
    "repair",
    "standard_error",
]
