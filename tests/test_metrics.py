"""Slowness, coverage and alignment, compared with definitions and known values."""

import itertools

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import TimeSeriesSplit, cross_val_score

from probsfa import metrics
from tests.oracles import sfa as oracle
from tests.tolerances import EXACT, mc_tolerance


@pytest.mark.parametrize("lag", [1, 3])
def test_delta_equals_the_definition_with_sequences_and_scale(rng, lag):
    pieces = [rng.standard_normal((n, 2)) * [1e-8, 1e8] + 5 for n in (30, 2, 11)]
    expected = oracle.delta_of_output(pieces, lag)
    np.testing.assert_allclose(metrics.delta_value(pieces, lag=lag), expected, rtol=EXACT)
    joined = metrics.delta_value(np.concatenate(pieces), lag=lag, lengths=[30, 2, 11])
    np.testing.assert_allclose(joined, expected, rtol=EXACT)


def test_delta_of_known_signals(rng):
    assert metrics.delta_value([1.0, -1.0] * 50) == 4.0
    T = 200_000
    # squared differences of white noise average 2 with variance 12/T, the variance 1 with 2/T
    assert abs(metrics.delta_value(rng.standard_normal(T)) - 2) < mc_tolerance(12 + 2 * 4, T)
    assert np.isnan(metrics.delta_value(np.full(10, 0.1)))
    assert isinstance(metrics.delta_value([1.0, 2.0]), float)


def test_delta_leaves_missing_values_out():
    y = np.array([[0.0, 0.0], [1.0, np.nan], [3.0, 2.0], [4.0, 5.0]])
    changes, values = np.array([3.0]), np.array([0.0, 2.0, 5.0])
    assert metrics.delta_value(y)[1] == pytest.approx(np.mean(changes**2) / np.var(values), rel=EXACT)
    gaps = np.array(
        [[np.nan, 1.0, np.nan], [1e8, np.nan, np.nan], [1e8 + 1, 3.0, np.nan], [1e8, np.nan, np.nan]]
    )
    np.testing.assert_allclose(metrics.delta_value(gaps), [1 / np.var([0, 1, 0]), np.nan, np.nan], rtol=EXACT)


def test_eta_counts_periods():
    for periods, eta in ((4, 4.0019), (8, 8.0032)):
        assert metrics.eta_value(np.cos(np.linspace(0, 2 * np.pi * periods, 1000))) == pytest.approx(
            eta, abs=5e-5
        )
    # the lag is a unit of time, not a frequency
    assert metrics.eta_value(np.cos(np.linspace(0, 2 * np.pi * 4, 1000)), lag=5) == pytest.approx(4, rel=0.01)


def test_timescale_inverts_the_decay_of_an_ar1_process():
    a = np.array([0.1, 0.5, 0.999, 1 - 1e-12])
    np.testing.assert_allclose(metrics.timescale(2 * (1 - a)), -1 / np.log(a), rtol=1e-4)
    np.testing.assert_allclose(metrics.timescale(2 * (1 - a[:3] ** 7), lag=7), -1 / np.log(a[:3]), rtol=EXACT)
    assert metrics.timescale(0.0) == np.inf
    assert np.isnan(metrics.timescale([2.0, 3.9])).all()


def test_slowness_is_a_scorer(rng):
    X = np.cumsum(rng.standard_normal((300, 3)), axis=0)
    pca = PCA(2).fit(X)
    assert metrics.slowness(pca, X) == -np.mean(metrics.delta_value(pca.transform(X)))
    scores = cross_val_score(PCA(1), X, scoring=metrics.slowness, cv=TimeSeriesSplit(3))
    assert scores.shape == (3,) and (scores < 0).all()


def test_coverage_of_calibrated_and_of_narrow_intervals(rng):
    n, truth = 100_000, rng.standard_normal(100_000)
    for level in (0.5, 0.9, 0.99):
        covered = metrics.coverage(truth, np.zeros(n), np.ones(n), level)
        assert abs(covered - level) < mc_tolerance(level * (1 - level), n)
    assert metrics.coverage(truth, np.zeros(n), 0.5 * np.ones(n), 0.9) < 0.7
    with_gap = metrics.coverage([0.0, np.nan, 9.0], [0.0, 0.0, np.nan], [1.0, 1.0, 1.0])
    assert with_gap == 1.0


