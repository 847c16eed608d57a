"""People and what is known of them: records, schemas, views, populations, priors, tables."""

from typing import TYPE_CHECKING

from ..foundation.lazy_names import loaded_later
from .people import People
from .schema import Record, Schema
from .views import Views

if TYPE_CHECKING:
    from .population import Population
    from .prior import Prior
    from .scale import Scale

_LATER = {"Population": "population", "Prior": "prior", "Scale": "scale"}
"""Names that a device does not need, and their modules."""

__getattr__ = loaded_later(__name__, _LATER)

__all__ = ["People", "Population", "Prior", "Record", "Scale", "Schema", "Views"]
