"""Properties claimed by the tests and documentation of sklearn-sfa, for both packages, and their agreement.

sklearn-sfa divides covariances by T - 1 and those of differences by T - 2, and subtracts the mean difference.
Its tests use mixtures of cosines over whole periods, with a mean difference of zero: delta values then differ
only by the divisors.
"""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from probsfa.expansions import Polynomial
from probsfa.linalg import slow_directions
from probsfa.metrics import delta_value
from probsfa.sfa import SFA, HierarchicalSFA, Layer
from tests.oracles import sfa as oracle
from tests.peers.adapters import match_signs
from tests.tolerances import EXACT, SPECTRAL, STREAM

sksfa = pytest.importorskip("sksfa", reason="sklearn-sfa, of the peers extra, is not installed")

SIZES = [(2, 1000), (3, 1000), (5, 1000), (5, 6000), (9, 1000), (9, 6000)]
DEFICITS = [(2, 1), (3, 1), (3, 2), (5, 1), (5, 4), (9, 1), (9, 5), (9, 8)]

sizes = pytest.mark.parametrize(("n_columns", "n_rows"), SIZES)
deficits = pytest.mark.parametrize(("n_columns", "deficit"), DEFICITS)


def mixed_cosines(n_columns, n_rows=1000, deficit=0):
    """Return random mixtures of cosines of 1 to n_columns periods; `deficit` of them are constant."""
    rng = np.random.default_rng(100 * n_columns + deficit)
    cosines = np.cos(np.linspace(0, 2 * np.pi, n_rows)[:, None] * np.arange(1, n_columns + 1))
    cosines[:, rng.choice(n_columns, deficit, replace=False)] = 1.0
    return cosines @ rng.standard_normal((n_columns, n_columns))


def drifting(n_columns=4, n_rows=300):
    """Return random walks, whose mean difference is not zero."""
    return np.random.default_rng(9).standard_normal((n_rows, n_columns)).cumsum(axis=0)


def divisors(n_rows, n_differences=None):
    """Return the ratio of the delta values of sklearn-sfa to those here if the mean difference is zero."""
    n = n_rows - 1 if n_differences is None else n_differences
    return n / (n - 1) * (n_rows - 1) / n_rows


def peer_outputs(X, reference, **options):
    """Return outputs of sklearn-sfa with variance 1 (divisor T) and the signs of this package."""
    outputs = sksfa.SFA(**options).fit_transform(X)
    return match_signs(outputs * np.sqrt(len(X) / (len(X) - 1)), reference)


# ------------------------------------------------------------------------------------------- outputs


@sizes
def test_shape_and_constraints(n_columns, n_rows):
    """Outputs have mean zero and unit covariance, with the divisor T here and T - 1 in sklearn-sfa."""
    X = mixed_cosines(n_columns, n_rows)
    ours, peer = SFA().fit_transform(X), sksfa.SFA().fit_transform(X)
    for outputs, ddof in ((ours, 0), (peer, 1)):
        assert outputs.shape == (n_rows, n_columns)
        np.testing.assert_allclose(outputs.mean(axis=0), 0.0, atol=SPECTRAL)
        np.testing.assert_allclose(np.cov(outputs.T, ddof=ddof), np.eye(n_columns), atol=SPECTRAL)


@sizes
def test_outputs_agree(n_columns, n_rows):
    X = mixed_cosines(n_columns, n_rows)
    ours = SFA().fit_transform(X)
    np.testing.assert_allclose(peer_outputs(X, ours), ours, atol=1e-6)


@sizes
def test_delta_values(n_columns, n_rows):
    """Delta values are mean squared differences over variances of the outputs."""
    X = mixed_cosines(n_columns, n_rows)
    ours, peer = SFA().fit(X), sksfa.SFA().fit(X)
    outputs = ours.transform(X)
    explicit = np.mean(np.diff(outputs, axis=0) ** 2, axis=0) / np.var(outputs, axis=0)
    np.testing.assert_allclose(ours.delta_values_, explicit, rtol=SPECTRAL)
    np.testing.assert_allclose(delta_value(outputs), explicit, rtol=SPECTRAL)
    np.testing.assert_allclose(ours.delta_values_, oracle.slow_features([X])[0], rtol=1e-6)
    np.testing.assert_allclose(peer.delta_values_, ours.delta_values_ * divisors(n_rows), rtol=SPECTRAL)


