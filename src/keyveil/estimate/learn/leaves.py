"""The classes of the people on a path of a tree: shrunk towards those of the question before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...foundation.arrays import Floats
from ..answer import Estimate, ratio
from ..assisted import Mixture, RatioEstimates, assisted_interval
from .bonds import shrinkage, squared_size
from .classifier import Classes
from .released import Released, within

Path = dict[int, Floats]
"""For each key on the path, 1 for every digit that people at the node may have."""


def class_estimates(
    released: Released, classes: Classes, path: Path, law: Floats, before: Floats | None
) -> tuple[Estimate, ...]:
    """The share of each class among the people on a path, with intervals.

    ``law`` holds their shares of classes at the proper law, and ``before`` those at the node above. The
    difference of the two is shrunk by as much as noise alone would show (James and Stein). Intervals
    are those of the unbiased shares and cover whatever the node above is; if no view holds the keys,
    they are the identified ranges.
    """
    keys = (*(key for key in path if key != classes.place), classes.place)
    inside = np.ones((released.states,) * len(keys))
    for axis, key in enumerate(keys[:-1]):
        inside = inside * along(path[key], axis, len(keys))
    parts = [inside * along(digits, len(keys) - 1, len(keys)) for digits in classes.digits.T]
    moments = released.moments(keys, np.stack([*parts, inside], axis=-1))
    shares = law if before is None else _shrunk(law, before, moments.values, moments.covariance)
    known = released.view_law(keys) is not None
    estimates = []
    for number, part in enumerate(parts):
        places = np.array([number, len(parts)])
        spread = moments.covariance[np.ix_(places, places)]
        if known:
            above, below = (float(value) for value in moments.values[places])
            raw = ratio(above, below, spread, moments.reports, released.level)
            low, high = _interval(moments.values[places], spread, released.level)
            raw = replace(raw, low=low, high=high)
        else:
            raw = released.identified(keys, part, inside)
        estimates.append(within(raw, 0.0, 1.0, float(shares[number])))
    return tuple(estimates)


def _shrunk(law: Floats, before: Floats, values: Floats, covariance: Floats) -> Floats:
    """The law moved towards that of the node above by the share of noise in their difference."""
    slopes = np.hstack([np.eye(len(law)), -before[:, None]])
    people = max(float(values[-1]), 1e-9)
    size = squared_size(law - before, slopes @ covariance @ slopes.T / people**2)
    return np.asarray(before + shrinkage(*size) * (law - before))


def _interval(values: Floats, spread: Floats, level: float) -> tuple[float, float]:
    """Both ends for a share within a share, at a prior that is wide everywhere."""
    estimates = RatioEstimates(
        *(np.array([x]) for x in (*values, spread[0, 0], spread[0, 1], spread[1, 1]))
    )
    wide = Mixture(np.full(1, 0.5), np.full((1, 1), 0.5), np.ones(1))
    low, high = assisted_interval(estimates, wide, (0.0, 1.0), level)
    return float(low[0]), float(high[0])


def along(values: Floats, axis: int, axes: int) -> Floats:
    """A vector as an array that varies along one axis."""
    shape = [1] * axes
    shape[axis] = len(values)
    return values.reshape(shape)
