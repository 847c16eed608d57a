"""Audit: read a plan's document without trusting it, and say what holds and what does not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..channel import Channel, Proof, parse_channel, worst_of
from ..foundation.arrays import WORD
from ..foundation.errors import KeyveilError, PlanError
from ..foundation.exact import LARGEST, decimal, text
from ..people.schema import Schema
from ..people.views import MOST_VIEWS, Views
from .plan import Plan
from .plan_document import CLIENT, FORMAT, MOST_BYTES, canonical
from .plan_fields import MOST_SUBSET_STATES, TOO_MANY_SUBSETS
from .plan_parts import MOST_PARTS, NO_WEIGHTS, PlanPart
from .recipe import CALIBRATIONS, Recipe
from .registry import ENCODINGS, REGISTRY
from .report import is_hex

_MEMBERS = {"format", "mechanism", "epsilon", "schema", "client", "hash"}
_OWN = {"encode", "views", "channels"}
"""Members that a plan has for itself, or each of its parts has."""
_MAY = {"channel_of", "chain"}
_PART = {"weight", "levels", "mechanism", *_OWN}
_PART_MAY = {"channel_of"}

MOST_ALIKE = 10
"""Maximum number of findings of one kind."""


@dataclass(frozen=True)
class Audit:
    """What a document promises, what its integers prove, and everything that is wrong with it."""

    promised: Decimal | None
    proven: Decimal | None
    worst: Proof | None
    findings: tuple[str, ...]
    plan: Plan | None

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def audit(document: str | bytes | Mapping[str, Any]) -> Audit:
    """Every check a client makes before it trusts a plan; never raises for a bad document."""
    findings: list[str] = []
    body = _object(document, findings)
    if body is None:
        return Audit(None, None, None, tuple(findings), None)
    if body.get("format") != FORMAT:
        findings.append(f"unknown plan version {_short(body.get('format'))}; this reads {FORMAT!r}")
        return Audit(None, None, None, tuple(findings), None)
    _check_members(body, findings)
    _check_hash(body, findings)
    promised, claimed = _epsilons(body, findings)
    channels, worst = _all_channels(body, findings)
    proven = worst.epsilon if worst is not None else None
    if promised is not None and worst is not None and not worst.keeps(promised):
        findings.append(f"the channel breaks its promise of epsilon {text(promised)}: {worst}")
    if proven is not None and claimed is not None and proven != claimed:
        findings.append(f"the plan claims to prove {text(claimed)}; its integers prove {text(proven)}")
    plan = None
    if not findings and promised is not None:
        plan = _rebuilt(body, promised, channels, findings)
    return Audit(promised, proven, worst, tuple(findings), plan)


def _object(document: str | bytes | Mapping[str, Any], findings: list[str]) -> Any:
    if isinstance(document, Mapping):
        try:
            document = canonical(dict(document))
        except (ValueError, TypeError, RecursionError):
            findings.append("the plan cannot be written canonically, so it has no hash")
            return None
    if not isinstance(document, str | bytes):
        findings.append("a plan is a JSON object, as text or as a mapping; audit(plan.dumps()) has it")
        return None
    if _size(document) > MOST_BYTES:
        findings.append(f"a plan has at most {MOST_BYTES >> 20} MiB; this document is larger")
        return None
    try:
        body = json.loads(document, object_pairs_hook=_once, parse_float=_refuse)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, KeyveilError | _Refused) else "not JSON"
        findings.append(f"a plan is a JSON object: {reason}")
        return None
    if not isinstance(body, dict):
        findings.append("a plan is a JSON object")
        return None
    return body


def _size(document: str | bytes) -> int:
    """Bytes of a document; of text that is too long anyway, its characters."""
    if isinstance(document, bytes) or len(document) > MOST_BYTES:
        return len(document)
    return len(document.encode(errors="surrogatepass"))


def _short(value: object) -> str:
    """A value as it is shown in a finding, at most 60 characters of it."""
    if not isinstance(value, str):
        return f"of type {type(value).__name__}"
    return repr(value) if len(value) <= 60 else f"{value[:60]!r}..."


class _Refused(ValueError):
    """JSON that no plan may contain."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise _Refused("a member appears twice")
    return dict(pairs)


def _refuse(number: str) -> Any:
    raise _Refused("numbers in a plan are whole; decimals are strings")


