"""A collector that wants more than people agreed to: rounds that are none, bodies without end, times."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

import httpx
import pytest

from keyveil import AsyncClient, Budget, BudgetError, Client, Coins, KeyveilError, Plan, Schema, Tally
from keyveil.plan.plan_document import canonical
from keyveil.plan.report import Report
from keyveil.service.client import ClientError, Ledger, Outcome, Patience
from keyveil.service.client.client_core import MOST_PLAN, MOST_RESPONSE, even

URL = "http://127.0.0.1"
CLIENTS = ("client", "asynchronous client")
NOW = 1_800_000_000.0
HARMLESS = Schema.of(["Weather"], 1, 5)
SECRET = Schema.of(["Diagnosis", "Income"], 1, 5)
RECORD = {"Weather": 3, "Diagnosis": 5, "Income": 1}


class Hostile:
    """A collector that serves whatever plan it likes and keeps what it is sent."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.reports: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[], httpx.Response]] = {}
        """What is said in place of the usual, by the method and the end of the path."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        for end, answer in self.answers.items():
            if f"{request.method} {request.url.path}".endswith(end):
                return answer()
        if request.method == "POST":
            self.reports.append(json.loads(request.content))
            return said({"accepted": 1, "failed": []})
        if request.url.path.endswith("/plan"):
            return said(self.plan.document())
        epoch = {"now": int(NOW) // 86_400, "seconds": 86_400}
        return said({"plan": self.plan.hash, "epoch": epoch, "state": "open"})


def said(document: dict[str, Any]) -> httpx.Response:
    """A response whose body is still to come, as from a network."""
    return httpx.Response(200, stream=httpx.ByteStream(canonical(document)))


class Device:
    """A person's device behind one of the doors; ``tell`` answers the collector's present plan."""

    def __init__(
        self, door: str, folder: Path, collector: Hostile, cap: object = 9, **more: Any
    ) -> None:
        self.door, self.folder, self.collector, self.cap = door, folder, collector, cap
        self._options: dict[str, Any] = {
            "cap": cap,
            "transport": httpx.MockTransport(collector),
            "clock": lambda: NOW,
            **more,
        }
        self.slept: list[float] = []

    def _pause(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def _pause_asynchronously(self, seconds: float) -> None:
        self.slept.append(seconds)

    def tell(self) -> Outcome | Report:
        plan = self.collector.plan
        if self.door == "budget":
            return Budget(self.folder / "budget.json", self.cap).answer(plan, RECORD)
        if self.door == "ledger":
            return self._ledger().answer(plan, RECORD)
        if self.door == "ledger of a collection":
            return self._ledger().answer(plan, RECORD, collection="menu")
        if self.door == "client":
            with Client(URL, self.folder, pause=self._pause, **self._options) as client:
                return client.answer("menu", RECORD)
        return asyncio.run(self._asynchronously())

    def _ledger(self) -> Ledger:
        return Ledger(self.folder / "ledger.json", self.cap)

    async def _asynchronously(self) -> Outcome:
        async with AsyncClient(
            URL, self.folder, pause=self._pause_asynchronously, **self._options
        ) as client:
            return await client.answer("menu", RECORD)

    @property
    def spent(self) -> Decimal:
        if self.door == "budget":
            return Budget(self.folder / "budget.json").spent
        return Ledger(self.folder / "ledger.json").spent


IN_A_COLLECTION = ("client", "asynchronous client", "ledger of a collection")
DOORS = (*IN_A_COLLECTION, "ledger", "budget")
FIRST = Plan.of(HARMLESS, "privkvm", 1, rounds=3)


def posing(schema: Schema, epsilon: object, number: int = 2, **chain: Any) -> Plan:
    """A plan that says of itself that it is a later round of privkvm."""
    plan = Plan.of(schema, "privkvm", epsilon, rounds=3)
    assert plan.chain is not None
    facts = {"round": number, "parent": "", "frequency": [["0", "0", 0]] * len(schema.keys), **chain}
    return replace(plan, chain={**plan.chain, **facts})


def honest_next(plan: Plan) -> Plan:
    tally = Tally(plan)
    for person in range(60):
        tally.add(plan.report({plan.schema.keys[0]: 1}, Coins.stated("honest"), person))
    return plan.next(tally)


# -- rounds that are none --------------------------------------------------------------------------


@pytest.mark.parametrize("door", IN_A_COLLECTION)
def test_rounds_that_are_none_get_nothing(tmp_path, door):
    """The first plan states a total of 1; the later ones ask for other keys at epsilon 2 each."""
    collector = Hostile(FIRST)
    device = Device(door, tmp_path, collector)
    device.tell()
    for number, parent in product((2, 3, 4, 5), ("", "0" * 64)):
        collector.plan = posing(SECRET, 2, number, parent=parent)
        with pytest.raises(KeyveilError, match=r"under another plan|the plan's chain"):
            device.tell()
    assert device.spent == FIRST.proven <= 1
    assert len(collector.reports) == (1 if "client" in door else 0)


def posing_rounds() -> dict[str, tuple[Callable[[Plan], Plan], str]]:
    """Later rounds that a device refuses, made from the plan answered last, and what it says."""
    wider, turned = Schema.of(["Weather"], 0, 5), Schema.of(["Income", "Diagnosis"], 1, 5)
    return {
        "other keys": (lambda last: posing(SECRET, "0.1", parent=last.hash), "other keys or ranges"),
        "keys in another order": (
            lambda last: posing(turned, "0.1", parent=last.hash),
            "other keys or ranges",
        ),
        "another range": (lambda last: posing(wider, "0.1", parent=last.hash), "other keys or ranges"),
        "beyond the total": (
            lambda last: posing(last.schema, 2, parent=last.hash, total="99"),
            "stated a total of epsilon 1",
        ),
        "just beyond the total": (
            lambda last: posing(last.schema, "0.8", parent=last.hash, total="1"),
            "stated a total of epsilon 1",
        ),
    }


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", posing_rounds())
def test_a_round_that_names_its_parent_is_still_held_to_the_first_plan(tmp_path, door, kind):
    forge, message = posing_rounds()[kind]
    collector = Hostile(FIRST)
    device = Device(door, tmp_path, collector)
    device.tell()
    collector.plan = forge(FIRST)
    with pytest.raises(BudgetError, match=message):
        device.tell()
    assert device.spent == FIRST.proven
    collector.plan = honest_next(FIRST)
    device.tell()
    assert device.spent == FIRST.proven + collector.plan.proven <= 1, "the true round is answered"


@pytest.mark.parametrize("door", DOORS)
def test_a_round_is_answered_once_and_none_is_skipped(tmp_path, door):
    collector = Hostile(FIRST)
    device = Device(door, tmp_path, collector)
    device.tell()
    second = collector.plan = honest_next(FIRST)
    device.tell()
    spent = device.spent
    fork = posing(HARMLESS, "0.01", parent=FIRST.hash)
    third = honest_next(second)
    skipped = posing(HARMLESS, "0.01", 4, parent=third.hash)
    for plan in (fork, skipped) if door in IN_A_COLLECTION else (fork,):
        collector.plan = plan
        with pytest.raises(BudgetError, match="under another plan"):
            device.tell()
    assert device.spent == spent
    collector.plan = third
    device.tell()
    assert spent < device.spent <= 1


@pytest.mark.parametrize("door", DOORS)
def test_many_small_rounds_stay_within_the_first_total(tmp_path, door):
    """Each costs little and names its parent; their number is the collector's, their sum is not."""
    collector = Hostile(FIRST)
    device = Device(door, tmp_path, collector)
    device.tell()
    refused = ""
    for number in range(2, 12):
        collector.plan = posing(HARMLESS, "0.1", number, parent=collector.plan.hash)
        try:
            device.tell()
        except BudgetError as error:
            refused = str(error)
            break
    assert "stated a total of epsilon 1" in refused
    assert FIRST.proven < device.spent <= 1


