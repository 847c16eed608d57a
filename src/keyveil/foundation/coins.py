"""Randomness as addressable 32-bit words; the only source of it in the package.

``words(person, i)`` is word ``i mod 4`` of ``AES_key(digest(person) || i div 4)``, so each person
has a stream of their own and nothing depends on order, chunks, processes or retries. A plan draws
from ``coins.under(plan.hash)``, so that one person's answers to two plans share no words.

- ``Coins.secure()`` takes its key from the operating system and takes a new one after a fork, when
  pickled to a worker and when copied: two processes never draw the same coins. Reports take a new
  key in every call, so that two people who were given the same number never share a word.
- ``Coins.for_job()`` takes its key from the operating system, too, and keeps it in every worker of one
  job: a task that runs twice draws the same reports. They repeat, so clients refuse them.
- ``Coins.stated(key)`` repeats a run, for tests and experiments; clients refuse it.
- ``Coins.recorded(words)`` plays back the words of a test vector; clients refuse it.

Under one key every stream has addresses of its own, told apart by the third word of the block: it is 0
for a person named by an integer, has its top bit set for one named by text, and is ``_GENERATOR`` for
the seed of a simulation. Whatever else must be random (ids, names, secrets) is no stream of these
coins at all: ``fresh_bytes`` asks the operating system.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import blake2b, sha256
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from .arrays import Bits, Words
from .errors import CoinsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

WORDS_PER_BLOCK = 4
_GENERATOR = 0x20000000
"""The third word of a block that seeds a simulation; no person's address has it."""

_generation = 0
"""Counts the forks that led to this process; coins made before one take a new key."""


def _after_fork() -> None:
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_after_fork)

Person = int | str
"""How a caller names a person to the coins; never sent anywhere."""


def address(persons: Iterable[Person] | np.ndarray) -> Words:
    """Each person's digest as an AES block with its counter at zero: an (n, 4) array of words.

    A 64-bit integer is its own digest; a string is the first 96 bits of its BLAKE2b hash with the
    top bit set, so that the two never meet.
    """
    if isinstance(persons, np.ndarray) and persons.dtype.kind in "iu":
        blocks = np.zeros((len(persons), WORDS_PER_BLOCK), np.uint32)
        if persons.dtype == np.uint64 and len(persons) and int(persons.max()) >> 63:
            raise CoinsError("a person's number must fit in 64 bits with its sign")
        blocks[:, :2] = persons.astype("<i8", copy=False).reshape(-1, 1).view("<u4")
        return blocks
    digests = np.frombuffer(b"".join(map(_digest, persons)), "<u4").reshape(-1, 3)
    blocks = np.zeros((len(digests), WORDS_PER_BLOCK), np.uint32)
    blocks[:, :3] = digests
    return blocks


def _digest(person: Person) -> bytes:
    """Twelve bytes; the top bit of the last says whether they are a string's."""
    if isinstance(person, str):
        digest = blake2b(person.encode("utf-8", "surrogatepass"), digest_size=12).digest()
        return digest[:11] + bytes([digest[11] | 0x80])
    if isinstance(person, bool) or not isinstance(person, int | np.integer):
        raise CoinsError("a person is named by an integer or a string")
    number = int(person)
    if not -(1 << 63) <= number < 1 << 63:
        raise CoinsError("a person's number must fit in 64 bits with its sign")
    return number.to_bytes(8, "little", signed=True) + bytes(4)


