"""The group of commands, and how errors leave it.

Exit codes: 0 done; 1 input that is refused; 2 a command that is not understood; 3 a chain of plans
that is finished; 4 a plan that an audit finds broken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from .. import __version__
from ..foundation.errors import KeyveilError, nearest
from .audit_command import audit, mechanisms
from .collection_command import collection
from .compare_command import compare
from .demo_command import demo
from .estimate_command import estimate, tally
from .learn_command import learn
from .ledger_command import ledger
from .plan_command import plan
from .privatise_command import privatise
from .query_command import conditional, query
from .relay_command import relay
from .reproduce_command import reproduce
from .serve_command import backup, migrate, restore, serve, verify
from .token_command import token
from .trust_command import health, poison, shuffle


class Sections(click.Group):
    """A group that lists its commands by purpose, in the order of use, each with a sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the group's help."""
        for title, members in SECTIONS.items():
            with formatter.section(title):
                rows = [(str(member.name), member.get_short_help_str(limit=200)) for member in members]
                formatter.write_dl(rows)


SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Before anyone answers": (mechanisms, plan, audit, compare, reproduce),
    "Reports and answers": (privatise, tally, estimate, query, conditional, learn),
    "Trust": (poison, health, shuffle),
    "A device": (ledger,),
    "A collector": (demo, serve, relay, collection, token, verify, backup, restore, migrate),
}


@click.group(
    cls=Sections,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(__version__, prog_name="keyveil")
def keyveil() -> None:
    """Learn which keys people have and how they value them, without collecting anyone's data.

    A usual day: plan, privatise (on devices, or on a table to try it out), tally, estimate.
    Each command says more with --help, and most print JSON with --json.
    """


for section in SECTIONS.values():
    for command in section:
        keyveil.add_command(command)


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    try:
        result = keyveil.main(args=list(arguments), prog_name="keyveil", standalone_mode=False)
    except KeyveilError as error:
        _complain(str(error))
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        _complain(_message(error))
        return 2
    except (click.Abort, KeyboardInterrupt):
        _complain("stopped; nothing was written")
        return 130
    except UnicodeEncodeError as error:
        _complain(f"{error.encoding} cannot show this output; PYTHONIOENCODING=utf-8 can")
        return 1
    except OSError as error:
        _complain(f"{error.filename or 'a file'}: {error.strerror or error}")
        return 1
    return result if isinstance(result, int) else 0


def _message(error: click.ClickException) -> str:
    """click's message; for a misspelt command, option or choice with the nearest name."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    known: list[str] = []
    if isinstance(error, click.NoSuchOption) and context is not None:
        wrong, message = error.option_name, f"No such option: {error.option_name}"
        known = [name for parameter in context.command.get_params(context) for name in parameter.opts]
    elif isinstance(error, click.NoSuchCommand) and context is not None:
        wrong, message = error.command_name, f"No such command {error.command_name!r}"
        if isinstance(context.command, click.Group):
            known = context.command.list_commands(context)
    elif isinstance(error, click.BadParameter) and error.param is not None:
        kind, message = error.param.type, error.format_message().rstrip(".")
        quoted = re.search(r": '([^']*)' is not one of ", message)
        if isinstance(kind, click.Choice) and quoted is not None:
            wrong, known = quoted[1], [str(choice) for choice in kind.choices]
    if not known:
        return error.format_message()
    near = nearest(wrong, known)
    return message + ("" if near is None else f"; did you mean {near}?")


def _complain(message: str) -> None:
    click.echo("keyveil: " + " ".join(message.split()), err=True)
