"""Helpers of the tests of BayesianSFA."""

import itertools

import jax
import numpy as np

from probsfa.bayes import Priors
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.model import as_series
from probsfa.statespace.noise import NoiseVariances

K, D = 2, 4


def images(timescale, loadings):
    """Yield all signed permutations of a draw."""
    k = len(timescale)
    for order in itertools.permutations(range(k)):
        for signs in itertools.product([1.0, -1.0], repeat=k):
            yield timescale[list(order)], loadings[:, list(order)] * np.array(signs)


def small_problem(rng, priors=None, noise="diagonal"):
    """Return a target, data with missing values, and values of all sites.

    `noise` is a structure or its name.
    """
    structure = noise if isinstance(noise, NoiseVariances) else NoiseVariances.of_option(noise, D)
    X = rng.standard_normal((500, D)).cumsum(axis=0)
    X[rng.random(X.shape) < 0.2] = np.nan
    with jax.enable_x64(True):
        series = as_series(X)
    values = {
        "timescale": np.array([4.0, 20.0]),
        "loadings": rng.standard_normal((D, K)),
        "noise_std": np.full(structure.n_free, 0.5),
        "noise_variance": np.full(structure.n_free, 0.25),
        "offset": rng.standard_normal(D),
    }
    target = Target(K, structure, priors if priors is not None else Priors())
    data = TargetData(series, np.full(D, 0.3) if -1 in structure.groups else None)
    return target, data, values
