"""Keys of ids, kept by a test beyond their end: so it can tell what a log holds, or held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from keyveil.service.collector.store.epoch_keys import Images, KeyFolder
from keyveil.service.collector.store.store_interface import Session


def remember_keys() -> tuple[list[bytes], Callable[[], None]]:
    """A list that every new key is added to; and what undoes it."""
    real, keys = KeyFolder.make, []

    def make(self: KeyFolder) -> tuple[str, bytes]:
        name, key = real(self)
        keys.append(key)
        return name, key

    def undo() -> None:
        KeyFolder.make = real  # type: ignore[method-assign]

    KeyFolder.make = make  # type: ignore[method-assign]
    return keys, undo


@contextmanager
def lasting_keys() -> Iterator[None]:
    """No key is destroyed meanwhile: the moments before that are looked at later."""
    real = KeyFolder.destroy
    KeyFolder.destroy = lambda self, name: True  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        KeyFolder.destroy = real  # type: ignore[method-assign]


def is_stored(name: bytes, stored: set[bytes], keys: Iterable[bytes]) -> bool:
    """Whether an id is among what is stored, under any of some keys."""
    return any(Images(key).of([name])[0] in stored for key in keys)


def read_ids(session: Session, keys: KeyFolder, round_id: int, epoch: int, packed: bytes) -> bytes:
    """The ids of a segment, by the key that the store names."""
    sql = "select name from id_keys where round = ? and epoch = ?"
    key = keys.read(session.rows(sql, (round_id, epoch))[0][0])
    assert key is not None
    return Cipher(algorithms.AES(key), modes.ECB()).decryptor().update(packed)
