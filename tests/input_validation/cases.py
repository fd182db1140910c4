"""Kinds of input to the estimators, and their results: used by the tests and the documentation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from probsfa import SFA, ProbabilisticSFA
from probsfa.datasets import make_slow_mixture


def series(n_rows: int = 60) -> np.ndarray:
    """Return three columns of two factors with noise and missing values."""
    decay = [0.95, 0.7]
    return make_slow_mixture(
        n_rows, 3, decay=decay, noise_variance=0.3, missing_fraction=0.1, random_state=3
    ).data


def hourly(n_rows: int = 60, **options: Any) -> pd.DataFrame:
    """Return the series with hourly dates."""
    index = pd.date_range("2024-03-30", periods=n_rows, freq="h", **options)
    return pd.DataFrame(series(n_rows), index=index, columns=["wind", "rain", "sun"])


def with_value(value: float) -> np.ndarray:
    """Return the series with another value in row 3 of column 1."""
    X = series()
    X[3, 1] = value
    return X


def fitted(X: Any = None, **options: Any) -> ProbabilisticSFA:
    """Return a model of these data, fitted with a large tolerance."""
    given = {name: options.pop(name) for name in ("times", "lengths") if name in options}
    return ProbabilisticSFA(1, **{"tol": 5.0, **options}).fit(series() if X is None else X, **given)


def filled(X: Any, model: ProbabilisticSFA | None = None, **given: Any) -> str:
    """Impute the missing values of data, check the result, and return a text."""
    values = (fitted(X, **given) if model is None else model).impute(X, **given)
    parts = zip(values if isinstance(X, list) else [values], X if isinstance(X, list) else [X], strict=True)
    n_missing = 0
    for after, before in parts:
        after, before = np.asarray(after, dtype=float), np.asarray(before, dtype=float)
        assert not np.isnan(after).any()
        np.testing.assert_array_equal(after[~np.isnan(before)], before[~np.isnan(before)])
        n_missing += int(np.isnan(before).sum())
    return f"{n_missing} missing values imputed"


def unit(model: ProbabilisticSFA) -> str:
    """Return the length of a time step as text."""
    seconds = model.time_unit_seconds_
    return f"one time step is {model.time_unit_:g}" if seconds is None else f"one time step is {seconds:g} s"


@dataclass(frozen=True)
class Case:
    """A kind of input, a function that returns its result, and an expected part of this result."""

    kind: str
    result: Callable[[], str]
    expected: str


COLUMNS = (
    Case("missing values (NaN)", lambda: filled(series()), "24 missing values imputed"),
    Case("missing values, in `SFA`", lambda: str(SFA().fit(series())), 'SFA(missing="raise") does not'),
    Case("an infinite value", lambda: filled(with_value(np.inf)), "infinity"),
    Case("a value of 1e200", lambda: filled(with_value(1e200)), "overflows"),
    Case("a column in units of 1e160", lambda: filled(series() * [1.0, 1e160, 1.0]), "Rescale"),
    Case(
        "a column in units of 1e-100", lambda: filled(series() * [1.0, 1e-100, 1.0]), "missing values imputed"
    ),
    Case(
        "a constant column",
        lambda: fitted(np.where(np.arange(3) == 1, 7.0, series())).status_.partition(". ")[2],
        "imputed by the constant",
    ),
    Case("only constant columns", lambda: filled(np.ones((20, 3))), "constant"),
    Case(
        "a column with no observed value", lambda: filled(series() * [1.0, np.nan, 1.0]), "no observed value"
    ),
    Case(
        "the same column twice",
        lambda: filled(np.column_stack([series(), series()[:, 0]])),
        "missing values imputed",
    ),
    Case("text", lambda: filled([["a", "b"], ["c", "d"]]), "contains text"),
    Case("one row", lambda: filled(series()[:1]), "minimum of 2"),
    Case("a one-dimensional array", lambda: filled(series()[:, 0]), "1-dimensional"),
    Case("a list of sequences", lambda: filled([series(), series(30)]), "missing values imputed"),
    Case(
        "one array of several sequences", lambda: filled(series(), lengths=[20, 40]), "missing values imputed"
    ),
    Case(
        "`lengths` whose sum is not the number of rows", lambda: filled(series(), lengths=[20, 50]), "lengths"
    ),
    Case(
        "columns in another order than in the fit",
        lambda: filled(hourly()[["sun", "rain", "wind"]], fitted(hourly())),
        "feature names should match",
    ),
)

TIMES = (
    Case("a frame with hourly dates", lambda: unit(fitted(hourly())), "3600 s"),
    Case(
        "hourly dates in a time zone with daylight saving",
        lambda: unit(fitted(hourly(tz="Europe/Berlin"))),
        "3600",
    ),
    Case(
        "months",
        lambda: unit(fitted(hourly().set_axis(pd.period_range("2010-01", periods=60, freq="M")))),
        "one",
    ),
    Case(
        "dates with missing rows",
        lambda: unit(fitted(hourly().iloc[[*range(20), *range(30, 60)]])),
        "3600 s",
    ),
    Case("dates out of order", lambda: filled(hourly().iloc[::-1]), "increase"),
    Case("a repeated date", lambda: filled(hourly().iloc[[0, 0, *range(2, 60)]]), "increase"),
    Case(
        "an index of plain numbers",
        lambda: unit(fitted(hourly().reset_index(drop=True))),
        "one time step is 1",
    ),
    Case("`times=` of plain numbers", lambda: unit(fitted(times=2.5 * np.arange(60.0))), "2.5"),
    Case("`times=` that do not increase", lambda: filled(series(), times=np.zeros(60)), "increas"),
    Case(
        "six-minute data for an hourly model",
        lambda: filled(
            hourly().set_axis(pd.date_range("2024-01-01", periods=60, freq="6min")), fitted(hourly())
        ),
        "missing values imputed",
    ),
    Case(
        "plain numbers as times, for a model that was fitted with dates",
        lambda: filled(series(), fitted(hourly()), times=np.arange(60.0)),
        "times",
    ),
)

PARAMETERS = (
    Case("default arguments", lambda: ProbabilisticSFA().fit(series()).status_, "Selected 0 latent factors"),
    Case("`n_components=-1`", lambda: str(ProbabilisticSFA(-1).fit(series())), "n_components must be"),
    Case("`n_components=20000`", lambda: str(ProbabilisticSFA(20_000).fit(series())), "observed values"),
    Case(
        "one `noise` variance for each column",
        lambda: filled(series(), fitted(noise=[0.3, 0.2, 0.3])),
        "missing values imputed",
    ),
    Case("a wrong number of `noise` variances", lambda: filled(series(), fitted(noise=[0.3, 0.2])), "noise"),
    Case("`noise=1e-20`", lambda: fitted(noise=1e-20).status_.partition(". ")[2], "mean variance of all"),
    Case("`noise=-1`", lambda: str(fitted(noise=-1.0)), "noise must be"),
)

SECTIONS = {"Data": COLUMNS, "Times": TIMES, "Parameters": PARAMETERS}
