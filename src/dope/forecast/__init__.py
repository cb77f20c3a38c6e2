"""Forecast: how long a plan takes on workers that are not here, by what a small problem takes here."""

from dope.forecast.costs import Costs, Round
from dope.forecast.rounds import Forecast, forecast_rounds

__all__ = ["Costs", "Forecast", "Round", "forecast_rounds"]
