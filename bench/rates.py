"""People a second of every encoding and shape, against KVUE, plain NumPy and the secure words.

Times are processor time of one thread: on a shared machine they vary less than wall time, and the forms
that are compared take turns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np

from keyveil import Coins, People, Plan, Schema
from keyveil.foundation.coins import WORDS_PER_BLOCK, address
from keyveil.simulate.speed.machine_limits import seconds_per_word
from keyveil.simulate.speed.plain_numpy import (
    PlainForm,
    batch_form,
    k_rr_form,
    kvue_form,
    tuned_k_rr,
    tuned_kvue,
    tuned_unary,
    unary_form,
)
from keyveil.simulate.speed.speed_rows import blocks_taken
from keyveil.simulate.speed.stopwatch import shortest

from .speed import KEYS, population
from .table import Outcome, Table, rows, times

FAST = {"KEYVEIL_FAST": "1"}
KVUE_PEOPLE = 200_000
STATES = (3, 100, 300, 6_561)
MOST_TURNS = 50
"""Turns of forms that are soon done, so that other work on the machine spares one of them."""
WORDS_AIM = 0.4
"""The least share of the rate of its words that k-RR reaches."""
QUERIES = "mean({0} | {1}); mean({2} | {3}); frequency({4} | !{5})"
AIMS = {
    "pairs": 1 / 0.28,
    "workload": 1 / 0.28,
    "several": 1 / 0.28,
    "triples": 1 / 0.28,
    "collision": 15,
    "coco": 15,
    "pair_collision": 15,
    "pckv_ue": 40,
    "signed_ue": 40,
    "rappor": 40,
}
"""The largest time of a person, in those of KVUE."""
IOH, IOH_TIME = "ioh, 8 keys", 250
"""Likewise for IOH: ten times the rate of its first loops, 0.05 million people where KVUE had 125."""
PLAIN_AIMS = {"k-RR": 3, "unary over 100": 10, "unary over 6561": 10}
"""The least ratio to plain NumPy, by the beginning of a row's name."""


def run(quick: bool) -> Outcome:
    """The table of rates."""
    with patch.dict(os.environ, FAST):
        kvue, lines, figures, missed = _Kvue(), [], {}, []
        for name, plan, people, plain in _forms():
            timing = kvue.measured(plan, people, plain, 0.1 if quick else 0.3)
            figures[name] = timing
            against, ratio = timing["kvue"], timing["plain"]
            aim = IOH_TIME if name == IOH else AIMS.get(name)
            least = next((v for start, v in PLAIN_AIMS.items() if name.startswith(start)), None)
            if aim is not None and against > aim:
                missed.append(f"{name}: 1/{against:.1f} of KVUE's rate, aim 1/{aim:.1f}")
            if least is not None and ratio < least:
                missed.append(f"{name}: {ratio:.1f} x plain NumPy, aim {least} x")
            share = timing["words"] / timing["seconds"]
            if name.startswith("k-RR") and share < WORDS_AIM:
                missed.append(f"{name}: {share:.0%} of the rate of its words, aim {WORDS_AIM:.0%}")
            aims = f"1/{aim:.3g}" if aim else (f"{least} x NumPy" if least else "")
            tuned = times(timing["tuned"]) if len(plain) > 1 else ""
            cost = f"{share:.0%}", f"{timing['seconds'] * 1e9:,.0f}"
            lines.append((name, f"1/{against:.1f}", aims, times(ratio), tuned, *cost))
    shown = Table(
        f"Privatising, epsilon 1, {KEYS} keys and 10 held unless said otherwise, one core",
        ("plan", "of KVUE's rate", "aim", "against NumPy", "tuned NumPy", "of it words", "ns a person"),
        rows(lines),
        "NumPy is the same task in plain vectorised NumPy with PCG64: for KVUE, k-RR and unary as one "
        "writes it by hand, and tuned; otherwise keyveil's plain form. Words: the time that "
        "AES-256 takes for the words of the report, made at the rate of the compiled loops if the "
        f"processor has the instructions ({kvue.word_time * 1e9:.2f} ns for four words), else "
        f"OpenSSL's; as a share of the time. k-RR must reach {WORDS_AIM:.0%}. Of bits only the words of "
        "the first eight planes count, which everyone takes.",
    )
    return Outcome("rates", (shown,), figures, tuple(missed))


