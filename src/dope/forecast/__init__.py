"""Forecast: how long a plan takes on workers that are not here, by what a small problem takes here."""

from dope.forecast.costs import Costs, Round
from dope.forecast.rounds import Forecast, forecast_rounds
from dope.forecast.workers import Workers, memory_in_all, outline_energy, outline_labels, plan_for_workers

__all__ = [
    "Costs",
    "Forecast",
    "Round",
    "Workers",
    "forecast_rounds",
    "memory_in_all",
    "outline_energy",
    "outline_labels",
    "plan_for_workers",
]
