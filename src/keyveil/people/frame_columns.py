"""The columns of a frame of people, as a schema remembers them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import EllipsisType

Stated = str | None | EllipsisType
"""The name of a column; None for no column, and ``...`` to leave it as it is."""


@dataclass(frozen=True)
class FrameColumns:
    """Which columns of a frame name the person, the key and the value, and the kind of frame.

    A wide frame has a row for each person and a column for each key; its people may be unnamed.
    """

    person: str | None = "person"
    key: str = "key"
    value: str | None = "value"
    """None if values do not matter."""
    wide: bool = False
    library: str | None = None
    """"pandas", "polars" or "arrow"; None for a file."""
    top: bool = False
    """Whether only the keys with the most holders were taken, so that others are expected."""

    def changed(self, person: Stated, key: str | None, value: Stated, wide: bool | None) -> FrameColumns:
        """The same with the names that are stated."""
        return replace(
            self,
            person=self.person if person is ... else person,
            key=self.key if key is None else key,
            value=self.value if value is ... else value,
            wide=self.wide if wide is None else wide,
        )


UNSTATED = FrameColumns()
"""The columns that are looked for if none are stated or remembered."""
