"""The mechanisms: one file and one line of ``LINES`` each. A file is loaded when it is needed."""

from __future__ import annotations

from ..plan.registry import REGISTRY, mechanism_named

LINES: dict[str, tuple[str, str]] = {
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
    "size": ("size", "Size"),
    "sign": ("sign", "Sign"),
    "parts": ("parts", "Parts"),
}
"""File and class by the name of a mechanism."""

__all__ = ["LINES", "REGISTRY", "mechanism_named"]
