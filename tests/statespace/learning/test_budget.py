"""Default numbers of factors and rows, and default tolerance of a fit."""

import numpy as np
import pytest

from probsfa import ProbabilisticSFA, load
from probsfa._validation import Sequences
from probsfa.datasets import hide_values, make_slow_mixture
from probsfa.imputation import LinearInterpolation
from probsfa.statespace.learning.budget import (
    affordable_rows,
    affordable_segments,
    choose_segments,
    default_size,
    max_components,
)
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.learning.fisher_metric import Metric, complete_data_without_missing_values
from probsfa.statespace.learning.maximum_likelihood import InMemory, make_problem
from probsfa.statespace.learning.options import FitOptions, check_fit_memory
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateLayout, StateSpace


def size_of(n_rows, n_features, **kwargs):
    return max_components(n_rows, np.full(n_features, n_rows), np.ones(n_features, dtype=bool), **kwargs)


def test_there_are_as_many_factors_as_columns_that_vary(rng):
    x = rng.standard_normal((500, 6))
    x[:, 2] = 5.0
    assert default_size(~np.isnan(x), (500,), np.ptp(x, axis=0) > 0.0).n_components == 5


def test_few_values_allow_few_factors():
    sizes = [size_of(n, 18) for n in (2, 20, 50, 100, 1000)]
    assert sizes[0] == 1 and sizes == sorted(sizes) and sizes[-1] == 18 and sizes[2] < 9


@pytest.mark.parametrize("n_rows", [40, 55, 75])
def test_there_are_five_observed_values_for_each_parameter(n_rows):
    """Parameters are a decay and 18 loadings of each factor, and mean and noise variance of each column."""
    affordable = [k for k in range(1, 19) if 5 * (k * (1 + 18) + 2 * 18) <= 18 * n_rows]
    assert size_of(n_rows, 18) == max(affordable)


def test_there_are_fewer_factors_for_very_many_rows():
    sizes = [size_of(n, 30) for n in (10**4, 10**6, 10**8)]
    assert sizes[0] == 30 > sizes[1] > sizes[2] >= 1


def test_long_series_of_many_columns_have_fewer_factors_than_short_ones():
    sizes = [size_of(n, 60) for n in (500, 2_000, 20_000)]
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("lengths", [(60_000,), (100,) * 600, (59_999, 1)])
def test_very_many_rows_are_fitted_by_segments(rng, lengths):
    x = rng.standard_normal((60_000, 18))
    x[:50_000, 3] = np.nan
    size = default_size(~np.isnan(x), lengths, np.ones(18, dtype=bool))
    assert size.n_components == 18 and f"of {60_000:,} rows" in size.sentence
    rows = np.concatenate([np.arange(s.start, s.stop) for s in size.segments])
    assert len(rows) == len(set(rows)) <= affordable_rows(18, 18)
    assert (~np.isnan(x[rows])).sum(axis=0).min() >= 100
    ends = np.cumsum(lengths)
    for s in size.segments:  # within one sequence
        assert np.searchsorted(ends, s.start, side="right") == np.searchsorted(ends, s.stop - 1, side="right")


def test_a_quarter_of_the_share_of_a_rare_column_is_enough():
    """A column with 1,000 values has a share of 100 in a tenth of the rows; the segments have 30 of them."""
    n_rows, n_wanted = 8_000, 800
    mask = np.ones((n_rows, 2), dtype=bool)
    [first, *_] = segments = choose_segments(mask, (n_rows,), n_wanted)
    inside = np.zeros(n_rows, dtype=bool)
    for segment in segments:
        inside[segment] = True
    mask[:, 1] = False
    mask[np.flatnonzero(~inside)[:970], 1] = True
    mask[first.start : first.start + 30, 1] = True
    assert choose_segments(mask, (n_rows,), n_wanted) == segments
    mask[first.start : first.start + 10, 1] = False
    assert choose_segments(mask, (n_rows,), n_wanted) != segments


