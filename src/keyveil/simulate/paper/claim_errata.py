"""Which entries of docs/errata.md explain the verdict on a claim."""

from __future__ import annotations

ERRATA = {
    "achieve an error under 0.05": (32,),
    "KVUE is the best of its six": (19, 35),
    "PrivKVM is the only one": (20,),
    "not under the influence of frequencies": (6, 27),
    "not profoundly affected by the frequency": (27,),
    "F2M and KVOH attain acceptable results": (22,),
    "higher accuracy with the rise of the mean": (21,),
    "only work well with a high average": (21,),
    "does not fluctuate when the default": (31,),
    "A default of 1 avoids": (31,),
    "noise introduced by discretization": (18,),
    "Setting the default only affects": (19, 31),
    "IOH overcomes this": (34,),
    "the estimating error increases (conditional": (12,),
    "limitations on high-dimensional data": (12,),
    "over RAPPOR, k-RR, SHist": (28,),
    "Costs are log2": (11,),
    "errors of F2M stay below": (5, 30),
    "errors of KVUE stay below": (30,),
    "errors of KVOH stay below": (7, 30),
    "variance of KVUE's counts": (6,),
    "LPP (PrivKV) is": (19, 24),
    "F2M achieves epsilon-LDP": (19,),
    "error of the conditional frequency is lower than": (12,),
}
"""By words of the claim: the numbers of the entries."""


def errata_of(claim: str) -> str:
    """The entries about a claim, like "erratum 32" or "errata 6 and 27"; empty without any."""
    numbers = sorted({n for words, entries in ERRATA.items() if words in claim for n in entries})
    if not numbers:
        return ""
    return f"{'erratum' if len(numbers) == 1 else 'errata'} {' and '.join(map(str, numbers))}"


def place_with_errata(place: str, claim: str) -> str:
    """Where the paper claims it, and where the errata speak of it."""
    return "; ".join(filter(None, (place, errata_of(claim))))