def test_rmse_uses_values_selected_by_the_mask():
    truth, estimate = np.array([[1.0, np.nan], [3.0, 4.0]]), np.array([[0.0, 5.0], [3.0, 6.0]])
    assert metrics.rmse(truth, estimate) == pytest.approx(np.sqrt(5 / 3))
    assert metrics.rmse(truth, estimate, mask=[[True, True], [False, False]]) == 1.0


def test_errors_in_units_of_each_column():
    truth, estimate = np.array([[1.0, 10.0], [2.0, 20.0]]), np.array([[2.0, 10.0], [2.0, 50.0]])
    assert metrics.mae(truth, estimate) == pytest.approx(31.0 / 4.0)
    assert metrics.mae(truth, estimate, scale=[0.5, 10.0]) == pytest.approx(5.0 / 4.0)
    assert metrics.rmse(truth, estimate, scale=[0.5, 10.0]) == pytest.approx(np.sqrt(13.0 / 4.0))
    assert metrics.rmse(truth, estimate, scale=[0.5, 10.0], mask=[True, False]) == pytest.approx(np.sqrt(2.0))
    with pytest.raises(ValueError, match="scale must be positive"):
        metrics.mae(truth, estimate, scale=[0.0, 1.0])


def test_coverage_uses_values_selected_by_the_mask():
    assert metrics.coverage([0.0, 5.0], [0.0, 0.0], [1.0, 1.0], mask=[True, False]) == 1.0


@pytest.mark.parametrize(
    "score",
    [
        pytest.param(metrics.rmse, id="truth and estimate"),
        pytest.param(
            lambda truth, mean, mask: metrics.coverage(truth, mean, np.ones(3), mask=mask),
            id="truth, mean and std",
        ),
    ],
)
def test_messages_about_values_that_a_mask_excludes(score, request):
    """Without values to compare, the message names the reason: the mask, NaN, or both."""
    names, other = request.node.callspec.id, np.zeros(3)
    some = [0.0, np.nan, np.nan]
    with pytest.raises(ValueError, match="^mask is False at every position"):
        score(some, other, mask=np.zeros(3, dtype=bool))
    with pytest.raises(
        ValueError, match=f"^{names} have .* position where mask is True, at least one is NaN"
    ):
        score(some, other, mask=[False, True, True])
    for mask in (None, [True] * 3):
        with pytest.raises(ValueError, match=f"^{names} have .* at every position at least one is NaN"):
            score([np.nan] * 3, other, mask=mask)
    with pytest.raises(ValueError, match="^truth and estimate are empty"):
        metrics.mae([], [])


def masked(values, mask):
    """Return the values as a masked array with 999 under the mask, and as an array with NaN."""
    values, mask = np.asarray(values), np.asarray(mask, dtype=bool)
    return np.ma.array(np.where(mask, 999.0, values), mask=mask), np.where(mask, np.nan, values)


def test_values_under_a_mask_are_not_compared(rng):
    truth, estimate, std = rng.standard_normal((20, 2)), rng.standard_normal((20, 2)), np.ones((20, 2))
    hidden, gaps = masked(truth, rng.random((20, 2)) < 0.4)
    for given, equal in [((hidden, estimate), (gaps, estimate)), ((estimate, hidden), (estimate, gaps))]:
        assert metrics.rmse(*given) == metrics.rmse(*equal) < 3.0
    assert metrics.coverage(hidden, estimate, std) == metrics.coverage(gaps, estimate, std)
    assert metrics.coverage(estimate, hidden, std) == metrics.coverage(estimate, gaps, std)
    assert metrics.coverage(truth, estimate, hidden**2) == metrics.coverage(truth, estimate, gaps**2)
    chosen = np.ma.array([True, True, False], mask=[False, True, False])
    assert metrics.rmse([0.0, 0.0, 0.0], [1.0, 9.0, 9.0], mask=chosen) == 1.0


