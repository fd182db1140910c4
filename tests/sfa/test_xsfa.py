"""Nonlinear blind source separation: steps of the algorithm, and recovered sources."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from probsfa.expansions import Polynomial
from probsfa.sfa import SFA, XSFA
from tests.oracles import xsfa as oracle
from tests.sampling import parametrize_with_checks
from tests.tolerances import SPECTRAL


def autoregressive(rng, n, timescale):
    decay = np.exp(-1 / timescale)
    s = np.zeros(n)
    for t, e in enumerate(rng.standard_normal(n - 1)):
        s[t + 1] = decay * s[t] + e
    return s / np.abs(s).max()


def spiral(s):
    """Return the nonlinear, invertible mixture of Harmeling et al. (2003), which the paper uses."""
    radius = s[:, 1] + 3 * s[:, 0] + 6
    return np.column_stack([radius * np.cos(1.5 * np.pi * s[:, 0]), radius * np.sin(1.5 * np.pi * s[:, 0])])


@parametrize_with_checks([XSFA(1), XSFA(2, expansion=Polynomial(2), source_degree=2)])
@pytest.mark.filterwarnings("ignore:The [0-9]* rows have rank")
@pytest.mark.filterwarnings("ignore:Output [0-9]* .* on held-out rows")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("lengths", "lag"), [((600,), 1), ((200, 1, 399), 2)])
def test_the_steps_are_those_of_the_definition(rng, lengths, lag):
    X = spiral(np.column_stack([autoregressive(rng, 600, 40), autoregressive(rng, 600, 15)]))
    model = XSFA(3, expansion=Polynomial(3), source_degree=3, least_variance=1e-2, lag=lag, rank_tol=1e-12)
    found = model.fit(X, lengths=lengths).transform(X)
    expected, deltas = oracle.sources(X, 3, 3, 3, 1e-2, lengths, lag)
    np.testing.assert_allclose(model.delta_values_, deltas, rtol=1e-6)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-5)
    assert model.rank_ == 9 and model.n_directions_[0] == 9


@pytest.mark.parametrize(("n_rows", "n_monomials"), [(35, 5), (36, 9), (55, 9), (56, 14)])
@pytest.mark.filterwarnings("ignore:Output [0-9]* .* on held-out rows")
def test_the_default_expansion_has_a_monomial_for_every_four_rows(rng, n_rows, n_monomials):
    """Two columns have 2 + 3 + 4 + 5 monomials of degrees one to four."""
    assert len(XSFA(1).fit(rng.standard_normal((n_rows, 2))).expansion_mean_) == n_monomials


def test_the_first_source_is_the_slowest_output(rng):
    X = spiral(np.column_stack([autoregressive(rng, 500, 40), autoregressive(rng, 500, 15)]))
    slow = SFA(1, expansion=Polynomial(4)).fit((X - X.mean(axis=0)) / X.std(axis=0))
    model = XSFA(1, expansion=Polynomial(4)).fit(X)
    np.testing.assert_allclose(model.delta_values_, slow.delta_values_, rtol=SPECTRAL)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("seed", [0, 1])
def test_sources_of_a_spiral_are_recovered(seed, order):
    rng = np.random.default_rng(seed)
    s = np.column_stack([autoregressive(rng, 10_000, tau) for tau in (40, 15)])
    X = spiral(s[:, order])
    model = XSFA(2).fit(X[:7000])
    for rows in (slice(0, 7000), slice(7000, None)):
        correlations = np.abs(np.corrcoef(s[rows].T, model.transform(X[rows]).T)[:2, 2:])
        assert (np.diag(correlations) > 0.9).all() and (correlations[[0, 1], [1, 0]] < 0.3).all()
    linear = SFA(2).fit(X[:7000])
    mixed = np.abs(np.corrcoef(s[7000:].T, linear.transform(X[7000:]).T)[:2, 2:])
    assert mixed.max(axis=1).min() < 0.7
    nonlinear = SFA(2, expansion=Polynomial(7)).fit(X[:7000] / X[:7000].std(axis=0))
    harmonics = nonlinear.transform(X[7000:] / X[:7000].std(axis=0))
    if order == [0, 1]:  # the second output is another function of the first source
        assert abs(np.corrcoef(s[7000:, 1], harmonics[:, 1])[0, 1]) < 0.7


def test_sources_are_uncorrelated_with_powers_of_those_before(rng):
    X = spiral(np.column_stack([autoregressive(rng, 900, 40), autoregressive(rng, 900, 15)]))
    y = XSFA(3, source_degree=3).fit(X).transform(X)
    np.testing.assert_allclose(y.mean(axis=0), 0, atol=1e-7)
    np.testing.assert_allclose(y.T @ y / 900, np.eye(3), atol=1e-6)
    for power in (2, 3):
        assert abs(np.corrcoef(y[:, 0] ** power, y[:, 1])[0, 1]) < 1e-6
        assert abs(np.corrcoef(y[:, 0] ** power, y[:, 2])[0, 1]) < 1e-6
    assert abs(np.corrcoef(y[:, 0] * y[:, 1], y[:, 2])[0, 1]) < 1e-6


def test_sources_of_distant_rows_are_clipped_to_the_training_range(rng):
    X = spiral(np.column_stack([autoregressive(rng, 500, 40), autoregressive(rng, 500, 15)]))
    model = XSFA(2).fit(X)
    y, far = model.transform(X), model.transform(100 * X)
    assert (far >= y.min(axis=0)).all() and (far <= y.max(axis=0)).all()
    np.testing.assert_allclose(np.vstack([model.transform(x[None]) for x in X[:20]]), y[:20], atol=1e-8)


def test_offsets_and_units_do_not_affect_results(rng):
    X = np.round(spiral(np.column_stack([autoregressive(rng, 400, t) for t in (40, 15)])), 6)
    plain = XSFA(2, expansion=Polynomial(3)).fit(X)
    moved = XSFA(2, expansion=Polynomial(3)).fit(X * [1e-3, 1e3] + [1e3, -1e8])
    np.testing.assert_allclose(moved.delta_values_, plain.delta_values_, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components.*1"),
        ({"source_degree": 0}, "source_degree.*1"),
        ({"least_variance": 1.5}, "least_variance.*0.*1.*1.5"),
        ({"least_variance": None}, "least_variance.*0.*1"),
        ({"lag": 0}, "lag.*1"),
        ({"n_components": 3, "expansion": Polynomial(1)}, "2 directions"),
    ],
)
def test_errors_name_the_argument(rng, options, message):
    with pytest.raises(ValueError, match=message):
        XSFA(**options).fit(rng.standard_normal((60, 2)))


def test_a_fit_that_fails_leaves_an_estimator_that_is_not_fitted(rng):
    X = rng.standard_normal((80, 2))
    with pytest.warns(UserWarning, match="held-out rows"):
        model = XSFA(2).fit(X)
    with pytest.raises(ValueError, match="n_components=9.*extracted"):
        model.set_params(n_components=9, expansion=Polynomial(1)).fit(X)
    with pytest.raises(NotFittedError):
        model.transform(X)
