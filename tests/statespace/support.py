"""What the tests of the room share: holes, and the way from the oracles' arrays into the package."""

import numpy as np
import pytest

from probsfa._validation import Sequences
from probsfa.statespace.engine.core.kernels import available
from probsfa.statespace.panel import Panel, make_panel
from probsfa.statespace.parameters import StateSpace
from tests.oracles import statespace as oracle

# For Python itself: a warning is an error, unless it tells of half a compiled program, which JAX makes anew,
# or of an installation without the compiled engine.
STRICT = (
    *("-W", "error", "-W", "ignore:Error reading persistent compilation cache"),
    *("-W", "ignore:The compiled engine of probsfa is not installed"),
)

needs_core = pytest.mark.skipif(
    not available(), reason="probsfa was installed without a compiler, or PROBSFA_CORE is 0"
)

# Holes by name: which entries of a (T, D) array are missing.
HOLES = {
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


def punch(rng, sequences, holes):
    """Copies with NaN in the holes of that name."""
    return [np.where(HOLES[holes](rng, x.shape), np.nan, x) for x in sequences]


def uneven_times(rng, lengths):
    """Increasing times on a coarse grid, so that gaps repeat, from a fresh origin for every sequence."""
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
    """The way back into the oracles."""
    return oracle.Model(params.decay, params.loadings, params.noise_variance, params.offset)


def of_decay(decay) -> StateSpace:
    """Latents with those decays, each seen by itself under noise of variance one."""
    k = len(decay)
    return StateSpace(np.array(decay, dtype=np.float64), np.eye(k), np.ones(k), np.zeros(k))


def scaled_error(found, wanted):
    """Largest difference, relative to the size of what is wanted (at least one)."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    return float(np.max(np.abs(found - wanted), initial=0.0) / max(np.max(np.abs(wanted), initial=0.0), 1.0))
