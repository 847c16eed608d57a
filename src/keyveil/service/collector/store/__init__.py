"""Stores: a SQLite file, or a PostgreSQL database that several collector processes share."""

from __future__ import annotations

from .control import Book
from .store_base import Sealed, Store
from .store_interface import Parcel, Session, StoreBroken, StoreError, StoreUnready


def store_at(address: str) -> Store:
    """The store at a path or a ``postgresql://`` address. It is not open yet."""
    scheme, mark, _ = address.partition("://")
    if mark and scheme not in ("sqlite", "postgresql", "postgres"):
        raise StoreError(f"a store is a SQLite file or postgresql://..., not {scheme}://...")
    if address.startswith(("postgresql://", "postgres://")):
        from .postgres import PostgresStore

        return PostgresStore(address)
    from .sqlite import SqliteStore

    return SqliteStore(address.removeprefix("sqlite://"))


__all__ = [
    "Book",
    "Parcel",
    "Sealed",
    "Session",
    "Store",
    "StoreBroken",
    "StoreError",
    "StoreUnready",
    "store_at",
]
