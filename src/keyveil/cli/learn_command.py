"""``keyveil learn``: rules, trees, classifiers and cubes from a tally alone; no record is seen."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import click

from ..estimate.answer import Estimate
from ..estimate.learn.bayes import NaiveBayes
from ..estimate.learn.chow_liu import ChowLiu
from ..estimate.learn.cube import OF_A_CUBE, Cube
from ..estimate.learn.rules import CONTROLS, SIGNS
from ..estimate.learn.rules import rules as find_rules
from ..estimate.learn.tree import CRITERIA, OF_A_TREE, DecisionTree
from ..estimate.together.conditional import Conditionals
from ..foundation.errors import QueryError
from ..plan.plan import Plan
from ..plan.tally import Tally
from .arguments import Given, level_option, plan_argument, read_count, tally_argument
from .output import as_json, figure, interval, print_json, print_table
from .output_files import PICTURE, writes_files


@click.group()
def learn() -> None:
    """Rules, trees, classifiers and cubes from a tally alone, without any person's data."""


def _source(command: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments and options of all commands here."""
    picture = click.option("--plot", type=PICTURE, help="Also draw a picture (PNG, SVG or PDF).")
    return plan_argument(tally_argument(level_option(picture(as_json(writes_files(command))))))


def _drawn(learned: Any, path: str | None) -> None:
    """Draws what was learned if a picture was asked for."""
    if path is not None:
        from ..plot.learner_plots import picture_size, save_plot

        save_plot(learned, path, *picture_size(learned))


def _known(plan_path: str, tally_path: str, level: float) -> Conditionals:
    plan = Plan.load(plan_path)
    return Conditionals(plan, Tally.load(plan, tally_path), level=level)


@learn.command()
@_source
@click.option("--key", "keys", multiple=True, help="Only rules among these keys; may be repeated.")
@click.option("--given", type=click.Choice(list(SIGNS)), default="held")
@click.option("--conditions", default=1, help="Conditions of a rule, at most.")
@click.option("--min-lift", default=1.0, help="Test for a lift above this.")
@click.option("--false-discovery", default=0.05, help="Of rules listed, at most.")
@click.option("--control", type=click.Choice(CONTROLS), default=CONTROLS[0])
@click.option("--min-frequency", default=0.0, help="List only from here on.")
@click.option("--min-support", default=0.0, help="List only from here on.")
def rules(
    plan_path: str, tally_path: str, level: float, machine: bool, plot: str | None, **asked: Any
) -> None:
    """Association rules above noise, with intervals: who has this, also has that.

    A rule of two keys is listed once; "reverse" is the frequency of the other direction.
    """
    asked["keys"] = asked["keys"] or None
    learned = find_rules(_known(plan_path, tally_path, level), **asked)
    _drawn(learned, plot)
    if machine:
        print_json([rule.document() for rule in learned])
    elif learned:
        print_table(*learned.headings_and_rows())
    else:
        click.echo(f"no rule is above noise at a false-discovery rate of {asked['false_discovery']:g}")


@learn.command()
@_source
@click.argument("target")
@click.option("--depth", "max_depth", default=3, help="Questions on the way to a leaf, at most.")
@click.option("--min-share", default=0.02, help="Of all people, in every leaf.")
@click.option("--criterion", type=click.Choice(CRITERIA), default="gini")
@click.option("--levels", is_flag=True, help="Tell absent, low and high apart, not just held or not.")
@click.option("--significance", default=0.05, help="Over all splits tried at a node.")
def tree(
    plan_path: str, tally_path: str, level: float, machine: bool, plot: str | None, **asked: Any
) -> None:
    """A decision tree for TARGET whose every split is above noise, with intervals at its leaves."""
    grown = DecisionTree(**asked).fit(_known(plan_path, tally_path, level))
    _drawn(grown, plot)
    if machine:
        print_json(grown.document())
        return
    click.echo(grown.text())
    if grown.how_ != "view":
        click.echo(f"({OF_A_TREE})")


@learn.command()
@_source
@click.argument("target")
@click.option("--levels", is_flag=True, help="Tell absent, low and high apart, not just held or not.")
def bayes(
    plan_path: str, tally_path: str, level: float, machine: bool, plot: str | None, **asked: Any
) -> None:
    """Naive Bayes for TARGET: by how much each other key changes its probability."""
    learned = NaiveBayes(**asked).fit(_known(plan_path, tally_path, level))
    _drawn(learned, plot)
    if machine:
        print_json(learned.document())
        return
    print_table(*learned.headings_and_rows(), title=learned.prior_text())


@learn.command("chow-liu")
@_source
@click.option("--significance", default=0.05, help="Chance of any false edge, at most.")
def chow_liu(
    plan_path: str, tally_path: str, level: float, machine: bool, plot: str | None, **asked: Any
) -> None:
    """The Chow-Liu tree: which keys depend on which, and how much; every edge is above noise."""
    learned = ChowLiu(**asked).fit(_known(plan_path, tally_path, level))
    _drawn(learned, plot)
    if machine:
        print_json(learned.document())
    elif learned.edges_:
        print_table(*learned.headings_and_rows())
    else:
        click.echo(str(learned))


@learn.command()
@_source
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--slice", "sliced", multiple=True, metavar="KEY=PART", help="Only people in this part.")
@click.option("--dice", "diced", multiple=True, metavar="KEY=PART,PART", help="Only these parts.")
@click.option("--roll-up", "rolled", multiple=True, metavar="KEY[=held]", help="Sum over a key.")
@click.option("--people", help="How many people there are, like 1e6: cells are counted too.")
def cube(plan_path: str, tally_path: str, level: float, **options: Any) -> None:
    """Shares of people by the parts of KEYs (absent, low, high, held), sliced, diced and rolled up."""
    given = Given(**options)
    count = None if given.people is None else read_count(given.people, "people")
    learned = Cube(_known(plan_path, tally_path, level), given.keys, people=count)
    for words in given.diced:
        key, names = _pair(words, "--dice KEY=PART,PART")
        learned = learned.dice({key: [part.strip() for part in names.split(",") if part.strip()]})
    for words in given.rolled:
        key, to = (words, "all") if words in given.keys else _pair(words, "--roll-up KEY or KEY=held")
        learned = learned.roll_up(key, to)
    for words in given.sliced:
        key, part = _pair(words, "--slice KEY=PART")
        learned = learned.slice({key: part})
    _drawn(learned, given.plot)
    if given.machine:
        print_json(learned.document())
        return
    if learned.where:
        click.echo("where " + ", ".join(f"{key} is {part}" for key, part in learned.where.items()))
    columns: dict[str, Callable[[Any], str]] = {}
    if given.sliced or given.diced:
        columns["of these"] = lambda parts: _cell(learned.share(parts), 4)
    if count is not None:
        columns["people"] = lambda parts: _cell(learned.count(parts), 0)
    if learned.how == "range":
        columns["guess"] = lambda parts: figure(learned.guess(parts))
    print_table(
        [*learned.keys, "share of all", *columns],
        [
            [*parts.values(), _cell(share, 4), *(cell(parts) for cell in columns.values())]
            for parts, share in learned.cells()
        ],
    )
    if learned.how != "view":
        click.echo(f"({OF_A_CUBE})")


def _pair(words: str, right: str) -> tuple[str, str]:
    """The key and the part of KEY=PART; the key may contain equals signs."""
    key, equals, part = words.rpartition("=")
    if not equals or not key.strip() or not part.strip():
        raise QueryError(f"write {right}")
    return key.strip(), part.strip()


def _cell(estimate: Estimate, digits: int) -> str:
    form = f",.{digits}f"
    ends = interval(estimate.low, estimate.high, form) if estimate.bounded else "not estimable"
    if not isfinite(estimate.value):
        return ends if estimate.bounded else "unknown"
    return f"{estimate.value:{form}} {ends}"