@pytest.mark.parametrize("door", DOORS)
def test_who_told_their_size_is_not_asked_for_their_keys_too(tmp_path, door):
    """Everyone answers one plan of ``sized`` at all of epsilon; both together are beyond its total."""
    first = Plan.of(Schema.of(12), "sized", 1)
    collector = Hostile(first)
    device = Device(door, tmp_path / "one", collector)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    device.tell()
    collector.plan = honest_next(first)
    with pytest.raises(BudgetError, match="stated a total of epsilon 1"):
        device.tell()
    assert device.spent == first.proven
    other = Device(door, tmp_path / "two", collector)
    other.tell()
    assert other.spent == collector.plan.proven, "who was not asked for a size answers the second"


@pytest.mark.parametrize("door", DOORS)
def test_a_first_plan_must_state_a_total_that_holds_it(tmp_path, door):
    assert FIRST.chain is not None
    collector = Hostile(replace(FIRST, chain={**FIRST.chain, "total": "0.1"}))
    device = Device(door, tmp_path, collector)
    with pytest.raises(BudgetError, match=r"states a total of epsilon 0\.1"):
        device.tell()
    collector.plan = replace(FIRST, chain={**FIRST.chain, "total": "10"})
    with pytest.raises(BudgetError, match="all rounds of this chain cost epsilon 10"):
        device.tell()
    assert device.spent == 0


