"""The exact law of what a device sends, in a few shapes, one file each.

A shape brings its own proof of epsilon, sampler, estimator and compact integers; a new mechanism
of a known shape is one file in ``mechanisms`` and needs nothing here.
"""

from __future__ import annotations

from ..errors import ChannelError
from .halfspace import Halfspace
from .hash import Hash
from .law import Channel, Document, Proof
from .symbols import Symbols
from .symmetric import Symmetric
from .table import Table

SHAPES: dict[str, type[Channel]] = {
    shape.shape: shape for shape in (Table, Symmetric, Symbols, Hash, Halfspace)
}


def parse_channel(document: object) -> Channel:
    """The channel that a plan's document describes."""
    if not isinstance(document, dict) or document.get("shape") not in SHAPES:
        raise ChannelError(f"unknown channel shape; known: {', '.join(SHAPES)}")
    return SHAPES[document["shape"]].parse(document)


__all__ = [
    "SHAPES",
    "Channel",
    "Document",
    "Halfspace",
    "Hash",
    "Proof",
    "Symbols",
    "Symmetric",
    "Table",
    "parse_channel",
]
