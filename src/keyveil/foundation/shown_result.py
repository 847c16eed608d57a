"""Results that show themselves as a small table, and become frames; loads what that takes when asked."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from .frame_output import Columns, Kinds
    from .result_table import ResultTable

MOST_SHOWN = 20
"""Number of rows that a result shows of itself; ``table(most=None)`` shows all."""


class FrameResult:
    """A result that becomes a frame; it has ``columns``, what the frame holds."""

    frame_library: str | None = None
    """The kind of frame that its data came from, which ``to_frame`` returns, too."""
    column_kinds: ClassVar[Kinds] = {}
    """The types of columns that may have no known value, unless they are numbers."""

    @abstractmethod
    def columns(self) -> Columns:
        """The columns of the frame by name; None for what is unknown."""

    def to_frame(self, library: str | None = None) -> Any:
        """A frame: "pandas", "polars" or "arrow"; by default what the data came from, if it is known."""
        from .frame_output import frame_of

        name = self.frame_library if library is None else library
        return frame_of(self.columns(), name, self.column_kinds)

    def to_arrow(self) -> Any:
        """The same as a ``pyarrow.Table``."""
        return self.to_frame("arrow")


class ShownResult(FrameResult):
    """A result that shows itself as a table, too: ``table`` is what is shown of it."""

    @abstractmethod
    def table(self, most: int | None = MOST_SHOWN) -> ResultTable:
        """The result as a small table of at most that many rows; None for all."""

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def __str__(self) -> str:
        return str(self.table())

    def __repr__(self) -> str:
        return str(self)
