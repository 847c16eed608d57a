"""Places of the keys of a forest in a picture: a row for each key, and a column for each step down."""

from __future__ import annotations

from typing import NamedTuple


class Placed(NamedTuple):
    """A key at its row and column, and its parent; -1 for the top of a tree."""

    key: int
    parent: int
    row: int
    column: int


def forest_places(keys: int, edges: list[tuple[int, int]]) -> list[Placed]:
    """All keys with an edge, each below its parent; a tree begins at its key with the most edges."""
    near: dict[int, list[int]] = {key: [] for key in range(keys)}
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    placed: list[Placed] = []
    seen: set[int] = set()
    for top in sorted(range(keys), key=lambda key: -len(near[key])):
        if top in seen or not near[top]:
            continue
        waiting = [(top, -1, 0)]
        while waiting:
            key, parent, column = waiting.pop()
            seen.add(key)
            placed.append(Placed(key, parent, len(placed), column))
            below = [other for other in near[key] if other != parent]
            # Small subtrees come first, so that lines are short.
            below.sort(key=lambda other: -_size(near, other, key))
            waiting += [(other, key, column + 1) for other in below]
    return placed


def _size(near: dict[int, list[int]], key: int, parent: int) -> int:
    """Number of keys in a subtree."""
    count, waiting = 0, [(key, parent)]
    while waiting:
        at, above = waiting.pop()
        count += 1
        waiting += [(other, at) for other in near[at] if other != above]
    return count
