"""Fixed parameters, and the range of estimated periods about their initial values."""

import numpy as np
import pytest
from scipy.optimize import minimize

from probsfa import ProbabilisticSFA, load, select_model
from probsfa.statespace.learning.coordinates import Limits
from probsfa.statespace.parameters import StateSpace
from tests.oracles import ar1_noise as ar1_oracle
from tests.oracles import block_processes as block_oracle
from tests.oracles import statespace as oracle
from tests.sampling import parametrize

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

EXACT = {"noise_prior": None, "tol": 1e-8}
NAN = np.nan
# The second factor is slower, and has no loadings on the last two columns.
LOADINGS = np.array([[0.9, 0.8], [0.0, 1.0], [-0.7, 0.0], [1.1, 0.0]])
FREE = np.array([[True, True], [False, True], [True, False], [True, False]])


@pytest.fixture(scope="module")
def series():
    """Rows with missing values, of two latent factors whose loadings have a pattern of zeros."""
    rng = np.random.default_rng(5)
    model = oracle.Model(np.array([0.5, 0.95]), LOADINGS, np.array([0.2, 0.3, 0.1, 0.2]), np.arange(4.0))
    [x] = oracle.simulate(rng, model, [40])
    x[rng.random(x.shape) < 0.1] = np.nan
    return model, x


def dense_gaussian(model, x):
    """Return the log-likelihood of the joint Gaussian of all observed values, and its gradient.

    Factors have covariances ``a ** |t - s|``. The gradient is with respect to the coordinates of the oracle:
    ``atanh a``, C row by row, ``log r`` and mu.
    """
    n, D = x.shape
    lags = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    S = np.diag(np.tile(model.noise, n))
    for a, c in zip(model.decay, model.loadings.T, strict=True):
        S += np.kron(a**lags, np.outer(c, c))
    e = (x - model.offset).ravel()
    observed = ~np.isnan(e)
    S, e = S[np.ix_(observed, observed)], e[observed]
    inverse, white = np.zeros((n * D, n * D)), np.zeros(n * D)
    inverse[np.ix_(observed, observed)] = np.linalg.inv(S)
    white[observed] = inverse[np.ix_(observed, observed)] @ e
    value = -0.5 * (np.linalg.slogdet(2.0 * np.pi * S)[1] + e @ white[observed])
    by_covariance = 0.5 * (np.outer(white, white) - inverse).reshape(n, D, n, D)
    by_decay, by_loadings = [], []
    for a, c in zip(model.decay, model.loadings.T, strict=True):
        along = by_covariance @ c
        slope = lags * a ** np.maximum(lags - 1, 0) * (1.0 - a**2)
        by_decay.append(np.sum(slope * np.einsum("tis,i->ts", along, c)))
        by_loadings.append(2.0 * np.einsum("tis,ts->i", along, a**lags))
    by_noise = np.einsum("titi->i", by_covariance) * model.noise
    parts = by_decay, np.transpose(by_loadings).ravel(), by_noise, white.reshape(n, D).sum(axis=0)
    return value, np.concatenate(parts)


def dense_log_likelihood(model, x):
    """Return the log-likelihood without its gradient."""
    return dense_gaussian(model, x)[0]


def maximum_of_the_dense_gaussian(model, x, is_fixed):
    """Return the largest log-likelihood with fixed coordinates of the model, by a general optimizer."""
    start = oracle.pack(model, "diagonal")
    free = np.flatnonzero(~is_fixed)

    def loss(u):
        vector = start.copy()
        vector[free] = u
        value, gradient = dense_gaussian(oracle.unpack(vector, model, "diagonal"), x)
        return -value, -gradient[free]

    end = minimize(loss, start[free], jac=True, method="L-BFGS-B", options={"ftol": 1e-13, "maxfun": 20000})
    return -end.fun


