"""Bundled data, simulated series, and functions that hide values."""

from probsfa._lazy import deprecated
from probsfa.datasets._half_moons import make_half_moons as make_half_moons
from probsfa.datasets._masking import hide_blocks as hide_blocks
from probsfa.datasets._masking import hide_values as hide_values
from probsfa.datasets._mixture import make_slow_mixture as make_slow_mixture
from probsfa.datasets._nowcast import load_nowcast as load_nowcast
from probsfa.datasets._nyc_weather import load_nyc_weather as load_nyc_weather

__all__ = [
    "hide_blocks",
    "hide_values",
    "load_nowcast",
    "load_nyc_weather",
    "make_half_moons",
    "make_slow_mixture",
]

__getattr__ = deprecated(
    __name__, {"hide_cells": ("probsfa.datasets._masking:hide_values", "Use hide_values, its new name.")}
)
