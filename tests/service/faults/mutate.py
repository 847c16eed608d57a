"""Bad input: what was right, changed at random, and what never was."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

ODD: list[Any] = [
    None, True, -1, 0, 1.5, 1e308, float("nan"), float("inf"), 2**31, 2**63, 2**64, 10**30, "", "0" * 64,
    "\0", "\ud800", "a" * 300, [], {}, [[]], [None], {"": ""},
]  # fmt: skip
BYTES = [
    *(b"", b"\0", b"\xff", b"\xff\xfe", b"\xed\xa0\x80", b"{", b"}", b"[", b"]", b'"', b",", b"\\u0000"),
    *(b"NaN", b"1e999", b"-0", b"[" * 40, b"9" * 30, b"null", b"\r\n"),
]


def changed_bytes(coins: random.Random, good: bytes) -> bytes:
    """Bytes cut, doubled, flipped, or with something odd put in."""
    content = bytearray(good)
    for _ in range(coins.choice((1, 1, 2, 5))):
        at = coins.randrange(len(content) + 1)
        how = coins.randrange(6)
        if how == 0:
            del content[at:]
        elif how == 1:
            del content[at : at + coins.choice((1, 2, 16, 100))]
        elif how == 2 and content:
            content[at % len(content)] ^= 1 << coins.randrange(8)
        elif how == 3:
            content[at:at] = coins.choice(BYTES)
        elif how == 4:
            content[at:at] = content[coins.randrange(len(content) + 1) :][:64]
        elif content:
            first = at % len(content)
            content[first : first + 4] = coins.randbytes(4)
    return bytes(content)


def odd(coins: random.Random) -> Any:
    """Something that belongs nowhere."""
    return deepcopy(coins.choice(ODD))


def changed_document(coins: random.Random, good: Any) -> Any:
    """A document with something in it replaced, removed, renamed or repeated."""
    document = json.loads(json.dumps(good))
    for _ in range(coins.choice((1, 1, 1, 2, 3))):
        holder, key = _place(coins, document)
        if holder is None:
            return odd(coins)
        how = coins.randrange(5)
        if how <= 1:
            holder[key] = odd(coins)
        elif how == 2:
            del holder[key]
        elif how == 3 and isinstance(holder, dict):
            holder[str(coins.choice(ODD))] = holder.pop(key)
        elif isinstance(holder, list):
            holder.insert(key, holder[key])
        else:
            holder[key] = [holder[key]]
    return document


def _place(coins: random.Random, document: Any) -> tuple[Any, Any]:
    holder, key, here = None, None, document
    while isinstance(here, dict | list) and here:
        holder = here
        key = coins.choice(list(here)) if isinstance(here, dict) else coins.randrange(len(here))
        here = holder[key]
        if coins.random() < 0.3:
            break
    return holder, key


def text_of(document: Any) -> bytes:
    """A document as JSON, also where it has what JSON has not."""
    return json.dumps(document).encode("utf-8", "surrogatepass")


def inputs(
    coins: random.Random,
    number: int,
    good: Callable[[], bytes],
    document: Callable[[], Any] | None = None,
) -> Iterator[bytes]:
    """So many inputs: most nearly right, some of them nothing at all."""
    for _ in range(number):
        how = coins.random()
        if how < 0.1:
            yield coins.randbytes(coins.choice((0, 1, 8, 47, 48, 49, 200)))
        elif document is not None and how < 0.6:
            yield text_of(changed_document(coins, document()))
        else:
            yield changed_bytes(coins, good())
