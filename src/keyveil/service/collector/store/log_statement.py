"""The statement that writes a group of reports to PostgreSQL: log, ids and head in one round trip."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .packed_ids import SIZE, PackedIds

UUID, UUIDS = 2950, 2951
"""Numbers of PostgreSQL's types: an id, and an array of ids."""
_ELEMENT = np.dtype([("size", ">i4"), ("id", f"V{SIZE}")])


class IdArray:
    """Ids as PostgreSQL's binary array of ``uuid``, sorted.

    All processes write ids in this order, so that no two of them wait for each other.
    """

    def __init__(self, ids: Sequence[bytes]) -> None:
        packed = PackedIds.of(ids).packed
        first, second = np.frombuffer(packed, ">u8").reshape(-1, 2).astype(np.uint64).T
        elements = np.empty(len(ids), _ELEMENT)
        elements["size"] = SIZE
        elements["id"] = np.frombuffer(packed, f"V{SIZE}")[np.lexsort((second, first))]
        head = np.array([1, 0, UUID, len(ids), 1], ">i4")  # one dimension, no nulls, from 1
        self.content = head.tobytes() + elements.tobytes()


CLAIM = "insert into ids (round, epoch, id) select ?, ?, given from unnest(?::uuid[]) as given"
"""Parameters: round, epoch, ids."""

_LOG = (
    "with head as (insert into heads (round, shard, reports, version) values (?, ?, ?, 1) "
    "on conflict (round, shard) do update set "
    "reports = heads.reports + excluded.reports, version = heads.version + 1 returning version), "
    "logged as (insert into segments (round, epoch, reports, crc, ids, payload) "
    "values (?, ?, ?, ?, ?, ?)){claimed} "
    "select head.version, old.chunk, old.counts from head left join "
    "(select chunk, counts from counts where round = ? and epoch = ? and shard = ? "
    "and chunk = any(?::bigint[])) as old on true"
)
LOG = _LOG.format(claimed="")
"""Log a group and add to its head. Each row has the head's version, and a chunk of the shard if any.

Parameters: round, shard, reports; round, epoch, reports, crc, ids, payload; round, epoch, shard, chunks.
"""
LOG_AND_CLAIM = _LOG.format(claimed=f", claimed as ({CLAIM})")
"""The same with the ids. Parameters: those of the claim stand before the last four."""