def test_a_column_that_is_missing_in_segments_requires_all_rows():
    n_rows = 500_000
    mask = np.ones((n_rows, 20), dtype=bool)
    mask[:, 0] = False
    mask[250_200:250_203, 0] = True
    assert choose_segments(mask, (n_rows,), 3_000) is None
    size = default_size(mask, (n_rows,), np.ones(20, dtype=bool))
    assert size.segments is None and 1 < size.n_components < 20
    # A fit to all rows costs rows times the square of the factors, or less.
    assert default_size(mask[::2], (n_rows // 2,), np.ones(20, dtype=bool)).n_components > size.n_components


def test_several_fits_share_the_affordable_rows():
    mask, lengths = np.ones((60_000, 18), dtype=bool), (60_000,)
    assert affordable_segments(mask[:2_000], (2_000,), 18) is None
    n_rows = [
        sum(s.stop - s.start for s in affordable_segments(mask, lengths, 18, **settings))
        for settings in ({}, {"n_fits": 4}, {"n_fits": 4, "min_rows": 20_000})
    ]
    affordable = affordable_rows(18, 18)
    np.testing.assert_allclose(n_rows, [affordable, affordable / 4, 20_000], atol=8)


@pytest.mark.exhaustive
def test_a_fit_from_segments_imputes_all_rows():
    x = make_slow_mixture(60_000, 18, decay=[0.98, 0.9], noise_variance=0.5, random_state=0).data
    x[::7, 1] = np.nan
    assert affordable_rows(18, 18) < len(x)
    model = ProbabilisticSFA().fit(x)
    assert "of 60,000 rows in 8 segments" in model.status_
    filled = model.impute(x)
    assert np.array_equal(filled[~np.isnan(x)], x[~np.isnan(x)]) and not np.isnan(filled).any()
    # Further factors have small loadings.
    largest = np.argsort(np.sum(model.loadings_**2, axis=0))[-2:]
    np.testing.assert_allclose(np.sort(model.decay_[largest]), [0.9, 0.98], atol=0.01)


def test_the_default_call_is_better_than_linear_interpolation(tmp_path):
    """With default arguments, on simulated data; a benchmark uses real data."""
    decay = [0.98, 0.95, 0.9]
    x = make_slow_mixture(400, 6, decay=decay, noise_variance=0.3, random_state=0).data
    hidden = hide_values(x, 0.1, random_state=0)
    incomplete = np.where(hidden, np.nan, x)
    model = ProbabilisticSFA().fit(incomplete)
    k = model.decay_.size
    assert model.converged_ and f"Selected {k} latent factor" in model.status_

    def error(filled):
        return np.sqrt(np.mean((filled - x)[hidden] ** 2))

    assert error(model.impute(incomplete)) < 0.9 * error(LinearInterpolation().fill(incomplete).values)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").get_params() == model.get_params()
    assert model.get_params()["n_components"] is None


def test_no_noise_and_no_number_of_factors_is_all_slow_features(rng):
    x = rng.standard_normal((50, 4)).cumsum(axis=0)
    assert ProbabilisticSFA(noise=0.0).fit(x).transform(x).shape == (50, 4)


def test_a_stream_chooses_its_number_of_factors(rng):
    x = rng.standard_normal((300, 4)).cumsum(axis=0)
    streamed = ProbabilisticSFA(tol=100.0).fit_stream(x)
    assert streamed.loadings_.shape == (4, 4) and "Selected 4 latent factors" in streamed.status_


def test_the_tolerance_increases_with_the_number_of_parameters():
    options = FitOptions(2)
    tolerances = [options.tolerance(n) for n in (10, 100, 300, 1000)]
    np.testing.assert_allclose(tolerances, [0.002, 0.2, 0.5, 0.5])
    assert FitOptions(2, tol=3.0).tolerance(1000) == 3.0


def test_more_factors_than_fit_into_memory_are_refused(rng):
    """The error is raised before any computation."""
    with pytest.raises(ValueError, match="20000.*1,788 GiB"):
        ProbabilisticSFA(20_000).fit(rng.standard_normal((10_000, 3)))
    check_fit_memory(100, available=2**30)
    with pytest.raises(ValueError, match="Use fewer"):
        check_fit_memory(1000, available=2**30)


@pytest.mark.parametrize("options", [{"n_components": 61}, {"rhythms": 10**8}, {"smooth": 10**9}])
def test_more_factors_than_observed_values_are_refused(rng, options):
    [(name, value)] = options.items()
    with pytest.raises(ValueError, match=f"{name}={value}.*60"):
        ProbabilisticSFA(**{"n_components": 1, **options}).fit(rng.standard_normal((20, 3)))


def test_starting_points_of_many_columns_are_fast(rng):
    """Cross terms of many noise variances are neglected; solving with them took a minute."""
    coordinates = Coordinates(StateLayout(2), NoiseVariances.diagonal(400), True)
    start = StateSpace(np.array([0.95, 0.8]), rng.standard_normal((400, 2)), np.ones(400), np.zeros(400))
    metric = Metric(coordinates, start, complete_data_without_missing_values(60.0, coordinates))
    assert not hasattr(metric, "noise_and_dynamics")
    gradient = rng.standard_normal(coordinates.size)
    step = metric.solve(gradient, np.ones(coordinates.size, dtype=bool), 0.3)
    np.testing.assert_allclose(metric.to_dense(0.3) @ step, gradient, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("tol", ["tight", 0.0, -1.0, np.nan, True])
def test_a_tolerance_is_a_positive_number_or_auto(tol, rng):
    with pytest.raises(ValueError, match="tol must.*got"):
        ProbabilisticSFA(1, tol=tol).fit(rng.standard_normal((20, 2)))


def test_fits_for_imputation_stop_when_imputed_values_do_not_change():
    """With n_components=None and many values; otherwise the tolerance is that of parameters."""
    rng = np.random.default_rng(0)
    many, few = (InMemory(Sequences(rng.standard_normal((n, 9)), (n,))) for n in (6000, 600))
    assert make_problem(many, FitOptions(None)).tol == pytest.approx(1e-4 * 54_000)
    assert make_problem(many, FitOptions(None, tol=0.1)).tol == 0.1
    assert make_problem(many, FitOptions(3)).tol <= 0.5 and make_problem(few, FitOptions(None)).tol <= 0.5