def fixed_coordinates(decays=(), loadings=None, noise=()):
    """Return the mask of fixed coordinates of the oracle: ``atanh a``, C row by row, ``log r`` and mu."""
    is_fixed = np.zeros(2 + 8 + 4 + 4, dtype=bool)
    is_fixed[list(decays)] = True
    if loadings is not None:
        is_fixed[2:10] = np.asarray(loadings).ravel()
    is_fixed[10 + np.array(noise, dtype=int)] = True
    return is_fixed


def test_a_pattern_of_zeros_ends_at_the_maximum_of_the_dense_gaussian(series):
    model, x = series
    fitted = ProbabilisticSFA(2, fixed={"loadings": FREE}, **EXACT).fit(x)
    assert np.all(fitted.loadings_[~FREE] == 0.0) and np.all(fitted.loadings_[FREE] != 0.0)
    assert fitted.decay_[0] < fitted.decay_[1]  # in the order of the fixed loadings, not slowest first
    best = maximum_of_the_dense_gaussian(model, x, fixed_coordinates(loadings=~FREE))
    assert fitted.log_likelihood_ == pytest.approx(best, abs=1e-4)
    assert fitted.log_likelihood_ < ProbabilisticSFA(2, **EXACT).fit(x).log_likelihood_


@parametrize("solver", ["lbfgs", "em"])
def test_other_parameters_are_maximized_with_fixed_decays_noise_and_loadings(series, solver):
    model, x = series
    fixed = {
        "decays": [NAN, 0.95],
        "loadings": np.where(np.arange(8).reshape(4, 2) == 3, 1.0, NAN),
        "noise": [0.2, NAN, NAN, NAN],
    }
    tol = 1e-8 if solver == "lbfgs" else 1e-4
    options = {**EXACT, "max_iter": 3000, "tol": tol, "solver": solver}
    fitted = ProbabilisticSFA(2, fixed=fixed, **options).fit(x)
    assert fitted.decay_[1] == 0.95
    assert fitted.loadings_[1, 1] == pytest.approx(1.0, abs=1e-14)
    assert fitted.noise_variance_[0] == pytest.approx(0.2, rel=1e-13)
    is_fixed = fixed_coordinates([1], np.arange(8) == 3, [0])
    assert fitted.log_likelihood_ == pytest.approx(
        maximum_of_the_dense_gaussian(model, x, is_fixed), abs=1e-3
    )


def test_fixed_parameters_are_not_counted_and_have_no_standard_errors(series):
    _, x = series
    fixed = {"loadings": FREE, "decays": [0.5, NAN], "noise": [NAN, NAN, NAN, 0.2]}
    fitted = ProbabilisticSFA(2, fixed=fixed, **EXACT).fit(x)
    n_free = (2 + 8 + 4 + 4) - (3 + 1 + 1)
    n_rows = np.count_nonzero(~np.isnan(x).all(axis=1))
    assert fitted.bic(x) == pytest.approx(-2 * fitted.log_likelihood_ + n_free * np.log(n_rows), rel=1e-12)
    errors = fitted.standard_errors(x)
    np.testing.assert_array_equal(np.isnan(errors.loadings), ~FREE)
    np.testing.assert_array_equal(np.isnan(errors.decay), [True, False])
    np.testing.assert_array_equal(np.isnan(errors.noise_variance), [False, False, False, True])
    model = oracle.Model(fitted.decay_, fitted.loadings_, fitted.noise_variance_, fitted.mean_)
    free = np.flatnonzero(~fixed_coordinates([0], ~FREE, [3]))
    at = oracle.pack(model, "diagonal")

    def value(u):
        vector = at.copy()
        vector[free] = u
        return dense_log_likelihood(oracle.unpack(vector, model, "diagonal"), x)

    expected = np.full(len(at), NAN)
    steps, n = 1e-3 * np.eye(len(free)), len(free)
    information = np.zeros((n, n))
    for i, j in zip(*np.tril_indices(n), strict=True):
        signs = [(a, b) for a in (1, -1) for b in (1, -1)]
        second = sum(a * b * value(at[free] + a * steps[i] + b * steps[j]) for a, b in signs)
        information[i, j] = information[j, i] = -second / 4e-6
    expected[free] = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(errors.loadings.ravel(), expected[2:10], rtol=2e-3)
    np.testing.assert_allclose(errors.offset, expected[14:], rtol=2e-3)
    with pytest.raises(ValueError, match="factor 0.*fixed"):
        fitted.profile_timescale(x, 0)


