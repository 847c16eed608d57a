"""The tally of a collection's round, from its store or from a running collector."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..foundation.errors import KeyveilError
from ..plan.plan import Plan
from ..plan.tally import Tally
from .store_location import need, opened

if TYPE_CHECKING:
    import httpx

WAIT = 60
"""Seconds without a word of the collector after which it is given up."""


def read_store(address: str, name: str, number: int | None) -> tuple[int, Tally]:
    """The number of a round (None: the latest) and its tally, from a store that may be in use."""
    with opened(address) as store:
        latest = store.control.named(name).numbered(number)
        return latest.number, Tally(store.book(latest).plan, store.counts_stored(latest))


def read_over_http(
    url: str, name: str, number: int | None, token: str | None, certificates: Path | None = None
) -> tuple[int, Tally]:
    """The same from a running collector; the token needs the role of an analyst."""
    need()
    import httpx

    from ..service.client.access_token import checked_token
    from ..service.client.certificates import no_response, trusted
    from ..service.client.service_url import checked_url
    from ..service.collector.store.collection import checked_name

    path = f"{checked_url(url)}/v1/collections/{checked_name(name)}"
    headers = {"authorization": f"Bearer {checked_token(token)}"} if token else {}
    verify = trusted(certificates)
    try:
        with httpx.Client(headers=headers, timeout=WAIT, trust_env=False, verify=verify) as client:
            latest = int(_checked(client.get(f"{path}/status")).json()["round"])
            asked = {"round": str(number or latest)}
            plan = Plan.parse(_checked(client.get(f"{path}/plan", params=asked)).content)
            tally = Tally.parse(plan, _checked(client.get(f"{path}/tally", params=asked)).content)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fault = no_response(error, "--certificates")
        why = f"it sent {fault}" if fault else _unreached(error)
        raise KeyveilError(f"cannot reach the collector at {url}: {why}") from None
    except (ValueError, KeyError, TypeError):
        raise KeyveilError(f"there is no collector at {url}") from None
    return number or latest, tally


def _unreached(error: Exception) -> str:
    """Why no response came, in plain words."""
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return f"it sent nothing for {WAIT} seconds"
    if isinstance(error, httpx.ConnectError):
        return "nobody answers; is it running at this address?"
    return "the connection broke"


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
