"""Delay embedding: rows side by side, inside each sequence."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from probsfa import SFA
from probsfa.expansions import DelayEmbedding
from tests.sampling import parametrize_with_checks

# Checks of scikit-learn for transformers that map rows independently.
EXPECTED_FAILURES = {
    "check_methods_subset_invariance": "the output depends on previous rows",
    "check_methods_sample_order_invariance": "the output depends on previous rows",
    "check_transformer_general": "the first rows lack previous rows and are omitted",
    "check_transformer_data_not_an_array": "the first rows lack previous rows and are omitted",
    "check_fit2d_1sample": "one row has no previous row",
}


@parametrize_with_checks(
    [DelayEmbedding(), DelayEmbedding(1)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES if estimator.n_delays > 1 else {},
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def by_hand(X, n_delays, step):
    rows = range((n_delays - 1) * step, len(X))
    return np.array([np.concatenate([X[t - j * step] for j in range(n_delays)]) for t in rows])


@pytest.mark.parametrize(("n_delays", "step"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_each_row_has_the_previous_rows_of_its_sequence(rng, n_delays, step):
    pieces = [rng.standard_normal((n, 2)) for n in (12, 10, 30)]
    embedding = DelayEmbedding(n_delays, step=step)
    as_list = embedding.fit_transform(pieces)
    for piece, embedded in zip(pieces, as_list, strict=True):
        np.testing.assert_array_equal(embedded, by_hand(piece, n_delays, step))
    joined = embedding.transform(np.concatenate(pieces), lengths=[12, 10, 30])
    np.testing.assert_array_equal(joined, np.concatenate(as_list))
    assert embedding.embedded_lengths([12, 10, 30]) == [len(embedded) for embedded in as_list]
    kept = DelayEmbedding(n_delays, step=step, start="nan").fit_transform(pieces)
    for piece, embedded, full in zip(pieces, as_list, kept, strict=True):
        lost = (n_delays - 1) * step
        assert len(full) == len(piece) and np.isnan(full[:lost]).any(axis=1).all()
        np.testing.assert_array_equal(full[lost:], embedded)
        np.testing.assert_array_equal(full[:, :2], piece)


def test_sfa_of_an_embedding_does_not_depend_on_the_treatment_of_first_rows(rng):
    pieces = [np.cumsum(rng.standard_normal((n, 2)), axis=0) for n in (40, 60)]
    dropped = make_pipeline(DelayEmbedding(3), SFA(2)).fit(pieces)
    kept = make_pipeline(DelayEmbedding(3, start="nan"), SFA(2, missing="skip")).fit(pieces)
    np.testing.assert_allclose(kept[-1].delta_values_, dropped[-1].delta_values_, rtol=1e-12)
    np.testing.assert_allclose(kept.transform(pieces)[1][2:], dropped.transform(pieces)[1])


def test_frames_keep_the_times_of_their_rows(rng):
    frame = pd.DataFrame({"a": np.arange(6.0), "b": rng.standard_normal(6)})
    frame.index = pd.date_range("2024-01-01", periods=6)
    embedding = DelayEmbedding(3).set_output(transform="pandas")
    out = embedding.fit_transform(frame)
    assert out.columns.tolist() == ["a", "b", "a(t-1)", "b(t-1)", "a(t-2)", "b(t-2)"]
    assert out.index.equals(frame.index[2:]) and out["a(t-2)"].tolist() == [0.0, 1.0, 2.0, 3.0]
    first, second = embedding.transform([frame, frame[:4]])
    assert first.index.equals(frame.index[2:]) and second.index.equals(frame.index[2:4])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: DelayEmbedding(0).fit(X), "n_delays.*1"),
        (lambda X: DelayEmbedding(2, step=0).fit(X), "step.*1"),
        (lambda X: DelayEmbedding(start="pad").fit(X), "start.*'drop', 'nan'"),
        (lambda X: DelayEmbedding(9).fit(X), r"\bX\b.*8.*n_delays=9.*1.*9"),
        (lambda X: DelayEmbedding(4).fit([X, X[:3]]), "X\\[1\\] has 3 rows"),
        (lambda X: DelayEmbedding(10**12, start="nan").fit_transform(X), r"n_delays=10{12} .* GiB"),
        (lambda X: DelayEmbedding(2, step=10**12, start="nan").fit_transform(X), r"step=10{12} .* GiB"),
        (lambda X: SFA(expansion=DelayEmbedding(2)).fit(X), "pipeline"),
    ],
)
def test_errors_name_the_argument(rng, make, message):
    with pytest.raises(ValueError, match=message):
        make(rng.standard_normal((8, 2)))


def test_lengths_do_not_change_if_incomplete_rows_are_nan():
    assert DelayEmbedding(3, step=2, start="nan").embedded_lengths([12, 4]) == [12, 4]
    assert DelayEmbedding(3, step=2).embedded_lengths([12, 5]) == [8, 1]
