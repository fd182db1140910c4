"""Failures observed in other implementations of slow feature analysis, one test for each.

The measured cases use six mixtures of two sines and noise; the slowest outputs have the delta values 1.579e-4
and 1.096e-2. Most failures were wrong numbers without an error.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from probsfa.metrics import delta_value
from probsfa.sfa import SFA
from tests.oracles import sfa as oracle
from tests.tolerances import EXACT, SPECTRAL, STREAM

REFERENCE = [1.579e-4, 1.096e-2]


def mixture(T=1000):
    """Return mixtures of two sines and four columns of noise; delta values are those of the sines."""
    rng = np.random.default_rng(7)
    t = np.arange(T)
    sines = np.column_stack([np.sin(2 * np.pi * 2 * t / 1000), np.sin(2 * np.pi * 16.59 * t / 1000)])
    sources = np.column_stack([np.sqrt(2) * sines, rng.standard_normal((T, 4))])
    noise = sources[:, 2:] - sources[:, 2:].mean(axis=0)
    noise -= sines @ np.linalg.lstsq(sines, noise, rcond=None)[0]
    sources[:, 2:] = noise
    return sources @ (np.linalg.qr(rng.standard_normal((6, 6)))[0] * [1, 2, 3, 1, 2, 3])


X = mixture()
DELTAS = oracle.slow_features([X])[0]


def assert_reference(sfa, rtol=SPECTRAL):
    np.testing.assert_allclose(sfa.delta_values_[:2], DELTAS[:2], rtol=rtol)


def test_reference_values():
    np.testing.assert_allclose(DELTAS[:2], REFERENCE, rtol=2e-3)
    assert_reference(SFA().fit(X))


# ---- offsets, scales


@pytest.mark.parametrize("offset", [1e6, 1e8, -1e8])
def test_offset_does_not_change_delta_values(offset):
    # others: 1e6 wrong in the third digit, 1e8 gives 0 or raises
    assert_reference(SFA().fit(X + offset))
    chunked = SFA()
    for chunk in np.array_split(X + offset, 7):
        chunked.partial_fit(chunk)
    assert_reference(chunked)


def test_different_offsets_in_every_column():
    assert_reference(SFA().fit(X + [0, 1e2, -1e4, 1e6, 1e8, -1e8]))


@pytest.mark.parametrize("factor", [1e-4, 1e-8, 1e8, 1e-100, 1e100])
def test_all_data_scaled(factor):
    # others: "zero rank" at 1e-4
    sfa = SFA().fit(factor * X)
    assert sfa.rank_ == 6
    assert_reference(sfa)


@pytest.mark.parametrize("exponent", [3, 6, 8])
def test_columns_in_different_units(exponent):
    # others: 5.1e-3 instead of 1.579e-4, without a warning
    units = 10.0 ** np.array([-exponent, 0, exponent, -exponent, 0, exponent])
    sfa = SFA().fit(units * X)
    assert sfa.rank_ == 6
    assert_reference(sfa)
    np.testing.assert_allclose(sfa.transform(units * X), SFA().fit_transform(X), atol=SPECTRAL)
    # an offset that is large in all units
    assert_reference(SFA().fit(units * (X + 1e6)))


# ---- rank


def test_duplicated_column_adds_nothing_and_is_deterministic():
    # others: filled up with random noise, an exception, or a spurious output with delta 1.9e-19
    twice = np.column_stack([X, X[:, 0]])
    first, second = SFA().fit(twice), SFA().fit(twice)
    assert first.rank_ == 6 and first.delta_values_.shape == (6,)
    np.testing.assert_allclose(first.delta_values_, DELTAS, rtol=SPECTRAL)
    np.testing.assert_array_equal(first.components_, second.components_)
    np.testing.assert_allclose(first.transform(twice), SFA().fit_transform(X), atol=SPECTRAL)


def test_duplicate_up_to_scale_offset_and_single_precision():
    almost = np.column_stack([X, 1e6 * X[:, 0] + 3, X[:, 1].astype(np.float32)])
    sfa = SFA().fit(almost)
    assert sfa.rank_ == 6
    assert_reference(sfa)


def test_redundant_dimensions_do_not_fail():
    wide = X @ np.random.default_rng(0).standard_normal((6, 50))
    sfa = SFA(2).fit(wide)
    assert sfa.rank_ == 6 and sfa.transform(wide).shape == (1000, 2)
    assert_reference(sfa)


def test_constant_columns_have_weights_of_zero():
    sfa = SFA().fit(np.column_stack([np.zeros(1000), X, np.full(1000, 0.1), np.full(1000, 1e8 + 0.3)]))
    assert sfa.rank_ == 6
    assert_reference(sfa)
    assert not sfa.components_[:, [0, 7, 8]].any()


def test_the_error_of_too_many_components_states_the_rank():
    # others: six columns although seven were requested
    with pytest.raises(ValueError, match="n_components=7 .* rank 6"):
        SFA(7).fit(np.column_stack([X, X[:, 0]]))


def test_fewer_rows_than_columns_gives_free_responses_and_a_warning():
    # others: delta 2e-31 without a warning; the correct value is that of the slowest output of 20 rows
    T = 20
    narrow = np.random.default_rng(3).standard_normal((T, 50))
    with pytest.warns(UserWarning, match="20.*rank 19"):
        sfa = SFA().fit(narrow)
    assert sfa.rank_ == T - 1
    free, deltas = oracle.free_responses(T, T - 1)
    np.testing.assert_allclose(sfa.delta_values_, deltas, rtol=SPECTRAL)
    Y = sfa.transform(narrow)
    np.testing.assert_allclose(np.abs(Y.T @ free / T), np.eye(T - 1), atol=SPECTRAL)


def test_monomials_of_high_degree():
    # a basis of monomials is defective from about degree 20 on
    t = np.linspace(-1, 1, 500)[:, None]
    sfa = SFA(expansion=PolynomialFeatures(30, include_bias=False)).fit(t)
    Y = sfa.transform(t)
    assert sfa.rank_ < 30
    np.testing.assert_allclose(np.diag(Y.T @ Y) / 500, 1, rtol=1e-2)
    # the slowest function of t with unit variance is half a period of a cosine
    best, delta = oracle.free_responses(500, 1)
    assert abs(np.corrcoef(Y[:, 0], best[:, 0])[0, 1]) > 1 - 1e-6
    np.testing.assert_allclose(sfa.delta_values_[0], delta[0], rtol=1e-5)


# ---- missing rows, sequences, chunks


def test_errors_name_the_first_row_with_nan():
    # others: "Eigenvalues did not converge", "AssertionError: 4"
    incomplete = X.copy()
    incomplete[417, 3] = np.nan
    with pytest.raises(
        ValueError, match=r"row 417, column 3.*\n*.*missing=\"skip\".*ProbabilisticSFA\.impute"
    ):
        SFA().fit(incomplete)
    assert np.isfinite(SFA(missing="skip").fit(incomplete).delta_values_).all()


def test_delta_values_with_missing_rows_are_unbiased():
    # others: 2.97e-4 with the remaining rows joined
    skipped, joined = [], []
    for mask_seed in range(40):
        gone = np.random.default_rng(mask_seed).random(1000) < 0.2
        incomplete = X.copy()
        incomplete[gone] = np.nan
        skipped.append(SFA(missing="skip").fit(incomplete).delta_values_[0])
        joined.append(SFA().fit(X[~gone]).delta_values_[0])
    # Delta varies by about 4 % between masks, which select different parts of the sine (640 pairs; cos^2
    # varies by 71 %). The mean over masks has no bias: it is within 1 %.
    assert abs(np.mean(skipped) / DELTAS[0] - 1) < 0.01
    assert max(abs(np.array(skipped) / DELTAS[0] - 1)) < 0.15
    assert min(joined) > 1.5 * DELTAS[0]


def test_differences_include_a_drift():
    # others: 4e-32 or 0, because they subtract the mean difference
    T = 1000
    sfa = SFA().fit(np.arange(T, dtype=float)[:, None])
    # The inverse of the variance of 0, ..., T - 1.
    np.testing.assert_allclose(sfa.delta_values_, [12 / (T**2 - 1)], rtol=EXACT)
    assert sfa.delta_values_[0] == pytest.approx(1.2e-5, rel=1e-3)


def test_partial_fit_includes_differences_between_chunks():
    # others: dropped
    sfa = SFA()
    for chunk in np.split(X, 200):  # a fifth of the differences are between chunks
        sfa.partial_fit(chunk)
    assert sfa.moments_.n_differences == 999
    np.testing.assert_allclose(sfa.delta_values_, SFA().fit(X).delta_values_, rtol=STREAM * 100)


def test_partial_fit_does_not_need_full_rank_in_a_chunk():
    # others: every chunk needs a covariance of full rank
    rows = SFA()
    for row in X[:300]:
        rows.partial_fit(row[None])
    np.testing.assert_allclose(rows.delta_values_, SFA().fit(X[:300]).delta_values_, rtol=STREAM * 100)


def test_partial_fit_after_transform_updates_the_model():
    sfa = SFA().partial_fit(X[:500])
    before = sfa.transform(X)
    sfa.partial_fit(X[500:])
    after = sfa.transform(X)
    assert not np.allclose(before, after)
    np.testing.assert_allclose(after, SFA().fit(X).transform(X), atol=SPECTRAL)


def test_delta_values_have_one_entry_for_each_output():
    # others: as many as there are input columns
    sfa = SFA(2).fit(X)
    assert sfa.delta_values_.shape == sfa.timescales_.shape == (2,)
    assert_reference(sfa)


def test_sequences_shorter_than_the_lag_warn_and_do_not_fail():
    pieces = [X[:400], X[400:402], X[402:]]
    with pytest.warns(UserWarning, match="1.*3.*lag=5"):
        sfa = SFA(lag=5).fit(pieces)
    deltas, *_ = oracle.slow_features(pieces, lag=5)
    np.testing.assert_allclose(sfa.delta_values_, deltas, rtol=SPECTRAL)
    with pytest.raises(ValueError, match=r"rows 5.*\(lag=5\)"):
        SFA(lag=5).fit([X[:5], X[5:10]])


def test_differences_between_sequences_are_excluded():
    rng = np.random.default_rng(0)
    pieces = [mixture(1000)[a : a + 20] for a in rng.integers(0, 980, 200)]
    apart = SFA().fit(pieces).delta_values_[0]
    joined = SFA().fit(np.concatenate(pieces)).delta_values_[0]
    assert apart < 1.2 * DELTAS[0] and joined > 100 * DELTAS[0]
    np.testing.assert_allclose(apart, delta_value(SFA(1).fit(pieces).transform(pieces))[0], rtol=SPECTRAL)


def test_a_pair_of_arrays_is_an_error():
    # others: a tuple is a pair (x_t, x_t+lag), a list two trajectories
    with pytest.raises(ValueError, match="2 arrays"):
        SFA().fit((X, X))


# ---- conventions of scikit-learn


def test_clone_and_pipeline_work():
    # others: no BaseEstimator, so both fail
    pipeline = make_pipeline(StandardScaler(), SFA(2, lag=2))
    copy = clone(pipeline).set_params(sfa__lag=1)
    assert copy.fit_transform(X).shape == (1000, 2)
    assert_reference(copy[-1])
    assert pipeline[-1].lag == 2
    with pytest.raises(NotFittedError):
        pipeline[-1].transform(X)


def test_fit_transform_is_transform_even_with_zero_eigenvalues():
    deficient = np.column_stack([X, X[:, 0], np.ones(1000)])
    np.testing.assert_array_equal(SFA().fit_transform(deficient), SFA().fit(deficient).transform(deficient))


def test_arrays_and_frames_give_the_same_attributes():
    array, frame = SFA().fit(X), SFA().fit(pd.DataFrame(X, columns=list("abcdef")))
    for name in ("delta_values_", "components_", "loadings_", "mean_", "timescales_"):
        assert type(getattr(frame, name)) is np.ndarray
        np.testing.assert_allclose(getattr(frame, name), getattr(array, name), rtol=SPECTRAL, atol=EXACT)


# ---- requests of users


def test_reconstruction():
    sfa = SFA().fit(X)
    np.testing.assert_allclose(sfa.inverse_transform(sfa.transform(X)), X, atol=SPECTRAL)


def test_loadings_give_correlations_with_inputs():
    sfa = SFA().fit(X)
    correlations = sfa.loadings_ / X.std(axis=0)[:, None]
    expected = np.corrcoef(X, sfa.transform(X), rowvar=False)[:6, 6:]
    np.testing.assert_allclose(correlations, expected, atol=SPECTRAL)


def test_sign_is_determined():
    Y = SFA().fit_transform(X)
    correlations = np.corrcoef(X, Y, rowvar=False)[:6, 6:]
    assert (correlations[np.abs(correlations).argmax(axis=0), np.arange(6)] > 0).all()
    # other units, another order, other chunks, which change signs of eigenvectors
    np.testing.assert_allclose(SFA().fit_transform(X * [1, 2, 3, 4, 5, 6]), Y, atol=SPECTRAL)
    np.testing.assert_allclose(SFA().fit_transform(X[:, ::-1]), Y, atol=SPECTRAL)
    # an input with reversed sign reverses only outputs whose sign it determines
    deciding = np.abs(correlations).argmax(axis=0)
    np.testing.assert_allclose(
        SFA().fit_transform(X * [-1, 1, 1, 1, 1, 1]), Y * np.where(deciding == 0, -1, 1), atol=SPECTRAL
    )


def test_timescales_of_negative_autocorrelations_are_nan():
    alternating = np.column_stack([(-1.0) ** np.arange(1000), X[:, 0]])
    timescales = SFA().fit(alternating).timescales_
    assert np.isnan(timescales[-1]) and timescales[0] > 0
    np.testing.assert_allclose(SFA(1).fit(X).timescales_, [-1 / np.log(1 - DELTAS[0] / 2)], rtol=SPECTRAL)
