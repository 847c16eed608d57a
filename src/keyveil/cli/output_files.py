"""Output files of all commands, which are checked before the work begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from itertools import combinations
from pathlib import Path
from typing import Any

import click

from ..foundation.errors import KeyveilError
from ..foundation.files import check_output, same_file


class OutputFile(click.Path):
    """The type of an option that names a file to write."""

    is_output = True


class PictureFile(OutputFile):
    """The type of an option that names a picture to draw."""


class FileOrFolder(OutputFile):
    """The type of an option that names a file to write, or a folder if it ends with a slash."""


OUTPUT = OutputFile(readable=False)
OUTPUT_OR_FOLDER = FileOrFolder(readable=False)
PICTURE = PictureFile(readable=False)


def writes_files(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--force`` to a command, and check its output files before it begins."""

    @click.option("--force", is_flag=True, help="Replace output files that exist.")
    @wraps(command)
    def checked(*arguments: Any, force: bool, **options: Any) -> Any:
        _check_outputs(click.get_current_context(), force)
        return command(*arguments, **options)

    return checked


def check_folder(folder: str, source: str | None, ours: bool, files: Iterable[str]) -> None:
    """Refuse a folder that is an input, or that contains one of the ``files`` unless it is ``ours``."""
    if not folder or folder.startswith("-"):
        raise click.UsageError(f"--output needs a folder's name, not {folder!r}")
    if source is not None and same_file(Path(folder), Path(source)):
        raise KeyveilError(f"{folder} is an input of this command; name another folder")
    if Path(folder).exists() and not Path(folder).is_dir():
        raise KeyveilError(f"{folder} is not a folder; name one")
    for name in files:
        if not ours and os.path.lexists(Path(folder) / name):
            raise KeyveilError(f"{folder} has a {name} of no earlier run; name another folder")


def _check_outputs(context: click.Context, force: bool) -> None:
    """Refuse outputs that would replace an input, another output or, without ``force``, any file."""
    inputs = [path for option, path in _paths(context) if not isinstance(option.type, OutputFile)]
    outputs = [(o, path) for o, path in _paths(context) if isinstance(o.type, OutputFile)]
    for option, path in outputs:
        if not path or path.startswith("-"):
            raise click.UsageError(
                f"{option.opts[-1]} needs a file's name, not {path!r} "
                "(a name that begins with - is written ./-name)"
            )
        if isinstance(option.type, FileOrFolder) and path.endswith("/"):
            _check_new_folder(Path(path), inputs)
        else:
            check_output(Path(path), [Path(source) for source in inputs], replace=force)
        if isinstance(option.type, PictureFile):
            from ..plot.style import check_picture

            check_picture(path)
    for (_, first), (_, other) in combinations(outputs, 2):
        if same_file(Path(first), Path(other)):
            raise KeyveilError(f"{first} and {other} name the same file; give each output its own")


def _check_new_folder(folder: Path, inputs: list[str]) -> None:
    """Refuse a folder that is an input or not new; ``--force`` replaces files only."""
    if any(same_file(folder, Path(source)) for source in inputs):
        raise KeyveilError(f"{folder} is an input of this command; name another folder")
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise KeyveilError(f"{folder} exists and is not an empty folder; name a new one")
    if not folder.parent.is_dir():
        raise KeyveilError(f"cannot write {folder}: there is no folder {folder.parent}")


def _paths(context: click.Context) -> Iterator[tuple[click.Parameter, str]]:
    """Every path on the command line, with its option or argument."""
    for option in context.command.params:
        value = context.params.get(str(option.name))
        if isinstance(option.type, click.Path) and value is not None:
            for path in value if isinstance(value, tuple) else (value,):
                yield option, str(path)
