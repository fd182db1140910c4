"""Helpers of the tests: patterns of missing values, and conversion of data and models of the oracles."""

import numpy as np
import pytest

from probsfa._validation import Sequences
from probsfa.statespace.engine.core.kernels import available
from probsfa.statespace.panel import Panel, make_panel
from probsfa.statespace.parameters import StateSpace
from tests.oracles import statespace as oracle

# Options of the Python interpreter: warnings are errors, with two exceptions. JAX warns of an incomplete
# compiled program in its cache, and compiles it again. probsfa warns of an installation without the compiled
# engine.
STRICT = (
    *("-W", "error", "-W", "ignore:Error reading persistent compilation cache"),
    *("-W", "ignore:The compiled engine of probsfa is not installed"),
)

needs_core = pytest.mark.skipif(
    not available(), reason="probsfa was installed without a compiler, or PROBSFA_CORE is 0"
)

# Functions that return the mask of missing values of an array (T, D), by the name of the pattern.
MISSING_PATTERNS = {
    "none": lambda rng, shape: np.zeros(shape, dtype=bool),
    "scattered": lambda rng, shape: rng.random(shape) < 0.3,
    "empty rows": lambda rng, shape: (np.arange(shape[0]) % 3 != 1)[:, None] & np.ones(shape, dtype=bool),
    "first and last rows": lambda rng, shape: (
        np.isin(np.arange(shape[0]), [0, 1, shape[0] - 2, shape[0] - 1])[:, None] & np.ones(shape, dtype=bool)
    ),
    "one column": lambda rng, shape: (np.arange(shape[1]) == 0)[None, :] & np.ones(shape, dtype=bool),
    "all but one entry": lambda rng, shape: (
        np.arange(shape[0] * shape[1]).reshape(shape) != (shape[0] * shape[1]) // 2
    ),
    "everything": lambda rng, shape: np.ones(shape, dtype=bool),
}


def mask_values(rng, sequences, pattern):
    """Return copies of sequences with NaN in a pattern of :data:`MISSING_PATTERNS`."""
    return [np.where(MISSING_PATTERNS[pattern](rng, x.shape), np.nan, x) for x in sequences]


def uneven_times(rng, lengths):
    """Return increasing times of each sequence, with four different time steps and separate origins."""
    return [np.cumsum(rng.choice([0.25, 0.5, 1.0, 3.5], n)) - 100.0 * i for i, n in enumerate(lengths)]


def to_panel(sequences, times=None, *, pad=True) -> Panel:
    return make_panel(
        Sequences(
            values=np.concatenate(sequences),
            lengths=tuple(len(x) for x in sequences),
            times=None if times is None else np.concatenate(times),
            is_list=True,
        ),
        pad=pad,
    )


def to_parameters(model) -> StateSpace:
    return StateSpace(*(np.array(part, dtype=np.float64) for part in model))


def to_model(params: StateSpace) -> oracle.Model:
    """Return parameters as a model of the oracles."""
    return oracle.Model(params.decay, params.loadings, params.noise_variance, params.offset)


def model_of_decays(decay) -> StateSpace:
    """Return a model of one factor for each column, with these decays and noise variance one."""
    k = len(decay)
    return StateSpace(np.array(decay, dtype=np.float64), np.eye(k), np.ones(k), np.zeros(k))


def scaled_error(found, expected):
    """Return the largest difference, relative to the largest absolute expected value or one."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    return float(
        np.max(np.abs(found - expected), initial=0.0) / max(np.max(np.abs(expected), initial=0.0), 1.0)
    )
