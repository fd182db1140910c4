"""Comparison of the algorithms of the engine with the joint Gaussian."""

import pytest

from probsfa.statespace import use_strategy
from probsfa.statespace.engine.core.algorithm import Core
from probsfa.statespace.engine.core.kernels import available
from probsfa.statespace.engine.core.passes import Recursions, Segments
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.engine.sweep import Sweep
from tests.oracles import statespace as oracle
from tests.statespace.support import needs_core, scaled_error, to_panel, to_parameters
from tests.tolerances import EXACT

#: Algorithms by name: two of the compiled engine, and those of JAX.
ALGORITHMS = {
    "core segments": Core(chunk_type=Segments),
    "core recursions": Core(chunk_type=Recursions),
    "recursions": Sweep("recursions"),
    "recursions in chunks": Sweep("recursions", chunk_rows=32),
    "segmented": Sweep("segmented", n_segments=8),
    "scan": Sweep("scan", n_segments=8),
}
COMPILED = [name for name in ALGORITHMS if name.startswith("core")]


def skip_without_core(name):
    if name in COMPILED and not available():
        pytest.skip(needs_core.kwargs["reason"])


def assert_is_the_joint_gaussian(algorithm, model, data, times=None):
    """Compare moments, sums and likelihood of a model of AR(1) processes with the joint Gaussian."""
    params, panel = to_parameters(model), to_panel(data, times)
    wanted = oracle.joint_posterior(model, data, times)
    found, sums = algorithm.moments(params, panel), algorithm.expected_statistics(params, panel)
    assert scaled_error(found.means, wanted.means) < EXACT
    assert scaled_error(found.covariances, wanted.covariances) < EXACT
    if panel.n_rows > 1:
        assert scaled_error(found.lag_one_covariances, wanted.lag_one) < EXACT
    values = (found.row_log_likelihoods.sum(), sums.log_likelihood, algorithm.log_likelihood(params, panel))
    for value in values:
        assert scaled_error(value, wanted.log_likelihood) < EXACT
    for name, expected in oracle.expected_sums(model, data, panel.gaps, times).items():
        assert scaled_error(getattr(sums, name), expected) < EXACT, name


def assert_same(found, wanted, tolerance=EXACT):
    """Compare the fields of two tuples, up to rounding errors."""
    for name, one, other in zip(wanted._fields, found, wanted, strict=True):
        assert scaled_error(one, other) < tolerance, name


def sums_of(name, params, panel) -> Statistics:
    """Return expected statistics by an algorithm of :func:`use_strategy`."""
    from probsfa.statespace.engine.posterior import expected_statistics

    with use_strategy(name):
        return expected_statistics(params, panel)
