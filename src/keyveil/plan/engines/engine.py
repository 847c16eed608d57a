"""The engine: one small interface, map over segments and add, behind which any cluster fits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

Progress = Callable[[int, int | None], object]
"""Called with the number of segments done, and the number of all segments."""


class Addable(Protocol):
    """A result of work on a segment. Results add up, in any order."""

    def __add__(self, other: Any) -> Any: ...


R = TypeVar("R", bound=Addable)
S = TypeVar("S")


class Engine(ABC):
    """Runs a function over segments and adds up what it returns.

    The function and the segments are pickled to workers, so both are small: a segment names the part of
    a file, it does not hold its rows. A segment may be worked on twice (after a worker was lost), so the
    function must return the same result each time.
    """

    on_one_machine = True
    """Whether all workers read and write the files of this machine, its temporary ones, too."""

    @property
    def workers(self) -> int:
        """Number of segments that are worked on at a time."""
        return 1

    @abstractmethod
    def each(
        self, work: Callable[[S], Any], segments: Sequence[S], progress: Progress | None = None
    ) -> Iterator[Any]:
        """``work(segment)`` of each segment, in the order of segments."""

    def sum(
        self, work: Callable[[S], R], segments: Sequence[S], progress: Progress | None = None
    ) -> R | None:
        """The sum of ``work(segment)`` over all segments; None if there are none.

        Results are added up here, one after the other. A cluster may add them up on its workers.
        """
        total: R | None = None
        for result in self.each(work, segments, progress):
            total = result if total is None else total + result
        return total
