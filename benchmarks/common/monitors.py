"""Control charts of principal components and of slow features, with limits from held-out rows."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from probsfa import ProbabilisticSFA
from probsfa.monitoring import ProcessMonitor
from probsfa.monitoring.limits import (
    contiguous_folds,
    control_limits,
    trailing_means,
)

FOLDS = 5


#: Returns statistics (T, S) of rows; estimated from normal rows.
Statistics = Callable[[np.ndarray], np.ndarray]


class MonitoringMethod:
    """A monitoring method and its held-out statistics, which give limits for any window and alpha."""

    def __init__(self, held_out: list[np.ndarray], statistics: Statistics) -> None:
        self.held_out, self.statistics = held_out, statistics

    @classmethod
    def of_monitor(cls, model: Any, X: np.ndarray) -> "MonitoringMethod":
        """Make the method from a `ProcessMonitor`, with statistics before averaging over windows."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            monitor = ProcessMonitor(model, n_folds=FOLDS).fit(X)
        sizes = [b - a for [(_, a, b)] in contiguous_folds((len(X),), FOLDS)]
        parts = np.split(monitor.held_out_.to_numpy(), np.cumsum(sizes)[:-1])
        return cls(parts, lambda rows: monitor.score_samples(rows).to_numpy())

    @classmethod
    def of_function(cls, learn: Callable[[np.ndarray], Statistics], X: np.ndarray) -> "MonitoringMethod":
        """Make the method from a function that estimates statistics from normal rows."""
        parts = []
        for [(_, a, b)] in contiguous_folds((len(X),), FOLDS):
            parts.append(learn(np.concatenate([X[:a], X[b:]]))(X[a:b]))
        return cls(parts, learn(X))

    def limits(self, window: int, alpha: float) -> np.ndarray:
        """Return limits of statistics that are averaged over a window."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there are few rows for this rate, for all methods alike
            return control_limits(
                np.concatenate([trailing_means(part, window) for part in self.held_out]),
                alpha,
                joint=True,
                window=window,
            )

    def alarms(self, X: np.ndarray, window: int, limits: np.ndarray) -> np.ndarray:
        """Return a mask of rows with a statistic above its limit."""
        return np.any(trailing_means(self.statistics(X), window) > limits, axis=1)


def pca(n_components: int, lags: int = 0) -> Callable[[np.ndarray], Statistics]:
    """Return a method with T2 and SPE of principal components of standardised columns and their lags."""

    def learn(X: np.ndarray) -> Statistics:
        mean, std = X.mean(axis=0), X.std(axis=0)
        std = np.where(std > 0, std, 1.0)

        def delayed(rows: np.ndarray) -> np.ndarray:
            z = (rows - mean) / std
            return np.hstack([z[lags - j : len(z) - j] for j in range(lags + 1)])

        fitted = PCA(n_components).fit(delayed(X))

        def statistics(rows: np.ndarray) -> np.ndarray:
            z = delayed(rows)
            scores = fitted.transform(z)
            t2 = np.sum(scores**2 / fitted.explained_variance_, axis=1)
            charts = [t2]
            if n_components < z.shape[1]:
                charts.append(np.sum((z - fitted.inverse_transform(scores)) ** 2, axis=1))
            values = np.stack(charts, axis=1)
            return np.concatenate([np.full((lags, values.shape[1]), np.nan), values])

        return statistics

    return learn


def best_pca(X: np.ndarray, candidates: list[int]) -> int:
    """Select the number of components by the held-out likelihood of segments under probabilistic PCA."""
    mean, std = X.mean(axis=0), X.std(axis=0)
    z = (X - mean) / np.where(std > 0, std, 1.0)
    folds = [fold[0][1:] for fold in contiguous_folds((len(z),), FOLDS)]
    scores = {
        k: np.mean([PCA(k).fit(np.concatenate([z[:a], z[b:]])).score(z[a:b]) for a, b in folds])
        for k in candidates
    }
    return max(scores, key=scores.__getitem__)


def best_factors(X: np.ndarray, candidates: list[int], **options: Any) -> int:
    """Select the number of factors by the held-out likelihood of segments."""
    folds = [fold[0][1:] for fold in contiguous_folds((len(X),), FOLDS)]
    scores = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in candidates:
            fits = [
                ProbabilisticSFA(k, **options).fit([x for x in (X[:a], X[b:]) if len(x)]) for a, b in folds
            ]
            scores[k] = np.mean([fit.score(X[a:b]) for fit, (a, b) in zip(fits, folds, strict=True)])
            if scores[k] < max(scores.values()):
                break  # more factors are not better
    return max(scores, key=scores.__getitem__)
