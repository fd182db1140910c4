"""Relabelling of all posterior draws, and conversion to the units of the data."""
