"""The comparison of methods: equal hidden values for every method, and scores of their results."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from probsfa.datasets import make_slow_mixture
from probsfa.imputation import (
    ColumnMean,
    Filled,
    HiddenBlocks,
    HiddenValues,
    LinearInterpolation,
    Score,
    compare_methods,
    default_methods,
)
from probsfa.imputation.comparison import average, errors_of
from probsfa.imputation.hiding import without_hidden
from tests.stand_in import StandIn
from tests.tolerances import EXACT, mc_tolerance

NAN = np.nan


@pytest.fixture
def series():
    return make_slow_mixture(200, 4, noise_variance=0.01, missing_fraction=0.1, random_state=0).data


@dataclass(frozen=True)
class Recorder:
    """Record all arguments, and impute a given value."""

    name: str
    value: float
    calls: list

    def fill(self, X, *, times=None):
        self.calls.append((X, times))
        if isinstance(X, list):
            return Filled([np.where(np.isnan(x), self.value, x) for x in X])
        return Filled(np.where(np.isnan(X), self.value, X))


# ---- scores


def test_score_by_hand():
    truth = np.array([[0.0, 10.0], [1.0, 20.0], [2.0, 30.0], [3.0, NAN]])
    incomplete = np.array([[0.0, 10.0], [1.0, 20.0], [2.0, NAN], [NAN, NAN]])
    values = np.array([[0.0, 10.0], [1.0, 20.0], [2.0, 25.0], [4.0, 99.0]])
    scales = np.std([0.0, 1.0, 2.0]), np.std([10.0, 20.0])
    errors = np.array([1.0 / scales[0], 5.0 / scales[1]])
    rmse, mae, coverage = errors_of(truth, incomplete, Filled(values))
    assert rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=EXACT)
    assert mae == pytest.approx(np.mean(errors), rel=EXACT)
    assert coverage is None
    # The errors are 1 and 5: intervals of half-width 1.645 contain the first.
    assert errors_of(truth, incomplete, Filled(values, np.ones((4, 2)))).coverage == 0.5


def test_scores_of_frames_and_lists_equal_those_of_arrays():
    rng = np.random.default_rng(5)
    truth = rng.standard_normal((30, 2))
    incomplete = np.where(rng.random((30, 2)) < 0.3, NAN, truth)
    filled = Filled(np.nan_to_num(incomplete), np.ones((30, 2)))
    expected = errors_of(truth, incomplete, filled)
    frames = [pd.DataFrame(X) for X in (truth, incomplete, filled.values, filled.std)]
    assert errors_of(frames[0], frames[1], Filled(*frames[2:])) == expected
    lists = [[X[:10], X[10:]] for X in (truth, incomplete, filled.values, filled.std)]
    assert errors_of(lists[0], lists[1], Filled(*lists[2:])) == expected


def test_coverage_of_calibrated_intervals():
    rng = np.random.default_rng(42)
    truth = rng.standard_normal((20_000, 2))
    incomplete = np.where(rng.random(truth.shape) < 0.5, NAN, truth)
    calibrated = Filled(np.where(np.isnan(incomplete), 0.0, truth), np.isnan(incomplete).astype(float))
    covered = errors_of(truth, incomplete, calibrated).coverage
    assert abs(covered - 0.9) < mc_tolerance(0.09, np.isnan(incomplete).sum())


def test_errors_of_a_constant_column_are_in_data_units():
    truth = np.array([[1.0], [1.0], [4.0]])
    incomplete = np.array([[1.0], [1.0], [NAN]])
    assert errors_of(truth, incomplete, Filled(np.ones((3, 1))))[:2] == (3.0, 3.0)


def test_errors_without_hidden_values_are_not_defined():
    with pytest.raises(ValueError, match="Too few"):
        errors_of(np.ones((3, 2)), np.ones((3, 2)), Filled(np.ones((3, 2))))


def test_hidden_values_that_are_not_imputed_are_errors():
    truth, incomplete = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([[1.0], [2.0], [NAN], [NAN]])
    not_imputed = Filled(np.array([[1.0], [2.0], [3.0], [NAN]]))
    with pytest.raises(ValueError, match="filled left values missing"):
        errors_of(truth, incomplete, not_imputed)
    with pytest.raises(ValueError, match="filled left values missing"):
        errors_of(truth, incomplete, Filled(np.ones((3, 1))))


def test_average():
    scores = [Score("m", 1.0, 2.0, 0.8, 3.0), Score("m", 3.0, 4.0, 1.0, 5.0)]
    assert average(scores) == Score("m", 2.0, 3.0, 0.9, 4.0)
    assert average([Score("m", 1.0, 2.0, None, 3.0)]).coverage is None


# ---- comparisons


def test_all_methods_impute_the_same_values_only(series):
    patterns = [HiddenValues(0.1), HiddenBlocks(12, 0.1)]
    comparisons = compare_methods(series, default_methods(StandIn()), patterns, seeds=[0, 1])
    assert [comparison.hidden for comparison in comparisons] == [pattern.name for pattern in patterns]
    for comparison, pattern in zip(comparisons, patterns, strict=True):
        incomplete = without_hidden(series, pattern.choose(series, 1))
        np.testing.assert_array_equal(comparison.incomplete, incomplete)
        assert [each.method for each in comparison.scores] == list(comparison.filled)
        for name, filled in comparison.filled.items():
            assert not np.isnan(filled.values).any()
            np.testing.assert_array_equal(
                filled.values[~np.isnan(incomplete)], incomplete[~np.isnan(incomplete)]
            )
            assert (filled.std is not None) == (name == "probabilistic SFA")


def test_scores_are_averages_over_the_seeds(series):
    pattern, method = HiddenBlocks(12, 0.2), LinearInterpolation()
    [comparison] = compare_methods(series, [method], [pattern], seeds=[3, 4])
    errors = []
    for seed in (3, 4):
        incomplete = without_hidden(series, pattern.choose(series, seed))
        errors.append(errors_of(series, incomplete, method.fill(incomplete)))
    [mean] = comparison.scores
    assert mean.rmse == pytest.approx(np.mean([each.rmse for each in errors]), rel=EXACT)
    assert mean.mae == pytest.approx(np.mean([each.mae for each in errors]), rel=EXACT)
    assert mean.seconds > 0.0


@dataclass(frozen=True)
class FixedPattern:
    """Hide given values."""

    name: str
    hidden: np.ndarray

    def choose(self, X, seed):
        return self.hidden


def test_patterns_hidden_at_once_have_separate_scores():
    truth = np.arange(8.0)[:, None] * [1.0, 10.0]
    first, second = np.zeros((2, 8, 2), dtype=bool)
    first[2, 0] = first[3, 1] = first[5, 1] = True
    second[5, 1] = second[6, 0] = True  # a value in both belongs to the second
    calls = []
    alone, blocks = compare_methods(
        truth,
        [Recorder("zero", 0.0, calls)],
        [FixedPattern("a", first), FixedPattern("b", second)],
        at_once=True,
    )
    [(incomplete, _)] = calls
    np.testing.assert_array_equal(np.isnan(incomplete), first | second)
    scales = np.nanstd(incomplete, axis=0)
    rmse = [
        np.sqrt(np.mean((np.array(values) / scales[columns]) ** 2))
        for values, columns in (([2.0, 30.0], [0, 1]), ([50.0, 6.0], [1, 0]))
    ]
    assert [alone.scores[0].rmse, blocks.scores[0].rmse] == pytest.approx(rmse, rel=EXACT)
    assert (alone.hidden, blocks.hidden) == ("a", "b")
    assert alone.filled is blocks.filled


def test_progress_is_reported_before_each_run(series):
    reports = []
    methods = [ColumnMean(), LinearInterpolation()]
    compare_methods(
        series, methods, [HiddenValues()], seeds=[0, 1], progress=lambda *what: reports.append(what)
    )
    assert reports == [
        (0, 4, "mean"),
        (1, 4, "linear interpolation"),
        (2, 4, "mean"),
        (3, 4, "linear interpolation"),
    ]


def test_frames_have_the_scores_of_arrays(series):
    frame = pd.DataFrame(series, columns=list("abcd")).convert_dtypes()
    one, other = (compare_methods(X, [LinearInterpolation()], [HiddenValues()])[0] for X in (frame, series))
    assert (one.scores[0].rmse, one.scores[0].mae) == (other.scores[0].rmse, other.scores[0].mae)
    np.testing.assert_array_equal(one.incomplete, other.incomplete)


def test_methods_are_called_with_separate_sequences_and_times(series):
    calls = []
    pieces, times = [series[:80], series[80:]], [np.arange(80.0) ** 2, np.arange(120.0)]
    [comparison] = compare_methods(pieces, [Recorder("r", 0.0, calls)], [HiddenValues()], times=times)
    [(incomplete, when)] = calls
    assert [len(piece) for piece in incomplete] == [80, 120]
    for given, expected in zip(when, times, strict=True):
        np.testing.assert_array_equal(given, expected)
    whole = without_hidden(series, HiddenValues().choose(series, 0))
    np.testing.assert_array_equal(np.concatenate(comparison.incomplete), whole)
    [alone] = compare_methods(series, [Recorder("r", 0.0, [])], [HiddenValues()])
    assert comparison.scores[0].rmse == alone.scores[0].rmse


def test_a_column_with_too_few_values_is_not_scored():
    X = np.column_stack([np.arange(50.0), np.full(50, NAN)])
    X[[3, 7], 1] = 1.0, 2.0
    [comparison] = compare_methods(X, [ColumnMean()], [HiddenValues(0.9)])
    np.testing.assert_array_equal(comparison.incomplete[:, 1], X[:, 1])
    assert comparison.scores[0].rmse > 0.0


@pytest.mark.parametrize(
    ("methods", "options", "match"),
    [
        ([], {}, r"methods.*\[\]"),
        ([ColumnMean(), ColumnMean()], {}, r"\['mean', 'mean'\]"),
        ([ColumnMean()], {"seeds": []}, "seeds"),
        ([Recorder("lazy", NAN, [])], {}, "missing"),
        ([ColumnMean()], {"times": [1.0]}, r"times.*\(200,\)"),
    ],
)
def test_invalid_arguments_are_errors(series, methods, options, match):
    with pytest.raises(ValueError, match=match):
        compare_methods(series, methods, [HiddenValues()], **options)


def test_two_values_in_a_column_are_too_few_to_hide():
    with pytest.raises(ValueError, match="Too few"):
        compare_methods(np.ones((2, 3)), [ColumnMean()], [HiddenValues(0.9)])


def test_the_deprecated_argument_hidings_warns(series):
    with pytest.warns(FutureWarning, match="hidings is now patterns"):
        [old] = compare_methods(series, [ColumnMean()], hidings=[HiddenValues()])
    [new] = compare_methods(series, [ColumnMean()], patterns=[HiddenValues()])
    assert old.scores[0].rmse == new.scores[0].rmse
