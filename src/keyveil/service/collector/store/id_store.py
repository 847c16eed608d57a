"""The ids of open epochs in memory, as both databases keep them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from .open_ids import Epoch, EpochIds, LogIds, OpenIds
from .store_base import Store
from .store_interface import Session


class IdStore(Store):
    """A store that reads an epoch's ids from its log when it first needs them."""

    open_ids: OpenIds

    @abstractmethod
    def _read_ids(self, session: Session, at: Epoch) -> Iterator[LogIds]:
        """The ids in the log of an epoch."""

    def _read_apart(self, at: Epoch) -> Iterator[LogIds]:
        """The same in a transaction of its own, for another thread."""
        with self.reading() as session:
            yield from self._read_ids(session, at)

    def _epoch_ids(self, session: Session, at: Epoch) -> EpochIds:
        """The ids of an epoch, read from the log at first use."""
        ids = self.open_ids.get(at)
        if ids is None:
            ids = EpochIds.read(self._read_ids(session, at), self.open_ids.scratch)
            self.open_ids.keep(at, ids)
        return ids

    def _let_go(self, rounds: set[int] | None) -> None:
        super()._let_go(rounds)
        self.open_ids.forget(self._over(self.open_ids, rounds))
