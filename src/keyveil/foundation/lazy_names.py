"""Names of a package that are loaded when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def loaded_later(
    package: str,
    places: Mapping[str, str],
    modules: Mapping[str, str] | None = None,
    below: str | None = None,
) -> Callable[[str], Any]:
    """A ``__getattr__`` of a package or module. It loads each name from its place when it is asked for.

    Places are modules, named below the package (or the package ``below``); "module:other" loads another
    name. ``modules`` are the places of names that stand for whole modules.
    """
    whole = modules or {}

    def get(name: str) -> Any:
        if name not in places and name not in whole:
            near = None if name.startswith("_") else _nearest(name, [*places, *whole])
            hint = "" if near is None else f"; did you mean {near!r}?"
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        place, _, other = places.get(name, whole.get(name, "")).partition(":")
        module = import_module(f"{below or package}.{place}")
        value = module if name in whole else getattr(module, other or name)
        setattr(sys.modules[package], name, value)
        return value

    return get


def _nearest(name: str, known: list[str]) -> str | None:
    from .errors import nearest

    return nearest(name, known)