@sizes
def test_order(n_columns, n_rows):
    X = mixed_cosines(n_columns, n_rows)
    for sfa in (SFA().fit(X), sksfa.SFA().fit(X)):
        assert np.all(np.diff(sfa.delta_values_) > 0)
        assert np.all(np.diff(delta_value(sfa.transform(X))) > 0)


@sizes
def test_cosines_are_unmixed(n_columns, n_rows):
    """Slow features of mixed cosines approximate the cosines, slowest first."""
    X = mixed_cosines(n_columns, n_rows)
    cosines = np.cos(np.linspace(0, 2 * np.pi, n_rows)[:, None] * np.arange(1, n_columns + 1))
    for outputs in (SFA().fit_transform(X), sksfa.SFA().fit_transform(X)):
        correlations = np.corrcoef(outputs.T, cosines.T)[:n_columns, n_columns:]
        np.testing.assert_allclose(np.abs(correlations), np.eye(n_columns), atol=3 / np.sqrt(n_rows))


@sizes
def test_affine_parameters(n_columns, n_rows, capsys):
    """Outputs are X W' + b; here W = components_ and b = -W mean_."""
    X = mixed_cosines(n_columns, n_rows)
    ours, peer = SFA().fit(X), sksfa.SFA().fit(X)
    by_hand = X @ ours.components_.T - ours.components_ @ ours.mean_
    np.testing.assert_allclose(ours.transform(X), by_hand, atol=SPECTRAL)
    W, b = peer.affine_parameters()
    np.testing.assert_allclose(peer.transform(X), X @ W.T + b, atol=SPECTRAL)
    signs = np.sign(np.sum(W * ours.components_, axis=1))
    scale = signs * np.sqrt(n_rows / (n_rows - 1))
    np.testing.assert_allclose(scale[:, None] * W, ours.components_, atol=1e-5 * np.max(np.abs(W)))
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X, atol=SPECTRAL)


@pytest.mark.parametrize("n_components", [1, 2, 5])
def test_number_of_components(n_components):
    X = mixed_cosines(5)
    ours = SFA(n_components).fit_transform(X)
    assert ours.shape == (1000, n_components)
    np.testing.assert_allclose(ours, SFA().fit_transform(X)[:, :n_components], atol=STREAM)
    np.testing.assert_allclose(peer_outputs(X, ours, n_components=n_components), ours, atol=1e-6)


def test_only_sklearn_sfa_subtracts_a_drift():
    """If the mean difference is not zero, only sklearn-sfa subtracts it."""
    X = drifting()
    ours, peer = SFA().fit(X), sksfa.SFA().fit(X)
    np.testing.assert_allclose(peer.delta_values_, oracle.centred_deltas(X), rtol=SPECTRAL)
    drift = (X[-1] - X[0]) / (len(X) - 1)
    moments = ours.moments_
    without = slow_directions(moments.difference_moment - np.outer(drift, drift), moments.covariance)
    np.testing.assert_allclose(peer.delta_values_, without.delta_values * divisors(len(X)), rtol=SPECTRAL)
    assert ours.delta_values_[0] > 1.005 * without.delta_values[0]


def test_outputs_of_new_rows():
    X, new = mixed_cosines(5), np.random.default_rng(0).standard_normal((7, 5))
    ours, peer = SFA().fit(X), sksfa.SFA().fit(X)
    together = ours.transform(new)
    np.testing.assert_allclose(np.vstack([ours.transform(row[None]) for row in new]), together, atol=EXACT)
    scaled = peer.transform(new) * np.sqrt(1000 / 999)
    np.testing.assert_allclose(match_signs(scaled, together), together, atol=1e-5 * np.abs(together).max())


# ----------------------------------------------------------------------------------------------- rank


@deficits
def test_more_outputs_than_the_rank_are_an_error(n_columns, deficit):
    """More outputs than the rank are an error, in sklearn-sfa if it is told not to fill them."""
    X = mixed_cosines(n_columns, deficit=deficit)
    with pytest.raises(ValueError, match=str(n_columns - deficit)):
        SFA(n_columns).fit(X)
    with pytest.raises(ValueError):
        sksfa.SFA(fill_mode=None).fit(X)


