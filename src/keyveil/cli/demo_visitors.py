"""Simulated visitors: each draws a report of its own record and sends it to the collector over HTTP."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Sequence
from urllib.error import URLError

from ..foundation.coins import fresh_bytes
from ..plan.plan import Plan
from .demo_people import population, record

PEOPLE = 20_000
"""Number of different people; later visitors are like them."""
CROWD = 4_000
"""Visitors who come at once, so that there is something to see."""
BATCH = 1_000
COLLECTION = "/v1/collections/menu"


class Visitors(threading.Thread):
    """Visitors who arrive until they are told to stop."""

    def __init__(self, url: str, plan: Plan, per_second: float) -> None:
        super().__init__(name="visitors", daemon=True)
        self.url, self.plan, self.per_second = url, plan, per_second
        self.sent = 0
        self._over = threading.Event()

    def stop(self) -> None:
        """Send what is being drawn, then stop."""
        self._over.set()
        self.join(10)

    def run(self) -> None:
        """A crowd, then a few at a time."""
        while not self._ready():
            if self._over.wait(0.05):
                return
        held, ratings = population(PEOPLE)
        few = max(1, round(self.per_second / 4))
        while not self._over.is_set():
            crowding = self.sent < CROWD
            people = ((self.sent + place) % PEOPLE for place in range(BATCH if crowding else few))
            self._send([record(held, ratings, person) for person in people])
            if not crowding:
                self._over.wait(few / self.per_second)

    def _send(self, records: Sequence[dict[str, float]]) -> None:
        """Draw the reports as on devices, with secure coins, and send them in one request."""
        reports = [
            {"id": fresh_bytes(16).hex(), "cells": list(self.plan.report(held).cells)}
            for held in records
        ]
        try:
            with urllib.request.urlopen(self.url + COLLECTION, timeout=10) as response:
                epoch = json.load(response)["epoch"]["now"]
            body = {"plan": self.plan.hash, "epoch": epoch, "reports": reports}
            request = urllib.request.Request(
                f"{self.url}{COLLECTION}/reports",
                json.dumps(body).encode(),
                {"content-type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=30) as response:
                self.sent += int(json.load(response)["accepted"])
        except (URLError, OSError):
            self._over.wait(1)  # paused, closed or ending

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ready", timeout=5) as response:
                return bool(response.status == 200)
        except (URLError, OSError):
            return False