EACH_COLUMN = [0.05, 0.06, 0.02, 0.03]


@parametrize(
    ("noise", "rhythms"),
    [(0.05, 0), (0.05, 1), (EACH_COLUMN, 0), (EACH_COLUMN, 1)],
    quick=[(0.05, 1), (EACH_COLUMN, 0)],
)
def test_known_noise_is_unchanged_with_fixed_parameters(series, noise, rhythms):
    """In an earlier version it was replaced by the residual variance of the start: 0.3 instead of 0.1."""
    model, x = series
    fixed = {"decays": [NAN, 0.95]}
    found = ProbabilisticSFA(2, noise=noise, fixed=fixed, rhythms=rhythms, max_iter=30).fit(x)
    np.testing.assert_allclose(found.noise_variance_, np.broadcast_to(noise, 4), rtol=1e-12)
    if rhythms == 0:
        known = model._replace(noise=np.broadcast_to(noise, 4).astype(float))
        is_fixed = fixed_coordinates([1], noise=range(4))
        expected = maximum_of_the_dense_gaussian(known, x, is_fixed)
        assert found.log_likelihood_ > expected - 0.1


def test_fixed_variances_of_all_columns_are_known_noise(series):
    _, x = series
    variances = np.array([0.2, 0.3, 0.1, 0.2])
    fitted = ProbabilisticSFA(2, fixed={"noise": variances}, **EXACT).fit(x)
    known = ProbabilisticSFA(2, noise=variances, **EXACT).fit(x)
    np.testing.assert_allclose(fitted.noise_variance_, variances, rtol=1e-13)
    assert fitted.log_likelihood_ == pytest.approx(known.log_likelihood_, abs=1e-5)


def test_nan_for_all_fixed_loadings_gives_the_free_fit(series):
    _, x = series
    fitted = ProbabilisticSFA(2, fixed={"loadings": np.full((4, 2), NAN)}).fit(x)
    np.testing.assert_array_equal(fitted.loadings_, ProbabilisticSFA(2).fit(x).loadings_)


def test_a_fit_from_given_parameters_keeps_fixed_loadings(series):
    _, x = series
    fixed = {"loadings": FREE}
    first = ProbabilisticSFA(2, fixed=fixed, **EXACT).fit(x)
    again = ProbabilisticSFA(2, fixed=fixed, init=first, **EXACT).fit(x)
    np.testing.assert_allclose(again.loadings_, first.loadings_, atol=1e-3)
    assert np.all(again.loadings_[~FREE] == 0.0)


@pytest.mark.parametrize("options", [{"noise": "ar1"}, {"robust": True}, {"solver": "em"}])
def test_fits_with_other_noise_keep_fixed_loadings(series, options):
    _, x = series
    fitted = ProbabilisticSFA(2, fixed={"loadings": FREE, "decays": [NAN, 0.95]}, max_iter=30, **options)
    fitted.fit(x)
    assert np.all(fitted.loadings_[~FREE] == 0.0) and fitted.decay_[1] == 0.95
    if options == {"noise": "ar1"}:
        dense = ar1_oracle.log_likelihood(fitted.params_, [x], [np.arange(40.0)])
        assert fitted.log_likelihood_ == pytest.approx(dense, abs=1e-7)


def test_fits_with_covariates_keep_fixed_loadings(series):
    _, x = series
    fitted = ProbabilisticSFA(2, fixed={"loadings": FREE}, max_iter=30).fit(x, exog=np.arange(40.0) / 40)
    assert np.all(fitted.loadings_[~FREE] == 0.0)


