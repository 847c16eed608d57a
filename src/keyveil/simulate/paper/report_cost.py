"""The table of communication cost: printed bits, corrected bits, and bytes that are really sent."""

from __future__ import annotations

import io
from collections.abc import Callable
from math import log2
from typing import Any

from ...mechanisms import REGISTRY
from ...people.synthetic import gaussian, tied
from ...plan.plan import Plan
from ...plan.report_file import ReportWriter
from . import figures
from .experiment import Claim, Figure, Job, Row, Setup, number, only_if, only_row, verdict

NAME = ROWS_OF = "cost"
TITLE = "Table: communication cost of one report"
ABOUT = (
    "100 keys (IOH: 8), epsilon 1. Packed: bytes a report takes in a file of 10,000 reports, header "
    "included. JSON: bytes of one report on its own, with the plan's 64-digit name in it."
)

KEYS, IOH_KEYS, REPORTS, ROUNDS = 100, 8, 10_000, 10
Formula = Callable[[int], float]
LINES: dict[str, tuple[str, Formula | None, str, Formula, str]] = {
    "PrivKV": ("privkv", lambda d: log2(3 * d), "log2 3d", lambda d: log2(3 * d), "log2 3d"),
    "PrivKVM": (
        "privkvm",
        lambda d: ROUNDS * log2(3 * d),
        "c log2 3d",
        lambda d: ROUNDS * log2(3 * d),
        "c log2 3d up, and d means down in each round",
    ),
    "F2M": ("f2m", lambda d: 2 * log2(d), "2 log2 d", lambda d: log2(d) + 2, "log2 d + 2"),
    "KVUE": ("kvue", lambda d: log2(3 * d), "log2 3d", lambda d: log2(3 * d), "log2 3d"),
    "KVOH": ("kvoh", lambda d: 3 * log2(d), "3 log2 d", lambda d: log2(d) + 3, "log2 d + 3"),
    "IOH": ("ioh", None, "not given", lambda d: 3.0**d, "3^d"),
    "PCKV-UE": ("pckv_ue", None, "not in the paper", lambda d: (d + 4) * log2(3), "(d + l) log2 3"),
    "pairs": (
        "pairs",
        None,
        "not in the paper",
        lambda d: log2(d * (d - 1) / 2),
        "log2 of the views, and",
    ),
}
"""Mechanism, bits printed and their formula, bits corrected and their formula."""


def jobs(setup: Setup) -> list[Job]:
    return [Job({"line": label}, 1.0) for label, (name, *_) in LINES.items() if name in REGISTRY]


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    mechanism, printed, printed_formula, correct, formula = LINES[what["line"]]
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
    bits, times = correct(keys), 1
    if mechanism == "pairs":  # the channel is chosen by epsilon, so its bits are the plan's
        bits, formula = plan.bits_per_report, f"{formula} {plan.bits_per_report - correct(keys):.2f}"
    if mechanism == "privkvm":
        times = ROUNDS
    return [
        {
            "line": what["line"],
            "keys": keys,
            "printed": "" if printed is None else printed(keys),
            "printed_formula": printed_formula,
            "corrected": bits,
            "corrected_formula": formula,
            "plan_bits": plan.bits_per_report * times,
            "packed_bytes": len(file.getvalue()) / REPORTS * times,
            "json_bytes": alone * times,
        }
    ]


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    order = [label for label in LINES if any(row["line"] == label for row in rows)]
    parts = {
        "printed": ("printed, bits", "#E69F00", "X"),
        "corrected": ("corrected, bits", "#0072B2", "o"),
        "packed": ("sent in a packed file, bits", "#009E73", "s"),
        "json": ("sent as JSON, bits", "#777777", "D"),
    }
    with figures.look() as pyplot:
        figure, grid = figures.panels(pyplot, 1, 1, 9, 5.4, left=1.5, top=0.45)
        panel = grid[0][0]
        for part, (label, colour, mark) in parts.items():
            values, places = [], []
            for place, name in enumerate(order):
                row = only_row(rows, line=name)
                value = 8 * row[f"{part}_bytes"] if part in ("packed", "json") else row[part]
                if value != "":
                    values.append(value)
                    places.append(place)
            shift = list(parts).index(part) * 0.2 - 0.3
            panel.plot(values, [p + shift for p in places], mark, color=colour, ms=7, label=label)
        panel.set_yticks(
            range(len(order)), [f"{n} ({only_row(rows, line=n)['keys']} keys)" for n in order]
        )
        panel.invert_yaxis()
        panel.set_xscale("log")
        panel.set_xlabel("bits for one report (PrivKVM: for all ten rounds)")
        panel.grid(axis="y", visible=False)
        for edge in range(len(order) - 1):
            panel.axhline(edge + 0.5, color=figures.GRID, lw=0.8)
        figures.legend(figure, grid, 4)
        return [Figure(NAME, "Bits of one report by formula, and as really sent.", figure)]


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    wrong = [
        f"{name}: {number(row['printed'])} bits printed, {number(row['corrected'])} needed"
        for name in ("PrivKV", "F2M", "KVUE", "KVOH")
        if abs((row := only_row(rows, line=name))["printed"] - row["corrected"]) > 1e-9
    ]
    least = max(only_row(rows, line=name)["packed_bytes"] for name in ("F2M", "KVUE", "KVOH"))
    ratio = only_row(rows, line="PrivKVM")["packed_bytes"] / only_row(rows, line="KVUE")["packed_bytes"]
    return [
        Claim(
            "Sec. VI-A",
            "Costs are log2 3|K| (PrivKV, KVUE), 2 log2 |K| (F2M) and 3 log2 |K| (KVOH) bits.",
            verdict(True) if not wrong else only_if("F2M's and KVOH's factors are read as sums"),
            f"With {KEYS} keys: "
            + "; ".join(wrong)
            + "; the plans' own counts agree with the corrected ones.",
            NAME,
        ),
        Claim(
            "Sec. I",
            "All the proposed methods have low communication cost and need no frequent interaction.",
            verdict(least < 16),
            f"F2M, KVUE and KVOH send at most {least:.2f} bytes a report in a packed file, once; "
            f"PrivKVM with ten rounds {ratio:.1f} times KVUE's, and {KEYS} means come down in each "
            f"round. IOH with {IOH_KEYS} keys sends "
            f"{only_row(rows, line='IOH')['packed_bytes']:.0f} bytes.",
            NAME,
        ),
    ]
