"""How far single-key channels are from the best possible channel, and what a wrong design costs.

``python -m bench.limit [--write]`` uses exact linear algebra and convex programs and no random draws.
With ``--write`` the tables and the picture go to docs/limit.md and docs/images.
"""

from __future__ import annotations

import argparse
from decimal import Decimal
from itertools import product
from pathlib import Path
from time import perf_counter

import numpy as np

from keyveil import Plan, Schema
from keyveil.channel import Symmetric
from keyveil.channel.design.error_limit import error_of, goal_weights, key_law, limit
from keyveil.channel.design.patterns import decoder_at, intervals, least_error
from keyveil.channel.design.value_channels import SHARES, Design, channel_for
from keyveil.estimate.forecast.key_forecast import forecast
from keyveil.mechanisms.blend import blended
from keyveil.people.prior import Prior
from keyveil.people.prior_laws import value_law

PAGE = Path(__file__).parents[1] / "docs" / "limit.md"
EPSILONS = ("0.1", "0.2", "0.3", "0.5", "0.7", "1", "1.5", "2", "2.5", "3", "4", "5", "6")
FREQUENCIES = (0.05, 0.2, 0.8)
MEAN, SPREAD = 0.4, 0.35


def even(levels: int) -> np.ndarray:
    """The law of states at which least squares has its least variance."""
    return np.full(levels + 1, 1 / (levels + 1))


def mechanisms(epsilon: Decimal, frequency: float, goal: str) -> dict[str, tuple[float, str]]:
    """Each mechanism's error for one report with its own least squares, and its parameter."""
    two = key_law(2, frequency, MEAN, SPREAD)
    blends = {s: error_of(blended(Decimal(s), epsilon), epsilon, two, goal, even(2)) for s in SHARES}
    grades = {}
    for levels in range(3, 10):
        law = key_law(levels, frequency, MEAN, SPREAD)
        grades[levels] = error_of(Symmetric.of(levels + 1, epsilon), epsilon, law, goal)
    share, levels = min(blends, key=blends.__getitem__), min(grades, key=grades.__getitem__)
    design = Design(Decimal(str(frequency)), Decimal(str(SPREAD)), Decimal(str(MEAN)))
    nine = key_law(9, frequency, MEAN, SPREAD)
    return {
        "kvue": (error_of(Symmetric.of(3, epsilon), epsilon, two, goal), ""),
        "blend": (blends[share], share),
        "graded": (grades[levels], str(levels)),
        "optimal": (error_of(channel_for(epsilon, design), epsilon, nine, goal, design.law), ""),
    }


def distances() -> tuple[list[str], dict[str, dict[str, list[float]]]]:
    """Frequency and mean together: the limit, and each mechanism's error divided by it."""
    lines = [
        "| f | epsilon | limit | kvue | blend (share) | graded (levels) | optimal |",
        "| --: | --: | --: | --: | --: | --: | --: |",
    ]
    panels: dict[str, dict[str, list[float]]] = {}
    for frequency in FREQUENCIES:
        panel = panels.setdefault(f"a key that {frequency:.0%} of people hold", {})
        for text in EPSILONS:
            epsilon = Decimal(text)
            least = limit(epsilon, key_law(9, frequency, MEAN, SPREAD))
            errors = mechanisms(epsilon, frequency, "both")
            cells = []
            for name, (error, taken) in errors.items():
                panel.setdefault(name, []).append(error / least)
                cells.append(f"{error / least:.3f}" + (f" ({taken})" if taken else ""))
            lines.append(f"| {frequency:g} | {text} | {least:.3f} | " + " | ".join(cells) + " |")
    return lines, panels


