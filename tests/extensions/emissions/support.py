"""Data of the tests of emissions."""

import numpy as np

from probsfa._validation import Sequences
from probsfa.extensions.emissions.families import FAMILIES
from probsfa.extensions.emissions.sites import Block, make_observations
from probsfa.statespace.engine.dynamics import simulate_factors
from probsfa.statespace.parameters import StateSpace

SHAPES = {
    "gaussian": [np.log(0.4)],
    "student_t": [np.log(0.3), np.log(4.0)],
    "bernoulli": [],
    "poisson": [],
    "negative_binomial": [np.log(2.5)],
    "monotone": [np.log(0.4), 0.2, -0.3, 0.3, 0.1, -0.4],
    "quadratic": [np.log(0.4), 0.2, 0.35],
}


def parameters(n_features=4, decay=(0.95, 0.6), seed=0):
    """Return parameters with random loadings."""
    rng = np.random.default_rng(seed)
    loadings = 0.7 * rng.standard_normal((n_features, len(decay)))
    return StateSpace(np.array(decay), loadings, np.ones(n_features), np.full(n_features, 0.3))


def shape_of(name, n_features):
    """Return shape parameters, the same for all columns."""
    return np.repeat(np.array(SHAPES[name])[:, None], n_features, axis=1).reshape(-1, n_features)


def draw(name, params, n_rows, seed=0, missing=0.0):
    """Draw a series and its factors."""
    rng = np.random.default_rng(seed)
    factors = simulate_factors(params, n_rows, rng)
    eta = params.offset + factors @ params.loadings.T
    X = FAMILIES[name].draw(eta, shape_of(name, params.n_features), rng)
    X[rng.random(X.shape) < missing] = np.nan
    return X, factors


def observations_of(name, X, lengths=None, times=None):
    """Return a series as Observations, with all columns of one family."""
    sequences = Sequences(X, lengths or (len(X),), times)
    return make_observations(sequences, [Block(FAMILIES[name], np.arange(X.shape[1]))])