def _forms() -> Iterator[tuple[str, Plan, People, tuple[PlainForm, ...]]]:
    """Name, plan, people and the plain forms of each row, the tuned one last."""
    people, schema = population(KVUE_PEOPLE)[0], Schema.of(KEYS)
    queries = QUERIES.format(*schema.keys)
    for name in ("kvue", *AIMS, "pckv_grr", "coefficients", "optimal", "kvoh", "sign", "size"):
        given = {"queries": queries} if name == "workload" else {}
        plan = Plan.of(schema, name, 1, **given)
        both = (kvue_form(plan), tuned_kvue(plan)) if name == "kvue" else (batch_form(plan),)
        yield name, plan, people, both
    for given in ("kvue/sign@0.1", "collision/size@0.1"):
        plan = Plan.of(schema, "parts", 1, parts=given)
        yield given, plan, people, (batch_form(plan),)
    plan = Plan.of(Schema.of(8), "ioh", 1)
    yield IOH, plan, _dense(8, 0.4), (batch_form(plan),)
    for states in STATES:
        plan = Plan.of(Schema.of(states - 1), "grr", 1)
        both = k_rr_form(plan, states), tuned_k_rr(plan, states)
        yield f"k-RR over {states} states", plan, one_each(states - 1), both
    for bits in STATES:
        plan = Plan.of(Schema.of(bits), "rappor", 1)
        both = unary_form(plan, bits), tuned_unary(plan, bits)
        yield f"unary over {bits} bits", plan, one_each(bits), both


def one_each(keys: int) -> People:
    """People who hold one key each."""
    held = Coins.stated("rates").generator().integers(0, keys, KVUE_PEOPLE).astype(np.uint16)
    starts = np.arange(KVUE_PEOPLE + 1)
    return People(address(starts[:-1]), starts, held, np.zeros(KVUE_PEOPLE))


def _dense(keys: int, share: float) -> People:
    """People who hold each key with the same probability."""
    draw, count = Coins.stated("rates").generator(), KVUE_PEOPLE // 10
    held = draw.random((count, keys)) < share
    starts = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
    key = np.nonzero(held)[1].astype(np.uint16)
    return People(address(np.arange(count)), starts, key, draw.uniform(-1, 1, len(key)))


class _Kvue:
    """Measures plans in turns with KVUE."""

    def __init__(self) -> None:
        self.people, self.coins = population(KVUE_PEOPLE)[0], Coins.secure()
        self.plan = Plan.of(Schema.of(KEYS), "kvue", 1)
        self.rng = np.random.Generator(np.random.PCG64())
        self.word_time = WORDS_PER_BLOCK * seconds_per_word()

    def measured(
        self, plan: Plan, people: People, plain: tuple[PlainForm, ...], seconds: float
    ) -> dict[str, float]:
        """Seconds of a person, in those of KVUE, and those of plain NumPy in them."""
        sample = people[:2_000]
        plan.privatise(sample, self.coins)
        ours = shortest({"": lambda: plan.privatise(sample, self.coins)}, 1)[""] / len(sample)
        theirs = shortest({"": lambda: plain[0](sample[:500], self.rng)}, 1)[""] / 500
        many = people[: max(2_000, int(seconds / 5 / ours))]
        few = people[: min(1 << 14, max(500, int(seconds / 5 / theirs)))]
        turn = ours * len(many) + 2 * theirs * len(few)
        taken = shortest(
            {
                "ours": lambda: plan.privatise(many, self.coins),
                "kvue": lambda: self.plan.privatise(self.people, self.coins),
                "plain": lambda: plain[0](few, self.rng),
                "tuned": lambda: plain[-1](few, self.rng),
            },
            min(MOST_TURNS, max(5, int(seconds / turn))),
        )
        own = taken["ours"] / len(many)
        words = self.word_time * blocks_taken(plan)
        return {
            "seconds": own,
            "kvue": own / (taken["kvue"] / len(self.people)),
            "plain": taken["plain"] / len(few) / own,
            "tuned": taken["tuned"] / len(few) / own,
            "words": words,
        }
