"""The imputer in scikit-learn: compared with IterativeImputer, in pipelines, searches and with metadata."""

import contextlib
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

import probsfa
from probsfa import ProbabilisticSFA
from probsfa.datasets import make_slow_mixture
from probsfa.imputation import ProbabilisticImputer
from tests.sampling import parametrize_with_checks
from tests.tolerances import EXACT

# Interpolation is as good as the model on some of these series, which causes a warning.
pytestmark = pytest.mark.filterwarnings("ignore:Observed values left out one at a time:UserWarning")

NAN = np.nan
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def quick(**options):
    """Return a model whose fit ends early."""
    return ProbabilisticSFA(**{"n_components": 1, "tol": 5.0, **options})


def imputer(**options):
    return ProbabilisticImputer(quick(), **options)


@pytest.fixture(scope="module")
def values():
    return make_slow_mixture(
        80, 3, decay=[0.95], noise_variance=0.1, missing_fraction=0.15, random_state=0
    ).data


@pytest.fixture
def frame(values):
    hours = pd.date_range("2024-03-30", periods=len(values), freq="h", tz="Europe/Berlin")
    return pd.DataFrame(values, columns=["a", "b", "c"], index=hours)


@pytest.fixture
def odd(frame):
    """Return a table with an empty, a constant and a complete column."""
    full = frame["a"].interpolate(limit_direction="both")
    odd = frame.assign(empty=NAN, constant=7.0, full=full)
    odd.iloc[3, 4] = NAN
    return odd


