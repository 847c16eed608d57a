"""The plan and the tally of a collection, from its store or from a running collector."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..foundation.errors import KeyveilError
from ..plan.plan import Plan
from ..plan.tally import Tally
from .store_location import need, opened

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True)
class Collected:
    """The plan and the tally of a round."""

    round: int
    plan: Plan
    tally: Tally

    @property
    def reports(self) -> int:
        """The number of reports."""
        return self.tally.reports

    @contextmanager
    def files(self) -> Iterator[tuple[str, str]]:
        """The plan and the tally as temporary files, for commands that read files."""
        with tempfile.TemporaryDirectory(prefix="keyveil-") as folder:
            plan, tally = Path(folder, "plan.json"), Path(folder, "tally")
            self.plan.save(plan)
            self.tally.save(tally)
            yield str(plan), str(tally)


def read_store(address: str, name: str, number: int | None) -> Collected:
    """A round of a collection in a store, which may be in use."""
    with opened(address) as store:
        latest = store.control.named(name).numbered(number)
        plan = store.book(latest).plan
        return Collected(latest.number, plan, Tally(plan, store.counts_stored(latest)))


def read_over_http(url: str, name: str, number: int | None, token: str | None) -> Collected:
    """A round of a collection of a running collector; the token needs the role of an analyst."""
    need()
    import httpx

    from ..service.client.client_core import checked_url
    from ..service.collector.store.collection import checked_name

    path = f"{checked_url(url)}/v1/collections/{checked_name(name)}"
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        with httpx.Client(headers=headers, timeout=60, trust_env=False) as client:
            latest = int(_checked(client.get(f"{path}/status")).json()["round"])
            asked = {"round": str(number or latest)}
            plan = Plan.parse(_checked(client.get(f"{path}/plan", params=asked)).content)
            tally = Tally.parse(plan, _checked(client.get(f"{path}/tally", params=asked)).content)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise KeyveilError(f"cannot reach the collector at {url}: {type(error).__name__}") from None
    except (ValueError, KeyError, TypeError):
        raise KeyveilError(f"there is no collector at {url}") from None
    return Collected(number or latest, plan, tally)


def _checked(answer: httpx.Response) -> httpx.Response:
    """The response; a refusal of the collector is raised as one line."""
    if answer.status_code == 200:
        return answer
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = "this is no collector, or a page in front of it"
    if answer.status_code == 401:
        detail += "; give one with --token or KEYVEIL_TOKEN"
    raise KeyveilError(f"the collector refuses ({answer.status_code}): {detail}")
