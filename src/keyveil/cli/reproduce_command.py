"""``keyveil reproduce``: the paper's figures, tables and claims, with ours beside them."""

from __future__ import annotations

from time import perf_counter

import click

from ..foundation.errors import PlanError
from .output import as_json, print_json, print_table, progress
from .output_files import check_folder


@click.command()
@click.option("--only", help="Experiments with commas between, like fig1,fig5; all if not said.")
@click.option("--quick", is_flag=True, help="Few repetitions and settings: seconds, and rough numbers.")
@click.option(
    "--movielens",
    type=click.Path(),
    help="The unpacked MovieLens folder (100K to 32M); else a shipped summary stands in.",
)
@click.option(
    "--per-person", is_flag=True, help="Also run a part of Fig. 1 with every person's record and report."
)
@click.option("--seed", help="Another seed; the same seed gives the same numbers.")
@click.option(
    "--fresh", is_flag=True, help="Remove what earlier runs left in the folder, and begin anew."
)
@click.option("--processes", type=click.IntRange(1), help="Processes; as many as cores if not said.")
@click.option("-o", "--output", default="out", show_default=True, type=click.Path(), help="Folder.")
@as_json
def reproduce(
    only: str | None,
    quick: bool,
    movielens: str | None,
    per_person: bool,
    seed: str | None,
    fresh: bool,
    processes: int | None,
    output: str,
    machine: bool,
) -> int:
    """Make the paper's Section VI again: figures, numbers, and a report with a verdict per claim.

    What an interrupted run had finished is kept in the folder and taken from there. The report covers
    all that the folder has of the same seed, options, code and data, and names what is not run. A
    folder is of whole runs or of quick ones: neither replaces the other without --fresh.
    """
    from ..simulate.paper.html_report import all_claims, write_report
    from ..simulate.paper.results_folder import REPORT, kinds_in
    from ..simulate.paper.runner import SEED, chosen, prepared, run

    check_folder(output, movielens, bool(kinds_in(output)), REPORT)
    listed = None if only is None else [part.strip() for part in only.split(",") if part.strip()]
    names = chosen(listed, per_person)
    if seed is not None and not seed.strip():
        raise PlanError("a seed is a text of at least one letter or digit")
    began = perf_counter()
    setup = prepared(SEED if seed is None else seed, quick=quick, movielens=movielens)
    try:
        with progress("reproducing") as moved:
            outcome = run(setup, names, output, processes=processes, moved=moved, fresh=fresh)
        report = write_report(outcome, output)
    except KeyboardInterrupt:
        click.echo(
            f"keyveil: stopped; what is finished is kept in {output}: run again to go on", err=True
        )
        return 130
    claims = [(name, claim) for name, claim in all_claims(outcome) if name in outcome.asked]
    if machine:
        print_json(
            {
                "report": str(report),
                "seconds": round(perf_counter() - began, 1),
                "experiments": list(outcome.asked),
                "taken_from_an_earlier_run": list(outcome.taken),
                "in_the_report": list(outcome.names),
                "not_in_the_report": outcome.missing,
                "claims": [
                    {
                        "experiment": name,
                        "claim": claim.text,
                        "place": claim.place,
                        "verdict": claim.verdict,
                        "evidence": claim.evidence,
                    }
                    for name, claim in claims
                ],
            }
        )
        return 0
    print_table(
        ["verdict", "the paper says", "place"],
        [[claim.verdict, claim.text, claim.place] for _, claim in claims],
        "Claims",
    )
    earlier = [name for name in outcome.names if name not in outcome.asked]
    with_earlier = f" and {len(earlier)} of earlier runs" if earlier else ""
    taken = " (numbers of an earlier run)" if outcome.taken else ""
    click.echo(
        f"{report}: {len(outcome.asked)} experiments{taken}{with_earlier}, {len(outcome.figures)} "
        f"figures, {perf_counter() - began:.0f} s"
    )
    if outcome.missing:
        click.echo(f"not in the report: {', '.join(f'{n} ({w})' for n, w in outcome.missing.items())}")
    return 0
