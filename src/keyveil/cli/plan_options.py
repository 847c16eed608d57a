"""The options of ``keyveil plan``: which of them go together, and what those that are given state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..foundation.errors import PlanError
from ..mechanisms import REGISTRY
from ..people.schema import Schema
from .arguments import Given, read_count, read_numbers, read_schema

if TYPE_CHECKING:
    from ..people.beliefs import Beliefs
    from ..people.prior import Prior

AUTO = "auto"
"""The name that stands for the planner's choice."""
QUERIES = "queries"
"""The parameter of a mechanism that is made for queries, which ``--ask`` states, too."""

ASSUMED = {"keys": "100", "epsilon": "1"}
"""The keys and the epsilon of an explanation where none are stated."""
PRIOR = {"held", "mean", "spread"}
ONLY_AUTO = {"ask", "plot", "anyway", "pilot", "one_round"}
OF_A_CHAIN = (
    {"keys", "ends", "epsilon", "mechanism", "calibrate", "given", "explain"} | PRIOR | ONLY_AUTO
)


class PlanOptions(Given):
    """The options of ``plan``, as they are typed."""

    @property
    def count(self) -> int | None:
        """The number of people; None if it is not stated."""
        return None if self.people is None else read_count(self.people, "--people")

    def prior(self, schema: Schema) -> Prior:
        """The prior that the options state, on the scale of the values; the rest is at its default."""
        from ..people.prior import Prior

        return Prior.of(schema, **read_numbers(self, "held", "mean", "spread"))

    def known(self, schema: Schema) -> Prior | Beliefs:
        """What the planner is told: a prior if --held states how many keys people hold."""
        from ..people.beliefs import Beliefs

        if self.held is not None:
            return self.prior(schema)
        return Beliefs.of(schema, **read_numbers(self, "mean", "spread"))

    def schema_and_epsilon(self) -> tuple[Schema, str, Beliefs | None, list[str]]:
        """The schema, the epsilon, what a pilot tells, and notes of what was assumed."""
        if self.pilot:
            from .pilot_files import taken_from

            return *taken_from(self), []
        keys, epsilon = self._assumed()
        notes: list[str] = []
        return read_schema(keys, self.ends, notes), epsilon, None, notes

    def parameters(self) -> dict[str, str]:
        """The parameters of the mechanism, by name, as they are typed."""
        parameters = {}
        for pair in self.given:
            name, equals, value = pair.partition("=")
            if not equals:
                raise PlanError("a parameter is given as --set NAME=VALUE")
            parameters[name.strip()] = value.strip()
        return parameters

    def _assumed(self) -> tuple[str, str]:
        """Keys and epsilon; an explanation without a plan has its own if they are not stated."""
        stated = {"keys": self.keys, "epsilon": self.epsilon}
        used = {name: ASSUMED[name] if words is None else words for name, words in stated.items()}
        missing = [name for name, words in stated.items() if words is None]
        if missing:
            what = {"keys": f"{used['keys']} keys", "epsilon": f"epsilon {used['epsilon']}"}
            options = " and no ".join(f"--{name}" for name in missing)
            assumed = " and ".join(what[name] for name in missing)
            click.echo(f"no {options} given: explained for {assumed}", err=self.machine)
        return used["keys"], used["epsilon"]


def check_together(context: click.Context, given: PlanOptions) -> None:
    """Refuse if options are missing, or if one would be ignored because of another."""
    names = {option.name: option.opts[-1] for option in context.command.params}
    used = {str(name): str(names[name]) for name in names if _is_given(context, str(name))}
    if given.chain is not None:
        _refuse(used, OF_A_CHAIN, "the next round takes this from PLAN")
        return
    by_itself = given.explain and not given.output
    spared = ASSUMED if by_itself or "pilot" in used else {}
    needed = [name for name in ("keys", "epsilon", "mechanism") if name not in spared]
    missing = [names[name] for name in needed if name not in used]
    if missing:
        raise click.UsageError(f"plan needs {', '.join(missing)} (or --next PLAN TALLY)")
    if given.mechanism != AUTO:
        if not _takes_queries(str(given.mechanism)):
            _refuse(used, {"ask"}, "only for --mechanism auto or workload")
        _refuse(used, ONLY_AUTO - {"ask"}, "only for --mechanism auto")
        if given.people is None:
            _refuse(used, PRIOR | {"explain"}, "only with --people")
        return
    if given.people is None:
        raise click.UsageError("--mechanism auto needs --people: how many will answer")
    if "pilot" in used:
        _refuse(used, {"held"}, "the pilot tells how many keys are held")
    if {"pilot", "held"} & {*used}:
        _refuse(used, {"one_round"}, "there is no first round if it is known how many keys are held")
    if "given" in used:
        raise PlanError("--set is for a mechanism that you name; auto sets the parameters itself")
    if given.calibrate == "paper":
        raise PlanError(
            "--calibrate paper is for a mechanism that you name; auto makes all tight, to compare them "
            "at equal true epsilon"
        )


def _takes_queries(mechanism: str) -> bool:
    """Whether a mechanism is made for queries; False if there is none of this name."""
    name = mechanism.partition(":")[0]
    return name in REGISTRY and QUERIES in REGISTRY[name].parameters


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _refuse(used: dict[str, str], names: set[str], why: str) -> None:
    wrong = [option for name, option in used.items() if name in names]
    if wrong:
        raise click.UsageError(f"{', '.join(wrong)}: {why}")
