"""What the machine allows: secure words and bytes read, each in seconds of one core; and its name."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ...foundation.block_source import BlockSource
from ...foundation.coins import WORDS_PER_BLOCK, Coins, address
from ...foundation.compiled import compiled
from .stopwatch import shortest

WORD_BYTES = 4
_CACHED = 1 << 20
"""Bytes of keystream made at once: they stay in the processor's cache."""
_STREAMS = 1 << 14
"""People whose first block compiled loops make at once: these stay there, too."""
_READ = 1 << 28
"""Bytes read at once, more than most caches hold."""


@cache
def seconds_per_word() -> float:
    """Seconds that AES-256 takes for a word of 32 bits: OpenSSL's counter mode, or loops if faster."""
    stream = Cipher(algorithms.AES(bytes(32)), modes.CTR(bytes(16))).encryptor()
    zeros, room = bytes(_CACHED), bytearray(_CACHED + 15)
    taken = shortest({"": lambda: stream.update_into(zeros, room)}, 20)[""] / (_CACHED / WORD_BYTES)
    loops: Any = compiled()
    source = None if loops is None else BlockSource(Coins.secure(), loops)
    if source is None or source.schedule is None:
        return taken
    people, plain = address(np.arange(_STREAMS)), np.empty((0, 1, WORDS_PER_BLOCK), np.uint32)
    blocks = np.empty(_STREAMS * WORDS_PER_BLOCK * WORD_BYTES + 15, np.uint8)
    own = shortest({"": lambda: source.fill(people, 1, plain, blocks)}, 99)[""]
    return min(taken, own / (_STREAMS * WORDS_PER_BLOCK))


@cache
def seconds_per_byte() -> float:
    """Seconds to read a byte from memory: the largest of 256 MiB of whole numbers."""
    many = np.ones(_READ // 8, np.int64)
    return shortest({"": many.max}, 5)[""] / _READ


def machine_facts() -> dict[str, object]:
    """The processor, its cores, the load, Python and the packages that matter for speed."""
    file = Path("/proc/cpuinfo")
    facts = file.read_text() if file.exists() else ""
    names = [line.split(":")[1].strip() for line in facts.splitlines() if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "packages": {name: installed for name in _PACKAGES if (installed := _version(name))},
        "million_secure_words_a_second": round(1e-6 / seconds_per_word(), 1),
        "gigabytes_read_a_second": round(1e-9 / seconds_per_byte(), 2),
    }


_PACKAGES = ("keyveil", "numpy", "numba", "cryptography")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine_words(facts: dict[str, object]) -> str:
    """The facts in a line."""
    packages = facts["packages"]
    assert isinstance(packages, dict)
    listed = ", ".join(f"{name} {number}" for name, number in packages.items())
    return (
        f"{facts['processor']}, {facts['cores']} cores, load of the machine {facts['load']}, "
        f"Python {facts['python']}, {listed}; "
        f"one core makes {facts['million_secure_words_a_second']:,} million words a second with AES-256 "
        f"and reads {facts['gigabytes_read_a_second']} GB a second"
    )
