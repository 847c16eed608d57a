"""Privacy: the epsilon that every mechanism's integers prove, and the one that its authors state."""

from __future__ import annotations

from decimal import Decimal
from itertools import cycle
from typing import Any

from ...foundation.errors import ChannelError, PlanError
from ...mechanisms import REGISTRY
from ...people.schema import Schema
from ...plan.plan import Plan
from . import figures
from .evidence import listed, only_row, select_rows, verdict
from .experiment import Claim, Experiment, Figure, Job, Row, Setup

NAME = "privacy"
TITLE = "Privacy: nominal beside true epsilon"
ABOUT = (
    "The true epsilon is the largest log-ratio of any output between two records, proven with the "
    "plan's integers; nothing is sampled. Chains count all their rounds. Tight: after calibration."
)

NOMINAL = ("0.25", "0.5", "1", "2", "3", "4", "5")


def jobs(setup: Setup) -> list[Job]:
    return [Job({"mechanism": name}, 0.5) for name in REGISTRY]


def work(setup: Setup, what: dict[str, Any]) -> list[Row]:
    kind = REGISTRY[what["mechanism"]]
    cases: dict[str, dict[str, Any]] = {kind.name: {}}
    if kind.name == "f2m":
        cases = {"f2m, default 1": {}, "f2m, default 0": {"default": "0"}}
    schema = Schema.of(max(4, kind.fewest_keys))
    rows = []
    for label, parameters in cases.items():
        for nominal in NOMINAL:
            try:
                if parameters:
                    true = Plan.of(schema, kind.name, nominal, **parameters).proven
                else:
                    true = kind.true_epsilon(Decimal(nominal))
                share = best = float(true) / float(nominal)
                if kind.wasteful:
                    tight = Plan.of(schema, kind.name, nominal, "tight", **parameters)
                    best = float(tight.proven) / float(tight.promised)
            except (PlanError, ChannelError):
                continue  # a mechanism that cannot be had at this epsilon
            row = {"mechanism": label, "nominal": float(nominal), "true": float(true)}
            rows.append({**row, "share": share, "tight_share": best})
    return rows


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row["mechanism"], []).append(row)
    height = max(4.2, 0.24 * len(by_name) + 1.2)
    figure, grid = figures.panels(1, 2, 11, height, left=1.4, top=0.4, across=0.9)
    left, right = grid[0]
    for place, own in enumerate(by_name.values()):
        for row in select_rows(own, nominal=1):
            left.plot([row["share"], 1], [place, place], color="#bbbbbb", lw=1, zorder=1)
            colour = "#D55E00" if row["share"] < 0.999 else "#0072B2"
            left.plot(row["share"], place, "o", color=colour, ms=6)
    left.set_yticks(range(len(by_name)), by_name)
    left.set_ylim(len(by_name) - 0.5, -0.5)
    left.axvline(1, color="#555555", lw=0.9)
    left.set_xlabel("true epsilon at a nominal 1")
    left.set_title("as published")
    wasteful = [name for name, own in by_name.items() if min(row["share"] for row in own) < 0.999]
    for name, mark, colour in zip(wasteful, cycle("osD^vP"), cycle(figures.SPARE), strict=False):
        points = ([row[part] for row in by_name[name]] for part in ("nominal", "share"))
        right.plot(*points, marker=mark, color=colour, label=name)
    right.axhline(1, color="#555555", lw=0.9)
    right.set_xlabel("nominal epsilon")
    right.set_ylabel("true over nominal epsilon")
    right.set_title("those that do not use all of it")
    right.legend(fontsize=8.5, loc="lower left", bbox_to_anchor=(0, 0.02))
    return [Figure(NAME, "What mechanisms prove beside what they promise.", figure)]


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    def at(name: str, nominal: float = 1.0) -> float:
        return float(only_row(rows, mechanism=name, nominal=nominal)["true"])

    theirs = {name: at(name) for name in ("kvue", "kvoh", "ioh")}
    broken = [row["mechanism"] for row in rows if row["share"] > 1 + 1e-9]
    promise = "No mechanism proves more than it promises."
    return [
        Claim(
            "Sec. IV-B, IV-C, V",
            "KVUE, KVOH and IOH are epsilon-LDP.",
            verdict(all(0.999 < true <= 1 + 1e-12 for true in theirs.values())),
            f"Proven at a nominal 1: {listed(theirs, '{:.6f}'.format)}; none of them wastes any.",
            NAME,
        ),
        Claim(
            "Sec. II-C",
            "LPP (PrivKV) is epsilon_1 + epsilon_2 private by composition.",
            verdict(at("privkv") <= 1 + 1e-9),
            f"True, and wasteful: a nominal 1 is truly {at('privkv'):.3f}, 4 is "
            f"{at('privkv', 4.0):.3f}; PrivKVM with ten rounds {at('privkvm'):.3f} of 1.",
            NAME,
        ),
        Claim(
            "Sec. IV-A",
            "F2M achieves epsilon-LDP by composition.",
            verdict(at("f2m, default 1") <= 1 + 1e-9),
            "True, and all of epsilon is used only with a default of -1 or 1: a nominal 1 is truly "
            f"{at('f2m, default 1'):.4f} with default 1 and {at('f2m, default 0'):.3f} with default 0.",
            NAME,
        ),
        *([Claim("Sec. II", promise, verdict(False), str(broken), NAME)] if broken else []),
    ]


EXPERIMENTS = {NAME: Experiment(NAME, TITLE, ABOUT, jobs, work, draw, claims)}
