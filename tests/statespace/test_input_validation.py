"""Messages of ProbabilisticSFA about invalid data and parameters, and unusual input that is valid."""

import numpy as np
import pandas as pd
import pytest

from probsfa import ProbabilisticSFA
from tests.sampling import parametrize
from tests.statespace.support import uneven_times
from tests.tolerances import small_noise_tolerance


def walk(n_rows=60, n_features=3):
    return np.cumsum(np.random.default_rng(1).standard_normal((n_rows, n_features)), axis=0)


def walk_with(place, value):
    x = walk()
    x[place] = value
    return x


REFUSED = {
    "infinity": (walk_with((7, 1), np.inf), {}, r"infinity.*row 7, column 1"),
    "empty column": (walk_with((slice(None), 1), np.nan), {}, r"column 1"),
    "text": (np.array([["a", "b"], ["c", "d"]]), {}, r"text|numbers"),
    "complex": (walk() * 1j, {}, r"[Cc]omplex"),
    "one dimension": (walk()[:, 0], {}, r"1-dimensional|reshape"),
    "three dimensions": (walk()[None], {}, r"3-dimensional"),
    "no rows": (np.empty((0, 3)), {}, r"0 sample|at least"),
    "one row": (walk()[:1], {}, r"minimum of 2|at least"),
    "no columns": (np.empty((5, 0)), {}, r"0 feature"),
    "tuple": ((walk(), walk()), {}, r"tuple"),
    "empty list": ([], {}, r"empty"),
    "only single rows": ([walk()[:1]] * 5, {}, r"two rows|time scale"),
    "single rows by lengths": (walk()[:3], {"lengths": [1, 1, 1]}, r"two rows|time scale"),
    "columns differ": ([walk(), walk(60, 2)], {}, r"features"),
    "lengths do not add up": (walk(), {"lengths": [30, 20]}, r"lengths"),
    "lengths of a list": ([walk()], {"lengths": [60]}, r"lengths"),
    "times go back": (walk(), {"times": np.r_[0:30, 20:50]}, r"times.*row 30"),
    "times repeat": (walk(), {"times": np.r_[0:30, 29:59]}, r"times.*repeats"),
    "times too short": (walk(), {"times": np.arange(59)}, r"times"),
    "times not finite": (walk(), {"times": np.r_[0:59, np.nan]}, r"times"),
    "constant": (np.ones((20, 2)), {}, r"constant"),
}


def test_methods_reject_data_without_observed_values():
    model = ProbabilisticSFA.from_parameters([0.9], [[1.0], [0.5], [0.2]], 0.3)
    nothing = np.full((60, 3), np.nan)
    for method in (model.diagnose, model.bic, model.standard_errors):
        with pytest.raises(ValueError, match="X has no"):
            method(nothing)
    with pytest.raises(ValueError, match="X has no"):
        model.profile_timescale(nothing, 0)


@pytest.mark.parametrize("case", list(REFUSED))
def test_invalid_data_raise_an_error_with_the_reason(case):
    X, options, reason = REFUSED[case]
    with pytest.raises(ValueError, match=reason):
        ProbabilisticSFA(2).fit(X, **options)


def test_the_error_about_an_empty_column_contains_its_name():
    frame = pd.DataFrame(walk_with((slice(None), 1), np.nan), columns=["wind", "rain", "sun"])
    with pytest.raises(ValueError, match="X.*rain"):
        ProbabilisticSFA(2).fit(frame)


def test_new_data_may_have_a_column_without_observations():
    """After the fit, a column without observations is treated as missing."""
    fitted = ProbabilisticSFA(2).fit(walk())
    assert np.all(np.isfinite(fitted.transform(walk_with((slice(None), 1), np.nan))))
    assert np.all(np.isfinite(fitted.impute(np.full((60, 3), np.nan))))


PARAMETERS = {
    "n_components": [-1, 1.5, "two", True],
    "noise": ["spherical", -1.0, np.nan, np.inf, None, True, [0.1, 0.2]],
    "solver": ["newton", None],
    "max_iter": [0, 2.5, None],
    "tol": [0.0, -1.0, "small", np.nan],
    "noise_floor": [0.0, -1e-3, 1.0, "low", None],
}


@pytest.mark.parametrize("name,value", [(n, v) for n, values in PARAMETERS.items() for v in values])
def test_parameters_are_checked_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        ProbabilisticSFA(**{name: value}).fit(walk())


@pytest.mark.parametrize("value", [0, -2, 1.5])
def test_numbers_of_steps_and_draws_are_validated(value):
    fitted = ProbabilisticSFA(1).fit(walk())
    with pytest.raises(ValueError, match="n_steps must.*got"):
        fitted.forecast(walk(), value)
    with pytest.raises(ValueError, match="n_steps must.*got"):
        fitted.sample(value)
    with pytest.raises(ValueError, match="n_draws must.*got"):
        fitted.sample_posterior(walk(), value)


def test_noise_free_fits_reject_missing_values_times_and_too_many_factors():
    with pytest.raises(ValueError, match="NaN.*row 7"):
        ProbabilisticSFA(2, noise=0.0).fit(walk_with((7, 1), np.nan))
    with pytest.raises(ValueError, match=r"rank 3"):
        ProbabilisticSFA(4, noise=0.0).fit(walk())
    with pytest.raises(ValueError, match=r"noise=0\.0.*times"):
        ProbabilisticSFA(2, noise=0.0).fit(walk(), times=np.arange(60.0))
    fitted = ProbabilisticSFA(2, noise=0.0).fit(walk())
    for method in (fitted.filter, fitted.standard_errors):
        with pytest.raises(ValueError, match="noise"):
            method(walk())


