"""The mechanisms, one file each, one line each."""

from __future__ import annotations

from difflib import get_close_matches

from ..errors import PlanError
from ..mechanism import Mechanism
from .bisample import BiSample
from .f2m import F2M
from .grr import GRR
from .harmony import Harmony
from .kvoh import KVOH
from .kvue import KVUE
from .meanest import MeanEst
from .privkv import PrivKV
from .privkvm import PrivKVM
from .privkvm_plus import PrivKVMPlus
from .rappor import Rappor
from .rr import RR
from .shist import SHist

REGISTRY: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        RR(),
        GRR(),
        PrivKV(),
        PrivKVM(),
        PrivKVMPlus(),
        F2M(),
        KVUE(),
        KVOH(),
        BiSample(),
        Rappor(),
        SHist(),
        Harmony(),
        MeanEst(),
    )
}


def mechanism_named(name: str) -> Mechanism:
    """The mechanism of that name, or an error that lists them all."""
    if name not in REGISTRY:
        near = get_close_matches(str(name), REGISTRY, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise PlanError(f"unknown mechanism {name!r}; {hint}known: {', '.join(REGISTRY)}")
    return REGISTRY[name]
