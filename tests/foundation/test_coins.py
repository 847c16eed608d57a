"""Coins: addressable, re-keyed after fork and in workers, and the only randomness there is."""

from __future__ import annotations

import ast
import copy
import multiprocessing
import os
import pickle
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest

import keyveil
from keyveil import Coins, CoinsError
from keyveil.foundation.coins import address
from keyveil.foundation.stream import Stream
from keyveil.service.client.device import DeviceCoins


def test_words_do_not_depend_on_how_they_are_asked_for():
    coins = Coins.stated("a")
    whole = coins.words(7, 0, 40)
    assert np.array_equal(whole[5:23], coins.words(7, 5, 18))
    many = coins.blocks(address(np.array([3, 7, 9])), 0, 10)
    assert np.array_equal(many[1], whole)
    stream = Stream(coins, address([3, 7, 9]))
    stream.prefetch(4)
    assert np.array_equal(stream.skip(2).words(1, 30, np.array([1]))[0], whole[3:33])


def test_people_named_by_numbers_and_by_strings_never_share_a_stream():
    names = address([5, "5", -5, "", "five"])
    assert len({tuple(row) for row in names.tolist()}) == 5
    assert np.array_equal(address(np.array([5, -5])), names[[0, 2]])


def test_the_stream_is_aes_of_the_address_and_counter():
    """Pinned: another client or engine must be able to repeat it."""
    coins = Coins.stated("pinned")
    from hashlib import sha256

    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = sha256(b"keyveil stated coins\0pinned").digest()
    block = (9).to_bytes(8, "little") + bytes(4) + (2).to_bytes(4, "little")
    raw = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)
    assert coins.words(9, 8, 4).tolist() == np.frombuffer(raw, "<u4").tolist()
    assert coins.blocks(address([9]), 2, 1).ravel().tolist() == np.frombuffer(raw, "<u4").tolist()


def _draw(coins, queue):
    queue.put(coins.words(0, 0, 8).tolist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_secure_coins_take_a_new_key_in_every_process(method):
    context = multiprocessing.get_context(method)
    coins, queue = Coins.secure(), context.Queue()
    workers = [context.Process(target=_draw, args=(coins, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    drawn = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    drawn.append(coins.words(0, 0, 8).tolist())
    assert len({tuple(d) for d in drawn}) == 3


def test_a_bare_fork_never_draws_the_same_coins():
    coins = Coins.secure()
    before = coins.words(0, 0, 4).tolist()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, coins.words(0, 0, 4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert np.frombuffer(os.read(read, 16), "<u4").tolist() != before
    assert coins.words(0, 0, 4).tolist() == before, "the parent keeps its own key"


def test_copies_of_secure_coins_are_new_coins():
    coins = Coins.secure()
    for other in (pickle.loads(pickle.dumps(coins)), copy.copy(coins), copy.deepcopy(coins)):
        assert other.secure_source
        assert other.words(0, 0, 8).tolist() != coins.words(0, 0, 8).tolist()


def test_stated_coins_survive_pickling():
    coins = pickle.loads(pickle.dumps(Coins.stated(4)))
    assert coins.words(0, 0, 8).tolist() == Coins.stated(4).words(0, 0, 8).tolist()


def test_only_the_operating_system_makes_coins_secure():
    """A context does not: coins that repeat, or were recorded, stay what they are under any name."""
    repeated = [Coins.stated("a"), Coins(bytes(32)), Coins.recorded([1])]
    for coins in repeated:
        for other in (coins, coins.under("x"), coins.under("x").under("y"), coins.for_reports("x")):
            assert not other.secure_source
    secure = Coins.secure()
    for other in (secure, secure.under("x"), secure.under("x").under("y"), secure.for_reports("x")):
        assert other.secure_source
    device = DeviceCoins(bytes(32))
    drawn = device.for_reports("x").words("d", 0, 8)
    assert drawn.tolist() == device.under("x").words("d", 0, 8).tolist()


def test_recorded_words_run_out_with_a_clear_error():
    coins = Coins.recorded([1, 2, 3])
    assert coins.words("anyone", 1, 2).tolist() == [2, 3]
    with pytest.raises(CoinsError, match="3 words are recorded"):
        coins.words(0, 2, 2)
    with pytest.raises(CoinsError, match="from 0 to"):
        Coins.recorded([1 << 32])


def test_no_other_source_of_randomness_in_the_package():
    """Only coins.py may name the operating system's randomness or NumPy's generators.

    ``peer_clients.py`` runs in an environment that has other packages and no keyveil, and
    imports nothing of it.
    """
    root = Path(keyveil.__file__).parent
    banned = {"random", "secrets", "uuid"}
    for path in root.rglob("*.py"):
        if path.name == "peer_clients.py":
            assert "from ." not in path.read_text()
            assert "import keyveil" not in path.read_text()
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names: set[str] = set()
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = {(node.module or "").split(".")[0]}
            assert not names & banned, path
            if isinstance(node, ast.Attribute) and path.name != "coins.py":
                assert node.attr not in {"urandom", "default_rng", "getrandom"}, path


def test_a_names_digest_has_the_top_bit_and_a_numbers_has_it_not():
    """The first 96 bits of BLAKE2b, the last of them set: no name has a number's address."""
    for name in ("", "anna", "Müsli", *(f"person {i}" for i in range(40))):
        raw = bytearray(blake2b(name.encode(), digest_size=12).digest())
        raw[11] |= 0x80
        assert address([name]).tolist() == [[*np.frombuffer(bytes(raw), "<u4").tolist(), 0]]
    for number in (0, 1, -1, (1 << 63) - 1, -(1 << 63)):
        low, high = (number & 0xFFFFFFFF), (number >> 32) & 0xFFFFFFFF
        assert address([number]).tolist() == [[low, high, 0, 0]]
