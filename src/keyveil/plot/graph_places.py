"""Places of the keys of a forest in a picture: each tree in rings around its centre."""

from __future__ import annotations

from math import cos, pi, sin


def graph_places(keys: int, edges: list[tuple[int, int]]) -> list[tuple[float, float]]:
    """A place for every key: each tree around its centre, trees and lone keys side by side."""
    near: dict[int, list[int]] = {key: [] for key in range(keys)}
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    where: dict[int, tuple[float, float]] = {}
    offset = 0.0
    lone = [key for key in range(keys) if not near[key]]
    for root in sorted(range(keys), key=lambda key: -len(near[key])):
        if root in where or root in lone:
            continue
        own: dict[int, tuple[float, float]] = {}
        _around(near, _centre(near, root), -1, 0.0, 2 * pi, 0, own)
        left = min(x for x, _ in own.values())
        width = max(x for x, _ in own.values()) - left
        where |= {key: (x - left + offset, y) for key, (x, y) in own.items()}
        offset += width + 1.0
    low = min((y for _, y in where.values()), default=0.0) - 1.0
    columns = max(int(offset), 4)
    for number, key in enumerate(lone):
        step = max(offset - 1.0, 1.0) / max(columns - 1, 1)
        where[key] = (step * (number % columns), low - 0.7 * (number // columns))
    return [where[key] for key in range(keys)]


def _centre(near: dict[int, list[int]], start: int) -> int:
    """The key of the tree from which the farthest other key is nearest."""

    def farthest(key: int) -> int:
        seen, layer, steps = {key}, [key], 0
        while layer := [n for k in layer for n in near[k] if n not in seen]:
            seen |= set(layer)
            steps += 1
        return steps

    members, layer = {start}, [start]
    while layer := [n for k in layer for n in near[k] if n not in members]:
        members |= set(layer)
    return min(sorted(members), key=farthest)


def _around(
    near: dict[int, list[int]],
    key: int,
    parent: int,
    first: float,
    last: float,
    ring: int,
    where: dict[int, tuple[float, float]],
) -> None:
    """Places a subtree in a sector of rings around the centre, by its number of leaves."""
    angle = (first + last) / 2
    where[key] = (ring * cos(angle), ring * sin(angle))
    children = [other for other in near[key] if other != parent]
    weights = [_ends(near, child, key) for child in children]
    at = first
    for child, weight in zip(children, weights, strict=True):
        upto = at + (last - first) * weight / sum(weights)
        _around(near, child, key, at, upto, ring + 1, where)
        at = upto


def _ends(near: dict[int, list[int]], key: int, parent: int) -> int:
    children = [other for other in near[key] if other != parent]
    return sum(_ends(near, child, key) for child in children) if children else 1
