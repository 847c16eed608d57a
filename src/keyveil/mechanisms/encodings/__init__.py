"""The encodings: one line of ``LINES`` each. A file is loaded when its encoding is needed."""

from __future__ import annotations

from ...plan.registry import ENCODINGS, encoding_named

LINES: dict[str, tuple[str, str]] = {
    "views": ("view_state", "ViewState"),
    "item": ("one_item", "OneItem"),
    "signs": ("sign_vector", "SignVector"),
    "items": ("item_set", "ItemSet"),
    "pair_items": ("item_set", "PairItemSet"),
    "padded": ("padded_item", "PaddedItem"),
    "size": ("set_size", "SetSize"),
    "any_value": ("any_value", "AnyValue"),
}
"""File and class by the name of an encoding."""

__all__ = ["ENCODINGS", "LINES", "encoding_named"]
