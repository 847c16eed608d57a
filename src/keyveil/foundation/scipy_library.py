"""SciPy, which is loaded when it is first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .errors import KeyveilError, installation


def scipy(part: str, asked: str) -> Any:
    """Import a module of SciPy at first use; ``asked`` is what needs it, for the error."""
    try:
        return import_module(f"scipy.{part}")
    except ImportError:
        raise KeyveilError(f"{asked} needs SciPy: {installation('testing')}") from None