@deficits
def test_rank_deficient_outputs(n_columns, deficit, capsys):
    """Here the rank limits the outputs; sklearn-sfa adds zeros, and the other outputs and maps agree."""
    X = mixed_cosines(n_columns, deficit=deficit)
    rank = n_columns - deficit
    ours = SFA().fit(X)
    outputs = ours.transform(X)
    assert ours.rank_ == rank and outputs.shape == (1000, rank)
    np.testing.assert_allclose(np.cov(outputs.T, ddof=0), np.eye(rank).squeeze(), atol=SPECTRAL)
    peer = sksfa.SFA(fill_mode="zero")
    with pytest.warns(RuntimeWarning, match="trivial"):
        peer_all = peer.fit_transform(X)
    assert peer_all.shape == (1000, n_columns)
    scaled = peer_all[:, :rank] * np.sqrt(1000 / 999)
    np.testing.assert_allclose(match_signs(scaled, outputs), outputs, atol=1e-6)
    assert np.all(peer_all[:, rank:] == 0)
    np.testing.assert_allclose(peer.delta_values_[:rank], ours.delta_values_ * divisors(1000), rtol=1e-6)
    W, b = peer.affine_parameters()
    np.testing.assert_allclose(X @ W.T + b, peer_all, atol=SPECTRAL)
    np.testing.assert_allclose(ours.components_ @ (X - ours.mean_).T, outputs.T, atol=SPECTRAL)


@deficits
def test_outputs_of_noise_have_no_affine_map(n_columns, deficit, capsys):
    """sklearn-sfa adds noise by default; this package never does and always has an affine map."""
    X = mixed_cosines(n_columns, deficit=deficit)
    peer = sksfa.SFA()
    with pytest.warns(RuntimeWarning, match="trivial"):
        peer.fit(X)
    with pytest.raises(RuntimeError):
        peer.affine_parameters()
    first, second = SFA().fit(X), SFA().fit(X)
    np.testing.assert_array_equal(first.components_, second.components_)
    assert first.components_.shape == (n_columns - deficit, n_columns)


@pytest.mark.parametrize("n_columns", [2, 5])
def test_constant_data_are_an_error(n_columns):
    constant = np.ones((1000, n_columns))
    with pytest.raises(ValueError, match="constant"):
        SFA().fit(constant)
    with warnings.catch_warnings(), pytest.raises(ValueError):
        warnings.simplefilter("ignore")  # sklearn-sfa divides by the variance before it checks
        sksfa.SFA(fill_mode=None).fit(constant)


# --------------------------------------------------------------------------- parts, pieces, pipelines