@parametrize_with_checks([imputer(), imputer(add_indicator=True, keep_empty_features=True)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# ---- results


def test_imputed_values_are_those_of_the_model(values):
    fitted = imputer().fit(values)
    expected, expected_std = quick().fit(values).impute(values, return_std=True)
    np.testing.assert_allclose(fitted.transform(values), expected, **CLOSE)
    filled, std = fitted.impute(values, return_std=True)
    np.testing.assert_allclose(filled, expected, **CLOSE)
    np.testing.assert_allclose(std, expected_std, **CLOSE)
    np.testing.assert_array_equal(filled[~np.isnan(values)], values[~np.isnan(values)])
    assert (std[np.isnan(values)] > 0.0).all() and (std[~np.isnan(values)] == 0.0).all()
    np.testing.assert_array_equal(imputer().fit_transform(values), fitted.transform(values))


def test_rows_of_transform_are_a_separate_series(values):
    fitted = imputer().fit(values[:50])
    expected = quick().fit(values[:50]).impute(values[50:])
    np.testing.assert_allclose(fitted.transform(values[50:]), expected, **CLOSE)


def test_dates_of_the_index_are_times_and_outputs_have_the_index(frame):
    fitted = imputer().fit(frame)
    assert fitted.estimator_.time_unit_seconds_ == 3600.0
    filled, std = fitted.impute(frame, return_std=True)
    for table in (fitted.transform(frame), filled, std):
        assert table.index.equals(frame.index) and list(table.columns) == ["a", "b", "c"]
    without = frame.drop(frame.index[10:20])
    expected = quick().fit(without).impute(without)
    pd.testing.assert_frame_equal(imputer().fit_transform(without), expected, check_freq=False)


def test_times_of_an_array(values):
    times = np.arange(len(values)) + 10.0 * (np.arange(len(values)) > 40)
    expected = quick().fit(values, times=times).impute(values, times=times)
    np.testing.assert_allclose(imputer().fit_transform(values, times=times), expected, **CLOSE)


@pytest.mark.parametrize("options", [{}, {"add_indicator": True}, {"keep_empty_features": True},
                                     {"add_indicator": True, "keep_empty_features": True}])  # fmt: skip
def test_columns_and_names_agree_with_iterative_imputer(odd, options):
    peer = IterativeImputer(max_iter=1, tol=1e9, **options).set_output(transform="pandas")
    drops = not options.get("keep_empty_features")
    with pytest.warns(UserWarning, match="observed") if drops else contextlib.nullcontext():
        expected = peer.fit_transform(odd)
    ours = imputer(**options).fit(odd)
    assert list(ours.get_feature_names_out()) == list(peer.get_feature_names_out()) == list(expected.columns)
    for table in (ours.transform(odd), clone(ours).set_output(transform="pandas").fit_transform(odd)):
        assert list(table.columns) == list(expected.columns) and table.index.equals(odd.index)
        indicators = [name for name in table.columns if name.startswith("missingindicator_")]
        np.testing.assert_array_equal(table[indicators], expected[indicators])
        assert not table.isna().any(axis=None)
        assert (table["constant"] == 7.0).all()
        if options.get("keep_empty_features"):
            assert (table["empty"] == 0.0).all()


def test_standard_deviations_of_columns_without_a_model(odd):
    odd["once"] = np.where(np.arange(len(odd)) == 2, 1.0, NAN)
    _, std = imputer(keep_empty_features=True).fit(odd).impute(odd, return_std=True)
    assert list(std.columns) == list(odd.columns)
    np.testing.assert_array_equal(std["once"], np.where(odd["once"].isna(), np.inf, 0.0))
    assert std["empty"].isna().all() and (std["constant"] == 0.0).all() and (std["full"] == 0.0).all()
    assert (std["a"][odd["a"].isna()] > 0.0).all()


def test_observed_values_of_columns_without_a_model_are_unchanged(odd):
    fitted = imputer(keep_empty_features=True).fit(odd)
    later = odd.assign(constant=8.0, empty=5.0)
    later.iloc[4, [3, 4]] = NAN
    filled = fitted.transform(later)
    assert filled["constant"].iloc[[3, 4]].tolist() == [8.0, 7.0]
    assert filled["empty"].iloc[[3, 4]].tolist() == [5.0, 0.0]


def test_tables_of_constant_columns():
    fitted = ProbabilisticImputer().fit([[1.0, NAN, 2.0], [1.0, NAN, NAN]])
    assert fitted.estimator_ is None
    assert fitted.transform([[NAN, 4.0, NAN]]).tolist() == [[1.0, 2.0]]
    assert ProbabilisticImputer().fit_transform([[1.0, 2.0]]).tolist() == [[1.0, 2.0]]
    with pytest.raises(ValueError, match="no observed value"):
        ProbabilisticImputer().fit([[NAN, NAN], [NAN, NAN]])


def test_column_labels_that_are_not_strings(values):
    for columns in ([3, 1, 2], pd.MultiIndex.from_tuples([("p", 1), ("p", 2), ("q", 1)])):
        X = pd.DataFrame(values, columns=columns)
        assert imputer().fit_transform(X).columns.equals(X.columns)
    names = imputer(add_indicator=True).fit_transform(pd.DataFrame(values)).columns
    assert list(names) == [0, 1, 2, "missingindicator_x0", "missingindicator_x1", "missingindicator_x2"]


# ---- several series


def test_lists_of_frames(frame):
    parts = [frame[:50], frame[50:]]
    expected = quick().fit(parts).impute(parts)
    for one in (
        imputer().fit_transform(parts),
        imputer().set_output(transform="pandas").fit_transform(parts),
    ):
        assert isinstance(one, list)
        for part, expected_part in zip(one, expected, strict=True):
            pd.testing.assert_frame_equal(part, expected_part, check_freq=False, rtol=1e-9)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("labels", [("x", "y"), (7, 3)])
def test_interleaved_groups_are_separate_series(values, timed, labels):
    second = np.random.default_rng(0).random(len(values)) < 0.4
    groups = np.where(second, labels[1], labels[0])
    times = np.cumsum(np.random.default_rng(1).integers(1, 4, len(values))).astype(float)
    parts, when = [values[~second], values[second]], [times[~second], times[second]]
    given = {"times": when} if timed else {}
    expected = np.empty_like(values)
    expected[~second], expected[second] = quick().fit(parts, **given).impute(parts, **given)
    given = {"times": times} if timed else {}
    filled = imputer().fit_transform(values, groups=groups, **given)
    np.testing.assert_allclose(filled, expected, **CLOSE)
    given = {"times": times.tolist()} if timed else {}
    filled = imputer().fit_transform(values.tolist(), groups=list(groups), **given)
    np.testing.assert_allclose(filled, expected, **CLOSE)


def test_groups_of_a_frame_with_repeated_dates(frame):
    long = pd.concat([frame.assign(site=1), 2.0 * frame.assign(site=2)]).sort_index(kind="stable")
    sites = long.pop("site")
    parts = [long[sites == site] for site in sites.unique()]
    expected_parts = quick().fit(parts).impute(parts)
    filled = imputer().fit_transform(long, groups=sites)
    assert filled.index.equals(long.index)
    for site, expected in zip(sites.unique(), expected_parts, strict=True):
        np.testing.assert_allclose(filled[(sites == site).to_numpy()], expected, **CLOSE)


def test_lengths(values):
    expected = quick().fit(values, lengths=[30, 50]).impute(values, lengths=[30, 50])
    np.testing.assert_allclose(imputer().fit_transform(values, lengths=[30, 50]), expected, **CLOSE)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": ["a"]}, "80.*X.*1"),
        ({"groups": ["a"] * 79 + [None]}, r"groups\[79\] is missing"),
        ({"groups": [1] * 80, "lengths": [80]}, "groups.*lengths"),
        ({"groups": [1] * 80, "times": [1.0]}, "80.*X.*1"),
    ],
)
def test_invalid_groups_are_errors(values, given, message):
    with pytest.raises(ValueError, match=message):
        imputer().fit(values, **given)


def test_invalid_estimators_are_errors():
    for wrong in (3, ProbabilisticSFA, StandardScaler()):
        with pytest.raises(ValueError, match="estimator must.*got"):
            ProbabilisticImputer(wrong).fit([[1.0], [2.0]])
    for call in ("transform", "impute"):
        with pytest.raises(NotFittedError):
            getattr(imputer(), call)([[1.0], [2.0]])