@cache
def _aes() -> Callable[[bytes], CipherContext]:
    """An encryptor of single AES blocks by its key. It is loaded when the first word is drawn."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    mode = modes.ECB()
    return lambda key: Cipher(algorithms.AES(key), mode).encryptor()


class Coins:
    """A key, and with it every person's stream of words; ``secure`` and ``stated`` make them."""

    secure_source = False
    """Whether the key came from the operating system; devices accept nothing else."""
    renewed = False
    """Whether every call that draws reports takes a new key."""
    has_spare_words = True
    """Whether a word that no one needs may be asked for; recorded words end with the last one."""

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise CoinsError("the key of coins has 32 bytes; use Coins.secure() or Coins.stated()")
        self._key = key

    def __repr__(self) -> str:
        return "Coins(secure)" if self.secure_source else "Coins(fixed key)"

    @staticmethod
    def secure() -> Coins:
        """Coins keyed by the operating system, for everything that protects a person."""
        return _Secure()

    @staticmethod
    def for_job() -> Coins:
        """Coins of one job over named people: one secure key for all of its workers and retries.

        Whoever has the key can undo the perturbation, so it goes to the workers of the job and nowhere
        else. Each job needs new ones, and in a job each person has one record.
        """
        return Coins(os.urandom(32))

    @staticmethod
    def stated(key: str | int | bytes) -> Coins:
        """Coins that repeat, for tests and experiments only; a client refuses them."""
        if isinstance(key, int | Integral):
            key = str(int(key))
        if isinstance(key, str):
            key = key.encode()
        return Coins(sha256(b"keyveil stated coins\0" + key).digest())

    @staticmethod
    def recorded(words: Iterable[int]) -> Coins:
        """Coins that give back ``words`` in order, for one person; for test vectors only."""
        return _Recorded(words)

    def under(self, context: str) -> Coins:
        """Coins of their own for one purpose, which share no words with any other's."""
        return _Under(self, context)

    def for_reports(self, plan_hash: str) -> Coins:
        """The coins from which one call draws its reports to a plan.

        Secure coins give new ones for every call, so they never serve one address twice. All others
        are derived from their key and the plan, and repeat.
        """
        return _Secure() if self.renewed else self.under(plan_hash)

    def later(self, blocks: int) -> Coins:
        """The same coins, with every stream from ``blocks`` blocks further on."""
        return _Later(self, blocks)

    def _current_key(self) -> bytes:
        return self._key

    def stream_key(self) -> tuple[bytes, int] | None:
        """The AES key of all streams and the number of their first block, for compiled loops.

        None if the words are no AES. Whoever has the key can undo the perturbation.
        """
        return self._current_key(), 0

    def _cipher(self) -> CipherContext:
        return _aes()(self._current_key())

    def words(self, person: Person, first: int, count: int) -> Words:
        """``count`` words of one person's stream, from word ``first`` on."""
        start = first // WORDS_PER_BLOCK
        stop = -(-(first + count) // WORDS_PER_BLOCK)
        digest = _digest(person)
        plain = b"".join([digest + number.to_bytes(4, "little") for number in range(start, stop)])
        offset = first - start * WORDS_PER_BLOCK
        return np.frombuffer(self._cipher().update(plain), "<u4")[offset : offset + count]

    def blocks(self, addresses: Words, start: int, count: int) -> Words:
        """Words ``4 * start .. 4 * (start + count)`` of many people's streams, one row each."""
        people = len(addresses)
        if start == 0 and count == 1:
            plain = np.ascontiguousarray(addresses, np.uint32)
        else:
            wide = np.empty((people, count, WORDS_PER_BLOCK), np.uint32)
            wide[:] = addresses[:, None, :]
            wide[:, :, 3] = np.arange(start, start + count, dtype=np.uint32)
            plain = wide
        coded = self._cipher().update(plain.astype("<u4", copy=False).tobytes())
        return np.frombuffer(coded, "<u4").reshape(people, count * WORDS_PER_BLOCK)

    def fill(self, addresses: Words, count: int, plain: Words, room: Bits) -> Words:
        """``blocks(addresses, 0, count)`` without new memory, for loops over many people.

        ``plain`` is a ``(people, count, 4)`` array to work in, not needed for one block; the words
        are written into ``room``, sixteen bytes a block and fifteen to spare.
        """
        if count == 1:
            return self._encrypted(np.ascontiguousarray(addresses, "<u4"), room)
        plain = plain[: len(addresses)]
        whole = np.dtype((np.void, 4 * WORDS_PER_BLOCK))  # blocks are copied faster than words
        copies, own = plain.view(whole)[:, :, 0], np.ascontiguousarray(addresses).view(whole)
        if count < WORDS_PER_BLOCK:
            for number in range(count):
                copies[:, number] = own[:, 0]
                plain[:, number, 3] = number
        else:
            copies[:] = own
            plain[:, :, 3] = np.arange(count, dtype=np.uint32)
        return self._encrypted(plain, room).reshape(len(plain), count * WORDS_PER_BLOCK)

    def fill_at(self, addresses: Words | None, numbers: Words, plain: Words, room: Bits) -> Words:
        """Chosen blocks of people's streams without new memory, ``(..., 4)``, as large as ``plain``.

        Block ``numbers`` of the stream at ``addresses``; both are broadcast. ``plain`` is an array to
        work in, contiguous; the words are written into ``room`` as in ``fill``. Without ``addresses``
        they are those that ``plain`` has from before.
        """
        if addresses is not None:
            plain[:] = addresses
        plain[..., 3] = numbers
        return self._encrypted(plain, room).reshape(plain.shape)

    def _encrypted(self, plain: Words, room: Bits) -> Words:
        raw = plain.astype("<u4", copy=False).reshape(-1).view(np.uint8)
        size = self._cipher().update_into(raw.data, room.data)
        return room[:size].view("<u4").reshape(-1, WORDS_PER_BLOCK)

    def generator(self, stream: int = 0) -> np.random.Generator:
        """A NumPy generator seeded by these coins, for simulation and never for perturbing."""
        block = np.array([[stream & 0xFFFFFFFF, stream >> 32, _GENERATOR, 0]], np.uint32)
        seed = self.blocks(block, 0, 2)[0]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed.tolist())))


