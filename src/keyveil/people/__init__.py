"""People and what is known of them: records, schemas, views, populations, priors, tables."""

from .people import People
from .population import Population
from .prior import Prior
from .scale import Scale
from .schema import Record, Schema
from .views import Views

__all__ = ["People", "Population", "Prior", "Record", "Scale", "Schema", "Views"]
