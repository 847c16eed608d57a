"""What all compiled loops share: the decorator, unsigned numbers, and operations on many keys or bits.

Indices are unsigned, so that the compiler leaves out the check for negative ones. A loop is compiled
again when its own file changes, but not when this one does: then delete the ``.nbi`` files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_inline: Any = intrinsic
U = np.uint64

_DEPOSITS = binding.get_host_cpu_features().get("bmi2", False) and binding.get_host_cpu_name() not in (
    "znver1",
    "znver2",
)
"""Whether the processor spreads bits over the set bits of a word quickly."""
LANES = 16
"""Keys of a person that are compared at once."""
ABOVE = 1.0 + 2.0**-50
"""So much above 1/divisor, the product with a number below 2^32 has the quotient as its integer part."""


def jit(loop: Any) -> Any:
    """The loop, compiled when it is first called, and kept on disk if some folder can be written."""
    try:
        return njit(cache=True, nogil=True, error_model="numpy")(loop)
    except RuntimeError:  # neither the package, nor the user's cache, nor NUMBA_CACHE_DIR can be
        return njit(nogil=True, error_model="numpy")(loop)


@_inline
def alone(typing: Any) -> Any:
    """Keep the loop that calls this a function of its own.

    Inside another loop the compiler no longer sees that arrays are apart, and does one person at a time.
    """

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), build


@_inline
def equal_lanes(typing: Any, keys: Any, first: Any, key: Any) -> Any:
    """Bit j is set if ``keys[first + j] == key``, for LANES keys of a contiguous array."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        lane, index = context.get_value_type(signature.args[2]), ir.IntType(32)
        lanes = ir.VectorType(lane, LANES)
        start = builder.gep(array.data, [values[1]])
        loaded = builder.load(builder.bitcast(start, lanes.as_pointer()), align=1)
        blank = ir.Constant(lanes, ir.Undefined)
        first_lane = builder.insert_element(blank, values[2], ir.Constant(index, 0))
        every_lane = ir.Constant(ir.VectorType(index, LANES), [0] * LANES)
        wanted = builder.shuffle_vector(first_lane, blank, every_lane)
        equal = builder.icmp_unsigned("==", loaded, wanted)
        return builder.zext(builder.bitcast(equal, ir.IntType(LANES)), ir.IntType(64))

    return types.uint64(keys, types.uint64, keys.dtype), build


@_inline
def fetch(typing: Any, array: Any, index: Any) -> Any:
    """Ask for the line of ``array[index]``, of a contiguous array, which will be read soon.

    An index that lies outside does no harm.
    """

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        insert: Any = cgutils.get_or_insert_function
        ask = insert(builder.module, kind, "llvm.prefetch.p0")
        place = builder.bitcast(builder.gep(data, [values[1]]), byte)
        builder.call(ask, [place, *(ir.Constant(number, fact) for fact in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.uint64), build


@_inline
def lowest_bit(typing: Any, bits: Any) -> Any:
    """The position of the lowest set bit; 64 if there is none."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), build


@_inline
def set_bits(typing: Any, bits: Any) -> Any:
    """The number of set bits."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.ctpop(values[0])

    return types.uint64(types.uint64), build


@jit
def slot_of(word: Any, state: Any, ends: Any, guide: Any, shift: Any) -> Any:
    """The slot of [0, 2^32) that contains the word; see ``foundation.slot_guide``."""
    slot = U(guide[state, word >> shift])
    slot += U(word >= ends[state, slot])  # hardly ever one more: that branch is guessed right
    while word >= ends[state, slot]:
        slot += U(1)
    return slot


@_inline
def _deposited(typing: Any, bits: Any, mask: Any) -> Any:
    """The lowest bits of a word, at the places of the set bits of ``mask``."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = ir.IntType(64)
        insert: Any = cgutils.get_or_insert_function
        kind = ir.FunctionType(number, [number, number])
        return builder.call(insert(builder.module, kind, "llvm.x86.bmi.pdep.64"), values)

    return types.uint64(types.uint64, types.uint64), build


@jit
def bit_place_by_halves(bits: Any, number: Any) -> Any:
    """The position of the set bit with this number in a word."""
    at = U(0)
    for width in (U(32), U(16), U(8), U(4), U(2), U(1)):  # in the lower half, or beyond it?
        count = set_bits(bits & ((U(1) << width) - U(1)))
        beyond = U(number >= count)
        number -= beyond * count
        at += beyond * width
        bits >>= beyond * width
    return at


@jit
def _bit_place_at_once(bits: Any, number: Any) -> Any:
    """``bit_place_by_halves`` in two instructions."""
    return lowest_bit(_deposited(U(1) << number, bits))


bit_place = _bit_place_at_once if _DEPOSITS else bit_place_by_halves
