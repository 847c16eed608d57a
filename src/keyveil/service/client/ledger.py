"""Ledger: a device's budget, its reports that wait to be sent, and the state of each.

There are two files: the ledger and the file of the device's secret. An answer is written to the ledger,
then to the secret file, and only then may its report leave. So the device always knows what it sent:

- *The ledger is lost.* Its cap and costs are restored from the secret file. A report is drawn again
  only from a record that matches its commitment, so it is the same report with the same id and epoch.
- *The secret file is lost.* Reports in the ledger are still sent, but nothing new is answered.
- *Both are lost.* Then this is a new device; no program on it could know better.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from ...foundation.coins import Coins, fresh_bytes
from ...foundation.errors import BudgetError, CoinsError
from ...foundation.exact import Number, text, total
from ...plan.budget import (
    FORMAT,
    LEDGER,
    OTHER_PLAN,
    Budget,
    chain_of,
    check_plan,
    check_same_cap,
    checked_cap,
    checked_file,
    make_folder,
    read_record,
    rounds_before,
)
from ...plan.plan import Plan
from ...plan.report import Report
from .device import Device, coins_of, commitment

WAITING = ("waiting", "held", "refused")
"""States of a report that may still be sent."""
MOST_WAITING = 100


@dataclass(frozen=True)
class Entry:
    """One answer, for the person to read."""

    collection: str
    plan: str
    mechanism: str
    epsilon: Decimal
    round: int
    epoch: int
    state: str
    """One of six.

    ``waiting``: to be sent. ``held``: a relay has it. ``counted``: the collector has it. ``refused``:
    the collector did not accept it as it was sent. ``dropped``: too late, never sent again. ``lost``:
    the ledger was lost.
    """
    reason: str
    tries: int
    after: float
    """Time before which it is not sent."""
    report: Report | None


class Ledger(Budget):
    """A ``Budget`` whose answers belong to collections and wait until they are acknowledged.

    ``path`` is the file of the ledger, ``secret_file`` that of the device's secret, which should be in
    another folder. ``cap`` bounds the total epsilon, and is set once. ``most_waiting`` is how many
    reports may wait to be sent; beyond it no new collection is answered.
    """

    def __init__(
        self,
        path: str | Path,
        cap: Number | None = None,
        secret_file: str | Path | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._name_files(path, secret_file)
        self.most_waiting = most_waiting
        limit = None if cap is None else checked_cap(cap)
        if self.path.exists() or self.device.exists:
            self._united()
        elif limit is None:
            raise BudgetError(
                "a new ledger needs a cap on the total epsilon: pass cap=... the first time"
            )
        make_folder(self.path, LEDGER)
        self.device.make_folder()
        with self._locked():
            if limit is not None and not self.path.exists() and not self.device.exists:
                self.device.make(text(limit))
            self._restore()
            if limit is not None:
                check_same_cap(self.path, limit, Decimal(self._read()["cap"]))

    def _name_files(self, path: str | Path, secret_file: str | Path | None) -> None:
        self.path = checked_file(path, "ledger")
        self.device = Device(self.path.with_name("device.json") if secret_file is None else secret_file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self.device.locked(), super()._locked():
            yield

    def _restore(self) -> None:
        """Make the two files agree; neither loses what the other knows."""
        ledger = self._united()
        if not self.device.exists:
            return
        if not self.path.exists() or ledger != self._read():
            self._write(ledger)
        for answer in ledger["answers"]:
            if answer.get("report") is not None and "commitment" in answer:
                self.device.remember(answer, answer["report"]["id"])

    def _united(self) -> dict[str, Any]:
        """What the two files know together; nothing is written."""
        if not self.device.exists:
            return super()._read()
        contents = self.device.read()
        ledger: dict[str, Any] = {
            "format": FORMAT,
            "cap": contents["cap"],
            "device": contents["device"],
            "answers": [],
        }
        if self.path.exists():
            ledger = super()._read()
        if ledger["device"] != contents["device"] or Decimal(ledger["cap"]) != Decimal(contents["cap"]):
            raise BudgetError(
                "the ledger and the device's secret do not belong together; nothing is answered"
            )
        known = {answer["plan"] for answer in ledger["answers"]}
        lost = [answer for answer in contents["answers"] if answer["plan"] not in known]
        ledger["answers"] += [{**answer, "report": None, **_fresh("lost")} for answer in lost]
        return ledger

    # -- reading -----------------------------------------------------------------------------------

    def answers(self) -> list[Entry]:
        """All answers so far, in order."""
        return [_entry(answer) for answer in self._read()["answers"]]

    def of(self, collection: str) -> list[Entry]:
        """The answers to one collection, one for each round."""
        return [entry for entry in self.answers() if entry.collection == collection]

    def spent_in(self, collection: str) -> Decimal:
        """Total epsilon of a collection over all its rounds."""
        return total(entry.epsilon for entry in self.of(collection))

    def waiting(self) -> list[Entry]:
        """The reports that may still be sent."""
        return [entry for entry in self.answers() if entry.state in WAITING]

    # -- answering ---------------------------------------------------------------------------------

    def answer(
        self,
        plan: Plan,
        record: object,
        coins: Coins | None = None,
        *,
        collection: str = "",
        epoch: int = 0,
        allow: Decimal | None = None,
    ) -> Report:
        """The device's only report to a plan in a collection, durable in both files.

        ``allow`` bounds the epsilon of the collection over all its rounds, and so does the total that
        its first plan states. A refusal depends on plans, on earlier answers and on what was lost. It
        depends on the record only if a report was lost and the record has changed since.
        """
        if coins is not None:
            raise CoinsError("a device's coins come from its own secure secret: leave coins out")
        allow = None if allow is None else checked_cap(allow, "allow")
        check_plan(plan)
        with self._locked():
            self._restore()
            ledger = self._read()
            answer = _answer_to(ledger, plan.hash)
            if answer is None:
                answer = self._draw(ledger, plan, record, collection, epoch, allow)
            elif answer.get("collection", "") != collection:
                raise BudgetError(
                    "this plan was answered in another collection; a report belongs to one collection"
                )
            elif answer["report"] is None:
                self._redraw(ledger, answer, plan, record)
            return Report.parse(json.dumps(answer["report"]))

    def _device_contents(self) -> dict[str, Any]:
        if not self.device.exists:
            raise BudgetError("the device's secret is missing; nothing new is answered without it")
        return self.device.read()

    def _draw(
        self,
        ledger: dict[str, Any],
        plan: Plan,
        record: object,
        collection: str,
        epoch: int,
        allow: Decimal | None,
    ) -> dict[str, Any]:
        contents = self._device_contents()
        number = _round(plan)
        if collection:
            earlier = [t for t in ledger["answers"] if t.get("collection") == collection]
        else:
            earlier = rounds_before(ledger, plan)
        if any(t.get("round", 1) >= number for t in earlier):
            raise BudgetError(OTHER_PLAN)
        self._check_cost(ledger, plan, earlier, allow)
        if sum(t.get("state") in WAITING for t in ledger["answers"]) >= self.most_waiting:
            raise BudgetError(
                f"{self.most_waiting} reports wait to be sent: send them before answering more"
            )
        record = read_record(record)
        drawn = plan.report_as_client(record, coins_of(contents), contents["device"])
        name = fresh_bytes(16).hex()
        answer: dict[str, Any] = {
            "plan": plan.hash,
            "mechanism": plan.mechanism_name,
            "epsilon": text(plan.proven),
            "report": json.loads(Report(plan.hash, drawn.cells, name).dumps()),
            "collection": collection,
            "round": number,
            "epoch": epoch,
            "commitment": commitment(contents, plan, record),
            **chain_of(plan),
            **_fresh("waiting"),
        }
        ledger["answers"].append(answer)
        self._write(ledger)
        self.device.remember(answer, name)
        return answer

    def _redraw(
        self, ledger: dict[str, Any], answer: dict[str, Any], plan: Plan, record: object
    ) -> None:
        """Draw a lost report again. It is the same report, or an error."""
        contents, record = self._device_contents(), read_record(record)
        if not hmac.compare_digest(commitment(contents, plan, record), answer["commitment"]):
            raise BudgetError(
                "the first report to this plan was lost and cannot be drawn again; nothing is sent"
            )
        drawn = plan.report_as_client(record, coins_of(contents), contents["device"])
        answer["report"] = json.loads(Report(plan.hash, drawn.cells, answer["id"]).dumps())
        answer.update(_fresh("waiting"))
        self._write(ledger)

    # -- sending -----------------------------------------------------------------------------------

    def mark(self, plan: str, **facts: Any) -> Entry:
        """Set state, reason, tries or after of an answer. Dropped and counted answers never change."""
        with self._locked():
            ledger = self._read()
            answer = _answer_to(ledger, plan)
            assert answer is not None
            if answer["state"] not in ("dropped", "counted") and answer != {**answer, **facts}:
                answer.update(facts)
                self._write(ledger)
            return _entry(answer)


class LedgerView(Ledger):
    """A ledger to read. No file is locked or written; a lost ledger is read from the secret file."""

    def __init__(self, path: str | Path, secret_file: str | Path | None = None) -> None:
        self._name_files(path, secret_file)
        self._read()

    def _read(self) -> dict[str, Any]:
        return self._united()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        raise BudgetError("this ledger was opened to read; a Ledger answers")
        yield


def _fresh(state: str) -> dict[str, Any]:
    return {"state": state, "reason": "", "tries": 0, "after": 0.0}


def _answer_to(ledger: dict[str, Any], plan: str) -> dict[str, Any] | None:
    return next((answer for answer in ledger["answers"] if answer["plan"] == plan), None)


def _round(plan: Plan) -> int:
    return int(plan.chain["round"]) if plan.chain is not None else 1


def _entry(answer: dict[str, Any]) -> Entry:
    report = answer["report"]
    return Entry(
        answer.get("collection", ""),
        answer["plan"],
        answer["mechanism"],
        Decimal(answer["epsilon"]),
        answer.get("round", 1),
        answer.get("epoch", 0),
        answer.get("state", "waiting"),
        answer.get("reason", ""),
        answer.get("tries", 0),
        answer.get("after", 0.0),
        None if report is None else Report.parse(json.dumps(report)),
    )