def alone() -> list[str]:
    """The variance of one report, for frequency and mean separately."""
    lines = [
        "| f | epsilon | limit of f | kvue | optimal | limit of m | kvue | blend (share) | optimal |",
        "| --: | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for frequency, text in product(FREQUENCIES, ("0.1", "0.3", "0.5", "1", "2", "3", "4", "6")):
        epsilon, law = Decimal(text), key_law(9, frequency, MEAN, SPREAD)
        cells = [f"{frequency:g}", text]
        for goal in ("frequency", "mean"):
            errors = mechanisms(epsilon, frequency, goal)
            cells += [_short(limit(epsilon, law, goal)), _short(errors["kvue"][0])]
            if goal == "mean":
                error, share = errors["blend"]
                cells.append(f"{_short(error)} ({share})")
            cells.append(_short(errors["optimal"][0]))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def levels_needed() -> list[str]:
    """The limit of frequency and mean together if values are first rounded to g levels."""
    counts = (2, 3, 4, 5, 7, 9)
    lines = [
        "| f | epsilon | " + " | ".join(f"g = {g}" for g in counts) + " | g = 17, runs of levels |",
        "| --: | --: | " + " | ".join("--:" for _ in counts) + " | --: |",
    ]
    for frequency, text in product(FREQUENCIES, ("1", "2", "4", "6")):
        epsilon = Decimal(text)
        cells = [f"{limit(epsilon, key_law(g, frequency, MEAN, SPREAD)):.3f}" for g in counts]
        law = key_law(17, frequency, MEAN, SPREAD)
        still = [tuple(range(18))]
        fine = least_error(epsilon, law, goal_weights(epsilon, law, "both"), intervals(17, 1), still)
        lines.append(f"| {frequency:g} | {text} | " + " | ".join([*cells, f"{fine:.3f}"]) + " |")
    return lines


def designs_and_truths(epsilon: Decimal = Decimal(3)) -> list[str]:
    """The error of a design divided by that of the right design, for other truths."""
    designs = [
        Design(*map(Decimal, parameters))
        for parameters in product(("0.03", "0.1", "0.3", "0.7"), ("0.3", "0.6"), ("0",))
    ]
    truths = {f"f {d.frequency}, spread {d.spread}": (d, d.law, d.wanted(epsilon)) for d in designs}
    for frequency in ("0.1", "0.7"):  # values only at the two ends
        design = Design(Decimal(frequency), Decimal("0.95"))
        truths[f"f {frequency}, at the ends"] = (design, design.law, design.wanted(epsilon))
    lines = [
        "| design \\ truth | " + " | ".join(truths) + " |",
        "| --- | " + " | ".join("--:" for _ in truths) + " |",
    ]
    errors = np.zeros((len(designs), len(truths)))
    for row, column in product(range(len(designs)), range(len(truths))):
        _, law, wanted = list(truths.values())[column]
        channel = channel_for(epsilon, designs[row])
        cells = decoder_at(channel, wanted, designs[row].law)
        errors[row, column] = np.trace(channel.covariance(cells, law))
    kvue = np.array([_kvue(epsilon, design) for design, _, _ in truths.values()])
    best = np.minimum(errors.min(axis=0), kvue)
    for row, design in zip(errors, designs, strict=True):
        name = f"f {design.frequency}, spread {design.spread}"
        lines.append(f"| {name} | " + " | ".join(f"{x:.2f}" for x in row / best) + " |")
    lines.append("| kvue | " + " | ".join(f"{x:.2f}" for x in kvue / best) + " |")
    return lines


def _kvue(epsilon: Decimal, design: Design) -> float:
    rough = Design(*(design.frequency, design.spread, design.mean, design.weight), 1, 2)
    channel = Symmetric.of(3, epsilon)
    cells = channel.decoder(rough.wanted(epsilon))
    return float(np.trace(channel.covariance(cells, rough.law)))


def several() -> list[str]:
    """Errors of frequency and mean divided by KVUE's, for one key per report and for several."""
    columns = {
        "optimal": [("optimal", {})],
        "several, optimal": [("several", {})],
        "several, k-RR (keys, levels)": [
            ("several", {"keys": k, "levels": g, "channel": "grr"})
            for k, g in ((2, 2), (2, 3), (2, 5), (3, 2), (3, 3))
        ],
        "several_rr (keys)": [("several_rr", {"keys": k}) for k in (2, 3, 4, 5)],
    }
    lines = [
        "| f | epsilon | " + " | ".join(columns) + " | rr |",
        "| --: | --: | " + " | ".join("--:" for _ in columns) + " | --: |",
    ]
    schema = Schema.of(60)
    for frequency, epsilon in product((0.05, 0.2, 0.5, 0.8), ("1", "2", "3", "4", "5", "6")):
        laws = np.array([value_law(mean, SPREAD) for mean in (-MEAN, 0.0, MEAN)])
        prior = Prior(np.full(3, 20.0), np.full(3, frequency), laws, np.ones(1))
        base = forecast(Plan.of(schema, "kvue", epsilon), 1e6, prior)
        cells = []
        for name, tried in [*columns.items(), ("rr", [("rr", {})])]:
            candidates = []
            for mechanism, given in tried:
                design = {} if mechanism == "rr" else {"frequency": str(frequency)}
                if mechanism in ("optimal", "several"):
                    design["spread"] = str(SPREAD)
                errors = forecast(Plan.of(schema, mechanism, epsilon, **given, **design), 1e6, prior)
                f = float((errors.frequency / base.frequency).mean())
                m = float((errors.mean / base.mean).mean())
                words = ", ".join(str(given[x]) for x in ("keys", "levels") if x in given)
                only = name in ("rr", "several_rr (keys)")
                candidates.append((f if only else f + m, f, m, only, f" ({words})" if words else ""))
            _, f, m, only, words = min(candidates)
            cells.append(f"{f:.2f}{words}" if only else f"{f:.2f}, {m:.2f}{words}")
        lines.append(f"| {frequency:g} | {epsilon} | " + " | ".join(cells) + " |")
    return lines


def write(name: str, lines: list[str]) -> None:
    """Replace a table on the page."""
    page = PAGE.read_text()
    start, end = f"<!-- bench:{name} -->", "<!-- /bench -->"
    before, rest = page.split(start)
    after = rest.split(end, 1)[1]
    PAGE.write_text(before + start + "\n\n" + "\n".join(lines) + "\n\n" + end + after)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.limit", description=__doc__)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    began = perf_counter()
    lines, panels = distances()
    tables = {
        "distances": lines,
        "alone": alone(),
        "levels": levels_needed(),
        "designs": designs_and_truths(),
        "several": several(),
    }
    for name, table in tables.items():
        print(f"\n{name}\n" + "\n".join(table))
        if given.write:
            write(name, table)
    if given.write:
        from keyveil.plot import plot_limit

        plot_limit(panels, [float(e) for e in EPSILONS], PAGE.parent / "images" / "limit.png")
    print(f"({perf_counter() - began:.0f} s)")


if __name__ == "__main__":
    main()
