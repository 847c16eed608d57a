"""``keyveil poison``, ``health`` and ``shuffle``: fakes, signs of them, and privacy after shuffling."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import Any

import click

from ..foundation.errors import PlanError
from ..foundation.exact import decimal
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
from .arguments import read_count
from .output import as_json, counted, print_json, print_table
from .output_files import PICTURE, writes_files


@click.command()
@click.argument("plan_path", metavar="PLAN", type=click.Path())
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
def poison(
    plan_path: str,
    tally_path: str | None,
    fakes: str,
    targets: tuple[str, ...],
    goal: str | None,
    attack: str,
    views: str,
    seeds: str,
    frequency: str,
    mean: str | None,
    people: str,
    compare: bool,
    plot: str | None,
    machine: bool,
) -> None:
    """What fake clients could do: how far a share of them moves each key's answers.

    TALLY says what the honest answers are, and how many there were.
    """
    plan = Plan.load(plan_path)
    tally = None if tally_path is None else Tally.load(plan, tally_path)
    share = float(decimal(fakes, "--fakes"))
    held, scale = float(decimal(frequency, "--frequency")), Scale.of(plan.schema)
    middle = 0.0 if mean is None else _within(scale, float(decimal(mean, "--mean")))
    count = float(read_count(people, "--people"))
    if compare:
        rows = compare_gains(
            plan.schema, str(plan.promised), share, people=count, frequency=held, mean=middle
        )
        rows = [_on_scale(row, scale) for row in rows]
        _show_rows(rows, share, float(plan.promised), plot, machine, scale)
        return
    if plot:
        raise PlanError("a picture is drawn with --compare")
    wanted = goal or ("raise-frequency" if "frequency" in plan.mechanism.answers else "raise-mean")
    stated: dict[str, Any] = {"tally": tally, "frequency": held, "mean": middle}
    choice: dict[str, Any] = {"seeds": seeds, "views": views}
    groups = [list(targets)] if targets else [[key] for key in plan.schema.keys]
    gains = [gain(plan, share, group, wanted, attack, **stated, **choice) for group in groups]
    needed = []
    if attack == "crafted":
        for item in gains:
            for shift in item.shifts:
                fewest = fakes_needed(plan, shift.key, wanted, people=count, **stated, **choice)
                needed.append(fewest)
    if machine:
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
    parts = [p for p in ("frequency", "mean", "mass") if getattr(first.shifts[0], p) is not None]
    headings = ["key"]
    for part in parts:
        headings += [part, "after", "shift"]
    if needed:
        headings.append("fakes for one ± stderr")
    rows = []
    for result in gains:
        for shift in result.shifts:
            row = [shift.key]
            for part in parts:
                change: Change = getattr(shift, part)
                row += [_number(change.before), _number(change.after), _signed(change.shift)]
            if needed:
                row.append(f"{needed[shift.key]:,.0f}" if isfinite(needed[shift.key]) else "no number")
            rows.append(row)
    how = f"{first.share:.3g} of all clients fake, {first.attack}, to {first.goal.replace('-', ' the ')}"
    who = "targets together" if len(first.shifts) > 1 else "each key alone"
    print_table(headings, rows, f"{first.mechanism}: {how}; {who}")
    held = [
        shift.frequency for result in gains for shift in result.shifts if shift.frequency is not None
    ]
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


def _show_rows(
    rows: list[AttackRow], share: float, epsilon: float, plot: str | None, machine: bool, scale: Scale
) -> None:
    documents = [{**row.document(), "mean_scale": scale.document()} for row in rows]
    if plot:
        from ..plot import plot_gains

        plot_gains(documents, plot, share, epsilon)
    if machine:
        print_json(documents)
        return
    offered = [row for row in rows if not row.reason]
    print_table(
        ["mechanism", "frequency", "drawn", "mean", "drawn", "fakes for one ± stderr"],
        [
            [
                row.mechanism,
                *(
                    "" if shift is None else _signed(shift)
                    for shift in (row.frequency, row.frequency_drawn, row.mean, row.mean_drawn)
                ),
                "" if row.fakes is None or not isfinite(row.fakes) else f"{row.fakes:,.0f}",
            ]
            for row in offered
        ],
        f"what {share:.3g} of all clients add to a key at epsilon {epsilon:g}, means {scale}; "
        "drawn: nothing is chosen",
    )
    for row in rows:
        if row.reason:
            click.echo(f"{row.mechanism}: {row.reason}")


@click.command()
@click.argument("plan_path", metavar="PLAN", type=click.Path())
@click.argument("tally_path", metavar="TALLY", type=click.Path())
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
def health(
    plan_path: str,
    tally_path: str,
    other_path: str | None,
    false_alarm: str,
    fakes: str | None,
    level: str,
    mend: bool,
    machine: bool,
) -> None:
    """Look for what honest people cannot have sent in a TALLY, and for change since TALLY2.

    Every check states how often it would be wrong about honest people (its rate of false alarms).
    """
    plan = Plan.load(plan_path)
    tally = Tally.load(plan, tally_path)
    other = None if other_path is None else Tally.load(plan, other_path)
    rate = float(decimal(false_alarm, "--false-alarm"))
    result = check_health(plan, tally, other, false_alarm=rate)
    reaches, at = None, float(decimal(level, "--level"))
    how = "chosen" if any(f.check == "views" and f.suspicious for f in result.findings) else "drawn"
    share = 0.0 if fakes is None else float(decimal(fakes, "--fakes"))
    if fakes is not None:
        reaches = reach(plan, tally, share, views=how, level=at)
    mended = repair(plan, tally, share=share, level=at) if mend else None
    if machine:
        body: dict[str, Any] = {**result.document(), "reach": None}
        if reaches is not None:
            body |= {"reach": [key.document() for key in reaches], "views": how, "level": at}
        if mended is not None:
            body["repair"] = mended.document()
        print_json(body)
        return
    print_table(
        ["check", "verdict", "p-value", "meaning"],
        [
            [
                finding.check,
                finding.verdict,
                "" if finding.verdict == "not checked" else f"{finding.p_value:.2g}",
                finding.meaning + _where(finding.where),
            ]
            for finding in result.findings
        ],
    )
    verdict = "suspicious" if result.suspicious else "nothing suspicious"
    click.echo(
        f"{verdict} in {counted(result.reports, 'report')}; of honest tallies at most "
        f"{result.false_alarm:.2g} are found suspicious"
    )
    if reaches is not None:
        _show_reach(reaches, share, how, at)
    if mended is not None:
        _show_repair(plan, mended)


def _where(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return f" ({shown})" if names else ""


def _show_reach(reaches: list[Reach], share: float, views: str, level: float) -> None:
    parts = [p for p in ("frequency", "mean", "mass") if getattr(reaches[0], p) is not None]
    print_table(
        ["key", *parts],
        [[key.key, *(_ends(getattr(key, part)) for part in parts)] for key in reaches],
        f"where the honest answers lie at level {level:g} if at most {share:.3g} of the reports are "
        f"fake and {'drew' if views == 'drawn' else 'chose'} their views",
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
            f"{value:.3g} [{low:.3g}, {high:.3g}] of all reports are fakes who chose"
        )
    parts = [p for p in ("frequency", "mean", "mass") if getattr(mended.keys[0], p) is not None]
    print_table(
        ["key", "kept", *(heading for part in parts for heading in (part, "range"))],
        [
            [
                key.key,
                f"{key.kept:.3f}",
                *(text for part in parts for text in _three(getattr(key, part))),
            ]
            for key in mended.keys
        ],
        f"answers of the other reports, at most {mended.share:.3g} of them fake; "
        f"ranges at level {mended.level:g}",
    )


def _three(three: tuple[float, float, float]) -> tuple[str, str]:
    return _number(three[0]), _ends(three[1:])


def _ends(pair: tuple[float, float]) -> str:
    return f"[{_number(pair[0])}, {_number(pair[1])}]"


def _number(value: float) -> str:
    return f"{value:.4f}" if isfinite(value) else "unknown"


def _signed(value: float) -> str:
    return f"{value:+.4f}" if isfinite(value) else "unknown"


@click.command()
@click.argument("plan_path", metavar="PLAN", type=click.Path())
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
    click.echo(f"local     epsilon {result.local_epsilon:.9f}, whoever sees one report")
    click.echo(
        f"shuffled  epsilon {result.epsilon:.6g} at delta {result.delta:g}, "
        f"whoever sees all {result.people:,}"
    )
    shape = f"variation {known.variation:.6g}, blanket {known.blanket:.6g}"
    click.echo(f"from      ratio {known.ratio:.6g}, {shape}")
    if result.closed_form is not None:
        click.echo(f"by the closed form of Feldman, McMillan and Talwar: {result.closed_form:.6g}")
