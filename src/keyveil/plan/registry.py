"""The registry of mechanisms: their names, and each mechanism once it is asked for.

Plans name their mechanism, and mechanisms make plans. The registry breaks that circle: it knows the
mechanisms by name only and loads the file of one when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

from ..foundation.errors import PlanError, nearest
from .recipe import Recipe

MECHANISMS = "keyveil.mechanisms"


class _Registry(MutableMapping[str, Recipe]):
    """Mechanisms by name, in the order of ``keyveil.mechanisms.LINES``."""

    def __init__(self) -> None:
        self._recipes: dict[str, Recipe | None] = {}

    @property
    def _known(self) -> dict[str, Recipe | None]:
        if not self._recipes:
            self._recipes.update(dict.fromkeys(import_module(MECHANISMS).LINES))
        return self._recipes

    def __getitem__(self, name: str) -> Recipe:
        recipe = self._known[name]
        if recipe is None:
            file, kind = import_module(MECHANISMS).LINES[name]
            recipe = getattr(import_module(f"{MECHANISMS}.{file}"), kind)()
            assert isinstance(recipe, Recipe)
            self._known[name] = recipe
        return recipe

    def __setitem__(self, name: str, mechanism: Recipe) -> None:
        self._known[name] = mechanism

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, name: object) -> bool:
        return name in self._known


REGISTRY: MutableMapping[str, Recipe] = _Registry()


def mechanism_named(name: str, *also: str) -> Recipe:
    """The mechanism of that name, or an error that lists them all and the names in ``also``."""
    if name not in REGISTRY:
        known = [*REGISTRY, *also]
        near = nearest(str(name), known)
        hint = "" if near is None else f"did you mean {near}? "
        raise PlanError(f"unknown mechanism {name!r}; {hint}known: {', '.join(known)}")
    return REGISTRY[name]
