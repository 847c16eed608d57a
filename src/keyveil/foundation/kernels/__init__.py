"""Compiled loops over arrays, in rooms; only ``compiled`` imports them.

A room is loaded when one of its loops is first used, and Numba with it.
"""

from __future__ import annotations

ROOMS = {
    "counting": ("count", "marks_twice"),
    "bit_columns": ("sum_bits",),
    "single_keys": ("hold_keys", "report_keys"),
    "held_keys": ("pick_items", "report_items", "walk"),
    "view_states": (
        "encode_any",
        "encode_padded",
        "encode_sizes",
        "encode_views",
        "encode_whole",
        "join_codes",
        "pick_views",
        "pick_weighted",
    ),
    "word_slices": ("draw_slices", "draw_subset"),
    "set_items": ("encode_items",),
    "set_cells": ("name_coco", "name_collision"),
    "bit_planes": (
        "AT_FIRST",
        "draw_bits",
        "draw_one_end",
        "draw_planes",
        "finish_planes",
        "mark_own",
    ),
    "vector_aes": ("FAST_AES", "encrypt_rows", "encrypt_streams", "expand_key"),
    "plane_tiles": ("MOST_LAWS", "draw_tiles"),
    "packed_cells": ("pack_symbols", "pack_three", "pack_two"),
    "named_cells": ("name_keys", "name_keys_of_many"),
    "collisions": ("collide", "collide_signed"),
    "drawn_people": ("draw_coco", "draw_collision"),
    "lanes": ("LANES",),
}
"""The names of each room that others use."""
