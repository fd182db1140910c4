"""Frames for lists of sequences, and arguments of sequences that are passed to transform."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from probsfa import IGSFA, SFA, GraphSFAClassifier, GraphSFARegressor, KernelSFA, ProbabilisticSFA
from probsfa._frames import lists_in_lists_out
from probsfa._validation import check_sequences
from probsfa.expansions import Power
from probsfa.imputation import ClassicSFA, IterativeRegression
from tests.tolerances import EXACT

LENGTHS = [20, 40]


@pytest.fixture
def frames(rng):
    values = np.cumsum(rng.standard_normal((60, 3)), axis=0)
    hours = pd.date_range("2020", periods=60, freq="h")
    whole = pd.DataFrame(values, index=hours, columns=["a", "b", "c"])
    return [whole.iloc[:20], whole.iloc[20:]]


@pytest.mark.parametrize("estimator", [SFA(2), KernelSFA(2), Power()])
def test_a_list_of_frames_gives_frames_with_the_index_of_each(estimator, frames):
    expected = estimator.fit(frames).transform(frames)
    assert all(isinstance(piece, np.ndarray) for piece in expected)
    estimator.set_output(transform="pandas")
    with config_context(transform_output="pandas"):
        configured = SFA(2).fit(frames).transform(frames)
    assert all(isinstance(piece, pd.DataFrame) for piece in configured)
    for results in (estimator.transform(frames), estimator.fit_transform(frames)):
        assert isinstance(results, list) and len(results) == 2
        for result, frame, values in zip(results, frames, expected, strict=True):
            assert_array_equal(result.index, frame.index)
            assert list(result.columns) == list(estimator.get_feature_names_out())
            assert_array_equal(result.to_numpy(), values)


def known_model(**options):
    loadings = np.array([[2.0, 0.5], [1.0, -1.0], [-1.0, 0.3]])
    return ProbabilisticSFA.from_parameters([0.95, 0.5], loadings, 0.3, **options)


@pytest.fixture
def model():
    return known_model(time_unit="1h", feature_names=["a", "b", "c"])


def test_methods_of_a_model_return_frames_for_frames(frames, model):
    whole = pd.concat(frames)
    as_arrays, arrays = known_model(), whole.to_numpy()
    posterior, wanted = model.posterior(whole), as_arrays.posterior(arrays)
    filtered, causal = model.filter(whole), as_arrays.filter(arrays)
    of_factors = [
        (model.transform(whole), as_arrays.transform(arrays)),
        (posterior.means, wanted.means),
        (posterior.std, wanted.std),
        (filtered.means, causal.means),
        (filtered.std, causal.std),
    ]
    of_values = [
        (filtered.predictions, causal.predictions),
        (filtered.prediction_std, causal.prediction_std),
        (filtered.innovations, causal.innovations),
        (filtered.quantile(0.9), causal.quantile(0.9)),
    ]
    for found, names in ((of_factors, model.get_feature_names_out()), (of_values, whole.columns)):
        for frame, array in found:
            assert isinstance(frame, pd.DataFrame) and type(array) is np.ndarray
            assert list(frame.columns) == list(names) and frame.index.equals(whole.index)
            assert_array_equal(frame.to_numpy(), array)
    assert_array_equal(posterior.covariances, wanted.covariances)
    assert posterior.log_likelihood == wanted.log_likelihood


def test_frames_of_several_sequences_have_the_index_of_each(frames, model):
    whole = pd.concat(frames)
    for found in (model.posterior(frames), model.filter(frames), model.filter(whole, lengths=LENGTHS)):
        assert all(each.means.index.equals(frame.index) for each, frame in zip(found, frames, strict=True))
    first = model.filter(frames[0])
    later = model.filter(frames[1], first.state)  # continues from the state, whose times are earlier
    assert_allclose(later.means, model.filter(whole).means.iloc[LENGTHS[0] :], rtol=EXACT)


def test_arrays_are_available_for_frames(frames, model):
    model.set_output(transform="default")
    assert all(type(values) is np.ndarray for values in model.transform(frames))
    assert type(model.filter(frames[0]).arrays.predictions) is np.ndarray


@pytest.mark.parametrize("container", ["pandas", "polars"])
@pytest.mark.parametrize(
    "estimator",
    [
        GraphSFAClassifier(shrinkage=0.1, cv=2),
        GraphSFARegressor(2, shrinkage=0.1, cv=2),
        IGSFA(3, graph="clustered"),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_configured_type_of_frames_does_not_change_results(rng, estimator, container):
    pytest.importorskip(container)
    X, y = rng.standard_normal((60, 4)).cumsum(axis=0), np.arange(60)
    y = y if isinstance(estimator, GraphSFARegressor) else y // 20
    result_method = "transform" if isinstance(estimator, IGSFA) else "predict"
    result_method = "predict_proba" if isinstance(estimator, GraphSFAClassifier) else result_method
    expected = np.asarray(getattr(clone(estimator).fit(X, y), result_method)(X))
    with config_context(transform_output=container):
        configured = np.asarray(getattr(clone(estimator).fit(X, y), result_method)(X))
    assert_allclose(configured, expected, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("container", ["pandas", "polars"])
@pytest.mark.parametrize("method", [ClassicSFA(), IterativeRegression()], ids=lambda method: method.name)
def test_imputation_methods_do_not_depend_on_the_configured_type_of_frames(rng, method, container):
    pytest.importorskip(container)
    X = rng.standard_normal((60, 3)).cumsum(axis=0)
    X[20:25, 0] = np.nan
    expected = method.fill(X).values
    with config_context(transform_output=container):
        assert_allclose(method.fill(X).values, expected, rtol=EXACT)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_frames_with_lengths(frames):
    whole = pd.concat(frames)
    sfa = SFA(2).set_output(transform="pandas")
    result = sfa.fit_transform(whole, lengths=LENGTHS)
    assert_array_equal(result.index, whole.index)
    pieces = SFA(2).fit_transform(frames)
    assert_array_equal(result.to_numpy(), np.concatenate(pieces))


@pytest.fixture(scope="module")
def times():
    return [np.arange(20.0), np.arange(40.0) ** 1.2]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_list_with_times_gives_frames(frames, times):
    model = ProbabilisticSFA(2, max_iter=3)
    expected = model.fit(frames, times=times).transform(frames, times=times)
    without = model.transform(frames)
    assert all(isinstance(each, pd.DataFrame) for each in expected)
    assert max(np.abs(a - b).to_numpy().max() for a, b in zip(expected, without, strict=True)) > 1e-3
    model.set_output(transform="pandas")
    for results in (model.transform(frames, times=times), model.fit_transform(frames, times=times)):
        for result, frame, values in zip(results, frames, expected, strict=True):
            assert_array_equal(result.index, frame.index)
            assert_array_equal(result.to_numpy(), values)
    with pytest.raises(ValueError, match="times.*got a list of 1"):
        model.transform(frames, times=times[:1])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_fit_transform_does_not_drop_lengths_and_times(frames, times):
    X, t = np.concatenate(frames), np.concatenate(times)
    model = ProbabilisticSFA(2, max_iter=3)
    expected = model.fit(X, lengths=LENGTHS, times=t).transform(X, lengths=LENGTHS, times=t)
    assert_array_equal(model.fit_transform(X, lengths=LENGTHS, times=t), expected)
    assert_array_equal(np.concatenate(model.fit_transform(frames, times=times)), expected)
    # In a pipeline the next step is fitted to them.
    seen = []
    pipeline = make_pipeline(model, FunctionTransformer(lambda features: seen.append(features) or features))
    pipeline.fit_transform(X, probabilisticsfa__lengths=LENGTHS, probabilisticsfa__times=t)
    assert_array_equal(seen[-1], expected)


ROWS = np.arange(12.0).reshape(6, 2)


@lists_in_lists_out
class Ages(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Times of rows since the start of their sequence, which ``transform`` cannot derive from X alone."""

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
    np.testing.assert_array_equal(Ages().fit_transform(ROWS)[:, 0], np.arange(6))
    np.testing.assert_array_equal(Ages().fit_transform(ROWS, lengths=[2, 4])[:, 0], [0, 1, 0, 1, 2, 3])
    both = Ages().fit_transform(ROWS, lengths=[3, 3], times=times)
    np.testing.assert_array_equal(both[:, 0], times)


def test_each_frame_of_a_list_has_its_own_times():
    pieces, times = [ROWS[:2], ROWS[2:]], [[0.0, 7.0], [1.0, 2.0, 4.0, 8.0]]
    model = Ages().set_output(transform="pandas")
    for frames in (model.fit_transform(pieces, times=times), model.transform(pieces, times=times)):
        assert all(isinstance(frame, pd.DataFrame) for frame in frames)
        np.testing.assert_array_equal(frames[0].to_numpy()[:, 0], [0, 7])
        np.testing.assert_array_equal(frames[1].to_numpy()[:, 0], [0, 1, 3, 7])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"times": np.arange(6.0)}, "times.*2"),
        ({"times": [np.arange(6.0)]}, "times.*2"),
        ({"lengths": [2, 4]}, "lengths.*X"),
    ],
)
def test_invalid_keywords_for_a_list_have_the_usual_message(arguments, match):
    model = Ages().set_output(transform="pandas").fit(ROWS)
    with pytest.raises(ValueError, match=match):
        model.transform([ROWS[:2], ROWS[2:]], **arguments)