# ---- in scikit-learn


@pytest.fixture(scope="module")
def regression(values):
    complete = make_slow_mixture(80, 3, decay=[0.95], noise_variance=0.1, random_state=0).data
    return values, complete.sum(axis=1)


def test_grid_search_sets_parameters_of_the_model(regression):
    X, y = regression
    pipeline = make_pipeline(imputer(), StandardScaler(), Ridge())
    grid = {"probabilisticimputer__estimator__n_components": [1, 2]}
    search = GridSearchCV(pipeline, grid, cv=TimeSeriesSplit(2), error_score="raise").fit(X, y)
    best = search.best_estimator_[0].estimator_
    assert best.n_components == search.best_params_["probabilisticimputer__estimator__n_components"]
    assert np.isfinite(search.predict(X)).all()
    assert cross_val_score(pipeline, X, y, cv=TimeSeriesSplit(2), error_score="raise").shape == (2,)


def test_column_transformer(odd):
    table = odd.assign(kind="x")
    transformer = make_column_transformer(
        (imputer(), ["a", "b", "c"]), ("passthrough", ["kind"]), verbose_feature_names_out=False
    ).set_output(transform="pandas")
    out = transformer.fit_transform(table)
    assert out.index.equals(table.index) and list(out.columns) == ["a", "b", "c", "kind"]
    expected = imputer().fit_transform(table[["a", "b", "c"]])
    np.testing.assert_array_equal(out[["a", "b", "c"]], expected)


def test_frames_of_polars(values):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    X = polars.DataFrame(values, schema=["a", "b", "c"]).fill_nan(None)
    expected = imputer(add_indicator=True).fit_transform(values)
    table = imputer(add_indicator=True).fit_transform(X)
    assert isinstance(table, polars.DataFrame)
    assert table.columns == ["a", "b", "c", *(f"missingindicator_{name}" for name in "abc")]
    np.testing.assert_allclose(table.to_numpy(), expected, **CLOSE)
    pandas = pd.DataFrame(values, columns=["a", "b", "c"])
    for given in (X, pandas, [pandas, pandas]):
        out = imputer().set_output(transform="polars").fit_transform(given)
        for one in out if isinstance(out, list) else [out]:
            assert isinstance(one, polars.DataFrame) and one.columns == ["a", "b", "c"]


@pytest.fixture
def metadata(regression):
    """Return times and groups of the rows."""
    n = len(regression[0])
    times = np.cumsum(np.random.default_rng(0).integers(1, 9, n)).astype(float)
    return {"times": times, "groups": np.arange(n) % 2}


def routed_pipeline():
    """Return an imputer with times and groups and a regression; requires metadata routing."""
    requests = {"times": True, "groups": True}
    return make_pipeline(imputer().set_fit_request(**requests).set_transform_request(**requests), Ridge())


def test_metadata_is_routed(regression, metadata):
    X, y = regression
    with sklearn.config_context(enable_metadata_routing=True):
        fitted = routed_pipeline().fit(X, y, **metadata)
        np.testing.assert_array_equal(
            fitted[0].transform(X, **metadata), imputer().fit(X, **metadata).transform(X, **metadata)
        )


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="pipelines of scikit-learn before 1.8 score without the metadata of their transformers",
)
def test_metadata_is_routed_to_scores(regression, metadata):
    X, y = regression
    times, groups = metadata["times"], metadata["groups"]
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_val_score(
            routed_pipeline(), X, y, cv=TimeSeriesSplit(2), params=metadata, error_score="raise"
        )
    expected = []
    for train, test in TimeSeriesSplit(2).split(X):
        first = imputer().fit(X[train], times=times[train], groups=groups[train])
        parts = [first.transform(X[i], times=times[i], groups=groups[i]) for i in (train, test)]
        expected.append(Ridge().fit(parts[0], y[train]).score(parts[1], y[test]))
    np.testing.assert_allclose(scores, expected, rtol=EXACT)


@pytest.mark.parametrize("options", [{}, {"add_indicator": True, "keep_empty_features": True}])
def test_copies_pickles_and_files(odd, options, tmp_path):
    fitted = imputer(**options).fit(odd)
    expected = fitted.transform(odd)
    fresh = clone(fitted)
    assert not hasattr(fresh, "estimator_") and fresh.estimator.n_components == 1
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(fitted)).transform(odd), expected)
    fitted.save(tmp_path / "imputer.npz")
    again = probsfa.load(tmp_path / "imputer.npz")
    pd.testing.assert_frame_equal(again.transform(odd), expected)
    assert list(again.get_feature_names_out()) == list(expected.columns)
    pipeline = make_pipeline(clone(fitted), StandardScaler()).fit(odd)
    probsfa.save(pipeline, tmp_path / "pipeline.npz")
    np.testing.assert_array_equal(
        probsfa.load(tmp_path / "pipeline.npz").transform(odd), pipeline.transform(odd)
    )
