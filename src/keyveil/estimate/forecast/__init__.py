"""Predicted error: one result, ``Forecast``, of single keys or pairs, in closed form or by draws."""

from .key_forecast import forecast
from .predicted_error import Errors, Forecast

__all__ = ["Errors", "Forecast", "forecast"]