def test_a_lost_ledger_does_not_forget_what_rounds_may_cost(tmp_path):
    collector = Hostile(FIRST)
    device = Device("client", tmp_path, collector)
    device.tell()
    (tmp_path / "ledger.json").unlink()
    for forge, message in posing_rounds().values():
        collector.plan = forge(FIRST)
        with pytest.raises(BudgetError, match=message):
            device.tell()
    collector.plan = honest_next(FIRST)
    device.tell()
    assert device.spent == FIRST.proven + collector.plan.proven


@pytest.mark.parametrize("door", DOORS)
def test_a_chain_begun_before_totals_were_kept_is_not_continued(tmp_path, door):
    collector = Hostile(FIRST)
    device = Device(door, tmp_path, collector)
    device.tell()
    for path in tmp_path.glob("*.json"):
        document = json.loads(path.read_bytes())
        for answer in document["answers"]:
            answer.pop("chain", None)
            if door == "budget":  # the file of an earlier version does not know the parent either
                assert "parent" not in answer
        path.write_text(json.dumps(document))
    collector.plan = honest_next(FIRST)
    with pytest.raises(BudgetError, match="an earlier version"):
        device.tell()
    assert device.spent == FIRST.proven


@pytest.mark.parametrize(("number", "parent"), [(2, ""), (2, "x" * 64), (1, "0" * 64), (3, "0" * 63)])
@pytest.mark.parametrize("mechanism", ["privkvm", "privkvm_plus", "sized"])
def test_a_plan_names_a_parent_exactly_if_it_is_a_later_round(mechanism, number, parent):
    plan = Plan.of(Schema.of(12), mechanism, 1)
    later = honest_next(plan) if number > 1 else plan
    assert later.chain is not None
    chain = {**later.chain, "parent": parent, "round": min(number, 2)}
    document = replace(later, chain=chain).document()
    with pytest.raises(KeyveilError, match="parent"):
        Plan.parse(document)
    assert Plan.parse(later.document()) == later


# -- bodies without end ----------------------------------------------------------------------------