def test_values_under_a_mask_do_not_make_a_signal_fast(rng):
    y = np.cumsum(rng.standard_normal((40, 2)), axis=0)
    hidden, gaps = masked(y, rng.random((40, 2)) < 0.2)
    np.testing.assert_array_equal(metrics.delta_value(hidden), metrics.delta_value(gaps))
    np.testing.assert_array_equal(metrics.eta_value(hidden), metrics.eta_value(gaps))
    pieces, equal = [hidden[:15], hidden[15:]], [gaps[:15], gaps[15:]]
    np.testing.assert_array_equal(metrics.delta_value(pieces), metrics.delta_value(equal))


def test_components_under_a_mask_are_not_aligned(rng):
    reference = rng.standard_normal((50, 2))
    hidden, gaps = masked(reference[:, ::-1], rng.random((50, 2)) < 0.2)
    alignment, expected = (metrics.align_components(Y, reference) for Y in (hidden, gaps))
    np.testing.assert_array_equal(alignment.correlations, expected.correlations)
    np.testing.assert_array_equal(alignment.apply(hidden), expected.apply(gaps))


def test_alignment_finds_the_best_signed_permutation(rng):
    reference = rng.standard_normal((60, 4))
    estimate = rng.standard_normal((60, 5)) + np.pad(
        reference[:, [2, 0, 3, 1]] * [1, -2, 3, -1], ((0, 0), (0, 1))
    )
    estimate[3, 2] = np.nan
    alignment = metrics.align_components(estimate, reference)
    keep = np.arange(60) != 3
    R = np.corrcoef(estimate[keep], reference[keep], rowvar=False)[:5, 5:]
    best = max(itertools.permutations(range(5), 4), key=lambda p: sum(abs(R[i, k]) for k, i in enumerate(p)))
    assert alignment.permutation.tolist() == list(best)
    np.testing.assert_allclose(alignment.correlations, [abs(R[i, k]) for k, i in enumerate(best)], rtol=EXACT)
    aligned = alignment.apply(estimate)[keep]
    for k in range(4):
        assert np.corrcoef(aligned[:, k], reference[keep, k])[0, 1] == pytest.approx(
            alignment.correlations[k]
        )


def test_alignment_with_a_constant_component():
    alignment = metrics.align_components([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]], [[0.0], [-1.0], [-3.0]])
    assert alignment.permutation.tolist() == [1] and alignment.signs.tolist() == [-1.0]


def test_principal_angles(rng):
    angle = 1e-9
    first = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    second = np.array([[1.0, 0.0], [0.0, np.cos(angle)], [0.0, np.sin(angle)]]) @ rng.standard_normal((2, 2))
    np.testing.assert_allclose(metrics.principal_angles(first, second), [0, angle], atol=1e-14)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: metrics.delta_value([1.0, 2.0], lag=2), "lag.*1"),
        (lambda: metrics.delta_value([1.0, 2.0], lag=0), "lag.*1"),
        (lambda: metrics.delta_value([1.0, 2.0, 3.0], lengths=[2]), "3 rows"),
        (lambda: metrics.delta_value([np.ones(3)], lengths=[3]), "sequences"),
        (lambda: metrics.coverage([1.0], [1.0], [1.0, 2.0]), r"truth \(1,\)"),
        (lambda: metrics.coverage([1.0], [1.0], [-1.0]), "std"),
        (lambda: metrics.coverage([1.0], [1.0], [1.0], 90), "level.*0.*1.*90"),
        (lambda: metrics.coverage([np.nan], [1.0], [1.0]), "common"),
        (lambda: metrics.rmse([np.nan], [1.0]), "common"),
        (lambda: metrics.rmse(["1.0"], [1.0]), "truth contains text"),
        (lambda: metrics.rmse([1.0], np.ones(1, "M8[s]")), "estimate"),
        (lambda: metrics.coverage([1.0], [1.0], [1j]), "[Cc]omplex.*std"),
        (lambda: metrics.delta_value([np.ones(3), np.array(["a"])]), r"y\[1\] contains text"),
        (lambda: metrics.align_components(np.ones((3, 1)), np.ones((3, 2))), r"K' >= K; got \(3, 1\)"),
        (lambda: metrics.align_components(np.ones((1, 1)), np.ones((1, 1))), "two complete rows"),
        (lambda: metrics.principal_angles(np.ones((3, 1)), np.ones((2, 1))), "number of rows"),
    ],
)
def test_misuse_is_explained(call, match):
    with pytest.raises(ValueError, match=match):
        call()
