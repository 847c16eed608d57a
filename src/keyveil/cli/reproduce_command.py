"""``keyveil reproduce``: the paper's figures, tables and claims, with ours beside them."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from ..foundation.errors import PlanError
from .arguments import Given, read_names
from .output import as_json, print_json, print_table, progress
from .output_files import check_folder

if TYPE_CHECKING:
    from ..simulate.paper.experiment import Claim
    from ..simulate.paper.runner import ExperimentResult


@click.command()
@click.option("--only", help="Experiments separated by commas, like fig1,fig5.  [default: all]")
@click.option("--quick", is_flag=True, help="Few repetitions and settings: seconds, and rough numbers.")
@click.option(
    "--movielens",
    type=click.Path(),
    help="The unpacked MovieLens folder (100K to 32M).  [default: a shipped summary]",
)
@click.option(
    "--per-person", is_flag=True, help="Also run a part of Fig. 1 with every person's record and report."
)
@click.option("--seed", help="Another seed; the same seed gives the same numbers.")
@click.option("--fresh", is_flag=True, help="First remove the results of earlier runs from the folder.")
@click.option(
    "--processes", type=click.IntRange(1), help="Processes to use.  [default: one for each core]"
)
@click.option("-o", "--output", default="out", type=click.Path(), help="Folder.")
@as_json
def reproduce(**options: Any) -> int:
    """Make the paper's Section VI again: figures, numbers, and a report with a verdict per claim.

    A run that was interrupted continues with what is finished in the folder. The report covers all
    results in the folder with the same seed, options, code and data, and names what is missing. A
    folder holds whole runs or quick ones: neither replaces the other without --fresh.
    """
    began = perf_counter()
    given = Given(**options)
    try:
        result, report = _run(given)
    except KeyboardInterrupt:
        click.echo(
            f"keyveil: stopped; what is finished is kept in {given.output}: run again to go on", err=True
        )
        return 130
    seconds = perf_counter() - began
    if given.machine:
        print_json(_document(result, report, seconds))
    else:
        _show(result, report, seconds)
    return 0


def _run(given: Given) -> tuple[ExperimentResult, Path]:
    """Run the experiments and write the report; its path is returned too."""
    from ..simulate.paper.html_report import write_report
    from ..simulate.paper.results_folder import REPORT, kinds_in
    from ..simulate.paper.runner import SEED, chosen, prepared, run

    check_folder(given.output, given.movielens, bool(kinds_in(given.output)), REPORT)
    names = chosen(None if given.only is None else read_names(given.only), given.per_person)
    if given.seed is not None and not given.seed.strip():
        raise PlanError("a seed is a text of at least one letter or digit")
    seed = SEED if given.seed is None else given.seed
    setup = prepared(seed, quick=given.quick, movielens=given.movielens)
    with progress("reproducing", "parts") as on_progress:
        how: dict[str, Any] = {"processes": given.processes, "fresh": given.fresh}
        result = run(setup, names, given.output, on_progress=on_progress, **how)
    return result, write_report(result, given.output)


def _claims(result: ExperimentResult) -> list[tuple[str, Claim]]:
    """The claims of the experiments that were asked for."""
    from ..simulate.paper.html_report import all_claims

    return [(name, claim) for name, claim in all_claims(result) if name in result.asked]


def _document(result: ExperimentResult, report: Path, seconds: float) -> dict[str, Any]:
    return {
        "report": str(report),
        "seconds": round(seconds, 1),
        "experiments": list(result.asked),
        "taken_from_an_earlier_run": list(result.taken),
        "in_the_report": list(result.names),
        "not_in_the_report": result.missing,
        "claims": [
            {"experiment": name, "claim": claim.text}
            | {member: getattr(claim, member) for member in ("place", "verdict", "evidence")}
            for name, claim in _claims(result)
        ],
    }


def _show(result: ExperimentResult, report: Path, seconds: float) -> None:
    print_table(
        ["verdict", "the paper says", "place"],
        [[claim.verdict, claim.text, claim.place] for _, claim in _claims(result)],
        "Claims",
    )
    earlier = [name for name in result.names if name not in result.asked]
    with_earlier = f" and {len(earlier)} of earlier runs" if earlier else ""
    taken = " (numbers of an earlier run)" if result.taken else ""
    click.echo(
        f"{report}: {len(result.asked)} experiments{taken}{with_earlier}, {len(result.figures)} "
        f"figures, {seconds:.0f} s"
    )
    if result.missing:
        click.echo(f"not in the report: {', '.join(f'{n} ({w})' for n, w in result.missing.items())}")
