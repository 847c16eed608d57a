"""People per second of keyveil, plain NumPy and pure-ldp, on one core, taking turns."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from keyveil import Coins, People, Plan, Reports, Schema, Tally
from keyveil.foundation.coins import WORDS_PER_BLOCK, address
from keyveil.foundation.errors import KeyveilError
from keyveil.simulate.speed.machine_limits import seconds_per_byte, seconds_per_word
from keyveil.simulate.speed.peer_packages import peers_python
from keyveil.simulate.speed.plain_numpy import tuned_kvue
from keyveil.simulate.speed.stopwatch import shortest

from .plain import Plain
from .table import Outcome, Table, rows, times

HERE = Path(__file__).parent
PEER = HERE.parent / ".venv-bench"
KEYS, HELD = 100, 10
OTHERS = ("rr", "privkv", "f2m", "bisample", "harmony", "grr", "kvoh", "rappor")

PERSON_BYTES = 16 + 8 + 2 * HELD
"""What is read of everyone: address, start and keys."""
AIM_PLAIN, AIM_PEER, AIM_TALLY = 5.0, 100.0, 3.0


def run(quick: bool) -> Outcome:
    """All speed tables."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        with patch.dict(os.environ, {"KEYVEIL_FAST": "1"}):
            parts = [_privatising(quick), _mechanisms(quick), _peer(quick), _tallying(quick)]
    finally:
        os.sched_setaffinity(0, before)
    tables, figures, missed = zip(*parts, strict=True)
    return Outcome(
        "speed",
        tables,
        {name: value for part in figures for name, value in part.items()},
        tuple(line for part in missed for line in part),
    )


Part = tuple[Table, dict[str, Any], list[str]]


