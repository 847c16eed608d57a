"""Tables of (person, key, value) as people: the one corner that knows Arrow.

``read`` is the way in. ``sources`` opens a path, frame or stream (``frames``, ``textfiles``);
``order`` cuts rows that ascend by person, ``spill`` brings all others together.
"""

from .read import people_of, read_people

__all__ = ["people_of", "read_people"]
