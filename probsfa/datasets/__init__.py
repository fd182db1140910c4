"""Bundled data, simulated series, and functions that hide values."""

from probsfa.datasets._half_moons import make_half_moons as make_half_moons
from probsfa.datasets._masking import hide_blocks as hide_blocks
from probsfa.datasets._masking import hide_cells as hide_cells
from probsfa.datasets._mixture import make_slow_mixture as make_slow_mixture
from probsfa.datasets._nowcast import load_nowcast as load_nowcast
from probsfa.datasets._nyc_weather import load_nyc_weather as load_nyc_weather

__all__ = [
    "hide_blocks",
    "hide_cells",
    "load_nowcast",
    "load_nyc_weather",
    "make_half_moons",
    "make_slow_mixture",
]
