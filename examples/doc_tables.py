"""Tables of the docs that follow from the package: ``python examples/doc_tables.py`` writes them.

A table stands between ``<!-- table:NAME -->`` and ``<!-- end -->``. A test compares the pages with what
this file computes.
"""

from __future__ import annotations

from pathlib import Path

import keyveil
from keyveil import REGISTRY, Plan, Query, Schema
from keyveil.cli.command import SECTIONS
from keyveil.estimate.forecast.query_forecast import QueryForecast
from keyveil.people.prior_laws import independent_law
from keyveil.simulate.theory import forecast_key

DOCS = Path(__file__).parents[1] / "docs"
KEYS, PEOPLE, EPSILONS = (5, 20, 100, 1000), (10**4, 10**5, 10**6, 10**7), ("0.5", "1", "2", "4")
HELD = 0.1
"""Frequency of the key in the table of errors."""
USEFUL, USELESS = 0.01, 0.1
PAIR_KEYS, PAIR_HELD, PAIR_ERROR = (5, 10, 20, 50), (0.3, 0.1), 0.05
"""Keys, their frequencies and the wanted standard error in the table of people under conditions."""


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


def conditional_people() -> str:
    """People for a standard error of ``PAIR_ERROR`` of one key's frequency given another."""
    lines = [
        "| keys | each held by | " + " | ".join(f"epsilon {epsilon}" for epsilon in EPSILONS) + " |",
        "|---:|---:|" + "---:|" * len(EPSILONS),
    ]
    for keys in PAIR_KEYS:
        plans = [Plan.of(Schema.of(keys), "pairs", epsilon) for epsilon in EPSILONS]
        for held in PAIR_HELD:
            cells = [f"{_people(plan, held):,}" for plan in plans]
            lines.append(f"| {keys} | {held:.0%} | ".replace("%", " %") + " | ".join(cells) + " |")
    return "\n".join(lines)


def _people(plan: Plan, held: float) -> int:
    """The number of people, to two digits."""
    law = independent_law(plan.schema.levels, 2, held)
    variance = QueryForecast(plan, lambda keys: law, 1).variance(Query.of("frequency", "0", ["1"]))
    assert variance is not None
    return round(float(f"{variance / PAIR_ERROR**2:.1e}"))


def commands() -> str:
    """The commands by purpose, each with what its help says first."""
    tables = []
    for purpose, members in SECTIONS.items():
        lines = [f"**{purpose}**", "", "| command | what it does |", "|---|---|"]
        lines += [
            f"| `{name}` | {about.replace('|', chr(92) + '|')} |" for name, (_, about) in members.items()
        ]
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


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
    "On a device": "Budget Client AsyncClient Outcome Ledger Patience",
    "Trust": "audit Audit audit_messages guess_bound health",
    "Errors and warnings": "KeyveilError BudgetError ChannelError ClientError CoinsError FinishedError "
    "PlanError QueryError RecordError ReportError SchemaError TableError UnknownKeyError "
    "ComparisonWarning PeopleWarning PlannerWarning",
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
    "api.md": (("reference", reference),),
    "command.md": (("commands", commands),),
    "choose.md": (("choose", errors), ("conditional_people", conditional_people)),
    "decisions/README.md": (("decisions", decisions),),
    "mechanisms.md": (("mechanisms", mechanisms),),
}
"""By page: the names of its tables, and what makes each."""


def page_with_table(page: str) -> str:
    """The page with its tables made anew."""
    text = (DOCS / page).read_text()
    for name, make in TABLES[page]:
        opening, rest = text.split(f"<!-- table:{name} -->\n")
        after = rest.partition("<!-- end -->")[2]
        text = f"{opening}<!-- table:{name} -->\n\n{make()}\n\n<!-- end -->{after}"
    return text


def main() -> None:
    """Write all tables."""
    for page in TABLES:
        (DOCS / page).write_text(page_with_table(page))
        print(DOCS / page)


if __name__ == "__main__":
    main()
