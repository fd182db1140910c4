"""Coordinates for sampling the posterior, and its density as a function of them."""