def best(forms: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Each form's shortest processor time in seconds after a first call; the forms take turns."""
    for form in forms.values():
        form()
    return shortest(forms, rounds)


def held_keys(people: int, rng: np.random.Generator) -> np.ndarray:
    """Ten of a hundred keys for each person, all sets equally likely, in ascending order."""
    table = np.empty((people, HELD), np.uint16)
    for first in range(0, people, 20_000):
        chunk = table[first : first + 20_000]
        chance = rng.random((len(chunk), KEYS), np.float32)
        chunk[:] = np.sort(np.argpartition(chance, HELD, axis=1)[:, :HELD], axis=1)
    return table


def population(people: int) -> tuple[People, np.ndarray, np.ndarray]:
    """The same people in keyveil's form, and as a table of keys and a table of values."""
    rng = Coins.stated("speed").generator()
    table, values = held_keys(people, rng), rng.uniform(-1, 1, (people, HELD))
    starts = np.arange(0, people * HELD + 1, HELD)
    return People(address(np.arange(people)), starts, table.ravel(), values.ravel()), table, values


def without_numba() -> AbstractContextManager[object]:
    """Turn off compiled loops in the same process."""
    return patch.dict(os.environ, {"KEYVEIL_FAST": "0"})


def _privatising(quick: bool) -> Part:
    people, table, values = population(200_000 if quick else 1_000_000)
    plan, coins = Plan.of(Schema.of(KEYS), "kvue", 1), Coins.secure()
    plain, rng = Plain(plan, table, values), np.random.Generator(np.random.PCG64())
    tuned = tuned_kvue(plan)

    def uncompiled() -> Reports:
        with without_numba():
            return plan.privatise(people, coins)

    ours = "keyveil"
    seconds = best(
        {
            ours: lambda: plan.privatise(people, coins),
            "NumPy, mask, tuned": lambda: tuned(people, rng),
            "NumPy, mask": lambda: plain.by_mask(rng),
            "NumPy, searchsorted": lambda: plain.by_search(rng),
            "NumPy, records of any length": lambda: plain.by_repeats(people, rng),
            "keyveil, KEYVEIL_FAST=0": uncompiled,
        },
        15 if quick else 7,
    )
    ratios = {name: second / seconds[ours] for name, second in seconds.items()}
    words, read = 1e9 * WORDS_PER_BLOCK * seconds_per_word(), 1e9 * PERSON_BYTES * seconds_per_byte()
    better = min(("NumPy, mask", "NumPy, searchsorted"), key=ratios.__getitem__)
    lines = [
        (
            name,
            times(ratios[name]) if name != ours else "1",
            f"{second / len(people) * 1e9:.1f}",
            f"{len(people) / second / 1e6:.0f}",
        )
        for name, second in seconds.items()
    ]
    note = (
        f"Aim: {AIM_PLAIN:g} x the better of mask and searchsorted; the other forms have no aim. "
        f"keyveil's secure words (AES-256) alone take {words:.1f} ns a person; "
        f"reading {PERSON_BYTES} bytes of each person from memory takes {read:.1f} ns; "
        "the NumPy forms draw theirs from PCG64, which must not protect anyone."
    )
    shown = Table(
        f"Privatising {len(people):,} people, KVUE, {KEYS} keys, {HELD} held, one core",
        ("form", "time against keyveil", "ns a person", "million people/s"),
        rows(lines),
        note,
    )
    figures = {"privatising": {"seconds": seconds, "ratios": ratios, "people": len(people)}}
    missed = []
    if ratios[better] < AIM_PLAIN:
        missed.append(f"keyveil is {ratios[better]:.1f} x {better}, aim {AIM_PLAIN:g} x")
    return shown, figures, missed


def _mechanisms(quick: bool) -> Part:
    people, _, _ = population(20_000 if quick else 200_000)
    coins, figures, lines = Coins.secure(), {}, []
    for name in ("kvue", *OTHERS):
        plan = Plan.of(Schema.of(KEYS), name, 1)

        def compiled(plan: Plan = plan) -> Reports:
            return plan.privatise(people, coins)

        def uncompiled(plan: Plan = plan) -> Reports:
            with without_numba():
                return plan.privatise(people[:20_000], coins)

        seconds = best({"on": compiled, "off": uncompiled}, 2 if quick else 7)
        on, off = seconds["on"] / len(people), seconds["off"] / 20_000
        figures[name] = {"compiled": 1 / on, "KEYVEIL_FAST=0": 1 / off}
        lines.append((name, times(off / on), f"{on * 1e9:.0f}", f"{1 / on:,.0f}", f"{1 / off:,.0f}"))
    shown = Table(
        f"Privatising with every mechanism, {KEYS} keys, {HELD} held, one core",
        ("mechanism", "gain by numba", "ns a person", "people/s", "people/s, KEYVEIL_FAST=0"),
        rows(lines),
    )
    return shown, {"mechanisms": figures}, []


# -- pure-ldp --------------------------------------------------------------------------------------


def peer_python(quick: bool) -> Path | str:
    """The interpreter of the peer's own environment, created on demand; or the reason for none."""
    if quick and not (PEER / ".ready").exists():
        return "not installed; a run without --quick installs it into .venv-bench/"
    try:
        return peers_python(PEER)
    except KeyveilError as error:
        return f"not to be had here: {error}"


def _peer(quick: bool) -> Part:
    python = peer_python(quick)
    title = f"k-RR over {KEYS} keys, one core"
    columns = ("client", "time against keyveil", "ns a person")
    if isinstance(python, str):
        return Table(title, columns, (), f"Skipped: pure-ldp is {python}."), {"peer": None}, []
    people, _, _ = population(100_000)
    plan, coins = Plan.of(Schema.of(KEYS), "grr", 1), Coins.secure()
    record = next(people.records(plan.schema))
    theirs = batch = single = float("inf")
    for _ in range(1 if quick else 3):
        command = [str(python), str(HERE / "peer.py"), "50000", str(KEYS)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        theirs = min(theirs, float(done.stdout) * 1e-9)
        batch = min(batch, best({"": lambda: plan.privatise(people, coins)}, 3)[""] / len(people))
        single = min(single, best({"": lambda: [plan.report(record) for _ in range(50)]}, 3)[""] / 50)
    lines = [
        ("keyveil, grr, a batch", "1", f"{batch * 1e9:.1f}"),
        ("pure-ldp 1.2.0, DEClient, a call each", times(theirs / batch), f"{theirs * 1e9:.0f}"),
        (
            "keyveil, grr, Plan.report, a call and a new AES key each",
            times(single / batch),
            f"{single * 1e9:.0f}",
        ),
    ]
    figures = {"peer": {"keyveil": batch, "pure-ldp": theirs, "Plan.report": single}}
    missed = [] if theirs / batch >= AIM_PEER else [f"pure-ldp: {theirs / batch:.1f}, aim {AIM_PEER:g}"]
    note = (
        f"Aim: {AIM_PEER:g} x. pure-ldp draws from Python's Mersenne Twister and is given its item; "
        "keyveil also draws one of the held keys."
    )
    return Table(title, columns, rows(lines), note), figures, missed


# -- tallying --------------------------------------------------------------------------------------


def _tallying(quick: bool) -> Part:
    count = 1_000_000 if quick else 10_000_000
    plan, rng = Plan.of(Schema.of(KEYS), "kvue", 1), Coins.stated("tallying").generator()
    law = np.tile([0.55, 0.25, 0.2], KEYS) / KEYS
    codes = rng.choice(len(law), count, p=law).astype(plan.layout.code_type)
    reports = Reports(plan.hash, codes=codes)
    seconds = best(
        {
            "keyveil, Tally.add": lambda: Tally(plan).add(reports),
            "numpy.bincount": lambda: np.bincount(codes, minlength=plan.layout.codes),
        },
        15 if quick else 7,
    )
    ours, theirs = seconds.values()
    lines = [
        (name, times(second / ours) if second != ours else "1", f"{second / count * 1e9:.2f}")
        for name, second in seconds.items()
    ]
    shown = Table(
        f"Tallying {count:,} reports of {codes.dtype}, one core",
        ("form", "time against keyveil", "ns a report"),
        rows(lines),
        f"Aim: {AIM_TALLY:g} x. Tally.add also refuses codes that the plan does not have.",
    )
    missed = [] if theirs / ours >= AIM_TALLY else [f"tallying: {theirs / ours:.1f}, aim {AIM_TALLY:g}"]
    return shown, {"tallying": {"seconds": seconds, "reports": count}}, missed
