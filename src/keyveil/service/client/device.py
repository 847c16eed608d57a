"""The device's secret and its commitments, in a file separate from the ledger.

The ledger holds the reports. This file holds what is needed if the ledger is lost: the secret, the cap,
and for each answered plan its cost, the id and epoch of its report, and a keyed commitment to the
record. It contains no report and no record, and without the secret a commitment reveals nothing.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from ...foundation.coins import Coins, fresh_bytes
from ...foundation.errors import BudgetError, CoinsError
from ...foundation.files import locked, write_whole
from ...plan.budget import checked_cap, checked_file, make_folder, writing
from ...plan.plan import Plan

FORMAT = "keyveil/device/1"
SECRET_FILE = "the device's secret"
SECRET = 32
KEPT = ("plan", "mechanism", "epsilon", "collection", "round", "epoch", "id", "commitment")
"""The facts of each answer that this file holds."""
MAY = ("chain",)
"""Additional facts of an answer to a round."""


class DeviceCoins(Coins):
    """Coins from a device's own secret; the same as long as the device keeps it.

    They are as secure as the secret, which the operating system drew. So a report drawn again from an
    unchanged record is the same report and reveals nothing new.
    """

    secure_source = True

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET:
            raise CoinsError(f"a device's secret has {SECRET} bytes")
        super().__init__(hmac.digest(secret, b"keyveil device coins", "sha256"))

    def __reduce__(self) -> NoReturn:
        raise CoinsError("a device's coins do not leave it")


class Device:
    """The file of a device's secret. It is best kept where backups and clean-ups do not reach."""

    def __init__(self, path: str | Path) -> None:
        self.path = checked_file(path, "secret_file")

    @property
    def exists(self) -> bool:
        """Whether the device has its secret."""
        return self.path.exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file for this process."""
        with ExitStack() as held:
            with writing(self.path, SECRET_FILE):
                held.enter_context(locked(self.path))
            yield

    def make_folder(self) -> None:
        """Make the folder of the file, for its owner alone."""
        make_folder(self.path, SECRET_FILE)

    def make(self, cap: str) -> dict[str, Any]:
        """Create a device with a new secret and a new name."""
        secret, name = fresh_bytes(SECRET).hex(), fresh_bytes(16).hex()
        contents = {"format": FORMAT, "secret": secret, "device": name, "cap": cap, "answers": []}
        self._write(contents)
        return contents

    def read(self) -> dict[str, Any]:
        """The content of the file. A damaged file is refused, never replaced."""
        try:
            contents = json.loads(self.path.read_bytes())
            if not isinstance(contents, dict) or contents.get("format") != FORMAT:
                raise ValueError
            if len(bytes.fromhex(contents["secret"])) != SECRET:
                raise ValueError
            checked_cap(contents["cap"])
            _ = contents["device"], [[answer[name] for name in KEPT] for answer in contents["answers"]]
        except (OSError, ValueError, KeyError, TypeError, RecursionError, BudgetError):
            raise BudgetError(
                f"the device's secret {self.path} cannot be read: it is damaged, or another file; "
                "nothing is answered until it is restored"
            ) from None
        return contents

    def remember(self, answer: Mapping[str, Any], name: str) -> None:
        """Record the facts of an answer, once for each plan, before its report first leaves."""
        contents = self.read()
        if all(known["plan"] != answer["plan"] for known in contents["answers"]):
            entry = {part: answer[part] for part in KEPT if part != "id"}
            chain = {part: answer[part] for part in MAY if part in answer}
            contents["answers"].append({**entry, **chain, "id": name})
            self._write(contents)

    def _write(self, contents: Mapping[str, Any]) -> None:
        with writing(self.path, SECRET_FILE):
            write_whole(self.path, json.dumps(contents, indent=1).encode(), private=True)


def coins_of(contents: Mapping[str, Any]) -> DeviceCoins:
    """The device's coins."""
    return DeviceCoins(bytes.fromhex(contents["secret"]))


def commitment(contents: Mapping[str, Any], plan: Plan, record: object) -> str:
    """A keyed hash of the record as the plan sees it. Equal records have equal hashes."""
    held = sorted((key, (value + 0.0).hex()) for key, value in plan.schema.mapped(record).items())
    text = json.dumps([plan.hash, held]).encode()
    key = hmac.digest(bytes.fromhex(contents["secret"]), b"keyveil commitment", "sha256")
    return hmac.new(key, text, sha256).hexdigest()
