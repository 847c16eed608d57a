"""Budget: a device's ledger. A device answers a plan once, and the first answer stands."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from inspect import isawaitable
from pathlib import Path
from typing import Any

from ..foundation.coins import Coins, fresh_bytes
from ..foundation.errors import BudgetError, CoinsError, PlanError, RecordError
from ..foundation.exact import Number, decimal, difference, rounded_down, rounded_up, text, total
from ..foundation.files import locked, write_whole
from .plan import Plan
from .plan_document import canonical
from .report import Report

FORMAT = "keyveil/budget/1"
LEDGER = "the ledger"
OTHER_PLAN = "this collection was answered under another plan; a device answers once"
OTHER_ROUND = "this round was answered under another plan; a device answers once"


class Budget:
    """The file ``path``, which remembers every report and what it cost, with a ``cap`` on the total.

    Asked again for a plan it has answered, it gives back the same report under the same id, also
    after a restart and also when the record has changed since: a second answer, with the same coins
    or with new ones, would tell more than the plan promises. A later round of a chain is answered only
    if its parent is the plan answered last, its schema is the same, and the sum is within the total that
    the first plan stated. The file is private to its owner and is replaced whole, before the report
    leaves.
    """

    def __init__(self, path: str | Path, cap: Number | None = None) -> None:
        self.path = checked_file(path, "budget")
        limit = None if cap is None else checked_cap(cap)
        if not self.path.exists():
            if limit is None:
                raise BudgetError(
                    "a new budget needs a cap on the total epsilon: pass cap=... the first time"
                )
            self._make(limit)
        kept = Decimal(self._read()["cap"])
        if limit is not None:
            check_same_cap(self.path, limit, kept)

    def _make(self, cap: Decimal) -> None:
        """Create the file, unless another process has made it meanwhile."""
        make_folder(self.path, LEDGER)
        with self._locked():
            if not self.path.exists():
                device = fresh_bytes(16).hex()
                self._write({"format": FORMAT, "cap": text(cap), "device": device, "answers": []})

    @property
    def cap(self) -> Decimal:
        """The most that all answers together may cost."""
        return Decimal(self._read()["cap"])

    @property
    def spent(self) -> Decimal:
        """What all answers so far have cost: the sum of their proven epsilons."""
        return _spent(self._read())

    @property
    def left(self) -> Decimal:
        """What may still be spent."""
        return left_in(self._read())

    def entries(self) -> list[dict[str, str]]:
        """Each plan that was answered and its epsilon, for the person to read."""
        return [
            {"plan": a["plan"], "mechanism": a["mechanism"], "epsilon": a["epsilon"]}
            for a in self._read()["answers"]
        ]

    def answer(self, plan: Plan, record: object, coins: Coins | None = None) -> Report:
        """The device's one report to a plan, whatever the record holds.

        ``record`` is a mapping of keys to values, or a function that returns one and is called after all
        checks.
        Coins of the caller's own must be secure. The report's id is drawn apart from them.
        """
        if coins is not None and not coins.secure_source:
            raise CoinsError("a device answers with secure coins only; leave coins out")
        check_plan(plan)
        with self._locked():
            ledger = self._read()
            for answer in ledger["answers"]:
                if answer["plan"] == plan.hash:
                    return Report.parse(json.dumps(answer["report"]))
            self._check_cost(ledger, plan, rounds_before(ledger, plan))
            held = read_record(record)
            drawn = plan.report_as_client(held, coins or Coins.secure(), str(ledger["device"]))
            report = Report(plan.hash, drawn.cells, fresh_bytes(16).hex())
            ledger["answers"].append(
                {
                    "plan": plan.hash,
                    "mechanism": plan.mechanism_name,
                    "epsilon": text(plan.proven),
                    "report": json.loads(report.dumps()),
                    **chain_of(plan),
                }
            )
            self._write(ledger)
            return report

    def _check_cost(
        self,
        ledger: dict[str, Any],
        plan: Plan,
        earlier: Sequence[dict[str, Any]],
        allow: Decimal | None = None,
    ) -> None:
        """Refuse a plan that costs more than is left, allowed, or stated by the chain's first plan.

        ``earlier`` are the answers to the rounds before, ``allow`` bounds the sum with them.
        """
        cost, left = plan.proven, left_in(ledger)
        before = total(Decimal(answer["epsilon"]) for answer in earlier)
        costs = f"this plan costs epsilon {rounded_up(cost)}"
        if cost > left:
            raise BudgetError(f"{costs}, but {_said_left(left, ledger)}")
        if allow is not None and total((before, cost)) > allow:
            spent = f" and the rounds before it {rounded_up(before)}" if earlier else ""
            raise BudgetError(f"{costs}{spent}, but only {text(allow)} is allowed for one collection")
        if earlier:
            _check_round(plan, earlier, before)
        elif plan.chain is not None:
            _check_total(plan, left, allow, ledger)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with ExitStack() as held:
            with writing(self.path, LEDGER):
                held.enter_context(locked(self.path))
            yield

    def _read(self) -> dict[str, Any]:
        try:
            ledger = json.loads(self.path.read_bytes())
            if not isinstance(ledger, dict) or ledger.get("format") != FORMAT:
                raise ValueError
            checked_cap(_written(ledger["cap"]))
            if any(decimal(_written(answer["epsilon"]), "epsilon") < 0 for answer in ledger["answers"]):
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError, RecursionError, BudgetError):
            raise BudgetError(
                f"the ledger {self.path} cannot be read: it is damaged, or another file; nothing is "
                "answered until it is restored"
            ) from None
        return ledger

    def _write(self, ledger: dict[str, Any]) -> None:
        with writing(self.path, LEDGER):
            write_whole(self.path, json.dumps(ledger, indent=1).encode(), private=True)


def checked_file(path: str | Path, name: str) -> Path:
    """The path of a file that a device keeps; a folder is refused."""
    file = Path(path)
    if file.is_dir():
        raise BudgetError(f"a {name} is a file; {file} is a folder")
    return file


def make_folder(path: Path, name: str) -> None:
    """Make the folder of a file that a device keeps, for its owner alone."""
    with writing(path, name):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)


@contextmanager
def writing(path: Path, name: str) -> Iterator[None]:
    """Say in one line which file of a device cannot be written, and why."""
    try:
        yield
    except OSError as error:
        near = next((parent for parent in path.parents if parent.exists()), None)
        reason = (error.strerror or str(error)).lower()
        if near is not None and not near.is_dir():
            reason = f"{near} is a file, not a folder"
        raise BudgetError(f"cannot write {name} {path}: {reason}") from None


def check_plan(plan: object) -> None:
    """Refuse what is no plan."""
    if not isinstance(plan, Plan):
        file = f"'{plan}'" if isinstance(plan, str | Path) else "'plan.json'"
        raise BudgetError(f"answer takes a Plan: Plan.load({file})")


def _written(number: object) -> str:
    """A number as ledgers have it: a decimal string."""
    if not isinstance(number, str):
        raise TypeError
    return number


def checked_cap(cap: object, name: str = "a budget's cap") -> Decimal:
    """A bound on a sum of epsilons: a finite number above zero."""
    try:
        limit = decimal(cap, name)
    except PlanError as error:
        raise BudgetError(str(error)) from None
    if limit <= 0:
        raise BudgetError(f"{name} must be above zero")
    return limit


def check_same_cap(path: Path, asked: Decimal, own: Decimal) -> None:
    """Refuse a cap that is not the one with which the file was made."""
    if asked != own:
        raise BudgetError(
            f"the budget {path} was made with a cap of {text(own)}, and the cap asked for now is "
            f"{text(asked)}; a cap is set once, so leave it out, or name another file"
        )


def read_record(record: object) -> object:
    """The record, also if it is given as a function that returns it.

    One that must be awaited is refused: that is a matter of the program, not of what a person holds.
    """
    if not callable(record) or isinstance(record, Mapping):
        return record
    held = record()
    if not isawaitable(held):
        return held
    if isinstance(held, Coroutine):
        held.close()
    raise RecordError(
        "the function that returns the record must be awaited; use AsyncClient, or pass one that "
        "returns a mapping of keys to values"
    )


def _spent(ledger: dict[str, Any]) -> Decimal:
    return total(Decimal(answer["epsilon"]) for answer in ledger["answers"])


def left_in(ledger: dict[str, Any]) -> Decimal:
    """What may still be spent."""
    return difference(Decimal(ledger["cap"]), _spent(ledger))


def _said_left(left: Decimal, ledger: dict[str, Any]) -> str:
    """What is left of the cap, for the person to read."""
    amount = f"only {rounded_down(left)}" if left > 0 else "nothing"
    return f"{amount} is left of the cap of {text(Decimal(ledger['cap']))}"


# -- rounds ------------------------------------------------------------------------------------------


def chain_of(plan: Plan) -> dict[str, Any]:
    """What a ledger keeps of a plan's chain, to hold later rounds to it; nothing without a chain."""
    if plan.chain is None:
        return {}
    kept = {"parent": plan.chain["parent"], "total": plan.chain["total"], "schema": _schema(plan)}
    return {"chain": kept}