def test_files_contain_fixed_parameters(series, tmp_path):
    _, x = series
    fitted = ProbabilisticSFA(2, fixed={"loadings": FREE, "noise": [NAN, NAN, NAN, 0.2]}, max_iter=20).fit(x)
    fitted.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert loaded.bic(x) == pytest.approx(fitted.bic(x), rel=1e-12)
    np.testing.assert_array_equal(np.isnan(loaded.standard_errors(x).loadings), ~FREE)
    np.testing.assert_allclose(loaded.fit(x).loadings_, fitted.loadings_, rtol=1e-6, atol=1e-9)


def test_decays_are_fixed_at_uneven_times(series):
    model, x = series
    times = np.cumsum(np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(x)))
    fixed = {"loadings": FREE, "decays": [NAN, 0.95]}
    fitted = ProbabilisticSFA(2, fixed=fixed, max_iter=40).fit(x, times=times / fitted_unit(times))
    assert fitted.decay_[1] == pytest.approx(0.95, rel=1e-12) and np.all(fitted.loadings_[~FREE] == 0.0)
    made = oracle.Model(fitted.decay_, fitted.loadings_, fitted.noise_variance_, fitted.mean_)
    dense = oracle.log_likelihood(made, [x], [times / fitted_unit(times)])
    assert fitted.log_likelihood_ == pytest.approx(dense, abs=1e-7)
    with pytest.raises(ValueError, match="evenly spaced"):
        ProbabilisticSFA(2, fixed={"decays": [NAN, -0.5]}).fit(x, times=times)


def fitted_unit(times):
    """Return the median time between rows, which is the unit of time of the decays."""
    return np.median(np.diff(times))


def test_streamed_fits_keep_fixed_loadings(series):
    _, x = series
    fixed = {"loadings": FREE, "noise": [NAN, NAN, NAN, 0.2]}
    streamed = ProbabilisticSFA(2, fixed=fixed, **EXACT).fit_stream(x)
    in_memory = ProbabilisticSFA(2, fixed=fixed, **EXACT).fit(x)
    assert np.all(streamed.loadings_[~FREE] == 0.0)
    assert streamed.log_likelihood_ == pytest.approx(in_memory.log_likelihood_, abs=1e-5)


@pytest.mark.parametrize(
    ("fixed", "options", "message"),
    [
        ({"decay": [0.5, 0.5]}, {}, "fixed"),
        ([0.5], {}, "dictionary"),
        ({"decays": [0.5]}, {}, "1 values.*2"),
        ({"decays": [0.5, 1.0]}, {}, "strictly inside"),
        ({"decays": [True, False]}, {}, "got booleans"),
        ({"decays": ["slow", 0.5]}, {}, "numbers"),
        ({"loadings": np.ones((4, 3))}, {}, "2 states"),
        ({"loadings": np.ones((3, 2))}, {}, r"has shape \(3, 2\)"),
        ({"loadings": np.full((4, 2), np.inf)}, {}, "finite"),
        ({"noise": [0.1, -1.0, 0.1, 0.1]}, {}, "positive variances"),
        ({"noise": [0.1, NAN, 0.1, 0.1]}, {"noise": "isotropic"}, "variance for each column"),
        ({"periods": [NAN]}, {"rhythms": 1}, "initial values"),
        ({"decays": [0.5, NAN]}, {"n_components": None}, "n_components"),
        ({"decays": [0.5, NAN]}, {"noise": 0.0}, "support fixed"),
    ],
)
def test_invalid_fixed_parameters_are_refused(series, fixed, options, message):
    _, x = series
    with pytest.raises(ValueError, match=message):
        ProbabilisticSFA(**{"n_components": 2, "fixed": fixed, **options}).fit(x)


def test_model_selection_does_not_support_fixed_parameters(series):
    _, x = series
    with pytest.raises(ValueError, match="unsupported options"):
        select_model(x, [{"n_components": 1, "fixed": {}}])


# ------------------------------------------------------------------------------------------ periods


