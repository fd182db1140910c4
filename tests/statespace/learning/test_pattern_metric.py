"""Information where columns are unseen for long: against that of the joint Gaussian."""

import numpy as np
import pytest

from probsfa.statespace.learning.coordinates import Coordinates, to_vector
from probsfa.statespace.learning.fisher_metric import Metric, complete_data_of
from probsfa.statespace.learning.objective import CountedEStep, ExactObjective
from probsfa.statespace.learning.pattern_metric import (
    Pattern,
    PatternMetric,
    add_patterns,
    count_patterns,
    patterns_of,
)
from probsfa.statespace.parameters import Latents
from probsfa.statespace.posterior import expected_statistics
from tests.oracles import statespace as oracle
from tests.statespace.support import scaled_error, to_panel, to_parameters


def seen_in_part(rng, model, n_rows, first):
    """One series of which the last column is seen in the first rows alone."""
    data = oracle.simulate(rng, model, [n_rows])[0]
    data[first:, -1] = np.nan
    return data


def exact_information(model, data):
    """(1/2) tr(S^-1 d_i S S^-1 d_j S) + d_i mu' S^-1 d_j mu of the joint distribution of seen cells."""
    n, d = data.shape
    seen = np.flatnonzero(~np.isnan(data.ravel()))

    def moments(vector):
        m = oracle.unpack(vector, model, "diagonal")
        H = oracle.observation_matrix(m, n)
        S = H @ oracle.latent_covariance(m, [data]) @ H.T + np.diag(np.tile(m.noise, n))
        return S[np.ix_(seen, seen)], np.tile(m.offset, n)[seen]

    at, h = oracle.pack(model, "diagonal"), 1e-5
    inverse = np.linalg.inv(moments(at)[0])
    slopes, shifts = [], []
    for e in np.eye(len(at)):
        (up, mu_up), (down, mu_down) = moments(at + h * e), moments(at - h * e)
        slopes.append(inverse @ (up - down) / (2 * h))
        shifts.append((mu_up - mu_down) / (2 * h))
    flat, shifts = np.array(slopes), np.array(shifts)
    return 0.5 * np.einsum("iab,jba->ij", flat, flat) + shifts @ inverse @ shifts.T


@pytest.fixture
def case(rng):
    """A model of which each column sees a latent of its own nearly alone, with little noise."""
    loadings = np.eye(2) + 0.1 * rng.standard_normal((2, 2))
    model = oracle.Model(np.array([0.6, 0.3]), loadings, np.array([0.02, 0.05]), np.zeros(2))
    return model, seen_in_part(rng, model, 160, 40), Coordinates(2, Latents(2), "diagonal", True)


def test_information_of_a_column_seen_in_the_first_rows_is_that_of_its_cells(case):
    """In the units of each coordinate, to the part of the edges; as if evenly spread it is far off."""
    model, data, layout = case
    params, panel = to_parameters(model), to_panel([data])
    stats = expected_statistics(params, panel)
    wanted = exact_information(model, data)
    unit = 1.0 / np.sqrt(np.diag(wanted))

    def error(matrix):
        return np.abs((matrix - wanted) * unit[:, None] * unit).max()

    found = PatternMetric(layout, params, stats, patterns_of(count_patterns(panel))).to_dense()
    spread = Metric(layout, params, complete_data_of(stats, params)).to_dense()
    assert error(found) < 0.1
    assert error(spread) > 1.0


def test_one_pattern_of_all_columns_is_the_usual_information(rng):
    model, layout = oracle.random_model(rng, 4, 2), Coordinates(4, Latents(2), "diagonal", True)
    params = to_parameters(model)
    stats = expected_statistics(params, to_panel(oracle.simulate(rng, model, [50])))
    gradient = rng.standard_normal(layout.size)
    usual = Metric(layout, params, complete_data_of(stats, params, 1.0, centred=True), gradient)
    found = PatternMetric(layout, params, stats, (Pattern(50.0, np.ones(4)),), gradient)
    assert scaled_error(found.to_dense(), usual.to_dense()) < 1e-12
    assert scaled_error(found.to_dense(0.7), usual.to_dense(0.7)) < 1e-12


