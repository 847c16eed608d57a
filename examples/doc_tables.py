"""Tables of the docs that follow from the package: ``python examples/doc_tables.py`` writes them.

A table stands between ``<!-- table:NAME -->`` and ``<!-- end -->``. A test compares the pages with what
this file computes.
"""

from __future__ import annotations

import re
from pathlib import Path

import keyveil
from keyveil import REGISTRY, Plan, Schema
from keyveil.simulate.theory import forecast_key

DOCS = Path(__file__).parents[1] / "docs"
KEYS, PEOPLE, EPSILONS = (5, 20, 100, 1000), (10**4, 10**5, 10**6, 10**7), ("0.5", "1", "2", "4")
HELD = 0.1
"""Frequency of the key in the table of errors."""
USEFUL, USELESS = 0.01, 0.1


def errors() -> str:
    """Standard error of a frequency by keys, people and epsilon."""
    lines = [
        "| keys | people | " + " | ".join(f"epsilon {epsilon}" for epsilon in EPSILONS) + " |",
        "|---:|---:|" + "---:|" * len(EPSILONS),
    ]
    one = Schema.of(1)
    variance = {e: forecast_key(Plan.of(one, "kvue", e), 1, HELD, 0.0).frequency for e in EPSILONS}
    for keys in KEYS:
        for people in PEOPLE:
            cells = [_error((variance[epsilon] * keys / people) ** 0.5) for epsilon in EPSILONS]
            lines.append(f"| {keys:,} | {people:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _error(error: float) -> str:
    if error > USELESS:
        return "-"
    return f"**{error:.4f}**" if error < USEFUL else f"{error:.3f}"


def mechanisms() -> str:
    """The registry: a row for each mechanism."""
    lines = ["| name | in papers | from | answers | one report speaks of |", "|---|---|---|---|---|"]
    for name, kind in REGISTRY.items():
        answers = ", ".join(kind.answers) or "none by itself"
        source = kind.source.replace("|", "\\|")
        lines.append(
            f"| [`{name}`](#{name}) | {kind.paper_name} | {source} | {answers} | {kind.speaks_of} |"
        )
    return "\n".join(lines)


REFERENCE = {
    "Plans and reports": "Plan Schema Record Report Reports Tally Coins Views Channel Proof REGISTRY "
    "Mechanism",
    "Answers": "estimate Answers KeyAnswer Estimate Query QueryAnswer QueryResults Conditionals "
    "ConditionalMatrix people_needed",
    "Choosing a plan": "Advice Prior Beliefs outlook pilot_beliefs pilot_people compare "
    "MechanismComparison",
    "People": "People Population",
    "On a device": "Budget Client AsyncClient Ledger Patience",
    "Trust": "audit Audit audit_messages guess_bound health",
    "Errors and warnings": "KeyveilError BudgetError ChannelError CoinsError FinishedError PlanError "
    "QueryError RecordError ReportError SchemaError TableError UnknownKeyError ComparisonWarning "
    "PeopleWarning",
}
"""The names of the package by subject, in the order of the reference."""
MODULES = (
    *("engines", "learn", "poison", "shuffle", "spark", "synthetic", "tables", "testing", "theory"),
)


def reference() -> str:
    """The reference: a directive for each public name, which the site replaces by its docstrings."""
    lines = []
    for subject, names in REFERENCE.items():
        lines += [f"## {subject}", ""]
        for name in names.split():
            lines += [f"::: {_place(name)}", ""]
    lines += ["## Modules on one subject", ""]
    for name in MODULES:
        lines += [f"### keyveil.{name}", "", *_module(name), ""]
    return "\n".join(lines).rstrip()


def _place(name: str) -> str:
    """Where a public name is defined."""
    thing = getattr(keyveil, name)
    if isinstance(thing, type) or callable(thing):
        return f"{thing.__module__}.{thing.__qualname__}"
    return {"REGISTRY": "keyveil.mechanisms.REGISTRY", "Record": "keyveil.people.schema.Record"}[name]


def _module(name: str) -> list[str]:
    """The first sentences of a module, and a directive for each of its functions and classes."""
    module = getattr(keyveil, name)
    lines = [
        f"::: {module.__name__}",
        "    options:",
        "      members: false",
        "      show_root_heading: false",
    ]
    places = []
    for public in getattr(module, "__all__", None) or vars(module):
        thing = getattr(module, public)
        own = getattr(thing, "__module__", None) or ""
        inside = own.startswith("keyveil." if hasattr(module, "__all__") else module.__name__)
        if not public.startswith("_") and callable(thing) and inside:
            places.append(f"{own}.{thing.__qualname__}")
    for place in sorted(set(places), key=lambda place: (place.rsplit(".", 1)[-1].lower(), place)):
        lines += ["", f"::: {place}"]
    return lines


def decisions() -> str:
    """A link to each decision, by its heading."""
    pages = sorted((DOCS / "decisions").glob("0*.md"))
    headings = [page.read_text().splitlines()[0].removeprefix("# ") for page in pages]
    return "\n".join(
        f"- [{heading}]({page.name})" for heading, page in zip(headings, pages, strict=True)
    )


TABLES = {
    "api.md": ("reference", reference),
    "choose.md": ("choose", errors),
    "decisions/README.md": ("decisions", decisions),
    "mechanisms.md": ("mechanisms", mechanisms),
}
"""By page: the name of its table, and what makes it."""


def page_with_table(page: str) -> str:
    """The page with its table made anew."""
    name, make = TABLES[page]
    text = (DOCS / page).read_text()
    pattern = re.compile(rf"(<!-- table:{name} -->\n).*?(<!-- end -->)", re.DOTALL)
    assert pattern.search(text), f"{page} has no place for its table"
    return pattern.sub(lambda place: f"{place[1]}\n{make()}\n\n{place[2]}", text)


def main() -> None:
    """Write all tables."""
    for page in TABLES:
        (DOCS / page).write_text(page_with_table(page))
        print(DOCS / page)


if __name__ == "__main__":
    main()