@pytest.fixture(scope="module")
def cycle():
    """Three columns with a stochastic cycle of twelve rows."""
    truth = StateSpace(
        np.array([0.6]),
        np.array([[0.4, 1.0, 0.0], [0.3, 0.5, 0.6], [0.5, 0.0, 0.8]]),
        np.full(3, 0.2),
        np.zeros(3),
        rhythm_decay=np.array([0.99]),
        rhythm_frequency=np.array([2.0 * np.pi / 12.0]),
    )
    return truth, block_oracle.draw(np.random.default_rng(2), truth, [np.arange(100.0)])[0]


def test_a_fixed_period_is_unchanged_and_has_no_standard_error(cycle):
    _, x = cycle
    fitted = ProbabilisticSFA(1, rhythms=1, fixed={"periods": [12.5]}, **EXACT).fit(x)
    assert fitted.rhythm_periods_[0] == pytest.approx(12.5, rel=1e-14)
    assert np.isnan(fitted.standard_errors(x).rhythm_periods[0])
    free = ProbabilisticSFA(1, rhythms=[12.0], **EXACT).fit(x)
    assert free.log_likelihood_ > fitted.log_likelihood_
    n = np.log(len(x))
    gained = 2 * (free.log_likelihood_ - fitted.log_likelihood_)
    assert fitted.bic(x) - free.bic(x) == pytest.approx(gained - n, abs=1e-6)


@parametrize(
    ("start", "solver"),
    [(20.0, "lbfgs"), (20.0, "em"), (8.0, "lbfgs"), (8.0, "em")],
    quick=[(20.0, "lbfgs"), (8.0, "em")],
)
def test_a_period_ends_within_its_range(cycle, start, solver):
    _, x = cycle
    fitted = ProbabilisticSFA(1, rhythms=[start], solver=solver, max_iter=60).fit(x)
    assert 0.8 * start * (1 - 1e-9) <= fitted.rhythm_periods_[0] <= 1.25 * start * (1 + 1e-9)


def test_a_period_within_its_range_is_where_the_dense_likelihood_has_no_slope(cycle):
    _, x = cycle
    fitted = ProbabilisticSFA(1, rhythms=[13.0], **EXACT).fit(x)
    assert fitted.rhythm_periods_[0] == pytest.approx(12.0, rel=0.08)

    def value(factor):
        moved = fitted.params_.replace(rhythm_frequency=factor * fitted.params_.rhythm_frequency)
        return block_oracle.joint(moved, [x], [np.arange(100.0)])[0]

    assert abs(value(1.001) - value(0.999)) / 0.002 < 0.5
    assert value(1.0) > max(value(1.01), value(0.99))


def test_fixed_zero_loadings_on_a_cycle_are_kept(cycle):
    _, x = cycle
    has_loading = np.array([[True, True, True], [True, True, True], [True, False, False]])
    fitted = ProbabilisticSFA(1, rhythms=[12.0], fixed={"loadings": has_loading}, max_iter=60).fit(x)
    assert np.all(fitted.loadings_[2, 1:] == 0.0)
    # Two fixed loadings, and the second loading of the column with phase zero.
    assert np.count_nonzero(fitted.loadings_[:, 1:] == 0.0) == 3
    dense = block_oracle.joint(fitted.params_, [x], [np.arange(100.0)])[0]
    assert fitted.log_likelihood_ == pytest.approx(dense, abs=1e-7)


def test_the_phase_of_a_cycle_is_that_of_fixed_loadings_unless_both_are_zero(rng):
    for _ in range(20):
        loadings = rng.choice([NAN, 0.0, 0.7], (2, 9))
        free = np.full((2, 4), [[0.1], [0.2]])
        limits = Limits(np.full(1, NAN), loadings, np.full(2, NAN), free, slice(1, 9))
        expected = [
            any(
                not np.isnan(pair).all() and tuple(pair) != (0.0, 0.0)
                for pair in loadings[:, 1 + 2 * j : 3 + 2 * j]
            )
            for j in range(4)
        ]
        np.testing.assert_array_equal(limits.fixed_phases, expected)