def _check_members(body: dict[str, Any], findings: list[str]) -> None:
    parted = "parts" in body
    needed = _MEMBERS | ({"parts"} if parted else _OWN)
    _check_names("the plan", body, needed, {"chain"} if parted else _MAY, findings)
    kind = _checked_mechanism(body.get("mechanism"), findings)
    if kind is not None:
        _check_chain(kind, body, findings)
        if kind.makes_parts != parted:
            fact = "has parts" if kind.makes_parts else "has no parts"
            findings.append(f"a plan of {kind.name} {fact}")
    if body.get("client") != CLIENT:
        findings.append("the plan's mapping for clients is not one this version knows")


def _check_names(
    what: str, body: dict[str, Any], needed: set[str], optional: set[str], findings: list[str]
) -> None:
    """Every member that must be there is, and no other."""
    for name in sorted(needed - set(body)):
        findings.append(f"{what} lacks {name!r}")
    unknown = sorted(set(body) - needed - optional)
    for name in unknown[:MOST_ALIKE]:
        findings.append(f"{what} has an unknown member {_short(name)}")
    if len(unknown) > MOST_ALIKE:
        findings.append(f"{what} has {len(unknown) - MOST_ALIKE} more unknown members")


def _checked_mechanism(mechanism: object, findings: list[str]) -> Recipe | None:
    """The mechanism that a plan or a part names; None if it or its parameters are wrong."""
    called = mechanism.get("name") if isinstance(mechanism, dict) else None
    if not isinstance(mechanism, dict) or not isinstance(called, str) or called not in REGISTRY:
        findings.append(f"unknown mechanism; known: {', '.join(REGISTRY)}")
    elif not isinstance(mechanism.get("parameters"), dict) or set(mechanism) != {
        "name",
        "calibrate",
        "parameters",
    }:
        findings.append("a plan's mechanism has name, calibrate and parameters")
    elif mechanism["calibrate"] not in CALIBRATIONS:
        findings.append(f"unknown calibration; known: {', '.join(CALIBRATIONS)}")
    elif not all(isinstance(v, int | str) for v in mechanism["parameters"].values()):
        findings.append("a plan's parameters are whole numbers and strings")
    else:
        if wrong := REGISTRY[called].parameter_fault(mechanism["parameters"]):
            findings.append(wrong)
        return REGISTRY[called]
    return None


def _check_chain(kind: Recipe, body: dict[str, Any], findings: list[str]) -> None:
    """A chain's members, where the mechanism has rounds; nothing where it has none."""
    chain, schema = body.get("chain"), body.get("schema")
    keys = schema.get("keys") if isinstance(schema, dict) else None
    if not isinstance(keys, list):
        return  # the schema's own check says so
    wrong = kind.chain_fault(chain, len(keys))
    if wrong:
        findings.append(wrong)


def _check_hash(body: dict[str, Any], findings: list[str]) -> None:
    stated = body.get("hash")
    try:
        true = hashlib.sha256(
            canonical({name: part for name, part in body.items() if name != "hash"})
        ).hexdigest()
    except (ValueError, TypeError, RecursionError):
        findings.append("the plan cannot be written canonically, so it has no hash")
        return
    if not is_hex(stated, 64) or stated != true:
        findings.append("the plan's hash does not match its content")


def _epsilons(body: dict[str, Any], findings: list[str]) -> tuple[Decimal | None, Decimal | None]:
    epsilon = body.get("epsilon")
    if not isinstance(epsilon, dict) or set(epsilon) != {"promised", "proven"}:
        findings.append("the plan's epsilon has 'promised' and 'proven'")
        return None, None
    stated: list[Decimal | None] = []
    for name in ("promised", "proven"):
        try:
            value = decimal(epsilon[name], name)
            if not isinstance(epsilon[name], str) or text(value) != epsilon[name]:
                raise ValueError
            if not 0 <= value <= LARGEST:
                raise ValueError
            stated.append(value)
        except ValueError:
            findings.append(
                f'the plan\'s {name} epsilon must be a decimal string from 0 to {LARGEST}, like "1"'
            )
            stated.append(None)
    return stated[0], stated[1]


def _all_channels(body: dict[str, Any], findings: list[str]) -> tuple[list[_Channels], Proof | None]:
    """The channels of the plan, or of each of its parts, and the worst proof of all."""
    schema = body.get("schema")
    keys = schema.get("keys") if isinstance(schema, dict) else None
    many = len(keys) if isinstance(keys, list) else 0
    owners = [body]
    if "parts" in body:
        listed = body["parts"]
        if not isinstance(listed, list) or not 2 <= len(listed) <= MOST_PARTS:
            findings.append(f"the plan's parts are a list of 2 to {MOST_PARTS}")
            return [], None
        owners = [part for part in listed if _is_part(part, findings)]
        if len(owners) < len(listed):
            return [], None
    channels: list[_Channels] = []
    worst: Proof | None = None
    subsets = 0
    for owner in owners:
        before = len(findings)
        own, proof, subsets = _channels(owner, many, subsets, findings)
        channels.append(own)
        if proof is not None:
            worst = proof if worst is None else worst_of((worst, proof))
        if len(findings) > before:
            break  # one part with faults is enough
    return channels, worst


