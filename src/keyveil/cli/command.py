"""The group of commands, and how errors leave it.

Exit codes: 0 done; 1 input that is refused; 2 a command that is not understood; 3 a chain of plans
that is finished; 4 a plan that an audit finds broken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module

import click

from .. import __version__
from ..foundation.errors import KeyveilError, nearest

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Before anyone answers": {
        "mechanisms": (
            "audit_command",
            "List the mechanisms, their names in papers, and the true epsilon of each.",
        ),
        "plan": (
            "plan_command",
            "Make the public contract: keys, mechanism, and integers that prove epsilon.",
        ),
        "audit": (
            "audit_command",
            "Prove a plan's epsilon again from its integers, without trusting it.",
        ),
        "compare": (
            "compare_command",
            "Error and interval coverage of mechanisms, side by side, on your own table.",
        ),
        "reproduce": (
            "reproduce_command",
            "Make the paper's Section VI again: figures, numbers, and a report with a verdict per "
            "claim.",
        ),
        "bench": (
            "bench_command",
            "Speed on this machine, compared with NumPy, other packages and the limit of the processor.",
        ),
    },
    "Reports and answers": {
        "privatise": (
            "privatise_command",
            "Perturb each person's record in TABLE (CSV, JSON lines, Parquet, Arrow) into one report.",
        ),
        "tally": (
            "tally_command",
            "Count REPORTS (files of reports, folders of them, or tallies) into one tally.",
        ),
        "estimate": (
            "estimate_command",
            "Frequency and mean of every key, each with its standard error and interval.",
        ),
        "query": (
            "query_command",
            "Answer queries like 'mean(Pepsi | Hamburger, !Fries)', 'lift(Pepsi | Hamburger)'.",
        ),
        "conditional": (
            "query_command",
            "The whole matrix: KIND of each key given each other key, with intervals.",
        ),
        "learn": (
            "learn_command",
            "Rules, trees, classifiers and cubes from a tally alone, without any person's data.",
        ),
    },
    "Trust": {
        "poison": (
            "trust_command",
            "What fake clients could do: how far a share of them moves each key's answers.",
        ),
        "health": (
            "trust_command",
            "Look for what honest people cannot have sent in a TALLY, and for change since TALLY2.",
        ),
        "shuffle": (
            "trust_command",
            "What shuffling adds: the epsilon towards whoever sees all reports, but not who sent which.",
        ),
    },
    "A device": {
        "ledger": (
            "ledger_command",
            "What this device has answered, what that cost, the cap, and which reports wait.",
        ),
    },
    "A collector": {
        "demo": (
            "demo_command",
            "Try it out: a menu, a dashboard, and simulated visitors, until Ctrl-C.",
        ),
        "serve": ("serve_command", "Collect reports: one process, nothing else to start."),
        "relay": ("relay_command", "Collect reports, wait for K, shuffle, forward in bulk."),
        "collection": ("collection_command", "Make and run collections; also while they are served."),
        "token": ("token_command", "Make, rotate and revoke tokens; also while the collector serves."),
        "verify": (
            "serve_command",
            "Recount everything from the segments; the counts must match exactly.",
        ),
        "backup": (
            "serve_command",
            "Copy the store and its segments as of one moment, also while it is served.",
        ),
        "restore": (
            "serve_command",
            "Restore a backup to a new store; an existing store is never replaced.",
        ),
        "migrate": (
            "serve_command",
            "Bring a store's tables up to this version; nothing may serve it meanwhile.",
        ),
    },
}
"""The commands by purpose, in the order of use: the module of each, and what its help says first."""

_MODULES = {name: module for members in SECTIONS.values() for name, (module, _) in members.items()}


_MEANT = {"--confidence": "--level", "--alpha": "--level"}
"""Options of other programs, and what they are called here."""


class Sections(click.Group):
    """A group that lists its commands by purpose, each with a sentence, and loads one when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        command = getattr(import_module(f".{_MODULES[cmd_name]}", __package__), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the group's help."""
        for title, members in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, sentence) for name, (_, sentence) in members.items()])


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
        meant = _MEANT.get(wrong)
        if meant in known:
            return f"{message}; did you mean {meant}?"
    elif isinstance(error, click.NoSuchCommand) and context is not None:
        wrong, message = error.command_name, f"No such command {error.command_name!r}"
        if isinstance(context.command, click.Group):
            known = context.command.list_commands(context)
            if context.parent is not None and nearest(wrong, known) is None:
                return f"{message}; after {context.command_path} comes one of: {', '.join(known)}"
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
