"""The exact law of what a device sends, in a few shapes, one file each.

A shape brings its own proof of epsilon, sampler, estimator and compact integers; a new mechanism
of a known shape is one file in ``mechanisms`` and needs nothing here.
"""

from __future__ import annotations

from ..errors import ChannelError
from .collision import Collision
from .halfspace import Halfspace
from .hash import Hash
from .law import Channel, Document, Proof
from .product import Product
from .subset import Subset
from .symbols import Symbols
from .symmetric import Symmetric
from .table import Table

SHAPES: dict[str, type[Channel]] = {
    shape.shape: shape
    for shape in (Table, Symmetric, Symbols, Subset, Product, Hash, Halfspace, Collision)
}


def parse_channel(document: object) -> Channel:
    """The channel that a plan's document describes."""
    shape = document.get("shape") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(shape, str) or shape not in SHAPES:
        raise ChannelError(f"unknown channel shape; known: {', '.join(SHAPES)}")
    return SHAPES[shape].parse(document)


__all__ = [
    "SHAPES",
    "Channel",
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
]
