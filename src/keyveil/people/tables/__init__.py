"""Tables with one row for each person, key and value, read with Arrow as ``People``.

``table_reader`` is the entry. ``sources`` opens a file, frame or stream as Arrow batches, with the help
of ``frames``, ``text_tables`` and ``delimiters``. ``row_order`` cuts tables that are sorted by person;
``spill`` groups all others by person on disk. ``wide_tables`` reads tables with a column for each key,
``movielens_files`` the MovieLens ratings. ``top_keys`` selects the most common keys of a table, and
``table_writer`` writes a table.
"""

from typing import TYPE_CHECKING

from ...foundation.lazy_names import loaded_later

if TYPE_CHECKING:
    from .table_reader import key_counts, people_of, read_people
    from .wide_tables import wide_keys, wide_people

__getattr__ = loaded_later(
    __name__,
    {
        "key_counts": "table_reader",
        "people_of": "table_reader",
        "read_people": "table_reader",
        "wide_keys": "wide_tables",
        "wide_people": "wide_tables",
    },
)

__all__ = ["key_counts", "people_of", "read_people", "wide_keys", "wide_people"]
