"""Keywords of fit_transform that tell how rows belong together reach fit and transform."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from probsfa._frames import lists_in_lists_out
from probsfa._validation import check_sequences

X = np.arange(12.0).reshape(6, 2)


@lists_in_lists_out
class Ages(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Times since a sequence began, of rows: in ``transform`` they cannot be had from X alone."""

    _n_features_out = 1

    def fit(self, X, y=None, *, lengths=None, times=None):
        check_sequences(self, X, reset=True, allow_nan=False, lengths=lengths, times=times)
        return self

    def transform(self, X, *, lengths=None, times=None):
        sequences = check_sequences(self, X, reset=False, allow_nan=False, lengths=lengths, times=times)
        at = np.arange(6.0)[: sequences.n_rows] if times is None else sequences.times
        ages = np.concatenate([at[s] - at[s][0] for s in sequences.slices])
        return sequences.restore(ages[:, None])


def test_lengths_and_times_reach_both():
    times = np.array([0.0, 1.0, 4.0, 0.0, 2.0, 3.0])
    np.testing.assert_array_equal(Ages().fit_transform(X)[:, 0], np.arange(6))
    np.testing.assert_array_equal(Ages().fit_transform(X, lengths=[2, 4])[:, 0], [0, 1, 0, 1, 2, 3])
    both = Ages().fit_transform(X, lengths=[3, 3], times=times)
    np.testing.assert_array_equal(both[:, 0], times)


def test_each_frame_of_a_list_has_its_own_times():
    pieces, times = [X[:2], X[2:]], [[0.0, 7.0], [1.0, 2.0, 4.0, 8.0]]
    model = Ages().set_output(transform="pandas")
    for frames in (model.fit_transform(pieces, times=times), model.transform(pieces, times=times)):
        assert all(isinstance(frame, pd.DataFrame) for frame in frames)
        np.testing.assert_array_equal(frames[0].to_numpy()[:, 0], [0, 7])
        np.testing.assert_array_equal(frames[1].to_numpy()[:, 0], [0, 1, 3, 7])


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"times": np.arange(6.0)}, "times must be a list of 2"),
        ({"times": [np.arange(6.0)]}, "times must be a list of 2"),
        ({"lengths": [2, 4]}, "lengths cannot be given when X is a list"),
    ],
)
def test_keywords_that_do_not_fit_a_list_are_refused_with_the_usual_sentence(how, match):
    model = Ages().set_output(transform="pandas").fit(X)
    with pytest.raises(ValueError, match=match):
        model.transform([X[:2], X[2:]], **how)