class Endless(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that goes on until its reader has had enough."""

    def __init__(self, part: bytes = b" " * 65_536, most: int = 1 << 30) -> None:
        self.part, self.most, self.sent = part, most, 0

    def __iter__(self) -> Iterator[bytes]:
        while self.sent < self.most:
            self.sent += len(self.part)
            yield self.part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part


@pytest.mark.parametrize("door", CLIENTS)
@pytest.mark.parametrize(("end", "most"), [("/plan", MOST_PLAN), ("/menu", MOST_RESPONSE)])
def test_a_client_fetches_no_more_than_a_plan_needs(tmp_path, door, end, most):
    collector, body = Hostile(FIRST), Endless()
    collector.answers[end] = lambda: httpx.Response(200, stream=body)
    device = Device(door, tmp_path, collector)
    with pytest.raises(ClientError) as caught:
        device.tell()
    assert str(caught.value) == (
        f"the collector sent more than {most:,} bytes where no collector has so much to say; "
        "nothing was sent"
    )
    assert most <= body.sent <= most + len(body.part), "cut off at once, and not asked for again"
    assert (device.spent, device.slept, collector.reports) == (0, [], [])


@pytest.mark.parametrize("door", CLIENTS)
def test_a_body_that_announces_too_much_is_not_begun(tmp_path, door):
    for length in (str(MOST_PLAN + 1), "9" * 5000):
        collector, body = Hostile(FIRST), Endless()
        collector.answers["/plan"] = partial(
            httpx.Response, 200, stream=body, headers={"content-length": length}
        )
        with pytest.raises(ClientError, match=f"more than {MOST_PLAN:,} bytes"):
            Device(door, tmp_path, collector).tell()
        assert body.sent == 0


@pytest.mark.parametrize("door", CLIENTS)
@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip", "GZIP", "zstd"])
@pytest.mark.parametrize("end", ["/plan", "/menu"])
def test_a_compressed_answer_is_not_unpacked(tmp_path, door, encoding, end):
    """A few kilobytes could hold a plan of gigabytes."""
    bomb = gzip.compress(bytes(20 << 20))
    collector, body = Hostile(FIRST), Endless(bomb, len(bomb))
    collector.answers[end] = partial(
        httpx.Response, 200, stream=body, headers={"content-encoding": encoding}
    )
    device = Device(door, tmp_path, collector)
    with pytest.raises(ClientError, match="a compressed answer, which was not asked for"):
        device.tell()
    assert (body.sent, device.spent) == (0, 0)


@pytest.mark.parametrize("door", CLIENTS)
def test_an_acknowledgement_without_end_acknowledges_nothing(tmp_path, door):
    collector, body = Hostile(FIRST), Endless(b'{"accepted": 1, "failed": []}'.ljust(65_536))
    collector.answers["POST /v1/collections/menu/reports"] = lambda: httpx.Response(200, stream=body)
    device = Device(door, tmp_path, collector)
    outcome = device.tell()
    assert isinstance(outcome, Outcome)
    assert outcome.state == "waiting"
    assert body.sent <= 4 * (MOST_RESPONSE + len(body.part)), "four tries"
    assert device.spent == FIRST.proven, "it was told, and waits"


@pytest.mark.parametrize("door", CLIENTS)
def test_an_answer_that_trickles_is_cut_off(tmp_path, door, monkeypatch):
    monkeypatch.setattr("keyveil.service.client.client_core.LONGEST_ANSWER", -1.0)
    collector, body = Hostile(FIRST), Endless(b" ")
    collector.answers["/menu"] = lambda: httpx.Response(200, stream=body)
    with pytest.raises(ClientError, match="took longer than"):
        Device(door, tmp_path, collector).tell()
    assert body.sent == 1


@pytest.mark.parametrize("door", CLIENTS)
def test_the_largest_honest_answers_are_read(tmp_path, door):
    """A plan of 10,000 keys with names of 40 letters; 300,000 of them would fit."""
    plan = Plan.of(Schema.of([f"{place:040}" for place in range(10_000)], 1, 5), "kvue", 1)
    assert 30 * len(plan.dumps()) < MOST_PLAN
    assert Device(door, tmp_path, Hostile(plan)).tell()


# -- times -----------------------------------------------------------------------------------------


def sent_after(door: str, folder: Path, taken: float, monkeypatch: Any, **patience: float) -> float:
    """Seconds from the plan to the report, when answering the record takes so many."""
    now = [NOW]
    answer = Ledger.answer

    def slow(ledger: Ledger, *given: Any, **more: Any) -> Report:
        now[0] += taken
        return answer(ledger, *given, **more)

    def jitter() -> float:
        assert now[0] == NOW, "drawn before the record is looked at"
        return 0.5

    folder.mkdir()
    more = {"clock": lambda: now[0], "jitter": jitter}
    device = Device(door, folder, Hostile(FIRST), **more, patience=Patience(attempts=1, **patience))
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "answer", slow)
        patch.setattr("keyveil.service.client.client_core.Core._try", lambda core, entry: iter_of(entry))
        device.tell()
    return taken + sum(device.slept)


def iter_of(entry: Any) -> Any:
    """A try that asks nothing and takes no time."""
    return entry
    yield


@pytest.mark.parametrize("door", CLIENTS)
def test_the_time_of_sending_does_not_tell_how_long_a_record_took(tmp_path, door, monkeypatch):
    """The time is drawn before the record is looked at; only whole steps of it can be told apart."""
    places = (tmp_path / str(number) for number in count())
    times = {
        taken: sent_after(door, next(places), taken, monkeypatch)
        for taken in (0.0, 0.000_17, 0.02, 0.2, 0.37, 0.38, 0.7, 1.2)
    }
    whole = 0.25 + 0.5 * 0.25
    expected = [1, 1, 1, 1, 1, 2, 2, 4]
    assert list(times.values()) == pytest.approx([steps * whole for steps in expected], abs=1e-6)
    bare = {"settle": 0.0, "spread": 0.0}
    delays = [sent_after(door, next(places), taken, monkeypatch, **bare) for taken in (0.0, 0.02, 0.2)]
    assert delays == pytest.approx([0.0, 0.02, 0.2], abs=1e-6), "without it the time is the record's"


def test_the_time_of_sending_is_random_by_default():
    assert Patience().settle > 0
    assert [Patience().hold(0.0, jitter) for jitter in (0.0, 0.5, 1.0)] == [0.25, 0.375, 0.5]
    assert Patience(settle=0, spread=1).hold(0.0, 0.0) == 0
    assert Patience().hold(-5.0, 0.0) == 0.25, "a clock that was set back"
    draws = {even() for _ in range(20)}
    assert len(draws) == 20
    assert all(0 <= draw < 1 for draw in draws)
    for wrong in ({"settle": -1}, {"spread": -0.1}, {"settle": float("nan")}, {"spread": float("inf")}):
        with pytest.raises(ClientError, match=r"(settle|spread) must be (seconds, 0|finite)"):
            Patience(**wrong)


@pytest.mark.parametrize("door", CLIENTS)
def test_what_was_answered_before_is_sent_without_another_pause(tmp_path, door):
    collector = Hostile(FIRST)
    device = Device(door, tmp_path, collector)
    device.tell()
    assert len(device.slept) == 1
    device.tell()
    assert len(device.slept) == 1, "the record was not looked at"
