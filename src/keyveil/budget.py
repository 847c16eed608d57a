"""Budget: a device's ledger. One device answers one plan once; what it told stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from .coins import Coins, address
from .errors import BudgetError, CoinsError
from .exact import decimal, text
from .files import locked, write_whole
from .plan import Plan
from .report import Report

FORMAT = "keyveil/budget/1"


class Budget:
    """A file that remembers every report and what it cost, with a cap on the total.

    Asked again for a plan it has answered, it gives back the same report under the same id, also
    after a restart and also when the record has changed since: a second answer, with the same coins
    or with new ones, would tell more than the plan promises. The file is private to its owner and is
    replaced whole, before the report leaves.
    """

    def __init__(self, path: str | Path, cap: float | str | Decimal | None = None) -> None:
        self.path = Path(path)
        with self._locked():
            if not self.path.exists():
                if cap is None:
                    raise BudgetError("a new budget needs a cap on the total epsilon")
                limit = decimal(cap, "cap")
                if limit <= 0:
                    raise BudgetError("a budget's cap must be above zero")
                device = Coins.secure().identifier(address([0])).hex()
                self._write({"format": FORMAT, "cap": text(limit), "device": device, "answers": []})
            elif cap is not None and decimal(cap, "cap") != Decimal(self._read()["cap"]):
                raise BudgetError("this budget has another cap; a cap is set once, when it is made")

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
        ledger = self._read()
        return Decimal(ledger["cap"]) - _spent(ledger)

    def entries(self) -> list[dict[str, str]]:
        """What the person may read: each plan answered, and what it cost."""
        return [
            {"plan": a["plan"], "mechanism": a["mechanism"], "epsilon": a["epsilon"]}
            for a in self._read()["answers"]
        ]

    def answer(self, plan: Plan, record: object, coins: Coins | None = None) -> Report:
        """The device's one report to a plan, whatever the record holds.

        Coins of the caller's own must be secure; they are drawn from under this device's own random
        name and the plan, so that no two answers share a word.
        """
        if coins is not None and not coins.secure_source:
            raise CoinsError("a device answers with secure coins only; leave coins out")
        with self._locked():
            ledger = self._read()
            for told in ledger["answers"]:
                if told["plan"] == plan.hash:
                    return Report.parse(json.dumps(told["report"]))
            cost, left = plan.proven, Decimal(ledger["cap"]) - _spent(ledger)
            if cost > left:
                raise BudgetError(
                    f"this plan costs epsilon {text(cost)}, but only {text(left)} of the cap of "
                    f"{ledger['cap']} is left"
                )
            fresh, device = coins or Coins.secure(), str(ledger["device"])
            drawn = plan.report_as_client(record, fresh, device)
            name = fresh.under(plan.hash).identifier(address([device])).hex()
            report = Report(plan.hash, drawn.cells, name)
            ledger["answers"].append(
                {
                    "plan": plan.hash,
                    "mechanism": plan.mechanism,
                    "epsilon": text(cost),
                    "report": json.loads(report.dumps()),
                }
            )
            self._write(ledger)
            return report

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with locked(self.path):
            yield

    def _read(self) -> dict[str, Any]:
        try:
            ledger = json.loads(self.path.read_bytes())
        except (OSError, ValueError, RecursionError):
            ledger = None
        if not isinstance(ledger, dict) or ledger.get("format") != FORMAT:
            raise BudgetError("the budget file cannot be read; nothing is answered until it is restored")
        return ledger

    def _write(self, ledger: dict[str, Any]) -> None:
        write_whole(self.path, json.dumps(ledger, indent=1).encode(), private=True)


def _spent(ledger: dict[str, Any]) -> Decimal:
    return sum((Decimal(a["epsilon"]) for a in ledger["answers"]), Decimal(0))
