"""Columns that share noise variances: groups, and estimation with any partition of the columns."""

import numpy as np
import pytest

from probsfa.statespace.engine.posterior import expected_statistics, log_likelihood
from probsfa.statespace.learning.coordinates import Coordinates, from_vector, score, to_vector
from probsfa.statespace.learning.em import maximize
from probsfa.statespace.learning.fisher_metric import Metric, complete_data_without_missing_values
from probsfa.statespace.noise import STRUCTURES, NoiseVariances
from probsfa.statespace.noise.gaussian import WEAK_PRIOR, Noise
from probsfa.statespace.parameters import StateLayout
from tests.oracles import statespace as oracle
from tests.statespace.support import mask_values, scaled_error, to_panel, to_parameters

PARTITIONS = [(0, 1, 2, 3, 4), (0, 0, 0, 0, 0), (-1, -1, -1, -1, -1), (0, 1, 0, -1, 1), (-1, 0, -1, 0, 1)]


@pytest.fixture(params=PARTITIONS, ids=str)
def tied(request):
    return NoiseVariances(request.param)


def members(tied):
    """Columns of each group, by a loop."""
    return [[d for d, group in enumerate(tied.groups) if group == f] for f in range(max(tied.groups) + 1)]


def test_groups_are_those_of_a_loop(rng, tied):
    numbers, groups = rng.standard_normal(5), members(tied)
    assert (tied.n_features, tied.n_free) == (5, len(groups))
    assert tied.separate == (groups == [[d] for d in range(5)])
    np.testing.assert_allclose(tied.totals(numbers), [sum(numbers[d] for d in g) for g in groups], atol=1e-15)
    np.testing.assert_array_equal(tied.largest(numbers), [max(numbers[d] for d in g) for g in groups])
    np.testing.assert_allclose(tied.means(numbers), [np.mean([numbers[d] for d in g]) for g in groups])
    by_group, known = rng.standard_normal(len(groups)), rng.standard_normal(5)
    expected = [by_group[g] if g >= 0 else known[d] for d, g in enumerate(tied.groups)]
    np.testing.assert_array_equal(tied.column_values(by_group, known), expected)
    np.testing.assert_array_equal(tied.group_values(tied.column_values(by_group, known)), by_group)


def test_structures_have_the_names_of_the_option():
    assert STRUCTURES["diagonal"](3).groups == (0, 1, 2)
    assert STRUCTURES["isotropic"](3).groups == (0, 0, 0)


def series(rng, tied):
    """Return parameters with equal variances within groups, and data with missing values."""
    model = oracle.random_model(rng, 5, 2, 0.3)
    variance = tied.column_values(0.2 + rng.random(tied.n_free), 0.4)
    model = model._replace(noise=variance)
    return to_parameters(model), to_panel(mask_values(rng, oracle.simulate(rng, model, (9, 14)), "scattered"))


def test_the_score_equals_finite_differences(rng, tied):
    params, panel = series(rng, tied)
    coordinates = Coordinates(StateLayout(2), tied, panel.evenly_sampled)
    at = to_vector(coordinates, params)
    assert at.size == coordinates.size
    step, expected = 1e-5, []
    for j in range(at.size):
        ends = [log_likelihood(from_vector(coordinates, at + s * step * np.eye(at.size)[j], params), panel)
                for s in (1.0, -1.0)]  # fmt: skip
        expected.append((ends[0] - ends[1]) / (2.0 * step))
    found = score(coordinates, params, panel.gaps, expected_statistics(params, panel))
    assert scaled_error(found, np.array(expected)) < 1e-8


def test_the_m_step_maximizes_over_shared_variances(rng, tied):
    """Variances of groups solve ``n rho^2 + (n s - S - 2 s) rho - S s = 0``; known ones are unchanged."""
    params, panel = series(rng, tied)
    stats = expected_statistics(params, panel)
    noise = Noise(tied, np.full(5, 1e-9), WEAK_PRIOR)
    found = maximize(params, stats, noise, panel.gaps).noise_variance
    free = maximize(params, stats, Noise(NoiseVariances.diagonal(5), np.full(5, 1e-9)), panel.gaps)
    squares = free.noise_variance * stats.counts  # expected sums, at the new loadings
    for group in members(tied):
        n, total, s = stats.counts[group].sum(), squares[group].sum(), WEAK_PRIOR
        root = max(np.roots([n, n * s - total - 2.0 * s, -total * s]))
        np.testing.assert_allclose(found[group], root, rtol=1e-9)
    known = np.array(tied.groups) < 0
    np.testing.assert_array_equal(found[known], params.noise_variance[known])


def test_the_metric_is_that_of_free_variances_summed_over_groups(rng, tied):
    params, panel = series(rng, tied)
    layouts = [Coordinates(StateLayout(2), one, True) for one in (tied, NoiseVariances.diagonal(5))]
    found, free = (
        Metric(one, params, complete_data_without_missing_values(40.0, one)).to_dense() for one in layouts
    )
    variances_of_free = layouts[1].slices[2]
    others_of_free = np.delete(
        np.arange(layouts[1].size), np.arange(variances_of_free.start, variances_of_free.stop)
    )
    to_free = np.zeros((layouts[1].size, layouts[0].size))
    variances_of_tied = layouts[0].slices[2]
    others_of_tied = np.delete(
        np.arange(layouts[0].size), np.arange(variances_of_tied.start, variances_of_tied.stop)
    )
    to_free[others_of_free, others_of_tied] = 1.0
    to_free[variances_of_free, variances_of_tied] = [
        [float(g == f) for f in range(tied.n_free)] for g in tied.groups
    ]
    assert scaled_error(found, to_free.T @ free @ to_free) < 1e-12
