"""The device's side of a collection: at most one report for each plan, a ledger, and a send queue.

``Client`` and ``AsyncClient`` (``http_client``) only send and receive. What to send is decided in
``client_core``, which does no network input or output. ``ledger`` and ``device`` are the two files that
a device keeps. ``stand_in`` answers in place of a collector, in tests and audits.
"""

from .client_core import Patience
from .client_error import ClientError
from .http_client import AsyncClient, Client
from .ledger import Ledger
from .verdict import Outcome

__all__ = ["AsyncClient", "Client", "ClientError", "Ledger", "Outcome", "Patience"]