def test_a_filter_state_continues_one_sequence_of_the_same_model():
    fitted = ProbabilisticSFA(1).fit(walk())
    state = fitted.filter(walk()).state
    with pytest.raises(ValueError, match="state continues one sequence"):
        fitted.filter([walk(), walk()], state)
    with pytest.raises(ValueError, match="state continues one sequence"):
        fitted.filter(walk(), state, lengths=[30, 30])
    other = ProbabilisticSFA(2).fit(walk())
    with pytest.raises(ValueError, match="state has a mean"):
        other.filter(walk(), state)


rng = np.random.default_rng(3)
ACCEPTED = {
    "two rows": (rng.standard_normal((2, 3)), 2),
    "two rows, one column": (np.array([[0.0], [1.0]]), 1),
    "more columns than rows": (rng.standard_normal((12, 30)), 2),
    "more factors than columns": (walk(60, 1), 2),
    "alternating signs": (np.tile([1.0, -1.0], 30)[:, None] + 0.1 * rng.standard_normal((60, 3)), 2),
    "exactly alternating": (np.tile([1.0, -1.0], 30)[:, None] * [[1.0, 2.0, 3.0]], 2),
    "white noise": (rng.standard_normal((60, 3)), 2),
    "constant column": (np.column_stack([walk(60, 2), np.ones(60)]), 2),
    "duplicated column": (walk()[:, [0, 1, 1]], 2),
    "pure drift": (np.outer(np.arange(60.0), [1.0, 2.0, -1.0]), 2),
    "drift in one of three columns": (np.column_stack([walk(60, 2), np.arange(60.0)]), 2),
    "offset 1e8": (walk() + 1e8, 2),
    "scales": (walk() * [1e-8, 1.0, 1e8], 2),
    "scales, one noise": (walk() * [1e-8, 1.0, 1e8], 2, {"noise": "isotropic"}),
    "one value in a column": (np.where(np.arange(3) == 2, np.nan, walk()), 2),
    "one value in each row": (np.where(np.arange(3) == (np.arange(60) % 3)[:, None], walk(), np.nan), 2),
    "long missing block": (walk_with(slice(20, 40), np.nan), 2),
    "first and last rows": (walk_with([0, 1, 58, 59], np.nan), 2),
    "many short sequences": ([rng.standard_normal((2, 3)) for _ in range(30)], 2),
    "single rows among others": ([rng.standard_normal((1, 3)) for _ in range(5)] + [walk(55)], 2),
    "whole numbers": (rng.integers(-2, 3, (60, 3)), 2),
    "two levels": (np.sign(walk()), 2),
    "without noise": (np.sin(np.outer(np.arange(60), [0.05, 0.2, 0.7])), 2),
    "fixed noise far too small": (walk(), 2, {"noise": 1e-8}),
    "fixed noise far too large": (walk(), 2, {"noise": 1e6}),
    "plain nested lists": (walk().tolist(), 2),
    "masked array": (np.ma.masked_greater(walk(), 5.0), 2),
}
ACCEPTED["one value in a column"][0][30, 2] = 1.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# For random walks, two latent factors predict worse than linear interpolation, which impute reports.
@pytest.mark.filterwarnings("ignore:Observed values left out one at a time")
@parametrize(
    "case",
    list(ACCEPTED),
    quick=[
        "two rows",
        "constant column",
        "scales",
        "one value in each row",
        "many short sequences",
        "without noise",
    ],
)
def test_accepted_without_a_warning_or_nan(case):
    X, k, *options = ACCEPTED[case]
    fitted = ProbabilisticSFA(k, **(options[0] if options else {})).fit(X)
    assert all(np.all(np.isfinite(part)) for part in fitted.params_.to_arrays().values())
    assert np.all(np.abs(fitted.decay_) < 1) and np.all(fitted.noise_variance_ > 0)
    assert np.all(np.diff(fitted.history_) >= 0)
    filled = fitted.impute(X)
    assert np.all(np.isfinite(np.concatenate(filled) if isinstance(filled, list) else filled))
    posteriors = fitted.posterior(X)
    posteriors = posteriors if isinstance(posteriors, list) else [posteriors]
    total = sum(posterior.log_likelihood for posterior in posteriors)
    # The fit uses standardized data, in which rounding errors increase as noise variances decrease.
    signal = np.sum(fitted.loadings_**2, axis=1)
    noise = np.min(fitted.noise_variance_[signal > 0] / signal[signal > 0])
    n_values = sum(len(posterior.means) for posterior in posteriors) * fitted.n_features_in_
    assert total == pytest.approx(
        fitted.log_likelihood_, rel=1e-8, abs=n_values * small_noise_tolerance(noise)
    )
    assert all(
        np.all(np.isfinite(posterior.std)) and np.all(posterior.std <= 1 + 1e-9) for posterior in posteriors
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_uneven_times_are_accepted_for_any_data(rng):
    for X in (walk(), np.tile([1.0, -1.0], 30)[:, None] * np.ones(3)):
        fitted = ProbabilisticSFA(2).fit(X, times=uneven_times(rng, [60])[0])
        assert np.all(fitted.decay_ > 0) and all(
            np.all(np.isfinite(part)) for part in fitted.params_.to_arrays().values()
        )


def test_a_time_step_of_years_is_accepted():
    """Factors before and after a step of a million rows are independent, as in two sequences."""
    x = walk()
    times = np.r_[0.0:30.0, 1e6 + np.arange(30) * 1.0]
    fitted = ProbabilisticSFA(2, tol=1e-6).fit(x, times=times)
    apart = ProbabilisticSFA(2, tol=1e-6).fit([x[:30], x[30:]])
    assert fitted.converged_
    assert fitted.log_likelihood_ == pytest.approx(apart.log_likelihood_, abs=0.01)
    np.testing.assert_allclose(fitted.decay_, apart.decay_, atol=1e-3)
