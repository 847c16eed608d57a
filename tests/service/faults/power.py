"""A store at work on a recorded disk, and what must be true of it wherever power is lost."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from desk import PLAN
from stated_clock import StatedClock

from keyveil.service.collector.engine import admin
from keyveil.service.collector.engine.service import Service
from keyveil.service.collector.operations.verify import verify
from keyveil.service.collector.store import Parcel
from keyveil.service.collector.store.control import Book
from keyveil.service.collector.store.sqlite import SqliteStore

from .disk import Disk, Event, Recorder
from .keys import lasting_keys
from .scratch import forgetful, small_sets, stale
from .wal import deceived, written

DECEIVED = "SQLite's own check let a torn page pass"
"""See wal.py: known, and not ours to mend; all else that is wrong is."""
LENGTH = 100
TERMS = {"epoch": LENGTH, "grace": LENGTH, "early": 0}


@dataclass
class State:
    """What was acknowledged by some moment."""

    made: bool = False
    state: str = "open"
    tokens: int = 0
    sent: tuple[Parcel, ...] = ()

    @property
    def reports(self) -> int:
        return sum(len(parcel.ids) for parcel in self.sent)


@dataclass
class History:
    """All that happened to a disk, and the states that were acknowledged meanwhile."""

    events: list[Event]
    segments: Path
    book: Book
    states: list[State] = field(default_factory=list)


class EagerStore(SqliteStore):
    """Moves its log into the file often, so that power is also lost within that."""

    checkpoint_pages = 12


class ForgetfulStore(EagerStore):
    """A broken twin: the ids are not read anew after a restart."""

    _epoch_ids = forgetful


class StaleStore(EagerStore):
    """A broken twin: after a restart the index of ids is one that was not kept up with the log."""

    _epoch_ids = stale


@lasting_keys()
@small_sets()
def work(folder: Path, seed: int, steps: int, synchronous: str = "FULL") -> History:
    """A day in the life of a store: reports, pauses, tokens, sealed epochs, restarts."""
    coins = random.Random(f"power {seed}")
    place = folder / "disk"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    disk = Recorder(place)
    loop = asyncio.new_event_loop()
    clock = StatedClock()
    segments = folder / "segments"
    now = State()

    def acknowledged(**new: object) -> None:
        nonlocal now
        now = State(**{**now.__dict__, **new})  # type: ignore[arg-type]
        disk.mark(now)

    def start() -> tuple[SqliteStore, Service]:
        store = EagerStore(place / "store.sqlite", "recording", synchronous)
        store.open()
        with open(os.devnull, "w") as nothing:
            service = Service(store, segments, clock, log=nothing, threaded=False)
        loop.run_until_complete(service.start(seal=False))
        return store, service

    def stop(store: SqliteStore, service: Service) -> None:
        loop.run_until_complete(service.stop())
        store.close()

    try:
        disk.mark(now)
        store, service = start()
        collection = admin.create(store, "menu", PLAN.dumps(), TERMS, clock.now())
        acknowledged(made=True)
        for _ in range(steps):
            what = coins.choices(
                ["send", "again", "pause", "token", "advance", "restart"], [60, 10, 6, 4, 12, 6]
            )[0]
            epoch = int(clock.now()) // LENGTH
            if what == "send":
                if now.state != "open":
                    admin.set_state(store, "menu", "open")
                    acknowledged(state="open")
                number = coins.choice([1, 2, 5, 40, 400])
                codes = (np.arange(number) % 9).astype(PLAN.layout.code_type)
                ids = [coins.randbytes(16) for _ in range(number)]
                parcel = Parcel(collection.id, collection.round.id, epoch, ids, codes.tobytes())
                disk.mark(parcel)
                store.append([parcel], clock.now())
                assert not parcel.refused
                acknowledged(sent=(*now.sent, parcel))
            elif what == "again" and now.sent:
                old = coins.choice(now.sent)
                same = Parcel(old.collection, old.round, old.epoch, old.ids, old.rows)
                store.append([same], clock.now())
            elif what == "pause":
                state = coins.choice(["open", "paused"])
                admin.set_state(store, "menu", state)
                acknowledged(state=state)
            elif what == "token":
                admin.add_token(store, "analyst")
                acknowledged(tokens=now.tokens + 1)
            elif what == "advance":
                clock.advance(LENGTH)
                loop.run_until_complete(service.sealer.seal_due())
            elif what == "restart":
                stop(store, service)
                store, service = start()
        book = store.book(collection.round)
        stop(store, service)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        disk.unregister()
    assert now.reports == 0 or now.sent
    return History(disk.events, segments, book)


@small_sets()
def lose(
    history: History,
    points: int,
    seed: int,
    folder: Path,
    kind: type[SqliteStore] = EagerStore,
    states: int = 1,
) -> dict[str, int]:
    """Lose power at random moments; how often each kind of wrong was found."""
    coins = random.Random(f"moments {seed}")
    at = sorted(coins.choices(range(1, len(history.events) + 1), k=points))
    disk, played = Disk(), 0
    before, under_way = State(), None
    wrong: dict[str, int] = {}
    frame_names = written(history.events)
    for moment in at:
        for event in history.events[played:moment]:
            if event.kind == "mark":
                if isinstance(event.mark, State):
                    before, under_way = event.mark, None
                else:
                    under_way = event.mark
            disk.play(event)
        played = moment
        files = disk.lose_power(coins)
        if deceived(files.get("store.sqlite-wal", b""), frame_names):
            wrong[DECEIVED] = wrong.get(DECEIVED, 0) + 1
            continue
        for finding in _look(files, history, before, under_way, folder, kind):
            wrong[finding] = wrong.get(finding, 0) + 1
    return wrong


def _look(
    files: dict[str, bytes],
    history: History,
    before: State,
    under_way: object,
    folder: Path,
    kind: type[SqliteStore],
) -> list[str]:
    """What is wrong with a store found after power was lost."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    store = kind(folder / "store.sqlite")
    store.segments_folder = history.segments
    store._books[PLAN.hash] = history.book
    try:
        store.open()
    except Exception as error:
        return [f"it does not open: {type(error).__name__}"]
    try:
        return _check(store, history, before, under_way)
    except Exception as error:
        return [f"it cannot be read: {type(error).__name__}"]
    finally:
        store.close()


