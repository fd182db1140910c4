"""SFA: its definition, invariances, and types of input and output."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, SplineTransformer, StandardScaler

from probsfa.expansions import Polynomial
from probsfa.sfa import SFA
from tests.oracles import sfa as oracle
from tests.sampling import parametrize_with_checks
from tests.tolerances import EXACT, SPECTRAL, STREAM

ESTIMATORS = [
    SFA(),
    SFA(n_components=1, lag=2),
    SFA(missing="skip"),
    SFA(n_components=1, expansion=PolynomialFeatures(2, include_bias=False)),
]


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e8])
@pytest.mark.parametrize("expansion", [Polynomial(2), PolynomialFeatures(2, include_bias=False)])
def test_polynomials_at_any_offset(expansion, offset):
    """At an offset of 1e6, products of columns that are not scaled are numerically linear in the columns."""
    t = np.linspace(0, 2 * np.pi, 800)
    X = np.column_stack([np.sin(t) + np.cos(11 * t) ** 2, np.cos(11 * t)])
    sfa = SFA(1, expansion=expansion).fit(X + offset)
    source = np.sin(t) / np.std(np.sin(t))
    np.testing.assert_allclose(np.abs(sfa.transform(X + offset)[:, 0]), np.abs(source), atol=0.01)
    assert sfa.rank_ == 5 and sfa.delta_values_[0] == pytest.approx(np.mean(np.diff(source) ** 2), rel=1e-4)


@pytest.mark.parametrize("expansion", ["squares", Polynomial, 3, object()])
def test_an_expansion_of_a_wrong_type_is_named(rng, expansion):
    with pytest.raises(ValueError, match="expansion must.*got"):
        SFA(expansion=expansion).fit(rng.standard_normal((20, 2)))


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore:The .* rows have rank:UserWarning", "ignore:.*SCIPY_ARRAY_API")
@pytest.mark.filterwarnings("ignore:Output [0-9]* .* on held-out rows:UserWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def walk(rng, T=60, D=4):
    """Mixtures of signals that are slow by different degrees, so that no delta values tie."""
    noise = rng.standard_normal((T, D))
    for k, a in enumerate(np.linspace(0.97, -0.3, D)):
        for t in range(1, T):
            noise[t, k] = a * noise[t - 1, k] + noise[t, k]
    # A rotation, because an ill-conditioned mixture would increase rounding errors.
    rotation = np.linalg.qr(rng.standard_normal((D, D)))[0]
    return noise @ rotation + rng.standard_normal(D)


def up_to_sign(Y, Z, tol=SPECTRAL):
    signs = np.sign(np.sum(Y * Z, axis=0))
    np.testing.assert_allclose(Y, Z * signs, atol=tol * np.abs(Z).max())


@pytest.mark.parametrize("lag", [1, 3])
def test_equals_the_definition(rng, lag):
    pieces = [walk(rng, n) for n in (50, 20, 31)]
    deltas, outputs, _ = oracle.slow_features(pieces, lag)
    sfa = SFA(lag=lag).fit(pieces)
    np.testing.assert_allclose(sfa.delta_values_, deltas, rtol=SPECTRAL)
    found = sfa.transform(pieces)
    assert [len(y) for y in found] == [50, 20, 31]
    up_to_sign(np.concatenate(found), np.concatenate(outputs))
    np.testing.assert_allclose(oracle.delta_of_output(found, lag), sfa.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(sfa.timescales_, -lag / np.log(1 - np.where(deltas < 2, deltas, np.nan) / 2))


def test_list_lengths_and_frames_are_the_same_data(rng):
    X = walk(rng)
    frame = pd.DataFrame(X, columns=list("abcd"))
    fits = [
        SFA().fit([X[:20], X[20:]]),
        SFA().fit(X, lengths=[20, 40]),
        SFA().fit([frame[:20], frame[20:]]),
        SFA().fit(frame, lengths=[20, 40]),
    ]
    for sfa in fits[1:]:
        np.testing.assert_allclose(sfa.delta_values_, fits[0].delta_values_, rtol=EXACT)
        np.testing.assert_allclose(sfa.components_, fits[0].components_, rtol=EXACT)
    assert fits[2].feature_names_in_.tolist() == list("abcd")
    assert isinstance(fits[1].transform(X), np.ndarray)


def test_set_output_gives_frames_and_lists_of_frames(rng):
    frame = pd.DataFrame(walk(rng), columns=list("abcd"), index=pd.date_range("2024", periods=60))
    sfa = SFA(2).set_output(transform="pandas")
    out = sfa.fit_transform(frame)
    assert out.columns.tolist() == ["sfa0", "sfa1"] and out.index.equals(frame.index)
    pieces = sfa.transform([frame[:10], frame[10:]])
    assert [len(p) for p in pieces] == [10, 50]
    np.testing.assert_allclose(pd.concat(pieces), out, rtol=EXACT)
    assert sfa.get_feature_names_out().tolist() == ["sfa0", "sfa1"]


def test_transform_of_a_row_does_not_depend_on_other_rows(rng):
    X = walk(rng, 20_000, 3)
    sfa = SFA().fit(X)
    np.testing.assert_allclose(
        sfa.transform(X)[[0, 8191, 8192, 19_999]], sfa.transform(X[[0, 8191, 8192, 19_999]])
    )


def test_fit_and_transform_make_no_copy_of_the_input(rng):
    X = np.cumsum(rng.standard_normal((200_000, 8)), axis=0)
    tracemalloc.start()
    sfa = SFA(2).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    assert peak < X.nbytes / 2
    tracemalloc.reset_peak()
    outputs = sfa.transform(X)
    assert tracemalloc.get_traced_memory()[1] < outputs.nbytes + X.nbytes / 2
    tracemalloc.stop()


# ---- invariances


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3))
def test_outputs_are_white_and_have_their_delta_values(seed, D, lag):
    X = walk(np.random.default_rng(seed), 80, D)
    sfa = SFA(lag=lag).fit(X)
    Y = sfa.transform(X)
    np.testing.assert_allclose(Y.mean(axis=0), 0, atol=EXACT)
    np.testing.assert_allclose(Y.T @ Y / len(Y), np.eye(D), atol=SPECTRAL)
    assert (np.diff(sfa.delta_values_) >= 0).all()
    changes = Y[lag:] - Y[:-lag]
    np.testing.assert_allclose(changes.T @ changes / len(changes), np.diag(sfa.delta_values_), atol=SPECTRAL)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_delta_values_are_invariant_under_affine_maps(seed, D):
    rng = np.random.default_rng(seed)
    X = walk(rng, 80, D)
    M = np.linalg.qr(rng.standard_normal((D, D)))[0] * np.exp(rng.uniform(-2, 2, D))
    first, second = SFA().fit(X), SFA().fit(X @ M + 10 * rng.standard_normal(D))
    np.testing.assert_allclose(second.delta_values_, first.delta_values_, rtol=SPECTRAL)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_time_reversal_and_column_order_do_not_affect_results(seed):
    rng = np.random.default_rng(seed)
    X = walk(rng)
    Y = SFA().fit_transform(X)
    np.testing.assert_allclose(SFA().fit(X[::-1]).transform(X), Y, atol=SPECTRAL)
    order = rng.permutation(4)
    np.testing.assert_allclose(SFA().fit_transform(X[:, order]), Y, atol=SPECTRAL)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    lag=st.integers(1, 4),
    gaps=st.booleans(),
)
def test_partial_fit_over_any_chunks_equals_fit_on_the_whole(seed, cuts, lag, gaps):
    rng = np.random.default_rng(seed)
    X = walk(rng, D=3)
    missing = "skip" if gaps else "raise"
    if gaps:
        X[rng.random(60) < 0.1, 1] = np.nan
    whole = SFA(lag=lag, missing=missing).fit(X)
    parts = SFA(lag=lag, missing=missing)
    edges = sorted({0, *cuts, 60})
    for a, b in zip(edges[:-1], edges[1:], strict=True):
        parts.partial_fit(X[a:b])
    assert parts.moments_.n_differences == whole.moments_.n_differences
    np.testing.assert_allclose(parts.moments_.scatter, whole.moments_.scatter, rtol=STREAM, atol=STREAM * 1e2)
    np.testing.assert_allclose(parts.delta_values_, whole.delta_values_, rtol=STREAM * 100)
    np.testing.assert_allclose(parts.components_, whole.components_, rtol=SPECTRAL, atol=SPECTRAL)


def test_partial_fit_respects_sequence_boundaries(rng):
    X = walk(rng)
    expected = SFA().fit(X, lengths=[20, 40]).delta_values_
    by_flag = SFA().partial_fit(X[:20]).partial_fit(X[20:], new_sequence=True)
    by_list = SFA().partial_fit([X[:20]]).partial_fit([X[20:]])
    by_lengths = SFA().partial_fit(X[:50], lengths=[20, 30]).partial_fit(X[50:])
    late_lengths = SFA().partial_fit(X[:20]).partial_fit(X[20:], lengths=[40])
    forced = SFA().partial_fit(X[:10]).partial_fit(X[10:], lengths=[10, 40], new_sequence=False)
    for sfa in (by_flag, by_list, by_lengths, late_lengths, forced):
        np.testing.assert_allclose(sfa.delta_values_, expected, rtol=STREAM * 100)


def test_partial_fit_continues_after_fit_and_after_pickling(rng):
    X = walk(rng)
    sfa = pickle.loads(pickle.dumps(SFA().fit(X[:30]))).partial_fit(X[30:])
    np.testing.assert_allclose(sfa.delta_values_, SFA().fit(X).delta_values_, rtol=STREAM * 100)
    again = sfa.fit(X)  # fit discards earlier rows
    np.testing.assert_array_equal(again.delta_values_, SFA().fit(X).delta_values_)


def test_partial_fit_reports_why_the_estimator_is_not_fitted(rng):
    X = walk(rng)
    sfa = SFA(n_components=3)
    for chunk, reason in ((X[:1], "rows 1"), (X[1:3], "numerical rank 2")):
        sfa.partial_fit(chunk)
        with pytest.raises(NotFittedError, match=reason):
            sfa.transform(X)
    assert sfa.partial_fit(X[3:]).transform(X).shape == (60, 3)
    with pytest.raises(NotFittedError, match="complete row"):
        SFA(missing="skip").partial_fit(np.full((3, 2), np.nan)).transform(X)
    with pytest.raises(NotFittedError, match="partial_fit"):
        SFA().transform(X)
    with pytest.raises(ValueError, match="lag=1 of the earlier"):
        sfa.set_params(lag=2).partial_fit(X)


def test_partial_fit_is_not_fitted_after_rows_that_reduce_the_rank(rng):
    X = rng.standard_normal((40, 2)) * [1, 1e-3]
    sfa = SFA(n_components=2).partial_fit(X)
    assert sfa.transform(X).shape == (40, 2)
    # The differences of the two columns are rounding errors compared with these rows.
    large = np.repeat(1e8 * rng.standard_normal((40, 1)), 2, axis=1)
    sfa.partial_fit(large)
    with pytest.raises(NotFittedError, match="numerical rank 1"):
        sfa.transform(X)


@pytest.mark.filterwarnings("ignore:Output [0-9]* .* on held-out rows")
def test_partial_fit_may_begin_with_missing_rows(rng):
    X = walk(rng)
    X[:15] = np.nan
    sfa = SFA(missing="skip", expansion=PolynomialFeatures(2, include_bias=False))
    for chunk in np.split(X, 6):
        sfa.partial_fit(chunk)
    whole = SFA(missing="skip", expansion=PolynomialFeatures(2, include_bias=False)).fit(X)
    np.testing.assert_allclose(sfa.delta_values_, whole.delta_values_, rtol=SPECTRAL)


# ---- missing rows


def test_skip_equals_the_definition_without_incomplete_rows(rng):
    X = walk(rng)
    X[[3, 17, 18, 40], [0, 1, 2, 3]] = np.nan
    sfa = SFA(missing="skip").fit(X)
    deltas, outputs, _ = oracle.slow_features([X])
    np.testing.assert_allclose(sfa.delta_values_, deltas, rtol=SPECTRAL)
    Y = sfa.transform(X)
    np.testing.assert_array_equal(np.isnan(Y).all(axis=1), np.isnan(X).any(axis=1))
    complete = ~np.isnan(X).any(axis=1)
    up_to_sign(Y[complete], outputs[0][complete])


def test_a_row_with_a_missing_value_in_a_constant_column_is_skipped(rng):
    X = np.column_stack([walk(rng), np.ones(60)])
    X[5, 4] = np.nan
    Y = SFA(missing="skip").fit(X).transform(X)
    assert np.isnan(Y[5]).all() and not np.isnan(Y[[4, 6]]).any()


def test_skip_without_complete_rows():
    X = np.arange(8.0).reshape(4, 2)
    X[[0, 1, 2, 3], [0, 1, 0, 1]] = np.nan
    with pytest.raises(ValueError, match="complete row"):
        SFA(missing="skip", expansion=StandardScaler()).fit(X)
    with pytest.raises(ValueError, match="two complete rows"):
        SFA(missing="skip").fit(X)


# ---- rank


def test_rank_of_constant_duplicated_and_too_many_columns(rng):
    X = walk(rng)
    expected = SFA().fit(X).delta_values_
    wide = np.column_stack([X, np.full(60, 0.1), X[:, 0], X @ [1, 2, 3, 4], 0 * X[:, :1] + 1e8])
    sfa = SFA().fit(wide)
    assert sfa.rank_ == 4 and sfa.components_.shape == (4, 8) and sfa.loadings_.shape == (8, 4)
    np.testing.assert_allclose(sfa.delta_values_, expected, rtol=SPECTRAL)
    with pytest.raises(ValueError, match="n_components=5 .* rank 4"):
        SFA(5).fit(wide)
    with pytest.raises(ValueError, match="X is constant"):
        SFA().fit(np.full((10, 3), 7.0))


def test_rank_tol_is_used(rng):
    X = rng.standard_normal((60, 4))
    X[:, 3] = X[:, 0] + 1e-4 * X[:, 3]
    assert SFA().fit(X).rank_ == 4
    assert SFA(rank_tol=1e-6).fit(X).rank_ == 3


# ---- inverse and expansion


def test_inverse_is_exact_at_full_rank_and_a_projection_below(rng):
    X = np.column_stack([walk(rng), np.ones(60)]) * [1e-6, 1, 1e3, 1e6, 1]
    sfa = SFA().fit(X)
    np.testing.assert_allclose(sfa.inverse_transform(sfa.transform(X)), X, rtol=SPECTRAL)
    part = SFA(2).fit(X)
    Y = part.transform(X)
    slope = np.linalg.lstsq(np.column_stack([np.ones(60), Y]), X, rcond=None)[0]
    best = np.column_stack([np.ones(60), Y]) @ slope
    np.testing.assert_allclose(part.inverse_transform(Y), best, rtol=SPECTRAL, atol=SPECTRAL)
    back = part.inverse_transform([Y[:10], Y[10:]])
    np.testing.assert_allclose(np.concatenate(back), best, rtol=SPECTRAL, atol=SPECTRAL)
    with pytest.raises(ValueError, match="3.*inverse_transform.*2"):
        part.inverse_transform(np.ones((4, 3)))


def test_sfa_with_an_expansion_is_sfa_of_its_outputs(rng):
    X = walk(rng, D=2)
    expansion = PolynomialFeatures(2, include_bias=False)
    sfa = SFA(3, expansion=expansion).fit([X[:30], X[30:]])
    Z = expansion.fit_transform(X)
    plain = SFA(3).fit([Z[:30], Z[30:]])
    np.testing.assert_allclose(sfa.delta_values_, plain.delta_values_, rtol=EXACT)
    np.testing.assert_allclose(sfa.transform(X), plain.transform(Z), rtol=EXACT, atol=EXACT)
    assert sfa.n_features_in_ == 2 and sfa.components_.shape == (3, 5)
    assert sfa.expansion_ is not expansion and sfa.expansion_.n_output_features_ == 5


def test_expansion_in_blocks_with_missing_rows_and_sequences(rng, monkeypatch):
    X = walk(rng, T=200, D=2)
    X[rng.random(200) < 0.1] = np.nan
    expansion = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False))
    lengths = [40, 1, 60, 99]
    with pytest.warns(UserWarning, match="1 of 4 sequences"):
        whole = SFA(expansion=expansion, missing="skip").fit(X, lengths=lengths)
    monkeypatch.setattr("probsfa.graphs.moments._BLOCK_ROWS", (20, 20))
    with pytest.warns(UserWarning, match="1 of 4 sequences"):
        blocks = SFA(expansion=expansion, missing="skip").fit(X, lengths=lengths)
    assert blocks.moments_.n_differences == whole.moments_.n_differences
    np.testing.assert_allclose(blocks.delta_values_, whole.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(blocks.transform(X), whole.transform(X), atol=SPECTRAL)


def test_sparse_expansion(rng):
    X = walk(rng, D=2)
    dense, sparse = (SFA(2, expansion=SplineTransformer(sparse_output=s)).fit(X) for s in (False, True))
    np.testing.assert_allclose(sparse.delta_values_, dense.delta_values_, rtol=SPECTRAL)


@pytest.mark.filterwarnings("ignore:Output [0-9]* .* on held-out rows")
def test_inverse_through_an_expansion(rng):
    X = walk(rng)
    sfa = SFA(expansion=StandardScaler()).fit(X)
    np.testing.assert_allclose(sfa.inverse_transform(sfa.transform(X)), X, rtol=SPECTRAL, atol=SPECTRAL)
    polynomial = SFA(2, expansion=PolynomialFeatures(2)).fit(X)
    with pytest.raises(ValueError, match="PolynomialFeatures has none"):
        polynomial.inverse_transform(polynomial.transform(X))


@pytest.mark.parametrize(
    ("expansion", "match"),
    [
        (FunctionTransformer(lambda X: X[:-1]), "returned shape"),
        (FunctionTransformer(lambda X: X[:, 0]), "returned shape"),
        (FunctionTransformer(lambda X: X * np.inf), "FunctionTransformer overflows"),
    ],
)
def test_invalid_outputs_of_expansions_are_refused(rng, expansion, match):
    with pytest.raises(ValueError, match=match):
        SFA(expansion=expansion).fit(np.abs(walk(rng)) + 1)


# ---- misuse


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_components": 0}, "n_components.*1.*0"),
        ({"n_components": 1.5}, "n_components"),
        ({"lag": 0}, "lag.*1.*0"),
        ({"missing": "drop"}, "missing.*'raise', 'skip'"),
        ({"rank_tol": 0}, "rank_tol.*0.*1.*0"),
        ({"rank_tol": 1}, "rank_tol"),
        ({"rank_tol": "auto"}, "rank_tol.*0.*1.*'auto'"),
    ],
)
def test_parameters_are_checked_at_fit(rng, parameters, match):
    sfa = SFA(**parameters)
    with pytest.raises(ValueError, match=match):
        sfa.fit(walk(rng))
    with pytest.raises(ValueError, match=match):
        sfa.partial_fit(walk(rng))


def test_a_fit_that_fails_does_not_change_the_state_of_partial_fit(rng):
    X = walk(rng)
    sfa = SFA().fit(X[:30])
    with pytest.raises(ValueError, match="n_components=9"):
        sfa.set_params(n_components=9).fit(X[:40])
    sfa.set_params(n_components=None).partial_fit(X[30:])
    np.testing.assert_allclose(sfa.delta_values_, SFA().fit(X).delta_values_, rtol=STREAM * 100)


def test_numbers_of_the_index_with_missing_values_are_reported(rng):
    index = np.arange(30.0)
    index[11] = np.nan
    frame = pd.DataFrame(rng.standard_normal((30, 2)), index=index)
    for X in (frame, [frame, frame]):
        with pytest.warns(UserWarning, match="index of X, although it has missing values"):
            SFA().fit(X)
