"""The table of a comparison, for ``keyveil.compare`` and the command: headings, cells, footnotes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, sqrt
from typing import Any

from ..planner.competitor import parse_competitor
from .contest_row import STATISTICS
from .planner_ways import is_auto

SHORT = {"squared": "MSE", "absolute": "MAE"}
"""Errors that can be shown, and their names in tables and JSON."""

Rows = Sequence[dict[str, Any]]
"""Documents of contest rows."""


def headings(error: str) -> list[str]:
    """The names of the columns."""
    short = SHORT[error]
    columns = ["mechanism", "estimator", "epsilon", "true"]
    for statistic in STATISTICS:
        columns += [f"{short} {statistic}", *(["predicted"] if short == "MSE" else [])]
    return [*columns, "coverage f, m"]


def row_name(row: dict[str, Any]) -> str:
    """A mechanism with its parameters; ``auto`` with the mechanism that the planner chose."""
    name, chosen = row["mechanism"], row["chosen"]
    mechanism, parameters = parse_competitor(chosen)
    if is_auto(name):
        return f"{name} ({mechanism})"
    return str(chosen if len(parameters) > len(parse_competitor(name)[1]) else name)


def cells(row: dict[str, Any], error: str) -> list[str]:
    """The cells of one row."""
    part = "conditional_" if "mse_conditional_frequency" in row else ""
    name, errors = SHORT[error].lower(), []
    for statistic in STATISTICS:
        member = f"{name}_{part}{statistic}"
        errors.append(with_standard_error(row[member], row[f"{member}_se"]))
        if name == "mse":
            errors.append(with_standard_error(row[f"predicted_{part}{statistic}"], None))
    coverage = [_coverage(row[f"coverage_{of}"], row[f"bounded_{of}"]) for of in STATISTICS]
    if row.get("bias_from_cap") and any(row[f"coverage_{of}"] is not None for of in STATISTICS):
        coverage[-1] += " *"
    return [
        row_name(row),
        row["estimator"],
        f"{row['epsilon']:g}",
        f"{row['true_epsilon']:.4f}",
        *errors,
        ", ".join(coverage),
    ]


def with_standard_error(value: float | None, error: float | None) -> str:
    """A number with its standard error in per cent."""
    if value is None:
        return "-"
    if error is None or not value:
        return f"{value:.2e}"
    share = 100 * error / value
    return f"{value:.2e} ±{share:.{0 if share >= 1 else 1}f}%"


def _coverage(coverage: float | None, bounded: float | None) -> str:
    if coverage is None or bounded is None:
        return "-"
    return f"{coverage:.1%}" + (f" ({_share(bounded)} bounded)" if bounded < 1 else "")


def _small_share(share: float) -> str:
    """A small share in per cent."""
    return f"{share:.2g}" if share < 1e-4 else f"{share:.2%}".replace(".00%", "%")


def _share(share: float) -> str:
    """A share in per cent; 0% and 100% only if it is exactly that."""
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


# -- footnotes ---------------------------------------------------------------------------------------


def footnotes(rows: Rows) -> list[str]:
    """The sentences below the table, those that apply to its rows."""
    return [sentence for footnote in FOOTNOTES if (sentence := footnote(rows)) is not None]


TOLD = {
    "auto": "is told the table",
    "auto:table": "is told the table",
    "auto:nothing": "is told nothing",
    "auto:one_round": "is told nothing",
    "auto:pilot": "is told nothing and first asks some of the people how many keys they hold",
}
"""What the planner is told, by the name of the competitor."""


def _ways(rows: Rows) -> str | None:
    """What the planner is told, if that differs between rows."""
    names = [name for name in dict.fromkeys(row["mechanism"] for row in rows) if is_auto(name)]
    if len(names) < 2:
        return None
    *first, last = (f"{name} {TOLD[name]}" for name in names)
    return f"The planner: {', '.join(first)}, and {last}."


def _planner_choices(rows: Rows) -> str | None:
    """The parameters of the planner's choices, which the first column leaves out."""
    chosen: dict[str, dict[str, str]] = {}
    for row in rows:
        if is_auto(row["mechanism"]):
            chosen.setdefault(row["mechanism"], {})[f"{row['epsilon']:g}"] = row["chosen"]
    sentences = []
    for name, plans in chosen.items():
        if any(":" in plan for plan in plans.values()):
            words = "; ".join(f"{plan} at epsilon {epsilon}" for epsilon, plan in plans.items())
            sentences.append(f"{name} took {words}.")
    return " ".join(sentences) or None