def _check(store: SqliteStore, history: History, before: State, under_way: object) -> list[str]:
    wrong = []
    if store._session().rows("pragma integrity_check") != [("ok",)]:
        return ["corrupt"]
    collection = store.control.collections.get("menu")
    if collection is None:
        return ["the collection is lost"] if before.made else []
    wrong += _verified(store, history)
    total = int(store.counts_stored(collection.round)[PLAN.layout.own].sum())
    more = len(under_way.ids) if isinstance(under_way, Parcel) else 0
    if total < before.reports:
        wrong.append("acknowledged reports are lost")
    elif total not in (before.reports, before.reports + more):
        wrong.append("a report is there in part, or twice")
    if len(store.control.tokens) < before.tokens:
        wrong.append("a token is lost")
    wrong += _sent_again(store, history, before, under_way, total)
    return wrong


def _verified(store: SqliteStore, history: History) -> list[str]:
    findings = [finding for verdict in verify(store, history.segments) for finding in verdict.findings]
    return ["the counts are not those of the log"] if findings else []


def _sent_again(
    store: SqliteStore, history: History, before: State, under_way: object, total: int
) -> list[str]:
    """Clients send again what they may: it must change nothing but what was under way."""
    collection = store.control.named("menu")
    if collection.state != "open":
        admin.set_state(store, "menu", "open")
    last = before.sent[-3:] if not isinstance(under_way, Parcel) else (*before.sent[-3:], under_way)
    again = [Parcel(p.collection, p.round, p.epoch, p.ids, p.rows) for p in last]
    again = [parcel for parcel in again if parcel.epoch >= collection.closed_before]
    if not again:
        return []
    now = max(parcel.epoch for parcel in again) * LENGTH
    store.append(again, now)
    wrong = _verified(store, history)
    if any(parcel.refused for parcel in again):
        wrong.append("a report that was counted is refused")
    after = int(store.counts_stored(collection.round)[PLAN.layout.own].sum())
    sure = before.reports
    if isinstance(under_way, Parcel) and under_way.epoch >= collection.closed_before:
        sure += len(under_way.ids)
    if after != max(total, sure):
        wrong.append("sent again, a report counts twice or not at all")
    return wrong
