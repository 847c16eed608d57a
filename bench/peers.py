"""keyveil beside pure-ldp, multi-freq-ldpy, OpenDP and diffprivlib, on one core.

The peers run in ``.venv-bench/``. They draw from generators that protect no one (but OpenDP's), take one
person a call, and are given the state, which keyveil finds in a record first.
"""

from __future__ import annotations

import json
import os
import subprocess
from time import thread_time
from unittest.mock import patch

from keyveil import Coins, People, Plan, Schema

from .rates import one_each
from .speed import HERE, peer_python
from .table import Outcome, Table, rows, times
from .tallies import decoding_plan, decoding_time, people_of

AIM, AIM_DECODED = 100, 1_000


def run(quick: bool) -> Outcome:
    """The table of peers."""
    title = "A person's report in other packages against keyveil, epsilon 1, one core"
    columns = ("task", "package", "time against keyveil", "keyveil, ns", "package, ns")
    python = peer_python(quick)
    if isinstance(python, str):
        return Outcome("peers", (Table(title, columns, (), f"Skipped: the peers are {python}."),), {})
    with patch.dict(os.environ, {"KEYVEIL_FAST": "1"}):
        ours: dict[str, float] = {}
        lines, missed, fastest = [], [], dict[str, float]()
        done = subprocess.run(
            [str(python), str(HERE / "peer_rates.py")], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout.strip().splitlines()[-1])
        for row, package, theirs in found:
            own = ours.setdefault(row, _own(row))
            fastest[row] = min(fastest.get(row, float("inf")), theirs / own)
            lines.append(
                (row, package, times(theirs / own), f"{own * 1e9:,.1f}", f"{theirs * 1e9:,.0f}")
            )
    for row, ratio in fastest.items():
        aim = AIM_DECODED if row.startswith("hash") else AIM
        if ratio < aim:
            missed.append(f"{row}: {ratio:.0f} x the fastest package, aim {aim} x")
    note = (
        f"Aim: {AIM} x the fastest package, {AIM_DECODED} x for decoding. keyveil privatises a batch of "
        "people who hold one key each, with secure words; packages are called for each person. "
        "Decoding: pure-ldp's OLH, and collision with the larger pool of the table above, which is "
        "tallied and estimated for 100,000 reports."
    )
    return Outcome("peers", (Table(title, columns, rows(lines), note),), {"found": found}, tuple(missed))


def _own(row: str) -> float:
    """Seconds of a person in keyveil for a row of the table."""
    states = int(row.split()[-2].replace(",", ""))
    if row.startswith("hash"):
        return decoding_time(decoding_plan(), people_of("Zipf"))
    if row.startswith("Hadamard"):  # a view of two keys has nine states
        plan = Plan.of(Schema.of(2), "pairs", 1, channel="hadamard")
        return _best(plan, one_each(2), Coins.secure())
    name = "rappor" if row.startswith("unary") else "grr"
    keys = states if name == "rappor" else states - 1
    plan, people, coins = Plan.of(Schema.of(keys), name, 1), one_each(keys), Coins.secure()
    some = people[: 10_000 if states > 1_000 and name == "rappor" else len(people)]
    return _best(plan, some, coins)


def _best(plan: Plan, people: People, coins: Coins) -> float:
    best = float("inf")
    for _ in range(6):
        start = thread_time()
        plan.privatise(people, coins)
        best = min(best, (thread_time() - start) / len(people))
    return best
