"""Shared by the tests at the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from planned_once import once

from keyveil.cli import planner_output
from keyveil.cli.command import run
from keyveil.planner import planner
from keyveil.planner.curves import Curves

ANSWERS: dict[bytes, planner.Advice] = {}
DRAWN: dict[tuple[object, ...], Curves] = {}


@pytest.fixture(scope="module", autouse=True)
def planned_once() -> Iterator[None]:
    """Compute the planner's answer once for all commands that ask it the same question.

    Other folders' tests, which may run in the same process, ask the planner itself.
    """
    drawn, curves = DRAWN, planner_output.curves

    def curves_once(schema: object, advice: planner.Advice, *options: object) -> Curves:
        key = id(advice), options  # the answers are kept, so that no other one has this id
        if key not in drawn:
            drawn[key] = curves(schema, advice, *options)
        return drawn[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner_output, "advise", once(planner_output.advise, ANSWERS))
        patch.setattr(planner_output, "curves", curves_once)
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_forecasts(few_draws: None) -> None:
    """Commands are about what is said of a choice, so a few draws are enough to choose by."""


@pytest.fixture
def command(capsys):
    """What ``keyveil`` prints, or the one line of a refusal; ``noted`` is what a success adds."""

    def command(*arguments: object, code: int = 0) -> str:
        capsys.readouterr()
        assert run([str(a) for a in arguments]) == code
        output = capsys.readouterr()
        if code:
            assert len(output.err.strip().splitlines()) == 1
            return output.err
        command.noted = output.err
        return output.out

    return command
