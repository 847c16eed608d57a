"""The columns of a frame of people, as a schema remembers them."""

from __future__ import annotations

from dataclasses import dataclass, replace


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

    def changed(
        self, person: str | None, key: str | None, value: str | None, wide: bool | None
    ) -> FrameColumns:
        """The same with the names that are stated; None leaves a name as it is."""
        stated = {"person": person, "key": key, "value": value, "wide": wide}
        return replace(self, **{name: word for name, word in stated.items() if word is not None})  # type: ignore[arg-type]


UNSTATED = FrameColumns()
"""The columns that are looked for if none are stated or remembered."""