def _pilots(rows: Rows) -> str | None:
    piloted = {row["epsilon"]: row for row in rows if row.get("pilot") is not None}
    if not piloted:
        return None
    shares = [row["pilot"] for row in piloted.values()]
    least, most = _small_share(min(shares)), _small_share(max(shares))
    several = any(len(row["choices"]) > 1 for row in piloted.values())
    names = " and ".join(dict.fromkeys(row["mechanism"] for row in rows if row.get("pilot") is not None))
    return (
        f"A pilot asks {least if least == most else f'{least} to {most}'} of the "
        f"people how many keys they hold, and {names} is the planner's choice for the others"
        + ("; if its choices differ, the most frequent one." if several else ".")
    )


def _planner_estimators(rows: Rows) -> str | None:
    by_epsilon = {
        row["epsilon"]: row["planner_estimator"] for row in rows if row.get("planner_estimator")
    }
    if not by_epsilon:
        return None
    epsilons: dict[str, list[str]] = {}
    for epsilon, estimator in by_epsilon.items():
        epsilons.setdefault(estimator, []).append(f"{epsilon:g}")
    words = "; ".join(f"{name} at epsilon {', '.join(at)}" for name, at in epsilons.items())
    return (
        f"The planner answers with {words}. "
        "To compare mechanisms alone, look at rows with the same estimator."
    )


def _refusals(rows: Rows) -> str | None:
    refused = list(dict.fromkeys(f"{row['epsilon']:g}" for row in rows if row.get("refused")))
    if not refused:
        return None
    return (
        f"At epsilon {', '.join(refused)} the planner would refuse or warn: it does not expect useful "
        "answers from so few people. Its rows show the plan that keyveil plan --anyway makes."
    )


def _typical_errors(rows: Rows) -> str | None:
    """Root mean squared errors at each epsilon, of the planner's first row or else of the best one."""
    shown: dict[float, dict[str, Any]] = {}
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows):
        here = [row for row in rows if row["epsilon"] == epsilon]
        planned = [row for row in here if is_auto(row["mechanism"])]
        shown[epsilon] = planned[0] if planned else min(here, key=_least_error)
    words = [
        f"{' and '.join(parts)} at epsilon {epsilon:g} by {row['mechanism']}"
        for epsilon, row in shown.items()
        if (parts := [f"{error:.2g} for a {of}" for of, error in _root_errors(row)])
    ]
    return f"Typical error of an answer, the root of its MSE: {'; '.join(words)}." if words else None


def _least_error(row: dict[str, Any]) -> float:
    """The first error that a row has."""
    return min((error for _, error in _root_errors(row)[:1]), default=inf)


def _root_errors(row: dict[str, Any]) -> list[tuple[str, float]]:
    part = "conditional_" if "mse_conditional_frequency" in row else ""
    errors = ((of, row[f"mse_{part}{of}"]) for of in STATISTICS)
    return [(of, sqrt(error)) for of, error in errors if error is not None]


def _paper_names(rows: Rows) -> str | None:
    """What papers call the mechanisms of the rows, the planner's choices included."""
    from ..plan.registry import REGISTRY

    names = dict.fromkeys(str(row["chosen"]).partition(":")[0] for row in rows)
    papers = {name: REGISTRY[name].paper_name for name in names if name in REGISTRY}
    words = ", ".join(f"{name} is {paper}" for name, paper in papers.items() if paper)
    return f"In papers: {words}." if words else None


def _standard_errors(rows: Rows) -> str | None:
    repeated = any(row["repetitions"] > 1 for row in rows)
    return "± is the standard error over repetitions." if repeated else None


def _unbounded(rows: Rows) -> str | None:
    claims = [(row[f"coverage_{of}"], row[f"bounded_{of}"]) for row in rows for of in STATISTICS]
    if all(coverage is None or bounded == 1 for coverage, bounded in claims):
        return None
    return (
        "Coverage is that of all intervals; '(83% bounded)' says how many are bounded, if not all are. "
        "An unbounded interval contains every value: the data cannot tell."
    )


def _left_out(rows: Rows) -> str | None:
    shares: dict[str, list[float]] = {}
    for row in rows:
        if row.get("bias_from_cap"):
            shares.setdefault(row["mechanism"], []).append(row["left_out"])
    if not shares:
        return None
    words = (
        f"{name} {' to '.join(dict.fromkeys(_share(share) for share in (min(of), max(of))))}"
        for name, of in shares.items()
    )
    return (
        "* Some people hold more keys than the plan counts, which biases frequencies downwards. "
        "Intervals do not include this bias, so coverage can be lower. "
        f"Share of held keys that is left out: {', '.join(words)}."
    )


FOOTNOTES: tuple[Callable[[Rows], str | None], ...] = (
    _ways,
    _planner_choices,
    _pilots,
    _planner_estimators,
    _refusals,
    _typical_errors,
    _paper_names,
    _standard_errors,
    _unbounded,
    _left_out,
)
"""Every footnote in its order: the sentence, or None where it does not apply."""
