"""Predicted error: of single keys, of pairs, by closed form or by simulated draws."""

from .key_forecast import Forecast, forecast

__all__ = ["Forecast", "forecast"]