def _is_part(part: object, findings: list[str]) -> bool:
    """Whether a part has its members and a mechanism of one round; its channels are checked later."""
    before = len(findings)
    if not isinstance(part, dict):
        findings.append("a part of the plan is an object")
        return False
    if "parts" in part:
        findings.append("a part has no parts of its own")
        return False
    _check_names("a part of the plan", part, _PART, _PART_MAY, findings)
    for name in ("weight", "levels"):
        if isinstance(part.get(name), bool) or not isinstance(part.get(name), int):
            findings.append(f"a part's {name} is a whole number")
    kind = _checked_mechanism(part.get("mechanism"), findings)
    if kind is not None and (kind.makes_parts or kind.chain_fault(None, 1)):
        findings.append(f"{kind.name} is no mechanism for a part")
    del findings[before + MOST_ALIKE :]
    return len(findings) == before


_Channels = tuple[Channel, ...]


def _channels(
    body: dict[str, Any], many: int, subsets: int, findings: list[str]
) -> tuple[_Channels, Proof | None, int]:
    """The channels of a plan or part over ``many`` keys, their worst proof, and states of subsets."""
    listed = body.get("channels")
    if not isinstance(listed, list) or not listed:
        findings.append("the plan's channels are a list")
        return (), None, subsets
    channels: list[Channel] = []
    worst: Proof | None = None
    wrong = 0
    encoding = ENCODINGS.get(str(body.get("encode")))
    for document in listed:
        try:
            channel = parse_channel(document)
            subsets += channel.proof_steps
            if subsets > MOST_SUBSET_STATES:
                findings.append(TOO_MANY_SUBSETS)
                break
            proof = channel.proof() if encoding is None else encoding.proof(channel, many)
        except KeyveilError as error:
            findings.append(str(error))
            wrong += 1
            if wrong == MOST_ALIKE:
                break
            continue
        channels.append(channel)
        worst = proof if worst is None else worst_of((worst, proof))
    return tuple(channels), worst, subsets


def _rebuilt(
    body: dict[str, Any], promised: Decimal, channels: list[_Channels], findings: list[str]
) -> Plan | None:
    """Rebuild the plan from the document; it must come out the same."""
    try:
        schema = Schema.parse(body["schema"])
        if "parts" in body:
            plan = _rebuilt_parts(body, schema, promised, channels)
        else:
            plan = _one_plan(body, schema, promised, channels[0])
    except KeyveilError as error:
        findings.append(str(error))
        return None
    if plan.hash != body["hash"]:
        findings.append("the plan is not written in its one canonical form")
        return None
    for own in (plan,) if plan.parts is None else (*plan.part_plans, plan):
        if wrong := own.mechanism.plan_fault(own):
            findings.append(wrong)
            return None
    return plan


def _one_plan(body: dict[str, Any], schema: Schema, promised: Decimal, channels: _Channels) -> Plan:
    """The plan of a document without parts, or of a part."""
    of, mechanism = body.get("channel_of"), body["mechanism"]
    if of is not None and (
        not isinstance(of, list) or any(isinstance(c, bool) or not isinstance(c, int) for c in of)
    ):
        raise PlanError("the plan's channel_of is a list of whole numbers")
    return Plan(
        schema,
        Views.parse(body["views"], len(schema.keys)),
        str(body["encode"]),
        channels,
        promised,
        mechanism["name"],
        mechanism["calibrate"],
        None if of is None else tuple(of),
        mechanism["parameters"],
        body.get("chain"),
    )


def _rebuilt_parts(
    body: dict[str, Any], schema: Schema, promised: Decimal, channels: list[_Channels]
) -> Plan:
    """The plan of a document with parts."""
    listed, mechanism = body["parts"], body["mechanism"]
    if sum(part["weight"] for part in listed) != WORD:
        raise PlanError(NO_WEIGHTS)
    parts: list[PlanPart] = []
    views = 0
    for part, own in zip(listed, channels, strict=True):
        plan = _one_plan(part, schema.at(part["levels"]), promised, own)
        parts.append(PlanPart(part["weight"], plan))
        views += len(plan.views)
        if views > MOST_VIEWS:  # before the next part takes as long
            raise PlanError(f"all parts of a plan have at most {MOST_VIEWS} views")
    return Plan.with_parts(mechanism["name"], tuple(parts), mechanism["parameters"])
