"""Privacy: the epsilon that every mechanism's integers prove, beside the one its authors state."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ...foundation.errors import ChannelError, PlanError
from ...mechanisms import REGISTRY
from ...people.schema import Schema
from ...plan.plan import Plan
from . import figures
from .experiment import Claim, Figure, Job, Row, Setup, only_row, select_rows, verdict

NAME = ROWS_OF = "privacy"
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
    cases: list[tuple[str, dict[str, Any]]] = [(kind.name, {})]
    if kind.name == "f2m":
        cases = [("f2m, default 1", {}), ("f2m, default 0", {"default": "0"})]
    keys = max(4, kind.fewest_keys)
    rows = []
    for label, parameters in cases:
        for nominal in NOMINAL:
            try:
                if parameters:
                    true = Plan.of(Schema.of(keys), kind.name, nominal, **parameters).proven
                else:
                    true = kind.true_epsilon(Decimal(nominal))
                best = float(true) / float(nominal)
                if kind.wasteful:
                    tight = Plan.of(Schema.of(keys), kind.name, nominal, "tight", **parameters)
                    best = float(tight.proven) / float(tight.promised)
            except (PlanError, ChannelError):
                continue  # a mechanism that cannot be had at this epsilon
            rows.append(
                {
                    "mechanism": label,
                    "nominal": float(nominal),
                    "true": float(true),
                    "share": float(true) / float(nominal),
                    "tight_share": best,
                }
            )
    return rows


def draw(setup: Setup, rows: list[Row]) -> list[Figure]:
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    wasteful = [
        name for name in names if min(r["share"] for r in select_rows(rows, mechanism=name)) < 0.999
    ]
    with figures.look() as pyplot:
        figure, grid = figures.panels(
            pyplot, 1, 2, 11, max(4.2, 0.24 * len(names) + 1.2), left=1.4, top=0.4, across=0.9
        )
        left, right = grid[0]
        for place, name in enumerate(names):
            own = [row for row in select_rows(rows, mechanism=name) if row["nominal"] == 1]
            for row in own:
                left.plot([row["share"], 1], [place, place], color="#bbbbbb", lw=1, zorder=1)
                colour = "#D55E00" if row["share"] < 0.999 else "#0072B2"
                left.plot(row["share"], place, "o", color=colour, ms=6)
        left.set_yticks(range(len(names)), names)
        left.set_ylim(len(names) - 0.5, -0.5)
        left.axvline(1, color="#555555", lw=0.9)
        left.set_xlabel("true epsilon at a nominal 1")
        left.set_title("as published")
        for number_, name in enumerate(wasteful):
            own = select_rows(rows, mechanism=name)
            right.plot(
                [row["nominal"] for row in own],
                [row["share"] for row in own],
                marker="osD^vP"[number_ % 6],
                color=figures.SPARE[number_ % len(figures.SPARE)],
                label=name,
            )
        right.axhline(1, color="#555555", lw=0.9)
        right.set_xlabel("nominal epsilon")
        right.set_ylabel("true over nominal epsilon")
        right.set_title("those that do not use all of it")
        right.legend(fontsize=8.5, loc="lower left", bbox_to_anchor=(0, 0.02))
        return [Figure(NAME, "What mechanisms prove beside what they promise.", figure)]


def claims(setup: Setup, rows: list[Row]) -> list[Claim]:
    def at(name: str, nominal: float = 1.0) -> float:
        return float(only_row(rows, mechanism=name, nominal=nominal)["true"])

    broken = [row["mechanism"] for row in rows if row["share"] > 1 + 1e-9]
    verdicts = [
        Claim(
            "Sec. IV-B, IV-C, V",
            "KVUE, KVOH and IOH are epsilon-LDP.",
            verdict(all(0.999 < at(name) <= 1 + 1e-12 for name in ("kvue", "kvoh", "ioh"))),
            "Proven at a nominal 1: "
            + ", ".join(f"{name} {at(name):.6f}" for name in ("kvue", "kvoh", "ioh"))
            + "; none of them wastes any.",
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
    ]
    if broken:
        verdicts.append(
            Claim(
                "Sec. II",
                "No mechanism proves more than it promises.",
                verdict(False),
                str(broken),
                NAME,
            )
        )
    return verdicts
