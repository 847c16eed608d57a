"""``keyveil poison``, ``health`` and ``shuffle``: fakes, signs of them, and privacy after shuffling."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import click

from ..foundation.errors import PlanError
from ..foundation.exact import decimal, rounded_up
from ..foundation.percentages import percent
from ..mechanisms import REGISTRY
from ..people.scale import Scale
from ..plan.plan import Plan
from ..plan.tally import Tally
from ..trust.health import FALSE_ALARM
from ..trust.health import health as check_health
from ..trust.health.occurrences import view_name
from ..trust.poison import (
    ATTACKS,
    CHOICES,
    GOALS,
    LEVEL,
    AttackRow,
    Change,
    Gain,
    Reach,
    Repair,
    compare_gains,
    fakes_needed,
    gain,
    reach,
    repair,
)
from ..trust.shuffle import DELTA, amplified
from .arguments import Given, plan_argument, read_count, tally_argument
from .output import as_json, counted, figure, interval, print_json, print_table
from .output_files import PICTURE, writes_files

NEEDED = "fakes for one standard error"
"""Heading of the number of fakes that shift an answer as far as chance does."""
PARTS = ("frequency", "mean", "mass")
"""What a mechanism may answer about a key."""


@click.command()
@plan_argument
@click.argument("tally_path", metavar="[TALLY]", required=False, type=click.Path())
@click.option("--fakes", default="0.01", help="Share of all clients that are fake, like 0.01 for 1 %.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    help="A key they are after; may be repeated.  [default: each key alone]",
)
@click.option("--goal", type=click.Choice(GOALS), help="What they want.  [default: raise-frequency]")
@click.option(
    "--attack",
    type=click.Choice(ATTACKS),
    default="crafted",
    help="What fakes send: the report that serves the goal best, any valid report, or honest reports on "
    "made-up records of one target.",
)
@click.option(
    "--views",
    type=click.Choice(CHOICES["views"]),
    default="chosen",
    help="Whether fakes choose the key that they speak of, which 'keyveil health' sees, or draw it.",
)
@click.option(
    "--seeds",
    type=click.Choice(CHOICES["seeds"]),
    default="chosen",
    help="For mechanisms that hash: whether fakes choose their seed, or it comes with a token.",
)
@click.option("--frequency", default="0.3", help="Without TALLY: how often keys are held.")
@click.option(
    "--mean",
    help="Without TALLY: of keys, on the scale of their values; from -1 to 1 if their ranges differ.  "
    "[default: the middle]",
)
@click.option("--people", default="1e6", help="Without TALLY: how many honest people.")
@click.option("--compare", is_flag=True, help="All mechanisms at the plan's epsilon, side by side.")
@click.option("--plot", type=PICTURE, help="With --compare: also draw a picture (PNG, SVG or PDF).")
@as_json
@writes_files
def poison(plan_path: str, tally_path: str | None, **options: Any) -> None:
    """What fake clients could do: how far a share of them moves each key's answers.

    TALLY says what the honest answers are, and how many there were.
    """
    plan, given = Plan.load(plan_path), Given(**options)
    tally = None if tally_path is None else Tally.load(plan, tally_path)
    share = float(decimal(given.fakes, "--fakes"))
    stated: dict[str, Any] = {"frequency": float(decimal(given.frequency, "--frequency")), "mean": 0.0}
    if given.mean is not None:
        stated["mean"] = _within(Scale.of(plan.schema), float(decimal(given.mean, "--mean")))
    count = float(read_count(given.people, "--people"))
    if given.compare:
        rows = compare_gains(plan.schema, str(plan.promised), share, people=count, **stated)
        _show_rows(rows, share, plan, given)
        return
    if given.plot:
        raise PlanError("a picture is drawn with --compare")
    raised = "raise-frequency" if "frequency" in plan.mechanism.answers else "raise-mean"
    goal = given.goal or raised
    stated |= {"tally": tally, "seeds": given.seeds, "views": given.views}
    groups = [list(given.targets)] if given.targets else [[key] for key in plan.schema.keys]
    gains = [gain(plan, share, group, goal, given.attack, **stated) for group in groups]
    needed = []
    if given.attack == "crafted":
        keys = [shift.key for item in gains for shift in item.shifts]
        needed = [fakes_needed(plan, key, goal, people=count, **stated) for key in keys]
    if given.machine:
        print_json(
            {
                "gains": [item.document() for item in gains],
                "one_standard_error": [item.document() for item in needed],
            }
        )
        return
    _show_gains(gains, {item.key: item.fakes for item in needed})


def _show_gains(gains: list[Gain], needed: dict[str, float]) -> None:
    first = gains[0]
    shifts = [shift for result in gains for shift in result.shifts]
    parts = _parts(shifts[0])
    headings = ["key"]
    for part in parts:
        headings += [part, "after", "shift"]
    if needed:
        headings.append(NEEDED)
    rows = []
    for shift in shifts:
        row = [shift.key]
        for part in parts:
            change: Change = getattr(shift, part)
            row += [figure(change.before), figure(change.after), figure(change.shift, "+.4f")]
        if needed:
            row.append(figure(needed[shift.key], ",.0f", "no number"))
        rows.append(row)
    goal = first.goal.replace("-", " the ")
    how = f"{percent(first.share)} of all clients are fake ({first.attack}), to {goal}"
    who = "targets together" if len(first.shifts) > 1 else "each key alone"
    print_table(headings, rows, f"{first.mechanism}: {how}; {who}")
    if needed:
        click.echo(
            f"{NEEDED}: that many fakes shift the answer by its standard error, as far as chance does"
        )
    held = [shift.frequency for shift in shifts if shift.frequency is not None]
    if any(not 0 <= change.after <= 1 for change in held):
        click.echo("a frequency outside [0, 1] is seen at once: keyveil health")


def _within(scale: Scale, mean: float) -> float:
    """The value of --mean on [-1, 1]."""
    if not scale.low <= mean <= scale.high:
        raise PlanError(f"--mean lies between {scale.low:g} and {scale.high:g}")
    return scale.unit(mean)


def _on_scale(row: AttackRow, scale: Scale) -> AttackRow:
    """A row with the mean's shifts on the scale of the values; a mass stays on [-1, 1]."""
    if "mean" not in REGISTRY[row.mechanism].answers:
        return row
    mean, drawn = (None if x is None else x * scale.half for x in (row.mean, row.mean_drawn))
    return replace(row, mean=mean, mean_drawn=drawn)


