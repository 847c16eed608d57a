"""Numbers in bit planes against the ends of slices, those of sixteen groups at once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from .registers import BLOCK, FOUR, I32, I64, TILE, everywhere, place_of, transposed

_inline: Any = intrinsic
PLANES = 12
"""Planes that are compared at first: three blocks of words for 32 positions."""


def _unpacked(builder: Any, row: Any, number: Any, size: Any) -> Any:
    """Plane ``number`` of ``size`` positions, whose bits follow each other in rows of words.

    ``row(n)`` is row n. Bits of the plane beyond ``size`` are any.
    """
    bit = builder.mul(number, size)
    shift = builder.trunc(builder.and_(bit, ir.Constant(I64, 31)), I32)
    word = builder.lshr(bit, ir.Constant(I64, 5))
    low, high = row(word), row(builder.add(word, ir.Constant(I64, 1)))
    back = everywhere(builder, builder.sub(ir.Constant(I32, 31), shift))
    high = builder.shl(builder.shl(high, ir.Constant(FOUR, [1] * TILE)), back)
    return builder.or_(builder.lshr(low, everywhere(builder, shift)), high)


def _planes_below(count: int, laws: int, fresh: bool, packed: bool = False) -> Any:
    @_inline
    def below_tile(
        typing: Any,
        planes: Any,
        size: Any,
        wanted: Any,
        first: Any,
        done: Any,
        own: Any,
        group: Any,
        full: Any,
        same: Any,
        place_same: Any,
        less: Any,
        place_less: Any,
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            def place(number: int, index: Any, vector: Any = FOUR) -> Any:
                return place_of(context, builder, signature.args[number], values[number], index, vector)

            def lanes(number: int, row: Any) -> Any:
                index = builder.shl(row, ir.Constant(I64, 4))
                return builder.load(place(number, index), align=4)

            def shown(plane: int) -> Any:
                if not packed:
                    return lanes(0, ir.Constant(I64, plane))
                number = builder.add(values[4], ir.Constant(I64, plane))
                return _unpacked(builder, lambda row: lanes(0, row), number, values[1])

            nothing = ir.Constant(FOUR, [0] * TILE)
            here = everywhere(builder, builder.trunc(values[6], I32))
            mine = builder.icmp_unsigned("==", lanes(5, ir.Constant(I64, 0)), here)
            rows = [lanes(5, ir.Constant(I64, 1 + law)) for law in range(laws)]
            own_bits = [builder.select(mine, row, nothing) for row in rows]
            at_same, at_less = place(8, values[9]), place(10, values[11])
            if fresh:
                open_bits, below = everywhere(builder, values[7]), nothing
            else:
                open_bits, below = builder.load(at_same, align=4), builder.load(at_less, align=4)
            start = builder.add(values[3], values[4])
            for plane in range(count):
                want = None
                for law in range(1 + laws):
                    index = builder.add(start, ir.Constant(I64, 32 * law + plane))
                    bit = everywhere(builder, builder.load(place(2, index, I32), align=4))
                    want = (
                        bit if want is None else builder.xor(want, builder.and_(bit, own_bits[law - 1]))
                    )
                other = builder.xor(shown(plane), want)
                below = builder.or_(below, builder.and_(builder.and_(open_bits, other), want))
                open_bits = builder.and_(open_bits, builder.not_(other))
            builder.store(below, at_less, align=4)
            builder.store(open_bits, at_same, align=4)
            undecided = builder.icmp_unsigned("!=", open_bits, nothing)
            return builder.zext(builder.bitcast(undecided, ir.IntType(TILE)), I64)

        number = types.uint64
        kinds = planes, number, wanted, number, number, own, number, types.uint32
        return number(*kinds, same, number, less, number), build

    return below_tile


below_first = _planes_below(PLANES, 1, fresh=True)
"""Compare the numbers of ``TILE`` groups, in bit planes, with the end of a slice: the first planes.

``planes`` are the planes from ``done`` on, a row of lanes each. ``wanted`` from ``first`` on has the
end's bit of each of 32 planes, in all places; then where the bits of a state's own law differ from it.
That law holds where the first row of ``own`` is ``group``, for the bits of its second row. Bits of
``full`` are compared. A row of ``same`` becomes what is undecided, and one of ``less`` what is below.
Returns a bit for each lane that has something undecided.
"""
below_first_of_two = _planes_below(PLANES, 2, fresh=True)
"""The same for two laws of a state's own: the bits of the second one are in the third row of ``own``."""
below_more = _planes_below(4, 2, fresh=False)
"""The same for four planes more, with what ``same`` and ``less`` are so far."""
part_below_first = _planes_below(PLANES, 1, fresh=True, packed=True)
"""``below_first`` for groups of ``size`` positions, less than 32; ``planes`` are all their words."""
part_below_first_of_two = _planes_below(PLANES, 2, fresh=True, packed=True)
part_below_more = _planes_below(4, 2, fresh=False, packed=True)


@_inline
def store_four(typing: Any, less: Any, group: Any, out: Any, start: Any, width: Any) -> Any:
    """Write four groups' words, a row of lanes each, as 16 bytes of each of ``TILE`` people.

    ``out`` is a flat array of bytes; the people's bytes begin at ``start`` and are ``width`` apart.
    """

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds, rows = signature.args, []
        for number in range(4):
            row = builder.shl(builder.add(values[1], ir.Constant(I64, number)), ir.Constant(I64, 4))
            rows.append(
                builder.load(place_of(context, builder, kinds[0], values[0], row, FOUR), align=4)
            )
        for column, words in enumerate(transposed(builder, rows)):
            for block in range(4):
                person = ir.Constant(I64, 4 * column + block)
                at = builder.add(values[3], builder.mul(person, values[4]))
                part = ir.Constant(BLOCK, [4 * block + lane for lane in range(4)])
                own = builder.shuffle_vector(words, words, part)
                builder.store(own, place_of(context, builder, kinds[2], values[2], at, BLOCK), align=1)
        return context.get_dummy_value()

    return types.void(less, types.uint64, out, types.uint64, types.uint64), build
