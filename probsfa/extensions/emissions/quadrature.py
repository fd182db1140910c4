"""Expectations over a Gaussian by Gauss-Hermite quadrature."""

from collections.abc import Iterator
from functools import cache

import numpy as np

from probsfa._typing import FloatArray

__all__ = ["N_NODES", "expected_softplus", "gauss_hermite", "over_nodes"]

#: Number of nodes. Errors of the expectation of ``log(1 + exp(eta))`` are below 1e-9 if the standard
#: deviation of ``eta`` is one, and below 1e-4 if it is three. Posterior standard deviations at observed
#: values are far smaller than three.
N_NODES = 24


@cache
def gauss_hermite(n: int = N_NODES) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights (n,), for which ``sum w f(z)`` approximates ``E[f(z)]``, ``z ~ N(0, 1)``."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    weights = weights / weights.sum()
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def over_nodes(
    mean: FloatArray, variance: FloatArray, n: int = N_NODES
) -> Iterator[tuple[float, FloatArray]]:
    """Yield pairs of a weight and ``mean + node * sqrt(variance)``, one for each quadrature node."""
    std = np.sqrt(variance)
    for node, weight in zip(*gauss_hermite(n), strict=True):
        yield float(weight), mean + node * std


def expected_softplus(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return expectations of ``log(1 + exp(eta))`` and its first two derivatives, ``eta ~ N(m, v)``.

    Parameters
    ----------
    mean, variance : ndarray
        Moments of ``eta``, of equal shapes.

    Returns
    -------
    value, slope, curvature : ndarray
        Expectations of the function, of its first derivative ``s`` (the logistic function), and of its second
        derivative ``s (1 - s)``.
    """
    value, slope, curvature = (np.zeros_like(mean) for _ in range(3))
    for weight, eta in over_nodes(mean, variance):
        tail = np.exp(-np.abs(eta))
        logistic = 1.0 / (1.0 + tail)
        complement = tail * logistic  # 1 - s if eta >= 0, else s
        value += weight * (np.maximum(eta, 0.0) + np.log1p(tail))
        slope += weight * np.where(eta >= 0.0, logistic, complement)
        curvature += weight * logistic * complement
    return value, slope, curvature
