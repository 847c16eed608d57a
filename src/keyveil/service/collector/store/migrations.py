"""The tables, step by step: each migration runs once, in a step of its own, under a lock.

``{blob}``, ``{big}`` and ``{serial}`` are the types' names in either kind of database.
"""

from __future__ import annotations

ORDER_LOG = """insert into log_order (round, epoch, number, mark, segment)
    select round, epoch, row_number() over (partition by round, epoch order by id),
    ('x' || left(md5(gen_random_uuid()::text), 16))::bit(64)::bigint, id from segments
    where not exists (select 1 from sealed
    where sealed.round = segments.round and sealed.epoch = segments.epoch)"""
"""Give the rows of a log that has no order yet their numbers, in PostgreSQL."""

MIGRATIONS: list[list[str]] = [
    [
        """create table collections (
            id {serial}, name text not null unique, state text not null, terms text not null,
            closed_before {big} not null, made {big} not null)""",
        """create table rounds (
            id {serial}, collection {big} not null, number {big} not null, plan text not null,
            closed {big} not null, document text not null, unique (collection, number))""",
        """create table tokens (
            id text primary key, role text not null, collection {big}, digest {blob} not null,
            label text not null, revoked {big} not null)""",
        # the log: immutable until its epoch is sealed
        """create table segments (
            id {serial}, round {big} not null, epoch {big} not null, reports {big} not null,
            crc {big} not null, ids {blob} not null, payload {blob} not null)""",
        "create index segments_of on segments (round, epoch, reports)",
        # the counts of open epochs, a shard for each process; epoch -1: sealed, -2: brought in
        """create table counts (
            round {big} not null, epoch {big} not null, shard {big} not null, chunk {big} not null,
            version {big} not null, counts {blob} not null,
            primary key (round, epoch, shard, chunk)){tail}""",
        """create table heads (
            round {big} not null, shard {big} not null, reports {big} not null,
            version {big} not null, primary key (round, shard)){tail}""",
        """create table sealed (
            round {big} not null, epoch {big} not null, reports {big} not null,
            sealed {big} not null, expired {big} not null, manifest text not null,
            tally {blob} not null, primary key (round, epoch))""",
        """create table imports (
            round {big} not null, digest text not null, reports {big} not null,
            tally {blob} not null, primary key (round, digest))""",
        """create table refusals (
            collection {big} not null, shard {big} not null, reason text not null,
            number {big} not null, primary key (collection, shard, reason))""",
    ],
    [
        # the key of an epoch's ids, by its name; an epoch of before this step has none, and plain ids
        """create table id_keys (
            round {big} not null, epoch {big} not null, name text not null,
            primary key (round, epoch))""",
    ],
    [
        # counters of collections that were deleted before they were written
        "delete from refusals where collection not in (select id from collections)",
    ],
    [],
]
"""In order; the number of those that ran is the store's version."""

SQLITE = {"blob": "blob", "big": "integer", "serial": "integer primary key autoincrement", "tail": ""}
POSTGRES = {
    "blob": "bytea",
    "big": "bigint",
    "serial": "bigserial primary key",
    "tail": " with (fillfactor = 50)",
}
POSTGRES_ONLY: dict[int, list[str]] = {
    0: [
        """create table ids (
            round bigint not null, epoch bigint not null, id uuid not null,
            primary key (round, epoch, id))""",
        "create table control (one bigint primary key, generation bigint not null)",
        "insert into control values (1, 0)",
    ],
    2: [
        # which process has which shard, until when
        """create table shards (
            shard bigint primary key, owner text not null, seen double precision not null)""",
        # what each change was about; 0 for tokens
        "create table changes (generation bigint primary key, collection bigint not null)",
        # rounds of deleted collections whose rows are still to be deleted
        "create table dropped (round bigint primary key)",
        # how many reports of a capped round a shard may count; below its reports: no more
        "alter table heads add column reserved bigint not null default 0",
    ],
    3: [
        # the order in which the rows of an open epoch's log were committed, without gaps from 1
        """create table log_order (
            round bigint not null, epoch bigint not null, number bigint not null,
            mark bigint not null, segment bigint not null, primary key (round, epoch, number))""",
        ORDER_LOG,
        # the log has all ids
        "drop table ids",
    ],
}
"""What only PostgreSQL needs: an order of the log, caps that processes share, a list of changes."""
