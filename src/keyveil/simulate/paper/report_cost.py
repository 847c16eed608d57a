"""The table of communication cost: printed bits, corrected bits, and bytes that are really sent."""

from __future__ import annotations

import io
from collections.abc import Callable
from math import log2
from typing import Any

from ...people.synthetic import gaussian, tied
from ...plan.plan import Plan
from ...plan.report_file import ReportWriter
from . import figures
from .evidence import number, only_row, verdict
from .experiment import Claim, Experiment, Figure, Job, Row, Setup

NAME = "cost"
TITLE = "Table: communication cost of one report"
ABOUT = (
    "100 keys (IOH: 8), epsilon 1. Packed: bytes a report takes in a file of 10,000 reports, header "
    "included. JSON: bytes of one report on its own, with the plan's 64-digit name in it."
)

KEYS, IOH_KEYS, REPORTS, ROUNDS = 100, 8, 10_000, 10
Formula = tuple[Callable[[int], float] | None, str]
"""Bits by the number of keys, and how that is written; None if there are none."""


def _log_3d(d: int) -> float:
    return log2(3 * d)


def _chain(d: int) -> float:
    return ROUNDS * log2(3 * d)


LINES: dict[str, tuple[str, Formula, Formula]] = {
    "PrivKV": ("privkv", (_log_3d, "log2 3d"), (_log_3d, "log2 3d")),
    "PrivKVM": (
        "privkvm",
        (_chain, "c log2 3d"),
        (_chain, "c log2 3d up, and d means down in each round"),
    ),
    "F2M": ("f2m", (lambda d: 2 * log2(d), "2 log2 d"), (lambda d: log2(d) + 2, "log2 d + 2")),
    "KVUE": ("kvue", (_log_3d, "log2 3d"), (_log_3d, "log2 3d")),
    "KVOH": ("kvoh", (lambda d: 3 * log2(d), "3 log2 d"), (lambda d: log2(d) + 3, "log2 d + 3")),
    "IOH": ("ioh", (None, "not given"), (lambda d: 3.0**d, "3^d")),
    "PCKV-UE": ("pckv_ue", (None, "not in the paper"), (lambda d: (d + 4) * log2(3), "(d + l) log2 3")),
    "pairs": ("pairs", (None, "not in the paper"), (None, "log2 of the views, and")),
}
"""Mechanism, bits as printed, and bits corrected."""


def jobs(setup: Setup) -> list[Job]:
    return [Job({"line": label}) for label in LINES]


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    mechanism, (printed, printed_formula), (correct, formula) = LINES[what["line"]]
    keys = IOH_KEYS if mechanism == "ioh" else KEYS
    population = tied(keys) if mechanism == "ioh" else gaussian(keys)
    plan = Plan.of(population.schema, mechanism, 1)
    coins = setup.coins(NAME, what["line"])
    people = population.draw(REPORTS, coins.generator())
    file = io.BytesIO()
    writer = ReportWriter(plan, file)
    writer.add(plan.privatise(people, coins))
    writer.close()
    record = next(iter(people.records(population.schema)))
    alone = len(plan.report(record, coins, 0).dumps())
    times = ROUNDS if mechanism == "privkvm" else 1
    if correct is None:  # pairs: the channel is chosen by epsilon, so its bits are the plan's
        formula = f"{formula} {plan.bits_per_report - log2(keys * (keys - 1) / 2):.2f}"
    return [
        {
            "line": what["line"],
            "keys": keys,
            "printed": "" if printed is None else printed(keys),
            "printed_formula": printed_formula,
            "corrected": plan.bits_per_report if correct is None else correct(keys),
            "corrected_formula": formula,
            "plan_bits": plan.bits_per_report * times,
            "packed_bytes": len(file.getvalue()) / REPORTS * times,
            "json_bytes": alone * times,
        }
    ]


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    parts = (
        ("printed", 1, "printed, bits", "#E69F00", "X"),
        ("corrected", 1, "corrected, bits", "#0072B2", "o"),
        ("packed_bytes", 8, "sent in a packed file, bits", "#009E73", "s"),
        ("json_bytes", 8, "sent as JSON, bits", "#777777", "D"),
    )
    figure, grid = figures.panels(1, 1, 9, 5.4, left=1.5, top=0.45)
    panel = grid[0][0]
    for shift, (part, bits, label, colour, mark) in enumerate(parts):
        known = [(bits * row[part], place) for place, row in enumerate(rows) if row[part] != ""]
        values, places = zip(*known, strict=True)
        at = [place + (shift * 0.2 - 0.3) for place in places]
        panel.plot(values, at, mark, color=colour, ms=7, label=label)
    panel.set_yticks(range(len(rows)), [f"{row['line']} ({row['keys']} keys)" for row in rows])
    panel.invert_yaxis()
    panel.set_xscale("log")
    panel.set_xlabel("bits for one report (PrivKVM: for all ten rounds)")
    panel.grid(axis="y", visible=False)
    for edge in range(len(rows) - 1):
        panel.axhline(edge + 0.5, color=figures.GRID, lw=0.8)
    caption = "Bits of one report by formula, and as really sent."
    return [figures.finished(NAME, caption, figure, grid, columns=4)]


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    by_line = {label: only_row(rows, line=label) for label in LINES}
    wrong = [
        f"{name}: {number(row['printed'])} bits printed, {number(row['corrected'])} needed"
        for name in ("PrivKV", "F2M", "KVUE", "KVOH")
        if abs((row := by_line[name])["printed"] - row["corrected"]) > 1e-9
    ]
    packed = {label: row["packed_bytes"] for label, row in by_line.items()}
    most = max(packed[name] for name in ("F2M", "KVUE", "KVOH"))
    return [
        Claim(
            "Sec. VI-A",
            "Costs are log2 3|K| (PrivKV, KVUE), 2 log2 |K| (F2M) and 3 log2 |K| (KVOH) bits.",
            verdict(not wrong, "F2M's and KVOH's factors are read as sums"),
            f"With {KEYS} keys: {'; '.join(wrong)}; the plans' own counts agree with the corrected "
            "ones.",
            NAME,
        ),
        Claim(
            "Sec. I",
            "All the proposed methods have low communication cost and need no frequent interaction.",
            verdict(most < 16),
            f"F2M, KVUE and KVOH send at most {most:.2f} bytes a report in a packed file, once; "
            f"PrivKVM with ten rounds {packed['PrivKVM'] / packed['KVUE']:.1f} times KVUE's, and {KEYS} "
            f"means come down in each round. IOH with {IOH_KEYS} keys sends {packed['IOH']:.0f} bytes.",
            NAME,
        ),
    ]


EXPERIMENTS = {NAME: Experiment(NAME, TITLE, ABOUT, jobs, work, draw, claims)}
