"""The device's side of a collection: one report for each, a ledger, and a queue over restarts.

``Client`` and ``AsyncClient`` are thin transports over one core that does no input or output of the
network itself (``core``); ``ledger`` and ``device`` are the two files that a device keeps.
"""

from .client_core import ClientError, Outcome, Patience
from .http_client import AsyncClient, Client
from .ledger import Ledger

__all__ = ["AsyncClient", "Client", "ClientError", "Ledger", "Outcome", "Patience"]
