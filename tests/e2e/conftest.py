"""Shared by the tests at the terminal."""

from __future__ import annotations

import pytest

from keyveil.cli.command import run


@pytest.fixture
def command(capsys):
    """What ``keyveil`` prints, or the one line of a refusal; ``noted`` is what a success adds."""

    def command(*arguments: object, code: int = 0) -> str:
        capsys.readouterr()
        assert run([str(a) for a in arguments]) == code
        said = capsys.readouterr()
        if code:
            assert len(said.err.strip().splitlines()) == 1
            return said.err
        command.noted = said.err
        return said.out

    return command