def _show_rows(rows: list[AttackRow], share: float, plan: Plan, given: Given) -> None:
    """Print, and draw if asked, what fakes add at the epsilon of a plan, for every mechanism."""
    scale, epsilon = Scale.of(plan.schema), float(plan.promised)
    rows = [_on_scale(row, scale) for row in rows]
    documents = [{**row.document(), "mean_scale": scale.document()} for row in rows]
    if given.plot:
        from ..plot import plot_gains

        plot_gains(documents, given.plot, share, len(plan.schema.keys), epsilon)
    if given.machine:
        print_json(documents)
        return
    cells = []
    for row in (row for row in rows if not row.reason):
        shifts = (row.frequency, row.frequency_drawn, row.mean, row.mean_drawn)
        signed = ["" if shift is None else figure(shift, "+.4f") for shift in shifts]
        cells.append(
            [row.mechanism, *signed, "" if row.fakes is None else figure(row.fakes, ",.0f", "")]
        )
    print_table(
        ["mechanism", "frequency", "drawn", "mean", "drawn", NEEDED],
        cells,
        f"what {percent(share)} of all clients add to a key at epsilon {epsilon:g}, means {scale}; "
        "drawn: nothing is chosen",
    )
    for row in rows:
        if row.reason:
            click.echo(f"{row.mechanism}: {row.reason}")