class _Secure(Coins):
    secure_source = True
    renewed = True

    def __init__(self) -> None:
        super().__init__(os.urandom(32))
        self._born = _generation

    def _current_key(self) -> bytes:
        if self._born != _generation:
            self._key = os.urandom(32)  # before the mark: a racing thread never sees the old key
            self._born = _generation
        return self._key

    def __reduce__(self) -> tuple[object, ...]:
        return (_Secure, ())


class _Under(Coins):
    """Coins whose key is the hash of another's key and a context; re-keyed whenever that is."""

    def __init__(self, parent: Coins, context: str) -> None:
        self._parent, self._context = parent, context
        self.secure_source, self.renewed = parent.secure_source, parent.renewed

    def _current_key(self) -> bytes:
        return sha256(self._parent._current_key() + self._context.encode()).digest()

    def __reduce__(self) -> tuple[object, ...]:
        return (_Under, (self._parent, self._context))


class _Later(Coins):
    """Coins whose streams begin some blocks later in those of another's."""

    def __init__(self, parent: Coins, blocks: int) -> None:
        self._parent, self._skipped = parent, blocks
        self.secure_source = parent.secure_source
        self.renewed = parent.renewed

    def _current_key(self) -> bytes:
        return self._parent._current_key()

    def stream_key(self) -> tuple[bytes, int] | None:
        source = self._parent.stream_key()
        return None if source is None else (source[0], source[1] + self._skipped)

    def blocks(self, addresses: Words, start: int, count: int) -> Words:
        return self._parent.blocks(addresses, start + self._skipped, count)

    def words(self, person: Person, first: int, count: int) -> Words:
        return self._parent.words(person, first + self._skipped * WORDS_PER_BLOCK, count)

    def fill(self, addresses: Words, count: int, plain: Words, room: Bits) -> Words:
        words = self.blocks(addresses, 0, count)
        filled = room[: words.nbytes].view("<u4").reshape(words.shape)
        filled[:] = words
        return filled

    def fill_at(self, addresses: Words | None, numbers: Words, plain: Words, room: Bits) -> Words:
        later = numbers + np.uint32(self._skipped)
        return self._parent.fill_at(addresses, later, plain, room)

    def __reduce__(self) -> tuple[object, ...]:
        return (_Later, (self._parent, self._skipped))


class _Recorded(Coins):
    has_spare_words = False

    def __init__(self, words: Iterable[int]) -> None:
        listed = list(words)
        if any(isinstance(w, bool) or not 0 <= w < 1 << 32 for w in listed):
            raise CoinsError("recorded words are integers from 0 to 2^32 - 1")
        self._words = np.array(listed, np.uint32)

    def under(self, context: str) -> Coins:
        return self  # the words were recorded for this very report

    def stream_key(self) -> tuple[bytes, int] | None:
        return None

    def blocks(self, addresses: Words, start: int, count: int) -> Words:
        raise CoinsError("recorded words speak for one report; state a key for many people")

    def fill(self, addresses: Words, count: int, plain: Words, room: Bits) -> Words:
        return self.blocks(addresses, 0, count)

    def fill_at(self, addresses: Words | None, numbers: Words, plain: Words, room: Bits) -> Words:
        return self.blocks(plain, 0, 1)

    def words(self, person: Person, first: int, count: int) -> Words:
        if first + count > len(self._words):
            raise CoinsError(
                f"{len(self._words)} words are recorded, but word {first + count - 1} was asked for"
            )
        return self._words[first : first + count]


def given_coins(coins: Coins | None) -> Coins:
    """The coins that are given, or secure ones."""
    if coins is not None and not isinstance(coins, Coins):
        raise CoinsError("coins are made by Coins.secure(), or by Coins.stated(42) to repeat a trial")
    return coins or Coins.secure()


def fresh_bytes(count: int) -> bytes:
    """Bytes for ids, names and secrets, from the operating system; no stream of coins holds them."""
    return os.urandom(count)
