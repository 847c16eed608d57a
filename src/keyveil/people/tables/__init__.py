"""Tables of (person, key, value) as people: the one corner that knows Arrow.

``read`` is the way in. ``sources`` opens a path, frame or stream (``frames``, ``textfiles``);
``order`` cuts rows that ascend by person, ``spill`` brings all others together.
"""

from .table_reader import key_counts, people_of, read_people

__all__ = ["key_counts", "people_of", "read_people"]
