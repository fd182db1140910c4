"""Coordinates in which the posterior is easy to sample, and the density as a function of them."""
