"""The mechanisms, one file each, one line each; a file is loaded when its mechanism is asked for."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

from ..errors import PlanError, nearest
from ..mechanism import Mechanism

_LINES: dict[str, tuple[str, str]] = {
    "rr": ("rr", "RR"),
    "grr": ("grr", "GRR"),
    "privkv": ("privkv", "PrivKV"),
    "privkvm": ("privkvm", "PrivKVM"),
    "privkvm_plus": ("privkvm_plus", "PrivKVMPlus"),
    "f2m": ("f2m", "F2M"),
    "kvue": ("kvue", "KVUE"),
    "kvoh": ("kvoh", "KVOH"),
    "bisample": ("bisample", "BiSample"),
    "blend": ("blend", "Blend"),
    "graded": ("graded", "Graded"),
    "optimal": ("optimal", "Optimal"),
    "several": ("several", "Several"),
    "several_rr": ("several", "SeveralRR"),
    "rappor": ("rappor", "Rappor"),
    "shist": ("shist", "SHist"),
    "harmony": ("harmony", "Harmony"),
    "meanest": ("meanest", "MeanEst"),
    "ioh": ("ioh", "IOH"),
    "ioh_optimal": ("ioh", "IOHOptimal"),
    "split": ("split", "Split"),
    "pairs": ("pairs", "Pairs"),
    "triples": ("pairs", "Triples"),
    "workload": ("pairs", "Workload"),
    "coefficients": ("coefficients", "Coefficients"),
    "collision": ("collision", "CollisionSingles"),
    "coco": ("coco", "CoCoSingles"),
    "pair_collision": ("pair_collision", "PairCollision"),
    "pckv_ue": ("pckv", "PCKVUE"),
    "pckv_grr": ("pckv", "PCKVGRR"),
    "signed_ue": ("signed_ue", "SignedUE"),
    "sized": ("sized", "Sized"),
}
"""Name, then file and class."""


class _Registry(MutableMapping[str, Mechanism]):
    """Mechanisms by name, in order."""

    def __init__(self) -> None:
        self._loaded: dict[str, Mechanism | None] = dict.fromkeys(_LINES)

    def __getitem__(self, name: str) -> Mechanism:
        made = self._loaded[name]
        if made is None:
            file, kind = _LINES[name]
            made = getattr(import_module(f"{__name__}.{file}"), kind)()
            assert isinstance(made, Mechanism)
            self._loaded[name] = made
        return made

    def __setitem__(self, name: str, mechanism: Mechanism) -> None:
        self._loaded[name] = mechanism

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)

    def __contains__(self, name: object) -> bool:
        return name in self._loaded


REGISTRY: MutableMapping[str, Mechanism] = _Registry()


def mechanism_named(name: str, *also: str) -> Mechanism:
    """The mechanism of that name, or an error that lists them all, and what else may stand there."""
    if name not in REGISTRY:
        known = [*REGISTRY, *also]
        near = nearest(str(name), known)
        hint = "" if near is None else f"did you mean {near}? "
        raise PlanError(f"unknown mechanism {name!r}; {hint}known: {', '.join(known)}")
    return REGISTRY[name]
