"""Column sums of packed bits: sixteen rows are added bit by bit before anything is spread.

A carry-save adder makes of three bits their sum and their carry, for 512 columns at once. Fifteen of
them add sixteen rows to counters of four bits, and what they carry counts sixteen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from .lanes import U, jit
from .registers import I64, place_of

_inline: Any = intrinsic
LINE = 64
"""Bytes of a row at a time."""
ROWS = 16
"""Rows at a time."""
_WIDE = ir.VectorType(I64, LINE // 8)


@_inline
def _add_sixteen(typing: Any, rows: Any, start: Any, width: Any, parts: Any, line: Any) -> Any:
    """Add ``LINE`` bytes of sixteen rows, ``width`` bytes apart from ``start`` on, to ``parts[line]``.

    Its first four rows are the bits of the counters, and the fifth one is what is carried.
    """

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args

        def load(number: int) -> Any:
            at = builder.add(values[1], builder.mul(values[2], ir.Constant(I64, number)))
            place = place_of(context, builder, kinds[0], values[0], at, _WIDE)
            return builder.load(place, align=1)

        def counter(bit: int) -> Any:
            first = builder.mul(values[4], ir.Constant(I64, 5 * LINE))
            at = builder.add(first, ir.Constant(I64, bit * LINE))
            return place_of(context, builder, kinds[3], values[3], at, _WIDE)

        def add(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
            either = builder.xor(a, b)
            carry = builder.or_(builder.and_(a, b), builder.and_(either, c))
            return builder.xor(either, c), carry

        carried = [load(number) for number in range(ROWS)]
        for bit in range(4):
            total, more = builder.load(counter(bit), align=1), []
            for first in range(0, len(carried), 2):
                total, carry = add(total, carried[first], carried[first + 1])
                more.append(carry)
            builder.store(total, counter(bit), align=1)
            carried = more
        builder.store(carried[0], counter(4), align=1)
        return context.get_dummy_value()

    return types.void(rows, types.uint64, types.uint64, parts, types.uint64), build


@jit
def _spread(byte: Any) -> Any:
    """The bits of a byte as the bytes of a word, the first in the lowest byte."""
    bits = (U(byte) * U(0x0101010101010101)) & U(0x8040201008040201)
    ones = ((bits + U(0x7F7F7F7F7F7F7F7F)) | bits) >> U(7)
    return ones & U(0x0101010101010101)


@jit
def _flush(counted: Any, weight: int, sums: Any) -> None:
    """Add counts of bytes, one in each byte of a word, to the sums of bits."""
    for c in range(U(len(counted))):
        for bit in range(U(8)):
            sums[c * U(8) + bit] += np.int64((counted[c] >> (bit * U(8))) & U(255)) * weight
        counted[c] = U(0)


@jit
def sum_bits(rows: Any, sums: Any) -> None:
    """Add up each bit over all rows of packed bits, the first in the lowest bit.

    Lines reach into the rows that follow; what they count there is not used.
    """
    people, width, flat = U(rows.shape[0]), U(rows.shape[1]), rows.reshape(-1)
    lines = (width + U(LINE - 1)) // U(LINE)
    parts = np.zeros((lines, 5, LINE), np.uint8)
    flat_parts, counted, done = parts.reshape(-1), np.zeros(rows.shape[1], np.uint64), U(0)
    while (done + U(ROWS - 1)) * width + lines * U(LINE) <= U(len(flat)):
        for line in range(lines):
            _add_sixteen(flat, done * width + line * U(LINE), width, flat_parts, line)
            at = line * U(LINE)
            own = counted[at : min(at + U(LINE), width)]
            carried = parts[line, 4]
            for c in range(U(len(own))):
                own[c] += _spread(carried[c])
        done += U(ROWS)
        if (done // U(ROWS)) % U(255) == U(0):
            _flush(counted, ROWS, sums)
    _flush(counted, ROWS, sums)
    for bit in range(4):
        for c in range(width):
            counted[c] = _spread(parts[c // U(LINE), bit, c % U(LINE)])
        _flush(counted, 1 << bit, sums)
    for start in range(done, people, U(255)):
        for r in range(start, min(people, start + U(255))):
            row = rows[r]
            for c in range(width):
                counted[c] += _spread(row[c])
        _flush(counted, 1, sums)
