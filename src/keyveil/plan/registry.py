"""The registries of mechanisms and of encodings: their names, and each one once it is asked for.

Plans name their mechanism and their encoding, and both know plans. The registries break that circle:
they know mechanisms and encodings by name only and load the file of one when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Generic, TypeVar

from ..foundation.errors import PlanError, choices, nearest
from .encoding import Encoding
from .recipe import Recipe

Part = TypeVar("Part")

MECHANISMS = "keyveil.mechanisms"
"""The package with a file for each mechanism, by its name: it is below this one, and knows plans."""


class _Registry(MutableMapping[str, Part], Generic[Part]):
    """Parts by name, in the order of ``LINES`` of the package that holds their files."""

    def __init__(self, package: str, kind: type[Part]) -> None:
        self._package, self._kind = package, kind
        self._parts: dict[str, Part | None] = {}

    @property
    def _known(self) -> dict[str, Part | None]:
        if not self._parts:
            self._parts.update(dict.fromkeys(import_module(self._package).LINES))
        return self._parts

    def __getitem__(self, name: str) -> Part:
        part = self._known[name]
        if part is None:
            file, kind = import_module(self._package).LINES[name]
            part = getattr(import_module(f"{self._package}.{file}"), kind)()
            assert isinstance(part, self._kind)
            self._known[name] = part
        return part

    def __setitem__(self, name: str, part: Part) -> None:
        self._known[name] = part

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, name: object) -> bool:
        return name in self._known


REGISTRY: MutableMapping[str, Recipe] = _Registry(MECHANISMS, Recipe)  # type: ignore[type-abstract]
"""The mechanisms."""
ENCODINGS: MutableMapping[str, Encoding] = _Registry(f"{MECHANISMS}.encodings", Encoding)  # type: ignore[type-abstract]
"""The encodings."""
LIST = "keyveil mechanisms"
"""The command that lists all mechanisms."""


def mechanism_named(name: str, *also: str) -> Recipe:
    """The mechanism of that name, or an error with the nearest one; ``also`` are other names.

    If none is near, the error lists them all.
    """
    if name not in REGISTRY:
        known = [*REGISTRY, *also]
        near = nearest(str(name), known)
        hint = choices(name, known) if near is None else f"did you mean {near}? {LIST} lists all"
        if name == "auto":
            hint = f"Plan.choose takes the best one; {LIST} lists all"
        raise PlanError(f"unknown mechanism {name!r}; {hint}")
    return REGISTRY[name]


def parse_mechanism(name: str, *also: str) -> tuple[str, dict[str, str]]:
    """A mechanism's name and its parameters, from text like ``graded:levels=5`` or ``pairs:grr``.

    Parameters are joined by ``+``. A value without a name is the ``channel``. If the mechanism makes
    plans of parts, the whole rest is the list of its ``parts``. An unknown name is refused; ``also`` are
    other names that the error knows.
    """
    mechanism, _, rest = name.partition(":")
    kind = mechanism_named(mechanism, *also)
    if kind.makes_parts and rest:
        return mechanism, {"parts": rest.removeprefix("parts=")}
    parameters: dict[str, str] = {}
    for part in filter(None, rest.split("+")):
        parameter, equals, value = part.partition("=")
        if not equals:
            if "channel" not in kind.parameters:
                known = ", ".join(kind.parameters) or "none"
                raise PlanError(
                    f"{part!r} is no parameter of {mechanism} like NAME=VALUE; known: {known}"
                )
            parameter, value = "channel", part
        parameters[parameter.strip()] = value.strip()
    return mechanism, parameters


def encoding_named(name: str) -> Encoding:
    """The encoding of that name, or an error that lists them all."""
    if name not in ENCODINGS:
        raise PlanError(f"unknown encoding; known: {', '.join(ENCODINGS)}")
    return ENCODINGS[name]
