"""The report: every claim with its verdict and numbers, every figure and table, in one HTML file.

Nothing is fetched: figures are inside the file, and there are no scripts.
``python -m keyveil.simulate.paper.html_report out docs/reproduction.md`` writes a run's claims into
the docs.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from ... import __version__
from ...foundation.errors import TableError
from ...foundation.files import write_whole
from . import NAMES, experiment
from .claim_errata import errata_of, place_with_errata
from .evidence import NOISE
from .experiment import CONFIRMED, ONLY_IF, REFUTED, Claim, Row
from .results_folder import NUMBERS, as_csv
from .runner import ExperimentResult

BEGIN, END = "<!-- claims -->\n", "<!-- /claims -->\n"
"""Where the table of claims stands in the docs."""
MARKS = {CONFIRMED: "yes", REFUTED: "no", ONLY_IF: "if"}
TABLES = {
    "cost": (
        *("line", "keys", "printed_formula", "printed", "corrected_formula", "corrected"),
        *("plan_bits", "packed_bytes", "json_bytes"),
    ),
    "privacy": ("mechanism", "nominal", "true", "share", "tight_share"),
    "bounds": (
        *("line", "part", "epsilon", "frequency", "reports", "promised", "measured", "printed"),
        *("printed_covers", "corrected", "corrected_covers", "loose"),
    ),
}
"""Experiments whose numbers are shown as tables, and their columns."""

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto;
       max-width: 76rem; padding: 1.5rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .4rem; }
p { max-width: 52rem; } a { color: #00588c; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .88rem; }
.missing { border-left: .35rem solid #E69F00; padding-left: .7rem; }
table { border-collapse: collapse; font-size: .86rem; margin: .8rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
td.verdict { font-weight: 600; min-width: 9rem; border-left: .35rem solid; }
td.yes { border-left-color: #009E73; } td.no { border-left-color: #D55E00; }
td.if { border-left-color: #E69F00; } td.figure { white-space: nowrap; }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; }
figcaption { font-size: .88rem; color: #444; max-width: 52rem; }
details { margin: .6rem 0; } .scroll { overflow-x: auto; }
@media screen and (max-width: 48rem) {
  body { padding: 1rem; }
  figure img { max-width: none; width: 56rem; }
  table.claims, .claims tbody, .claims tr, .claims td { display: block; }
  .claims th { display: none; }
  .claims tr { margin: 0 0 1.2rem; }
  .claims td { border-bottom: 0; padding: .15rem .6rem; }
  .claims td:last-child { border-bottom: 1px solid #ddd; padding-bottom: .6rem; }
}
@media print {
  @page { size: A4 landscape; margin: 12mm; }
  body { font-size: 10pt; max-width: none; padding: 0; }
  nav, details { display: none; }
  h2 { break-before: page; margin-top: 0; } #claims { break-before: auto; margin-top: 2rem; }
  p { max-width: none; } figure, tr, p { break-inside: avoid; } figure { margin: .4rem 0; }
  figure img { max-width: 100%; width: auto; max-height: 130mm; }
  .scroll { overflow: visible; } table { font-size: 8pt; }
  a { color: inherit; text-decoration: none; }
  td.verdict, .missing { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def all_claims(outcome: ExperimentResult) -> list[tuple[str, Claim]]:
    """Every claim with the name of its experiment."""
    return [(name, claim) for name in outcome.names for claim in outcome.claims[name]]


def write_report(outcome: ExperimentResult, out: str | Path) -> Path:
    """Write report.html, claims.csv and claims.md. Returns the path of the report."""
    claims = all_claims(outcome)
    rows = [
        {
            "experiment": name,
            "place": claim.place,
            "errata": errata_of(claim.text),
            "claim": claim.text,
            "verdict": claim.verdict,
            "evidence": claim.evidence,
            "figure": claim.figure,
        }
        for name, claim in claims
    ]
    write_whole(Path(out) / "claims.csv", as_csv(rows).encode())
    write_whole(Path(out) / "claims.md", as_markdown(claims).encode())
    write_whole(Path(out) / "report.html", as_html(outcome).encode())
    return Path(out) / "report.html"


def as_markdown(claims: Sequence[tuple[str, Claim]]) -> str:
    """The table of claims for docs."""
    lines = [
        "| place | the paper says | verdict | numbers of the run | shown by |",
        "| --- | --- | --- | --- | --- |",
    ]
    for _, claim in claims:
        shown = ", ".join(f"`{name}`" for name in claim.figure.split(", "))
        cells = (
            place_with_errata(claim.place, claim.text),
            claim.text,
            f"**{claim.verdict}**",
            claim.evidence,
            shown,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


# -- HTML --------------------------------------------------------------------------------------------


def as_html(outcome: ExperimentResult) -> str:
    """The whole report."""
    setup = outcome.setup
    claims = all_claims(outcome)
    counts = {kind: sum(claim.kind == kind for _, claim in claims) for kind in MARKS}
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>keyveil reproduce</title><style>{STYLE}</style></head><body>",
        "<h1>Conditional Analysis for Key-Value Data with LDP, again</h1>",
        "<p>The figures, tables and claims of Sun, Zhao, Ye, Feng, Wang, Bai (2019, arXiv "
        f"1907.05014), made anew by keyveil {escape(__version__)} with seed {escape(setup.seed)}"
        + (" in a quick run with few repetitions: numbers are rough" if setup.quick else "")
        + f". Film ratings: {escape(setup.movielens_note)}. "
        "Errors are on the [-1, 1] scale. The paper's formulas are used as corrected in "
        "docs/errata.md.</p>",
        f"<p><b>{len(claims)} claims:</b> {counts[CONFIRMED]} confirmed, {counts[ONLY_IF]} true only "
        f"under a condition, {counts[REFUTED]} not confirmed. {escape(NOISE)}</p>",
        _contents(outcome),
        "<h2 id='claims'>Claims</h2><div class='scroll'>",
        _claims(claims, outcome),
        "</div>",
        *(_section(name, outcome) for name in outcome.names),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _contents(outcome: ExperimentResult) -> str:
    """Links to all parts, and the list of what is missing."""
    links = [f"<a href='#{name}'>{escape(experiment(name).title)}</a>" for name in outcome.names]
    navigation = f"<nav><a href='#claims'>Claims</a> {' '.join(links)}</nav>"
    if outcome.missing:
        missing = ", ".join(f"{name} ({why})" for name, why in outcome.missing.items())
        navigation += (
            f"<p class='missing'><b>Not in this report:</b> {escape(missing)}. To add: <code>keyveil "
            f"reproduce --only {','.join(outcome.missing)}</code> with the same options and folder.</p>"
        )
    return navigation


def _claims(claims: Sequence[tuple[str, Claim]], outcome: ExperimentResult) -> str:
    """The table of claims. What shows one is a link to the figure, or to the section of the numbers."""
    drawn = {figure.name for figure in outcome.figures}
    rows = [
        "<table class='claims'><tr><th>verdict</th><th>the paper says</th><th>numbers of this "
        "run</th><th>shown by</th></tr>"
    ]
    for name, claim in claims:
        links = "<br>".join(
            f"<a href='#{shown if shown in drawn else name}'>{escape(shown)}</a>"
            for shown in claim.figure.split(", ")
        )
        place = escape(place_with_errata(claim.place, claim.text))
        rows.append(
            "<tr><td class='verdict "
            f"{MARKS[claim.kind]}'>{escape(claim.verdict)}</td><td>{escape(claim.text)} "
            f"<small>({place})</small></td><td>{escape(claim.evidence)}</td>"
            f"<td class='figure'>{links}</td></tr>"
        )
    return "\n".join([*rows, "</table>"])


def _section(name: str, outcome: ExperimentResult) -> str:
    about = experiment(name)
    parts = [f"<h2 id='{name}'>{escape(about.title)}</h2><p>{escape(about.about)}</p>"]
    for figure in outcome.figures:
        if figure.experiment == name:
            image = base64.b64encode(figure.svg).decode()
            anchor = "" if figure.name == name else f" id='{figure.name}'"
            parts.append(
                f"<figure{anchor}><div class='scroll'><img alt='{escape(figure.caption, quote=True)}' "
                f"src='data:image/svg+xml;base64,{image}'></div>"
                f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
            )
    if name in TABLES:
        rows = outcome.rows[about.rows_of]
        table = _table(rows, TABLES[name])
        if len(rows) > 20:
            table = f"<details><summary>All numbers</summary>{table}</details>"
        parts.append(f"<div class='scroll'>{table}</div>")
    shared = "" if name == about.rows_of else f" (one run with {about.rows_of})"
    parts.append(f"<p><small>Numbers: {NUMBERS}/{about.rows_of}.csv{shared}</small></p>")
    return "\n".join(parts)


def _table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    heads = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns)
    lines = [f"<tr>{''.join(_cell(row[name]) for name in columns)}</tr>" for row in rows]
    return "\n".join([f"<table><tr>{heads}</tr>", *lines, "</table>"])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"<td class='n'>{value:.4g}</td>"
    if isinstance(value, int):
        return f"<td class='n'>{value:,}</td>"
    return f"<td>{escape(str(value))}</td>"


def write_docs(out: str | Path, page: str | Path) -> None:
    """Put the table of claims of a finished whole run between its marks on a page."""
    for name in NAMES:
        stamp = Path(out) / NUMBERS / f"{experiment(name).rows_of}.json"
        if not stamp.is_file() or json.loads(stamp.read_text("utf-8"))["quick"]:
            raise TableError(f"{out} has no whole run of {name}; docs take no quick or partial ones")
    text = Path(page).read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise TableError(f"{page} has no place for claims: {BEGIN.strip()} and {END.strip()}")
    table = (Path(out) / "claims.md").read_text("utf-8")
    write_whole(Path(page), f"{before}{BEGIN}\n{table}\n{END}{after}".encode())


if __name__ == "__main__":
    write_docs(*sys.argv[1:3])
