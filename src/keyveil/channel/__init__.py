"""The exact law of what a device sends, in a few shapes, one file each in ``shapes``.

A shape has its own proof of epsilon, sampler, estimator and compact integers. A new mechanism of a
known shape is one file in ``mechanisms`` and changes nothing here. The file of a shape is loaded at
its first use, because a device needs only one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from itertools import chain
from typing import TYPE_CHECKING

from ..foundation.errors import ChannelError
from ..foundation.lazy_names import loaded_later
from .document_fields import Document
from .law import Channel
from .proof import Proof, worst_of

if TYPE_CHECKING:
    from .shapes.coco_channel import CoCo
    from .shapes.collision_channel import Collision
    from .shapes.halfspace import Halfspace
    from .shapes.hash import Hash
    from .shapes.product import Product
    from .shapes.subset import Subset
    from .shapes.symbols import Symbols
    from .shapes.symmetric import Symmetric
    from .shapes.table import Table

_CLASSES = {
    "table": "Table",
    "symmetric": "Symmetric",
    "symbols": "Symbols",
    "subset": "Subset",
    "product": "Product",
    "hash": "Hash",
    "collision": "Collision",
    "coco": "CoCo",
    "halfspace": "Halfspace",
}
"""The class of each shape."""

_FILES = {kind: f"shapes.{shape}" for shape, kind in _CLASSES.items()} | {
    "CoCo": "shapes.coco_channel",
    "Collision": "shapes.collision_channel",
}
"""The file of each class. It has the name of the shape, unless a mechanism has that name."""

__getattr__ = loaded_later(__name__, _FILES)


class _Shapes(MutableMapping[str, type[Channel]]):
    """Shapes by name. A shape that you add here can be named in documents."""

    def __init__(self) -> None:
        self._own: dict[str, type[Channel]] = {}

    def __getitem__(self, name: str) -> type[Channel]:
        kind: type[Channel] = self._own[name] if name in self._own else __getattr__(_CLASSES[name])
        return kind

    def __setitem__(self, name: str, kind: type[Channel]) -> None:
        if name in _CLASSES:
            raise ChannelError(f"the shape {name!r} exists; a new law takes a new name")
        self._own[name] = kind

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __iter__(self) -> Iterator[str]:
        return chain(_CLASSES, self._own)

    def __len__(self) -> int:
        return len(_CLASSES) + len(self._own)


SHAPES: MutableMapping[str, type[Channel]] = _Shapes()


def parse_channel(document: object) -> Channel:
    """The channel that a plan's document describes."""
    shape = document.get("shape") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(shape, str) or shape not in SHAPES:
        raise ChannelError(f"unknown channel shape; known: {', '.join(SHAPES)}")
    return SHAPES[shape].parse(document)


__all__ = [
    "SHAPES",
    "Channel",
    "CoCo",
    "Collision",
    "Document",
    "Halfspace",
    "Hash",
    "Product",
    "Proof",
    "Subset",
    "Symbols",
    "Symmetric",
    "Table",
    "parse_channel",
    "worst_of",
]
