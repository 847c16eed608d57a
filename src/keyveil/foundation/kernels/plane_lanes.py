"""Numbers in bit planes against the ends of slices, those of sixteen groups at once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .registers import BLOCK, FOUR, I32, I64, TILE, everywhere, place_of, transposed

_inline: Any = intrinsic
_function: Any = cgutils.get_or_insert_function
PLANES = 8
"""Planes that are compared at first: two blocks of words for 32 positions."""


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


def _compared(
    builder: Any, planes: list[Any], wants: list[Any], open_bits: Any, below: Any
) -> tuple[Any, Any]:
    """What is undecided and what is below after these planes, ``wants`` being the end's bits."""
    for plane, want in zip(planes, wants, strict=True):
        lower = builder.and_(want, builder.not_(plane))
        below = builder.or_(below, builder.and_(open_bits, lower))
        open_bits = builder.and_(open_bits, builder.not_(builder.xor(plane, want)))
    return open_bits, below


class _Lanes:
    """Rows of lanes of the arrays that an intrinsic is given."""

    def __init__(self, context: Any, builder: Any, signature: Any, values: Any) -> None:
        self._context, self.builder, self._kinds, self._values = context, builder, signature.args, values

    def place(self, number: int, index: Any, vector: Any = FOUR) -> Any:
        """A pointer into argument ``number``."""
        kind, value = self._kinds[number], self._values[number]
        return place_of(self._context, self.builder, kind, value, index, vector)

    def at(self, number: int, index: Any) -> Any:
        """The lanes of argument ``number`` from ``index`` on."""
        return self.builder.load(self.place(number, index), align=4)

    def row(self, number: int, row: int) -> Any:
        """A row of argument ``number``."""
        return self.at(number, ir.Constant(I64, TILE * row))

    def wants(self, number: int, start: Any, count: int, own_bits: list[Any]) -> list[Any]:
        """The end's bits of ``count`` planes, as ``below_first`` has them, from ``start`` on."""
        builder, end_bits = self.builder, []
        for plane in range(count):
            every, *differences = (
                everywhere(builder, builder.load(self.place(number, index, I32), align=4))
                for index in self._law_places(start, plane, len(own_bits))
            )
            for bits, difference in zip(own_bits, differences, strict=True):
                every = builder.xor(every, builder.and_(difference, bits))
            end_bits.append(every)
        return end_bits

    def _law_places(self, start: Any, plane: int, laws: int) -> list[Any]:
        """Where a plane's bit is for the background law, and then for the others."""
        places = [ir.Constant(I64, 32 * law + plane) for law in range(1 + laws)]
        return [self.builder.add(start, place) for place in places]

    def own_bits(self, number: int, start: Any, group: Any, laws: int) -> list[Any]:
        """The bit of the position that each state marks, if it is in ``group``, for each law.

        They are in rows of argument ``number`` from ``start`` on.
        """
        builder, nothing = self.builder, ir.Constant(FOUR, [0] * TILE)
        places = [builder.add(start, ir.Constant(I64, TILE * row)) for row in range(1 + laws)]
        here = everywhere(builder, builder.trunc(group, I32))
        mine = builder.icmp_unsigned("==", self.at(number, places[0]), here)
        return [builder.select(mine, self.at(number, place), nothing) for place in places[1:]]

    def lane_bits(self, lanes: Any) -> Any:
        """A bit for each lane that is not zero."""
        return self.builder.icmp_unsigned("!=", lanes, ir.Constant(FOUR, [0] * TILE))

    def append(self, number: int, index: Any, apart: Any, chosen: Any, columns: list[Any]) -> Any:
        """Write the chosen lanes of ``columns`` one after the other; returns how many there are.

        Column c goes to ``index + c * apart`` of argument ``number``, which has room for all lanes.
        """
        builder, lanes = self.builder, ir.IntType(TILE)
        kind = ir.FunctionType(FOUR, [FOUR, FOUR, ir.VectorType(ir.IntType(1), TILE)])
        name = "llvm.x86.avx512.mask.compress.v16i32"
        together = _function(builder.module, kind, name)
        for column in columns:
            packed = builder.call(together, [column, ir.Constant(FOUR, [0] * TILE), chosen])
            builder.store(packed, self.place(number, index), align=4)
            index = builder.add(index, apart)
        return builder.zext(builder.ctpop(builder.bitcast(chosen, lanes)), I64)


