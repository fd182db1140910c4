"""Coordinates for sampling, and the posterior density as a function of the coordinates."""