@pytest.mark.parametrize("damping", [0.0, 0.1])
def test_solving_inverts_the_part_of_the_matrix_that_is_free(rng, case, damping):
    model, data, layout = case
    params, panel = to_parameters(model), to_panel([data])
    stats = expected_statistics(params, panel)
    metric = PatternMetric(layout, params, stats, patterns_of(count_patterns(panel)))
    gradient, free = rng.standard_normal(layout.size), np.arange(layout.size) != 3
    step = metric.solve(gradient, free, damping)
    matrix = (metric.information + damping * metric.damping)[np.ix_(free, free)]
    assert step[3] == 0.0
    np.testing.assert_allclose(matrix @ step[free], gradient[free], rtol=1e-8, atol=1e-8)


def test_patterns_are_the_long_holes(rng):
    """Rows counted by a loop; holes of single cells and of few rows are shares, and no patterns."""
    data = rng.standard_normal((400, 3))
    data[100:, 0] = np.nan
    data[300:390, 2] = np.nan
    data[rng.random(data.shape) < 0.1] = np.nan
    data[10:40, 1] = np.nan
    panel = to_panel([data])
    rows = {}
    for t in range(400):
        if not np.all(np.isnan(data[t])):
            kind = (t >= 100, 300 <= t < 390)
            rows.setdefault(kind, []).append(~np.isnan(data[t]))
    wanted = sorted((len(some), *np.mean(some, axis=0)) for some in rows.values())
    found = sorted((pattern.n_rows, *pattern.share) for pattern in patterns_of(count_patterns(panel)))
    assert len(found) == 3
    np.testing.assert_allclose(np.array(found), np.array(wanted), rtol=0.02, atol=0.02)


def test_without_long_holes_there_are_no_patterns(rng):
    data = rng.standard_normal((300, 3))
    data[rng.random(data.shape) < 0.4] = np.nan
    data[100:150, 1] = np.nan
    assert patterns_of(count_patterns(to_panel([data]))) == ()


def test_a_hole_that_two_sequences_share_is_two_holes(rng):
    data = [rng.standard_normal((60, 2)) for _ in range(3)]
    data[0][30:, 1] = np.nan
    data[1][:30, 1] = np.nan
    data[2][:, 0] = np.nan
    found = patterns_of(count_patterns(to_panel(data)))
    assert sorted((pattern.n_rows, *pattern.share) for pattern in found) == [(60, 0, 1), (120, 1, 0.5)]


@pytest.mark.parametrize("holes", [False, True])
def test_counts_of_sequences_apart_add_up_to_those_of_all(rng, holes):
    data = [rng.standard_normal((80, 3)) for _ in range(3)]
    if holes:
        data[0][30:, 1] = data[1][:60, 0] = data[2][:, 2] = data[2][5:9, 1] = np.nan
    whole = count_patterns(to_panel(data))
    joined = add_patterns([count_patterns(to_panel([rows])) for rows in data])
    assert len(whole.n_rows) == (4 if holes else 1)
    assert whole.n_rows.sum() == whole.n_observed.sum() == 240
    assert whole.weights.sum() == sum(np.count_nonzero(~np.isnan(rows)) for rows in data)
    for one, other in zip(joined, whole, strict=True):
        np.testing.assert_array_equal(one, other)


def test_climbs_use_it_where_a_column_is_unseen_for_long(case):
    model, data, layout = case
    params = to_parameters(model)
    kinds = []
    for rows in (data, np.where(np.isnan(data), 0.0, data)):
        objective = ExactObjective(CountedEStep(to_panel([rows]), 9), layout, params)
        vector = to_vector(layout, params)
        kinds.append(type(objective.metric(vector, objective(vector)).inner))
    assert kinds == [PatternMetric, Metric]
