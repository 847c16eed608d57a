"""A collector in process on one stated clock and a disk that fails when told to, and an oracle for it.

Every report has a code of its own, so a correct tally has only zeros and ones where a correct answer
was given: a two is a repetition, a one at a code that was never sent is corruption. What each request
is answered is foretold from what was answered before, in a few plain lines.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import apsw
import httpx
import numpy as np
from desk import Desk, plan_of
from stated_clock import StatedClock

from keyveil import Tally
from keyveil.service.collector.engine import admin
from keyveil.service.collector.http import batches
from keyveil.service.collector.operations.backup import backup
from keyveil.service.collector.operations.restore import restore
from keyveil.service.collector.operations.verify import verify
from keyveil.service.collector.process.problems import REASONS, Problem
from keyveil.service.collector.store import StoreUnready
from keyveil.service.collector.store.sqlite import SqliteStore

from .keys import is_stored, remember_keys
from .scratch import WatchedScratch, make_small

WIDE = plan_of("kvue", 400)
CODES = int(WIDE.layout.codes)
LENGTH = 100
"""Seconds of an epoch, and of its grace."""
DOUBT = 300
PATH = "/v1/collections/menu/reports"


class Trouble:
    """What is wrong with the disk just now."""

    def __init__(self) -> None:
        self.full = False
        self.kind, self.left = "", 0

    def fail(self, kind: str, nth: int) -> None:
        """Let the nth read, write or sync from now on fail."""
        self.kind, self.left = kind, nth

    def clear(self) -> None:
        self.full, self.kind = False, ""

    def touch(self, kind: str) -> None:
        if self.full and kind == "write":
            raise apsw.FullError("full")
        if kind == self.kind:
            self.left -= 1
            if self.left == 0:
                self.kind = ""
                raise apsw.IOError(kind)

    def error(self) -> int:
        """The same for a write to a file of our own."""
        try:
            self.touch("write")
        except apsw.FullError:
            return errno.ENOSPC
        except apsw.IOError:
            return errno.EIO
        return 0


class _File(apsw.VFSFile):
    def __init__(self, trouble: Trouble, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._trouble = trouble

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._trouble.touch("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._trouble.touch("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._trouble.touch("sync")
        super().xSync(flags)


class _Disk(apsw.VFS):
    def __init__(self, trouble: Trouble) -> None:
        super().__init__("troubled", "unix")
        self._trouble = trouble

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self._trouble, name, flags)


@dataclass(frozen=True)
class Report:
    """A report as its device keeps it: drawn once, never changed."""

    id: bytes
    code: int
    epoch: int


@dataclass
class World:
    """What must be true of the collector: all that was answered so far, and nothing else."""

    inside: dict[bytes, Report] = field(default_factory=dict)
    state: str = "open"
    closed_before: int = 0
    sealed: frozenset[int] = frozenset()
    tokens: list[str] = field(default_factory=list)
    """Ingest tokens, oldest first; only the last works."""
    tallies: dict[str, int] = field(default_factory=dict)
    """Tallies brought in: the code that each marks once."""

    def copy(self) -> World:
        return replace(
            self, inside=dict(self.inside), tokens=list(self.tokens), tallies=dict(self.tallies)
        )

    def counts(self) -> np.ndarray:
        codes = [report.code for report in self.inside.values()] + list(self.tallies.values())
        total = np.zeros(WIDE.layout.cells, np.int64)
        for code in codes:
            np.add.at(total, cells_of(code), 1)
        return total


def cells_of(code: int) -> list[int]:
    view = int(np.searchsorted(WIDE.layout.first_code, code, side="right")) - 1
    return [int(WIDE.layout.own[view]), code + view + 1]


class Crash(Exception):
    """The process ends here."""


class Sequence:
    """One collector with its world; every method is one operation and checks what comes of it."""

    def __init__(self, cap: int | None, guarded: bool, seed: int = 0) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kv-seq-"))
        self._undo = make_small()
        self.keys, self._forget_keys = remember_keys()
        self.trouble = Trouble()
        self.disk = _Disk(self.trouble)
        self.clock = StatedClock()
        self.coins = random.Random(f"sequence {seed}")
        self.cap, self.guarded = cap, guarded
        self.codes = iter(range(CODES))
        self.sent: list[Report] = []
        self.world = World(closed_before=int(self.clock.now()) // LENGTH - 1)
        self.backups: list[tuple[Path, World]] = []
        self.place = self.folder / "0"
        self.place.mkdir()
        self.moves = 0
        self.desk = self._start()
        terms = {"epoch": LENGTH, "grace": LENGTH, "early": 0, "people": cap, "token": guarded}
        admin.create(self.desk.store, "menu", WIDE.dumps(), terms, self.clock.now())
        if guarded:
            self.world.tokens.append(admin.add_token(self.desk.store, "ingest", "menu"))

    # -- the process -------------------------------------------------------------------------------

    def _start(self) -> Desk:
        path = self.place / "store.sqlite"
        store = SqliteStore(path, vfs="troubled")
        store.checkpoint_pages = 20
        store.open_ids.scratch = self.scratch = WatchedScratch(self.place, self.trouble.error)
        self.offset = self.clock.now() - self.clock.elapsed()
        return Desk(str(path), self.place, self.clock, store=store)

    def restart(self, graceful: bool = False) -> None:
        """The process ends, well or not, and begins anew; a broken disk was replaced meanwhile."""
        self.trouble.clear()
        (self.desk.close if graceful else self.desk.die)()
        self.scratch.close()
        self.desk = self._start()
        self._settle()

    def close(self) -> None:
        try:
            self.trouble.clear()
            self.restart()
            self.check()
            (verdict,) = verify(self.desk.store, self.place / "segments")
            assert verdict.findings == []
            assert verdict.reports == len(self.world.inside) + len(self.world.tallies)
        finally:
            self.desk.close()
            self.scratch.close()
            self._undo()
            self._forget_keys()
            self.disk.unregister()
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def broken(self) -> bool:
        return self.desk.service.writer.broken

    def _settle(self) -> None:
        """Look in the log whether reports without an answer are in; from now on that is certain."""
        store = SqliteStore(self.place / "store.sqlite")  # with other eyes, on a sound disk
        with store.reading() as session:
            round_ = store.reload(session).named("menu").round
            logged = {
                name
                for epoch in store.epochs(session, round_)
                for segment in store.segments(session, round_, epoch)
                for name in wire_split(segment.ids)
            }
            before = store.control.named("menu").closed_before
            sealed = frozenset(seal.epoch for seal in store.sealed(session, round_))
            tallies = {row[0] for row in session.rows("select digest from imports")}
        for report in self.doubtful:
            if is_stored(report.id, logged, self.keys):
                self.world.inside[report.id] = report
        self.doubtful: list[Report] = []
        for name, code in self.doubtful_tallies.items():
            if name in tallies:
                self.world.tallies[name] = code
        self.doubtful_tallies: dict[str, int] = {}
        assert before >= self.world.closed_before
        self.world.closed_before, self.world.sealed = before, sealed
        self.world.state = store.control.named("menu").state

    doubtful: list[Report] = []
    doubtful_tallies: dict[str, int] = {}

    # -- what will be answered ---------------------------------------------------------------------

    def trusted(self) -> bool:
        """Whether the collector believes the clock when it looks at it now."""
        offset = self.clock.now() - self.clock.elapsed()
        if abs(offset - self.offset) > DOUBT:
            return False
        self.offset = offset
        return True

    def foretold(self, batch: list[Report], trusted: bool) -> tuple[dict[bytes, str], list[Report]]:
        """The refusals of a batch, and what is new in the tally after it."""
        world, epoch, now = self.world, batch[0].epoch, self.clock.now()
        if epoch < world.closed_before:
            return {report.id: "closed_epoch" for report in batch}, []
        why = None
        if world.state == "closed":
            why = "closed_collection"
        elif (epoch + 2) * LENGTH <= now:
            why = "closed_epoch" if trusted else "clock"
        elif epoch * LENGTH > now:
            why = "early_epoch" if trusted else "clock"
        elif world.state == "paused":
            why = "paused"
        new: dict[bytes, Report] = {}
        refused = {}
        room = float("inf") if self.cap is None else self.cap - len(world.inside) - len(world.tallies)
        for report in batch:
            if report.id in world.inside or report.id in new:
                continue
            if why is not None:
                refused[report.id] = why
            elif len(new) >= room:
                refused[report.id] = "full"
            else:
                new[report.id] = report
        return refused, list(new.values())

    # -- reports -----------------------------------------------------------------------------------

    def fresh(self, number: int, behind: int = 0) -> list[Report]:
        """New reports, of an epoch that lies so many epochs behind."""
        epoch = max(0, int(self.clock.now()) // LENGTH - behind)
        reports = []
        for _ in range(number):
            code = next(self.codes, None)
            if code is None:
                break
            reports.append(Report(self.coins.randbytes(16), code, epoch))
        self.sent += reports
        return reports

    def request(self, batch: list[Report], binary: bool = True, token: str | None = None) -> Any:
        """A request as keywords for the client."""
        if token is None and self.guarded:
            token = self.world.tokens[-1]
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if binary:
            width = WIDE.layout.code_type.itemsize
            rows = b"".join(report.code.to_bytes(width, "little") for report in batch)
            ids = b"".join(report.id for report in batch)
            body = batches.encode_binary(WIDE.hash, batch[0].epoch, ids, rows)
            return {"content": body, "headers": {**headers, "content-type": batches.BINARY}}
        reports = [{"id": report.id.hex(), "cells": cells_of(report.code)} for report in batch]
        document = {"plan": WIDE.hash, "epoch": batch[0].epoch, "reports": reports}
        return {"json": document, "headers": headers}

    def upload(self, batch: list[Report], binary: bool = True, times: int = 1) -> None:
        """Send a batch, perhaps several times at once; all answers must be right."""
        if not batch:
            return
        failing = self.trouble.kind != ""
        refused, new = self.foretold(batch, self.trusted())
        client, request = self.desk.client, self.request(batch, binary)

        async def at_once() -> list[httpx.Response]:
            return await asyncio.gather(*(client.post(PATH, **request) for _ in range(times)))

        was_broken = self.broken
        answers = self.desk.run(at_once())
        if was_broken:
            assert all(reason_of(answer) == "unhealthy" for answer in answers)
            return
        if failing:
            self._after_failure(answers, batch, refused, new)
            return
        if self.trouble.full and new:
            assert all(reason_of(answer) == "storage" for answer in answers)
            return
        self.world.inside.update({report.id: report for report in new})
        for answer in answers:
            check_answer(answer, batch, refused)

    def _after_failure(
        self,
        answers: list[httpx.Response],
        batch: list[Report],
        refused: dict[bytes, str],
        new: list[Report],
    ) -> None:
        """The disk may have failed under this request: right, or not acknowledged."""
        for answer in answers:
            if answer.status_code == 200:
                check_answer(answer, batch, refused)
                self.world.inside.update({report.id: report for report in new})
            elif reason_of(answer) in ("unhealthy", "storage"):
                self.doubtful = [*self.doubtful, *new]
            else:
                check_answer(answer, batch, refused)
        if not self.broken:
            self._settle()

    def drop(self, batch: list[Report], how: str) -> None:
        """The client goes away: before its answer is sent, or while it waits."""
        if not batch or self.broken:
            return
        self.trouble.kind = ""
        _, new = self.foretold(batch, self.trusted())
        request = self.request(batch)
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
            "scheme": "http", "path": PATH, "raw_path": PATH.encode(), "query_string": b"",
            "root_path": "", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
            "headers": [(k.lower().encode(), v.encode()) for k, v in request["headers"].items()],
        }  # fmt: skip
        message = {"type": "http.request", "body": request["content"], "more_body": False}

        async def receive() -> dict[str, Any]:
            return message

        async def send(_: Any) -> None:
            raise OSError("gone")

        async def go() -> None:
            task = asyncio.ensure_future(self.desk.app(scope, receive, send))
            if how == "cancelled":
                await asyncio.sleep(0)
                task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or isinstance(task.exception(), OSError)
            await asyncio.sleep(0)

        self.desk.run(go())
        self.doubtful = [*self.doubtful, *new]
        self._settle()

    def wrong_token(self, batch: list[Report]) -> None:
        """An old token, or none: refused whatever else is true."""
        if not batch or not self.guarded or self.broken:
            return
        old = self.world.tokens[-2] if len(self.world.tokens) > 1 else "kv_" + "0" * 16 + "_" + "A" * 43
        answer = self.desk.post(PATH, **self.request(batch, token=old))
        assert reason_of(answer) == "token"

    # -- whoever runs it ---------------------------------------------------------------------------

    def rule(self, work: Callable[[Any], Any]) -> tuple[bool, Any]:
        """Something an admin does; whether it is certain that it was done."""
        was_broken = self.broken
        failing = self.trouble.kind != ""
        try:
            result = self.desk.run(self.desk.service.writer.call(work))
        except (Problem, StoreUnready, apsw.Error) as error:
            reason = getattr(error, "reason", repr(error))
        else:
            assert not was_broken
            return True, result
        if was_broken:
            assert reason == "unhealthy"
        elif self.trouble.full and not failing:
            assert reason == "storage"
        else:
            assert failing, reason
            assert reason in ("unhealthy", "storage"), reason
        return False, None

    def set_state(self, state: str) -> None:
        if self.world.state == "closed":
            return
        done, _ = self.rule(lambda store: admin.set_state(store, "menu", state))
        if done:
            self.world.state = state
        elif not self.broken:
            self._settle()

    def rotate(self) -> None:
        if not self.guarded or self.trouble.kind:
            return
        name = self.world.tokens[-1].split("_")[1]
        done, token = self.rule(lambda store: admin.rotate_token(store, name))
        if done:
            self.world.tokens.append(token)

    def bring_in(self, again: bool) -> None:
        """A tally made elsewhere, each once."""
        world = self.world
        if again and world.tallies:
            name = sorted(world.tallies)[0]
            code = world.tallies[name]
        else:
            number = next(self.codes, None)
            if number is None:
                return
            name, code = f"t{number}", number
        tally = Tally(WIDE)
        np.add.at(tally.counts, cells_of(code), 1)
        round_ = self.desk.store.control.named("menu").round
        full = self.cap is not None and len(world.inside) + len(world.tallies) >= self.cap
        is_known = name in world.tallies
        if not is_known and (world.state == "closed" or full):
            return
        done, is_new = self.rule(lambda store: store.bring_in(round_, tally.counts, name, tally.dumps()))
        if done:
            assert is_new is not is_known
            world.tallies[name] = code
        elif not is_known:
            self.doubtful_tallies = {**self.doubtful_tallies, name: code}
            if not self.broken:
                self._settle()

    # -- time --------------------------------------------------------------------------------------

    def keep(self, crash_at: int | None = None) -> None:
        """Epochs that are due are sealed; perhaps the process ends between two of its steps."""
        writer = self.desk.service.writer
        was_broken, failing = self.broken, self.trouble.kind != ""
        writer.tick()
        trusted = self.trusted()
        call, calls = writer.call, 0

        async def counted(work: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == crash_at:
                raise Crash
            return await call(work)

        writer.call = counted  # type: ignore[method-assign]
        crashed = False
        try:
            self.desk.keep()
        except Crash:
            crashed = True
        except (Problem, StoreUnready, apsw.Error):
            assert was_broken or failing or self.trouble.full or self.broken
        finally:
            writer.call = call  # type: ignore[method-assign]
        if crashed:
            self.restart()
            return
        if self.broken:
            return
        before = self.world.closed_before
        if self.trouble.full or failing:
            self._settle()
            return
        over = {
            report.epoch
            for report in self.world.inside.values()
            if report.epoch not in self.world.sealed and (report.epoch + 2) * LENGTH <= self.clock.now()
        }
        self._settle()
        expected = max([before, *(epoch + 1 for epoch in over)]) if trusted else before
        assert self.world.closed_before == expected
        if trusted:
            assert over <= self.world.sealed

    def spoil(self, which: int) -> None:
        """A bit turns in a file beside the store, where the index of ids lies."""
        sizes = [(handle, os.fstat(handle).st_size) for handle in self.scratch.handles]
        full = [(handle, size) for handle, size in sizes if size]
        if full:
            handle, size = full[which % len(full)]
            self.scratch.change(handle, which % size)

    # -- copies ------------------------------------------------------------------------------------

    def back_up(self) -> None:
        if self.broken or self.trouble.kind:
            return
        self.moves += 1
        target = self.folder / f"backup-{self.moves}"
        backup(self.place / "store.sqlite", self.place / "segments", target)
        self.backups.append((target, self.world.copy()))

    def restore(self) -> None:
        """The machine is lost; the last backup is put on a new one."""
        if not self.backups:
            return
        source, world = self.backups[-1]
        self.trouble.clear()
        self.desk.die()
        self.scratch.close()
        self.doubtful, self.doubtful_tallies = [], {}
        self.moves += 1
        self.place = self.folder / f"place-{self.moves}"
        self.place.mkdir()
        restore(source, self.place / "store.sqlite", self.place / "segments")
        self.world = world.copy()
        self.desk = self._start()

    # -- always ------------------------------------------------------------------------------------

    def check(self) -> None:
        """The tally is exactly what was answered."""
        if self.broken:
            assert self.desk.get("/health").status_code == 503
            return
        if self.trouble.kind:
            return
        round_ = self.desk.store.control.named("menu").round
        _, tally = self.desk.run(self.desk.service.answers.tally(round_))
        assert np.array_equal(tally.counts, self.world.counts())
        assert self.desk.get("/health").status_code == 200


def wire_split(packed: bytes) -> list[bytes]:
    return [packed[at : at + 16] for at in range(0, len(packed), 16)]


def reason_of(answer: httpx.Response) -> str | None:
    return answer.json().get("reason")


def check_answer(answer: httpx.Response, batch: list[Report], refused: dict[bytes, str]) -> None:
    """An answer to a batch names the failed, and no others."""
    document = answer.json()
    reasons = set(refused.values())
    if len(refused) == len({report.id for report in batch}) and len(reasons) == 1:
        (reason,) = reasons
        assert (answer.status_code, document["reason"]) == (REASONS[reason].status, reason)
    else:
        assert answer.status_code == 200
        assert document["accepted"] == sum(report.id not in refused for report in batch)
    named = {bytes.fromhex(failure["id"]): failure["reason"] for failure in document["failed"]}
    assert named == refused
