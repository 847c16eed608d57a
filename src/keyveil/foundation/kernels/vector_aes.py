"""AES-256 in the processor's own instructions, four blocks in a register, inside compiled loops.

The words are those of ``Coins``. Where a loop makes them itself, they never leave the nearest cache. The
instructions take the same time whatever the key and the data are. ``FAST_AES`` says whether this
processor has them; whoever uses a schedule has compared its words with those of ``Coins`` first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .lanes import U, jit
from .registers import BLOCK, FOUR, I32, I64, TILE, everywhere, place_of, transposed

_inline: Any = intrinsic
_function: Any = cgutils.get_or_insert_function
_found = binding.get_host_cpu_features()
FAST_AES = all(_found.get(name, False) for name in ("aes", "vaes", "avx512f"))
"""Whether the processor encrypts four blocks with one instruction."""
ROUNDS = 14

_I8, _HALVES = ir.IntType(8), ir.VectorType(I64, 2)
_EIGHT = ir.VectorType(I64, 8)


def _encrypted(context: Any, builder: Any, kind: Any, schedule: Any, states: list[Any]) -> list[Any]:
    """Registers of four blocks each under one key, round by round so that they do not wait."""
    step = ir.FunctionType(_EIGHT, [_EIGHT, _EIGHT])
    middle = _function(builder.module, step, "llvm.x86.aesni.aesenc.512")
    last = _function(builder.module, step, "llvm.x86.aesni.aesenclast.512")
    for number in range(ROUNDS + 1):
        at = place_of(context, builder, kind, schedule, ir.Constant(I64, 4 * number), BLOCK)
        own = builder.load(at, align=4)
        key = builder.bitcast(
            builder.shuffle_vector(own, own, ir.Constant(FOUR, [0, 1, 2, 3] * 4)), _EIGHT
        )
        if number == 0:
            states = [builder.xor(state, key) for state in states]
        else:
            states = [builder.call(last if number == ROUNDS else middle, [s, key]) for s in states]
    return states


@_inline
def sub_word(typing: Any, word: Any) -> Any:
    """``SubWord`` of FIPS 197: the substitution of each of four bytes."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(_HALVES, [_HALVES, _I8])
        assist = _function(builder.module, kind, "llvm.x86.aesni.aeskeygenassist")
        block = builder.insert_element(ir.Constant(BLOCK, [0] * 4), values[0], ir.Constant(I32, 1))
        substituted = builder.call(assist, [builder.bitcast(block, _HALVES), ir.Constant(_I8, 0)])
        return builder.extract_element(builder.bitcast(substituted, BLOCK), ir.Constant(I32, 0))

    return types.uint32(types.uint32), build