@click.command()
@plan_argument
@tally_argument
@click.argument("other_path", metavar="[TALLY2]", required=False, type=click.Path())
@click.option(
    "--false-alarm",
    default=f"{FALSE_ALARM:g}",
    help="How often each check may be wrong about honest people.",
)
@click.option(
    "--fakes",
    help="Also say where the honest answers lie if this share of the reports is fake, like 0.01.",
)
@click.option(
    "--level",
    default=f"{LEVEL:g}",
    help="With --fakes or --repair: the level at which the range holds the honest answer.",
)
@click.option(
    "--repair",
    "mend",
    is_flag=True,
    help="Also answer without the views or seeds that are met too often; with --fakes, allow for that "
    "share of fakes among the others.",
)
@as_json
def health(plan_path: str, tally_path: str, other_path: str | None, **options: Any) -> None:
    """Look for what honest people cannot have sent in a TALLY, and for change since TALLY2.

    Every check states how often it would be wrong about honest people (its rate of false alarms).
    """
    plan, given = Plan.load(plan_path), Given(**options)
    tally = Tally.load(plan, tally_path)
    other = None if other_path is None else Tally.load(plan, other_path)
    rate = float(decimal(given.false_alarm, "--false-alarm"))
    result = check_health(plan, tally, other, false_alarm=rate)
    reaches, level = None, float(decimal(given.level, "--level"))
    views = "chosen" if any(f.check == "views" and f.suspicious for f in result.findings) else "drawn"
    share = 0.0 if given.fakes is None else float(decimal(given.fakes, "--fakes"))
    if given.fakes is not None:
        reaches = reach(plan, tally, share, views=views, level=level)
    mended = repair(plan, tally, share=share, level=level) if given.mend else None
    if given.machine:
        body: dict[str, Any] = {**result.document(), "reach": None}
        if reaches is not None:
            body |= {"reach": [key.document() for key in reaches], "views": views, "level": level}
        if mended is not None:
            body["repair"] = mended.document()
        print_json(body)
        return
    rows = []
    for finding in result.findings:
        p_value = "" if finding.verdict == "not checked" else f"{finding.p_value:.2g}"
        rows.append([finding.check, finding.verdict, p_value, finding.meaning + _where(finding.where)])
    print_table(["check", "verdict", "p-value", "meaning"], rows)
    verdict = "suspicious" if result.suspicious else "nothing suspicious"
    click.echo(
        f"{verdict} in {counted(result.reports, 'report')}; of honest tallies at most "
        f"{percent(result.false_alarm, 2)} are found suspicious"
    )
    if reaches is not None:
        _show_reach(reaches, share, views, level)
    if mended is not None:
        _show_repair(plan, mended)


def _where(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return f" ({shown})" if names else ""


def _show_reach(reaches: list[Reach], share: float, views: str, level: float) -> None:
    parts = _parts(reaches[0])
    print_table(
        ["key", *parts],
        [[key.key, *(interval(*getattr(key, part)) for part in parts)] for key in reaches],
        f"where the honest answers lie at level {level:g} if at most {percent(share)} of the reports "
        f"are fake and {'drew' if views == 'drawn' else 'chose'} their views",
    )


def _show_repair(plan: Plan, mended: Repair) -> None:
    names = [view_name(plan, at) if mended.kind == "views" else f"seed {at}" for at in mended.left_out]
    if not names:
        click.echo(f"nothing is left out: {mended.kind} are met as often as they are drawn")
    else:
        value, low, high = mended.fakes
        number = counted(len(names), mended.kind.removesuffix("s"))
        click.echo(
            f"left out, because fakes chose them: {number}{_where(tuple(names))}; "
            f"{percent(value)} [{percent(low)}, {percent(high)}] of all reports are fakes who chose"
        )
    headings, rows = ["key", "kept"], [[key.key, f"{key.kept:.3f}"] for key in mended.keys]
    for part in _parts(mended.keys[0]):
        headings += [part, "range"]
        for row, key in zip(rows, mended.keys, strict=True):
            value, low, high = getattr(key, part)
            row += [figure(value), interval(low, high)]
    print_table(
        headings,
        rows,
        f"answers of the other reports, at most {percent(mended.share)} of them fake; "
        f"ranges at level {mended.level:g}",
    )


def _parts(answer: Any) -> list[str]:
    """The parts that are answered about a key."""
    return [part for part in PARTS if getattr(answer, part) is not None]


@click.command()
@plan_argument
@click.option("--people", default="1e6", help="How many reports are shuffled together.")
@click.option(
    "--delta",
    default=f"{DELTA:g}",
    help="The chance that is left out of the promise; far below one in all people.",
)
@as_json
def shuffle(plan_path: str, people: str, delta: str, machine: bool) -> None:
    """What shuffling adds: the epsilon towards whoever sees all reports, but not who sent which."""
    plan = Plan.load(plan_path)
    result = amplified(plan, read_count(people, "--people"), float(decimal(delta, "--delta")))
    if machine:
        print_json(result.document())
        return
    known = result.parameters
    click.echo(f"local     epsilon {rounded_up(plan.proven)}, whoever sees one report")
    click.echo(
        f"shuffled  epsilon {_shown_epsilon(result.epsilon)} at delta {result.delta:g}, "
        f"whoever sees all {result.people:,}"
    )
    shape = f"variation {known.variation:.3f}, blanket {known.blanket:.3f}"
    click.echo(f"from      ratio {known.ratio:.4g}, {shape}")
    if result.closed_form is not None:
        closed = _shown_epsilon(result.closed_form)
        click.echo(f"by the closed form of Feldman, McMillan and Talwar: {closed}")


def _shown_epsilon(epsilon: float) -> str:
    """Three digits, rounded up."""
    return rounded_up(Decimal(repr(epsilon)))
