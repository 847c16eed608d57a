"""The cells of symbols as packed bits, from the slice ends that the numbers of positions are below."""

from __future__ import annotations

from typing import Any

from .lanes import U, jit


@jit
def pack_two(below: Any, out: Any) -> None:
    """Two cells of each position, 32 positions in a 64-bit word, from the ends that numbers are below.

    Bits are moved apart by halves: those of 32 positions by 16 places, then by 8, 4, 2 and 1.
    """
    for i in range(U(out.size)):
        first, second = U(below[U(0), i]), U(below[U(1), i])
        second &= ~first
        for shift, kept in (
            (U(16), U(0x0000FFFF0000FFFF)),
            (U(8), U(0x00FF00FF00FF00FF)),
            (U(4), U(0x0F0F0F0F0F0F0F0F)),
            (U(2), U(0x3333333333333333)),
            (U(1), U(0x5555555555555555)),
        ):
            first = (first | (first << shift)) & kept
            second = (second | (second << shift)) & kept
        out[i] = first | (second << U(1))


@jit
def _thirds(bits: Any) -> Any:
    """Sixteen bits, three places apart."""
    bits = (bits | (bits << U(16))) & U(0x000000FF0000FF)
    bits = (bits | (bits << U(8))) & U(0x0000F00F00F00F)
    bits = (bits | (bits << U(4))) & U(0x000C30C30C30C3)
    return (bits | (bits << U(2))) & U(0x00249249249249)


@jit
def pack_three(below: Any, out: Any) -> None:
    """Three cells of each position, 32 positions in three 32-bit words, as in ``pack_two``."""
    half = U(0xFFFF)
    for i in range(U(len(out))):
        first, second, third = U(below[U(0), i]), U(below[U(1), i]), U(below[U(2), i])
        third &= ~second
        second &= ~first
        low = _thirds(first & half) | (_thirds(second & half) << U(1)) | (_thirds(third & half) << U(2))
        first, second, third = first >> U(16), second >> U(16), third >> U(16)
        high = _thirds(first) | (_thirds(second) << U(1)) | (_thirds(third) << U(2))
        out[i, U(0)] = low & U(0xFFFFFFFF)
        out[i, U(1)] = (low >> U(32)) | ((high & half) << U(16))
        out[i, U(2)] = high >> U(16)


@jit
def pack_symbols(below: Any, spread: Any, out: Any) -> None:
    """The cells of all positions as bits, from the slice ends that their numbers are below.

    ``spread[byte]`` has the bits of a byte as many places apart as a position has cells. Rows of
    ``out`` have room for whole groups.
    """
    cells = U(below.shape[0])
    for p in range(U(below.shape[1])):
        at = U(0)
        for g in range(U(below.shape[2])):
            for shift in range(U(0), U(32), U(8)):
                bits, before = U(0), U(0)
                for t in range(cells):
                    own = (U(below[t, p, g]) >> shift) & U(255)
                    bits |= U(spread[own & ~before]) << t
                    before = own
                for _ in range(cells):
                    out[p, at] = bits
                    bits >>= U(8)
                    at += U(1)