def _first_planes(laws: int) -> Any:
    @_inline
    def below_first(
        typing: Any,
        planes: Any,
        wanted: Any,
        first: Any,
        own: Any,
        group: Any,
        person: Any,
        less: Any,
        to: Any,
        queue: Any,
        place: Any,
        apart: Any,
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            lanes = _Lanes(context, builder, signature, values)
            own_bits = lanes.own_bits(3, builder.mul(values[5], ir.Constant(I64, 3)), values[4], laws)
            shown = [lanes.row(0, plane) for plane in range(PLANES)]
            wants = lanes.wants(1, values[2], PLANES, own_bits)
            nothing, full = ir.Constant(FOUR, [0] * TILE), ir.Constant(FOUR, [0xFFFFFFFF] * TILE)
            open_bits, below = _compared(builder, shown, wants, full, nothing)
            builder.store(below, lanes.place(6, values[7]), align=4)
            streams = ir.Constant(FOUR, [(lane & 3) * 4 + (lane >> 2) << 16 for lane in range(TILE)])
            who = builder.or_(builder.shl(values[5], ir.Constant(I64, 16)), values[4])
            whose = builder.add(everywhere(builder, builder.trunc(who, I32)), streams)
            where = everywhere(builder, builder.trunc(values[7], I32))
            where = builder.add(where, ir.Constant(FOUR, [*range(TILE)]))
            columns = [open_bits, whose, where, *own_bits]
            return lanes.append(8, values[9], values[10], lanes.lane_bits(open_bits), columns)

        number = types.uint64
        kinds = planes, wanted, number, own, number, number, less, number
        return number(*kinds, queue, number, number), build

    return below_first


below_first = _first_planes(1)
"""Compare the numbers of ``TILE`` people's group, in bit planes, with the end of a slice.

``planes`` are the first planes, a row of lanes each. ``wanted`` from ``first`` on has the end's bit of
each of 32 planes, in all places; then where the bits of a state's own law differ from it. That law holds
where the people's first row of ``own`` is ``group``, for the bits of the second. A row of ``less``
becomes what is below. Lanes with something undecided are written down in ``queue`` from ``place`` on, in
columns that are ``apart``: what is undecided; 65,536 times the stream's number, which begin with
``person``, and the group's; the place in ``less``; and the bits of a state's own law. Returns the number
of these lanes.
"""
below_first_of_two = _first_planes(2)
"""The same for two laws of a state's own: the bits of the second one are in the third row of ``own``."""


def _more_planes(laws: int) -> Any:
    @_inline
    def below_more(
        typing: Any,
        planes: Any,
        wanted: Any,
        first: Any,
        less: Any,
        queue: Any,
        place: Any,
        to: Any,
        apart: Any,
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            lanes, columns, index = _Lanes(context, builder, signature, values), [], values[5]
            for _ in range(3 + laws):
                columns.append(lanes.at(4, index))
                index = builder.add(index, values[7])
            open_bits, whose, where, *own_bits = columns
            shown = [lanes.row(0, plane) for plane in range(4)]
            wants = lanes.wants(1, values[2], 4, own_bits)
            nothing = ir.Constant(FOUR, [0] * TILE)
            open_bits, below = _compared(builder, shown, wants, open_bits, nothing)
            for lane in range(TILE):
                at = builder.zext(builder.extract_element(where, ir.Constant(I32, lane)), I64)
                spot = lanes.place(3, at, I32)
                more = builder.extract_element(below, ir.Constant(I32, lane))
                builder.store(builder.or_(builder.load(spot, align=4), more), spot, align=4)
            columns = [open_bits, whose, where, *own_bits]
            return lanes.append(4, values[6], values[7], lanes.lane_bits(open_bits), columns)

        number = types.uint64
        return number(planes, wanted, number, less, queue, number, number, number), build

    return below_more


below_more = _more_planes(1)
"""Compare four planes more of what the queue has from ``place`` on, in ``TILE`` lanes.

What is below is added to ``less``. What stays undecided is written down again from ``to`` on.
"""
below_more_of_two = _more_planes(2)


def _planes_of_part(count: int, laws: int, fresh: bool) -> Any:
    @_inline
    def part_below(
        typing: Any,
        words: Any,
        size: Any,
        wanted: Any,
        first: Any,
        done: Any,
        own: Any,
        group: Any,
        person: Any,
        same: Any,
        rest: Any,
        less: Any,
        to: Any,
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            lanes, shown = _Lanes(context, builder, signature, values), []
            for plane in range(count):
                number = builder.add(values[4], ir.Constant(I64, plane))
                shown.append(
                    _unpacked(
                        builder,
                        lambda row: lanes.at(0, builder.shl(row, ir.Constant(I64, 4))),
                        number,
                        values[1],
                    )
                )
            start = builder.add(values[3], values[4])
            rows = builder.mul(values[7], ir.Constant(I64, 3))
            wants = lanes.wants(2, start, count, lanes.own_bits(5, rows, values[6], laws))
            at_same, at_less = lanes.place(8, values[9]), lanes.place(10, values[11])
            if fresh:
                size_bits = builder.shl(ir.Constant(I64, 1), values[1])
                full = builder.trunc(builder.sub(size_bits, ir.Constant(I64, 1)), I32)
                open_bits, below = everywhere(builder, full), ir.Constant(FOUR, [0] * TILE)
            else:
                open_bits, below = builder.load(at_same, align=4), builder.load(at_less, align=4)
            open_bits, below = _compared(builder, shown, wants, open_bits, below)
            builder.store(below, at_less, align=4)
            builder.store(open_bits, at_same, align=4)
            return builder.zext(builder.bitcast(lanes.lane_bits(open_bits), ir.IntType(TILE)), I64)

        number = types.uint64
        kinds = words, number, wanted, number, number, own, number, number
        return number(*kinds, same, number, less, number), build

    return part_below


PART_PLANES = 12
"""Planes of the last group that are compared at first, if it has less than 32 positions."""
part_below_first = _planes_of_part(PART_PLANES, 1, fresh=True)
"""``below_first`` for groups of ``size`` positions, whose words are all in ``words``.

The planes from ``done`` on are compared. The row of ``same`` at ``rest`` becomes what is undecided.
Returns a bit for each lane that has something undecided.
"""
part_below_first_of_two = _planes_of_part(PART_PLANES, 2, fresh=True)
part_below_more = _planes_of_part(4, 2, fresh=False)
"""The same for four planes more, with what ``same`` and ``less`` are so far."""


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