def _schema(plan: Plan) -> str:
    """A hash of the keys, ranges and levels, so that a ledger names no key."""
    return hashlib.sha256(canonical(plan.schema.document())).hexdigest()


def rounds_before(ledger: dict[str, Any], plan: Plan) -> list[dict[str, Any]]:
    """The answers to the rounds before this plan, found by their parents; the first one first.

    A round has one plan: one whose parent was followed by another is refused.
    """
    answers = {answer["plan"]: answer for answer in ledger["answers"]}
    rounds: list[dict[str, Any]] = []
    parent = "" if plan.chain is None else plan.chain["parent"]
    if any(parent and answer.get("chain", {}).get("parent") == parent for answer in answers.values()):
        raise BudgetError(OTHER_ROUND)
    while parent in answers:
        rounds.insert(0, answers[parent])
        parent = answers[parent].get("chain", {}).get("parent", "")
    return rounds


def _check_round(plan: Plan, earlier: Sequence[dict[str, Any]], before: Decimal) -> None:
    """A later round follows the plan answered last, within what the first one stated."""
    first, last = earlier[0], earlier[-1]
    follows = plan.chain is not None and plan.chain["parent"] == last["plan"]
    if not follows or plan.mechanism_name != last["mechanism"]:
        raise BudgetError(OTHER_PLAN)
    stated = first.get("chain")
    if stated is None:
        raise BudgetError(
            "the first round was answered by an earlier version of keyveil, which did not keep what all "
            "rounds may cost; later rounds are not answered"
        )
    if total((before, plan.proven)) > Decimal(stated["total"]):
        raise BudgetError(
            f"this round costs epsilon {rounded_up(plan.proven)} and the rounds before it "
            f"{rounded_up(before)}, but the first plan stated a total of epsilon {stated['total']}"
        )
    if _schema(plan) != stated["schema"]:
        raise BudgetError("this round asks for other keys or ranges than the first; it is not answered")


def _check_total(plan: Plan, left: Decimal, allow: Decimal | None, ledger: dict[str, Any]) -> None:
    """A chain is begun only if all its rounds are affordable and the first is within them."""
    assert plan.chain is not None
    stated = decimal(plan.chain["total"], "a chain's total")
    if plan.proven > stated:
        raise BudgetError(
            f"this plan states a total of epsilon {text(stated)} for all its rounds, and costs "
            f"{rounded_up(plan.proven)} by itself"
        )
    costs = f"all rounds of this chain cost epsilon {rounded_up(stated)}"
    if allow is not None and stated > allow:
        raise BudgetError(f"{costs}, but only {text(allow)} is allowed for one collection")
    if stated > left:
        raise BudgetError(f"{costs}, but {_said_left(left, ledger)}")