@_inline
def encrypt_tile(typing: Any, plain: Any, start: Any, schedule: Any, out: Any, to: Any) -> Any:
    """Encrypt ``TILE`` blocks: words of ``plain`` from ``start`` on into ``out`` from ``to`` on."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds, states = signature.args, []
        for number in range(TILE // 4):
            index = builder.add(values[1], ir.Constant(I64, TILE * number))
            at = place_of(context, builder, kinds[0], values[0], index, _EIGHT)
            states.append(builder.load(at, align=4))
        states = _encrypted(context, builder, kinds[2], values[2], states)
        for number, state in enumerate(states):
            index = builder.add(values[4], ir.Constant(I64, TILE * number))
            at = place_of(context, builder, kinds[3], values[3], index, _EIGHT)
            builder.store(state, at, align=4)
        return context.get_dummy_value()

    return types.void(plain, types.uint64, schedule, out, types.uint64), build


@_inline
def third_words(typing: Any, plain: Any, start: Any, schedule: Any, out: Any, to: Any) -> Any:
    """Encrypt ``TILE`` blocks as ``encrypt_tile`` does, and write the third word of each."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds, states = signature.args, []
        for number in range(TILE // 4):
            index = builder.add(values[1], ir.Constant(I64, TILE * number))
            at = place_of(context, builder, kinds[0], values[0], index, _EIGHT)
            states.append(builder.load(at, align=4))
        states = _encrypted(context, builder, kinds[2], values[2], states)
        rows = [builder.bitcast(state, FOUR) for state in states]
        third = ir.Constant(ir.VectorType(I32, 8), [2 + 4 * block for block in range(8)])
        halves = [builder.shuffle_vector(rows[i], rows[i + 1], third) for i in (0, 2)]
        words = builder.shuffle_vector(*halves, ir.Constant(FOUR, [*range(TILE)]))
        at = place_of(context, builder, kinds[3], values[3], values[4], FOUR)
        builder.store(words, at, align=4)
        return context.get_dummy_value()

    return types.void(plain, types.uint64, schedule, out, types.uint64), build


def _numbered(context: Any, builder: Any, signature: Any, values: Any, blocks: int) -> list[Any]:
    """The addresses of ``TILE`` streams with the numbers of some blocks, four in a register.

    ``values`` begin with the addresses, the place of the first and the number of the first block.
    """
    counter, nothing = builder.trunc(values[2], I32), ir.Constant(FOUR, [0] * TILE)
    spread = ir.Constant(FOUR, [3 if lane % 4 == 3 else TILE for lane in range(TILE)])
    states = []
    for block in range(blocks):
        own = builder.add(counter, ir.Constant(I32, block))
        more = builder.insert_element(nothing, own, ir.Constant(I32, 3))
        more = builder.shuffle_vector(more, nothing, spread)
        for row in range(TILE // 4):
            index = builder.add(values[1], ir.Constant(I64, TILE * row))
            at = place_of(context, builder, signature.args[0], values[0], index, FOUR)
            moved = builder.add(builder.load(at, align=4), more)
            states.append(builder.bitcast(moved, _EIGHT))
    return states


def _tile_of_words(blocks: int) -> Any:
    @_inline
    def words_of_tile(
        typing: Any, plain: Any, start: Any, number: Any, schedule: Any, out: Any, to: Any
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds, states = signature.args, _numbered(context, builder, signature, values, blocks)
            states = _encrypted(context, builder, kinds[3], values[3], states)
            for block in range(blocks):
                rows = [builder.bitcast(s, FOUR) for s in states[4 * block : 4 * block + 4]]
                for word, row in enumerate(transposed(builder, rows)):
                    index = builder.add(values[5], ir.Constant(I64, TILE * (4 * block + word)))
                    at = place_of(context, builder, kinds[4], values[4], index, FOUR)
                    builder.store(row, at, align=4)
            return context.get_dummy_value()

        return types.void(plain, types.uint64, types.uint64, schedule, out, types.uint64), build

    return words_of_tile


words_of_one = _tile_of_words(1)
"""The words of block ``number`` of ``TILE`` streams, a row for each word, into ``out`` from ``to`` on.

``plain`` from ``start`` on are their addresses, and ``lane_of`` says which lanes are whose.
"""
words_of_two = _tile_of_words(2)
"""The same for two blocks from ``number`` on."""


@_inline
def word_rows(
    typing: Any, plain: Any, start: Any, number: Any, schedule: Any, out: Any, to: Any, apart: Any
) -> Any:
    """Block ``number`` of ``TILE`` streams, a row for each word, those of a row in the streams' order.

    ``plain`` from ``start`` on are their addresses. The rows begin at ``to`` and are ``apart`` words
    from each other.
    """

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds, states = signature.args, _numbered(context, builder, signature, values, 1)
        states = _encrypted(context, builder, kinds[3], values[3], states)
        rows = [builder.bitcast(state, FOUR) for state in states]
        for pair in (0, 2):
            both = [word + TILE // 4 * block for word in (pair, pair + 1) for block in range(8)]
            mask = ir.Constant(FOUR, both)
            halves = [builder.shuffle_vector(rows[i], rows[i + 1], mask) for i in (0, 2)]
            for word in (0, 1):
                own = [8 * word + lane for lane in range(8)]
                own += [TILE + lane for lane in own]
                lanes = builder.shuffle_vector(*halves, ir.Constant(FOUR, own))
                step = builder.mul(values[6], ir.Constant(I64, pair + word))
                index = builder.add(values[5], step)
                at = place_of(context, builder, kinds[4], values[4], index, FOUR)
                builder.store(lanes, at, align=4)
        return context.get_dummy_value()

    number_kind = types.uint64
    kinds = plain, number_kind, number_kind, schedule, out, number_kind, number_kind
    return types.void(*kinds), build


@_inline
def words_of_chosen(
    typing: Any, plain: Any, queue: Any, place: Any, number: Any, schedule: Any, out: Any
) -> Any:
    """The words of one block of ``TILE`` streams that a queue names, a row for each word.

    Lane i is for ``queue[place + i]``: 65,536 times the number of its stream, whose address is in
    ``plain``, and the number of a group. Block ``number`` is that of group 0; each group has eight.
    """

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds, states = signature.args, []
        at = place_of(context, builder, kinds[1], values[1], values[2], FOUR)
        names = builder.load(at, align=4)
        groups = builder.and_(names, ir.Constant(FOUR, [0xFFFF] * TILE))
        numbers = builder.shl(groups, ir.Constant(FOUR, [3] * TILE))
        numbers = builder.add(numbers, everywhere(builder, builder.trunc(values[3], I32)))
        nothing = ir.Constant(FOUR, [0] * TILE)
        for row in range(TILE // 4):
            own = [4 * block + row for block in range(4)]  # the lanes of streams 4 row, 4 row + 1, ...
            parts = []
            for lane in own:
                name = builder.zext(builder.extract_element(names, ir.Constant(I32, lane)), I64)
                index = builder.shl(builder.lshr(name, ir.Constant(I64, 16)), ir.Constant(I64, 2))
                at = place_of(context, builder, kinds[0], values[0], index, BLOCK)
                parts.append(builder.load(at, align=4))
            eight = ir.Constant(ir.VectorType(I32, 8), [*range(8)])
            halves = [builder.shuffle_vector(parts[i], parts[i + 1], eight) for i in (0, 2)]
            address = builder.shuffle_vector(*halves, ir.Constant(FOUR, [*range(TILE)]))
            spread = [own[i // 4] if i % 4 == 3 else TILE for i in range(TILE)]
            counters = builder.shuffle_vector(numbers, nothing, ir.Constant(FOUR, spread))
            states.append(builder.bitcast(builder.add(address, counters), _EIGHT))
        states = _encrypted(context, builder, kinds[4], values[4], states)
        rows = [builder.bitcast(state, FOUR) for state in states]
        for word, lanes in enumerate(transposed(builder, rows)):
            index = ir.Constant(I64, TILE * word)
            at = place_of(context, builder, kinds[5], values[5], index, FOUR)
            builder.store(lanes, at, align=4)
        return context.get_dummy_value()

    number_kind = types.uint64
    return types.void(plain, queue, number_kind, number_kind, schedule, out), build


@jit
def expand_key(key: Any, schedule: Any) -> None:
    """The 60 words of the 15 round keys of a key of eight words (FIPS 197, 5.2)."""
    constant = np.uint32(1)
    for i in range(8):
        schedule[i] = key[i]
    for i in range(8, 60):
        word = np.uint32(schedule[i - 1])
        if i % 8 == 0:
            word = sub_word(word)
            word = np.uint32((word >> np.uint32(8)) | (word << np.uint32(24))) ^ constant
            constant = np.uint32(constant << np.uint32(1))
        elif i % 8 == 4:
            word = sub_word(word)
        schedule[i] = np.uint32(schedule[i - 8]) ^ word


def _tile_of_blocks(blocks: int) -> Any:
    @_inline
    def blocks_of_tile(
        typing: Any, plain: Any, start: Any, number: Any, schedule: Any, out: Any, to: Any, apart: Any
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds, states = signature.args, _numbered(context, builder, signature, values, blocks)
            states = _encrypted(context, builder, kinds[3], values[3], states)
            for place, state in enumerate(states):
                block, row = divmod(place, TILE // 4)
                words = builder.bitcast(state, FOUR)
                for lane in range(4):
                    stream = ir.Constant(I64, 4 * row + lane)
                    at = builder.add(values[5], builder.mul(stream, values[6]))
                    at = builder.add(at, ir.Constant(I64, 4 * block))
                    own = ir.Constant(BLOCK, [4 * lane + word for word in range(4)])
                    own = builder.shuffle_vector(words, words, own)
                    builder.store(
                        own, place_of(context, builder, kinds[4], values[4], at, BLOCK), align=4
                    )
            return context.get_dummy_value()

        number_kind = types.uint64
        kinds = plain, number_kind, number_kind, schedule, out, number_kind, number_kind
        return types.void(*kinds), build

    return blocks_of_tile


_blocks_of_one = _tile_of_blocks(1)
"""Block ``number`` of ``TILE`` streams, those of a stream ``apart`` words from the next one's."""
_blocks_of_two = _tile_of_blocks(2)
"""The same for two blocks, one after the other."""


@jit
def encrypt_streams(addresses: Any, first: int, count: int, schedule: Any, out: Any) -> None:
    """Blocks ``first .. first + count`` of the streams at ``addresses``, one stream after the other."""
    flat, people, apart = addresses.reshape(-1), U(len(addresses)), U(4) * U(count)
    whole, begin = people & ~U(TILE - 1), U(first)
    for p in range(U(0), whole, U(TILE)):
        if first == 0 and count == 1:
            encrypt_tile(flat, U(4) * p, schedule, out, U(4) * p)
            continue
        done = U(0)
        while done + U(1) < U(count):
            to = p * apart + U(4) * done
            _blocks_of_two(flat, U(4) * p, begin + done, schedule, out, to, apart)
            done += U(2)
        if done < U(count):
            to = p * apart + U(4) * done
            _blocks_of_one(flat, U(4) * p, begin + done, schedule, out, to, apart)
    if whole == people:
        return
    plain, last = np.zeros(4 * TILE, np.uint32), np.empty(4 * TILE, np.uint32)
    plain[: U(4) * (people - whole)] = flat[U(4) * whole :]
    for number in range(U(count)):
        _blocks_of_one(plain, U(0), begin + number, schedule, last, U(0), U(4))
        for p in range(whole, people):
            for word in range(U(4)):
                out[p * apart + U(4) * number + word] = last[U(4) * (p - whole) + word]


@jit
def encrypt_rows(addresses: Any, first: int, count: int, schedule: Any, out: Any) -> None:
    """``encrypt_streams``, with a row for each word of the streams."""
    flat, people, begin = addresses.reshape(-1), U(len(addresses)), U(first)
    whole = people & ~U(TILE - 1)
    plain, last = np.zeros(4 * TILE, np.uint32), np.empty(4 * TILE, np.uint32)
    plain[: U(4) * (people - whole)] = flat[U(4) * whole :]
    for p in range(U(0), whole, U(TILE)):
        for number in range(U(count)):
            to = U(4) * number * people + p
            word_rows(flat, U(4) * p, begin + number, schedule, out, to, people)
    if whole == people:
        return
    for number in range(U(count)):
        word_rows(plain, U(0), begin + number, schedule, last, U(0), U(TILE))
        for word in range(U(4)):
            for p in range(whole, people):
                out[(U(4) * number + word) * people + p] = last[U(TILE) * word + p - whole]
