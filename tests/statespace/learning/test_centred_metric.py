"""The valley of loadings and offsets: against the curvature of the likelihood, and of the latents if seen."""

import numpy as np
import pytest

from probsfa.statespace.learning.centred_metric import CentredMetric, means_of_latents
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.learning.fisher_metric import Metric, complete_data_of
from probsfa.statespace.learning.pattern_metric import Pattern, PatternMetric
from probsfa.statespace.parameters import Latents
from probsfa.statespace.posterior import expected_statistics
from tests.oracles import statespace as oracle
from tests.statespace.support import punch, scaled_error, to_panel, to_parameters


@pytest.fixture
def case(rng):
    """Few rows of a slow latent, whose mean is far from zero there, with and without holes."""
    model = oracle.Model(
        np.array([0.99, 0.5]), rng.standard_normal((3, 2)), np.array([0.1, 0.2, 0.3]), rng.standard_normal(3)
    )
    data = punch(rng, oracle.simulate(rng, model, [40]), "scattered")[0]
    params, panel = to_parameters(model), to_panel([data])
    return (
        model,
        data,
        params,
        expected_statistics(params, panel),
        Coordinates(3, Latents(2), "diagonal", True),
    )


def test_means_of_latents_are_those_of_the_rows_in_which_a_column_is_seen(case):
    model, data, params, stats, _ = case
    means = oracle.joint_posterior(model, [data]).means
    wanted = [means[~np.isnan(column)].mean(axis=0) for column in data.T]
    np.testing.assert_allclose(means_of_latents(stats, params), wanted, atol=1e-10)


def test_damping_is_the_information_of_latents_that_are_seen(case):
    """Of loadings and offsets, column by column: sums of (z, 1)(z, 1)' of its rows."""
    _, data, params, stats, layout = case
    patterns = (Pattern(40.0, np.mean(~np.isnan(data), axis=0)),)
    metric = CentredMetric(
        PatternMetric(layout, params, stats, patterns), layout, means_of_latents(stats, params)
    )
    found = metric.to_dense(1.0) - metric.to_dense()
    _, loadings, _, offset = layout.slices
    for d in range(3):
        at = np.r_[loadings.start + 2 * d, loadings.start + 2 * d + 1, offset.start + d]
        wanted = stats.latent_moments[d] / params.noise_variance[d]
        assert scaled_error(found[np.ix_(at, at)], wanted) < 1e-9


def test_solving_inverts_the_dense_matrix(rng, case):
    _, _, params, stats, layout = case
    inner = Metric(layout, params, complete_data_of(stats, params, 1.0, centred=True))
    metric = CentredMetric(inner, layout, means_of_latents(stats, params))
    gradient, free = rng.standard_normal(layout.size), np.ones(layout.size, dtype=bool)
    for damping in (0.0, 0.3):
        step = metric.solve(gradient, free, damping)
        np.testing.assert_allclose(metric.to_dense(damping) @ step, gradient, rtol=1e-6, atol=1e-6)


def test_the_valley_of_a_slow_latent_and_its_offset_is_seen(case):
    """Steps by the metric beside those by the curvature of the likelihood, of loadings and offsets alone."""
    model, data, params, stats, layout = case
    free = np.zeros(layout.size, dtype=bool)
    free[layout.slices[1]] = free[layout.slices[3]] = True

    at = oracle.pack(model, "diagonal")

    def value(some):
        vector = at.copy()
        vector[free] = some
        return oracle.log_likelihood(oracle.unpack(vector, model, "diagonal"), [data])

    curvature = -oracle.numerical_hessian(value, at[free], 3e-3)
    plain = Metric(layout, params, complete_data_of(stats, params))
    inner = Metric(layout, params, complete_data_of(stats, params, 1.0, centred=True))
    centred = CentredMetric(inner, layout, means_of_latents(stats, params))

    def spread(metric):
        """How many times the curvature is larger in one direction than in another, in the metric."""
        matrix = metric.to_dense(1e-3)[np.ix_(free, free)]
        root = np.linalg.inv(np.linalg.cholesky(matrix))
        values = np.abs(np.linalg.eigvalsh(root @ curvature @ root.T))
        return values.max() / values.min()

    assert spread(centred) < 0.2 * spread(plain)


@pytest.mark.parametrize("n_stretches", [1, 5])
def test_offsets_are_known_as_well_as_the_mean_of_as_many_stretches(n_stretches):
    """Without noise, the variance of an offset is that of the mean of the latent, short of all times."""
    a, n = 0.999, 20
    rows = np.arange(n)
    mean = np.mean(a ** np.abs(rows[:, None] - rows)) / n_stretches
    model = oracle.Model(np.array([a]), np.array([[1.0]]), np.array([1e-8]), np.zeros(1))
    layout, params = Coordinates(1, Latents(1), "diagonal", True), to_parameters(model)
    stats = expected_statistics(params, to_panel([np.zeros((n, 1))] * n_stretches))
    metric = Metric(layout, params, complete_data_of(stats, params, n_stretches))
    found = 1.0 / metric.to_dense()[layout.slices[3], layout.slices[3]]
    np.testing.assert_allclose(found, mean, rtol=0.05)