@pytest.mark.parametrize("n_parts", [1, 4, 9])
def test_parts_as_separate_sequences(n_parts):
    """sklearn-sfa omits the difference between two parts; here the second part is a new sequence."""
    X = drifting()
    parts = np.array_split(X, n_parts)
    ours, peer = SFA(), sksfa.SFA(n_components=4)
    for part in parts:
        ours.partial_fit(part, new_sequence=True)
        peer.partial(part)
    whole = SFA().fit(parts)
    np.testing.assert_allclose(ours.delta_values_, whole.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(ours.components_, whole.components_, rtol=1e-6)
    outputs = ours.transform(X)
    scaled = peer.transform(X) * np.sqrt(len(X) / (len(X) - 1))
    np.testing.assert_allclose(match_signs(scaled, outputs), outputs, atol=1e-6)


@pytest.mark.parametrize("n_parts", [1, 4, 9])
def test_parts_of_one_series(n_parts):
    """By default the next part continues the series, and results equal those of the whole series."""
    X = drifting()
    ours = SFA()
    for part in np.array_split(X, n_parts):
        ours.partial_fit(part)
    whole = SFA().fit(X)
    np.testing.assert_allclose(ours.delta_values_, whole.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(ours.transform(X), whole.transform(X), atol=SPECTRAL)


@pytest.mark.parametrize("batch_size", [50, 100])
def test_a_batch_size_is_equivalent_to_equal_lengths(batch_size):
    """No difference joins two sequences; sklearn-sfa also subtracts their mean difference."""
    X = drifting()
    n_batches = len(X) // batch_size
    lengths = [batch_size] * n_batches
    ours, peer = SFA().fit(X, lengths=lengths), sksfa.SFA(batch_size=batch_size).fit(X)
    moments = ours.moments_
    n = len(X) - n_batches
    inside = np.concatenate([np.diff(x, axis=0) for x in np.split(X, n_batches)])
    drift = inside.mean(axis=0)
    without = slow_directions(moments.difference_moment - np.outer(drift, drift), moments.covariance)
    np.testing.assert_allclose(peer.delta_values_, without.delta_values * divisors(len(X), n), rtol=1e-6)
    np.testing.assert_allclose(ours.delta_values_, oracle.slow_features(np.split(X, n_batches))[0], rtol=1e-6)


def test_quadratic_expansion():
    """Both find a slow sine that is a quadratic polynomial of the columns."""
    t = np.linspace(0, 2 * np.pi, 2000)
    X = np.column_stack([np.sin(t) + np.cos(11 * t) ** 2, np.cos(11 * t)])
    ours = SFA(3, expansion=Polynomial(2)).fit(X)
    outputs = ours.transform(X)
    features = PolynomialFeatures(2, include_bias=False)
    by_pipeline = make_pipeline(features, SFA(3)).fit_transform(X)
    np.testing.assert_allclose(by_pipeline, outputs, atol=1e-6)
    peer = peer_outputs(features.fit_transform(X), outputs, n_components=3)
    np.testing.assert_allclose(peer, outputs, atol=1e-5)
    assert np.abs(np.corrcoef(outputs[:, 0], np.sin(t))[0, 1]) > 0.999
    assert SFA(1).fit(X).delta_values_[0] > 10 * ours.delta_values_[0]


def outputs_of_node(X):
    """Return two outputs of sklearn-sfa trained by ``partial``, which does not subtract the drift."""
    return sksfa.SFA(n_components=2).partial(X).transform(X)


def test_hierarchy_of_linear_layers():
    """Four receptive fields and one node above. Nodes of sklearn-sfa: its HSFA requires NumPy 1."""
    rng = np.random.default_rng(1)
    n_rows, side = 600, 4
    slow = np.cos(np.linspace(0, 2 * np.pi, n_rows))
    X = 0.3 * rng.standard_normal((n_rows, side * side)) + slow[:, None] * rng.standard_normal(side * side)
    ours = HierarchicalSFA([Layer(2, field=(2, 2)), Layer(2)], input_shape=(side, side)).fit(X)
    outputs = ours.transform(X)
    assert ours.grids_ == [(2, 2), (1, 1)] and outputs.shape == (n_rows, 2)
    np.testing.assert_allclose(np.cov(outputs.T, ddof=0), np.eye(2), atol=SPECTRAL)
    assert ours.delta_values_[0] < ours.delta_values_[1]
    assert np.abs(np.corrcoef(outputs[:, 0], slow)[0, 1]) > 0.95

    positions = np.arange(side * side).reshape(side, side)
    fields = [positions[i : i + 2, j : j + 2].ravel() for i in (0, 2) for j in (0, 2)]
    first_outputs = np.column_stack([outputs_of_node(X[:, field]) for field in fields])
    peer = outputs_of_node(first_outputs) * np.sqrt(n_rows / (n_rows - 1))
    np.testing.assert_allclose(match_signs(peer, outputs), outputs, atol=1e-6)

    # If first nodes have as many outputs as inputs, a linear hierarchy equals linear SFA of all inputs.
    whole = HierarchicalSFA([Layer(4, field=(2, 2)), Layer(2)], input_shape=(side, side)).fit_transform(X)
    np.testing.assert_allclose(whole, SFA(2).fit_transform(X), atol=1e-6)


# --------------------------------------------------------------------------------------------- errors


def test_unfitted_estimators_are_errors():
    X = mixed_cosines(3)
    for sfa in (SFA(), sksfa.SFA()):
        with pytest.raises(NotFittedError):
            sfa.transform(X)
        assert sfa.fit(X) is sfa
        assert sfa.transform(X).shape == X.shape
    assert SFA().fit(X).__sklearn_is_fitted__() and sksfa.SFA().fit(X).is_fitted_


@pytest.mark.parametrize(
    "X",
    [
        np.arange(20.0),
        np.array([[np.nan, 1.0]] * 20),
        np.array([[np.inf, 1.0]] * 20),
        np.array([["a", "b"]] * 20),
        np.empty((0, 3)),
        np.ones((1, 3)),
        np.empty((20, 0)),
    ],
    ids=["one dimension", "NaN", "infinite", "text", "no rows", "one row", "no columns"],
)
def test_invalid_input_is_an_error(X):
    with pytest.raises(ValueError):
        SFA().fit(X)
    with pytest.raises(ValueError):
        sksfa.SFA().fit(X)


def test_few_rows():
    """This package needs one difference, sklearn-sfa ten rows."""
    X = mixed_cosines(2, 9)
    assert SFA().fit_transform(X).shape == (9, 2)
    with pytest.raises(ValueError, match="minimum of 10"):
        sksfa.SFA().fit(X)


def test_the_data_are_unchanged():
    X = mixed_cosines(3)
    before = X.copy()
    for sfa in (SFA(), sksfa.SFA()):
        sfa.fit_transform(X)
        np.testing.assert_array_equal(X, before)
