"""Random configurations of all deterministic estimators, and changes of the data that keep their outputs.

Outputs do not depend on the order of the columns, the memory layout, and the sign of numeric labels. They do
not depend on the order of the rows where it has no meaning. They are finite, and the data remain unchanged.
Print the largest difference of each estimator over many configurations::

    python -m tests.properties.invariance --configurations 500
"""

import argparse
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np

from probsfa import graphs
from probsfa.expansions import Polynomial, Power
from probsfa.sfa import (
    IGSFA,
    SFA,
    XSFA,
    DiffusionMap,
    GraphSFA,
    GraphSFAClassifier,
    GraphSFARegressor,
    HierarchicalSFA,
    KernelSFA,
    LaplacianEigenmaps,
    Layer,
    SpectralClustering,
)

OF_CLASSES = ("clustered",)
OF_NUMBERS = ("serial", "mixed", "sliding_window", "reordering", "exact_label", "ring")
FUNCTIONS = {
    "exact_label": lambda X, y: graphs.exact_label(y),
    "ring": lambda X, y: graphs.ring(y, period=2 * np.pi),
}
OF_ROWS = ("nearest_neighbors",)
WITH_GRAPH = ("GraphSFA", "IGSFA", "hierarchy")
# Temporal order, or k-means, which draws its first centres from rows by their position.
IN_ORDER = ("SFA", "missing values", "XSFA", "kernel", "clustering")
ESTIMATORS = (
    *("SFA", "missing values", "XSFA", "GraphSFA", "IGSFA", "hierarchy", "classifier", "images", "regressor"),
    *("angles", "targets", "eigenmaps", "neighbors", "diffusion map", "kernel", "clustering"),
)
N_KINDS = 6  # of data


class Configuration(NamedTuple):
    """An estimator with its data; `order_matters` states whether the order of the rows has a meaning."""

    kind: int
    name: str
    estimator: Any
    X: np.ndarray
    y: np.ndarray | None
    order_matters: bool
    rng: np.random.Generator


def draw(seed):
    """Return a random configuration; seeds run through all combinations of estimators and kinds of data."""
    rng = np.random.default_rng(seed)
    kind, name = seed % N_KINDS, ESTIMATORS[seed // N_KINDS % len(ESTIMATORS)]
    X = _rows(rng, kind, name)
    n = len(X)
    numbers = X[:, 0] / X[:, 0].std() + 0.5 * rng.standard_normal(n)
    if rng.random() < 0.3:
        numbers = np.round(2 * numbers)
    classes = np.arange(n) % int(rng.integers(2, 5))
    expansion = (None, None, Polynomial(2), Power())[rng.integers(4)]
    graph_name = str(rng.choice([*OF_CLASSES, *OF_NUMBERS, *OF_ROWS, "temporal"]))
    labels = classes if graph_name in OF_CLASSES else numbers if graph_name in OF_NUMBERS else None
    graph = FUNCTIONS.get(graph_name, graph_name)
    K = None if rng.random() < 0.5 else 1
    shrinkage = (None, 0.2, "auto")[rng.integers(3)]
    estimator, y = {
        "SFA": lambda: (SFA(K, expansion=expansion), None),
        "missing values": lambda: (SFA(K, expansion=expansion, missing="skip"), None),
        "XSFA": lambda: (XSFA(1, expansion=Polynomial(2)), None),
        "GraphSFA": lambda: (GraphSFA(K, graph=graph, expansion=expansion, shrinkage=shrinkage), labels),
        "IGSFA": lambda: (IGSFA(graph=graph, expansion=expansion, shrinkage=shrinkage), labels),
        "hierarchy": lambda: (HierarchicalSFA([Layer(1, expansion=Polynomial(2))], graph=graph), labels),
        "classifier": lambda: (GraphSFAClassifier(cv=2), classes),
        "images": lambda: (GraphSFAClassifier(preset="images", cv=2), classes),
        "regressor": lambda: (GraphSFARegressor(cv=2), numbers),
        "angles": lambda: (GraphSFARegressor(period=2 * np.pi, cv=2), numbers % (2 * np.pi)),
        "targets": lambda: (GraphSFARegressor(cv=2), np.column_stack([numbers, X[::-1, 0] + numbers])),
        "eigenmaps": lambda: (LaplacianEigenmaps(1, affinity="rbf", gamma="median"), None),
        "neighbors": lambda: (LaplacianEigenmaps(1, n_neighbors=6), None),
        "diffusion map": lambda: (DiffusionMap(1, gamma="median"), None),
        "kernel": lambda: (KernelSFA(1, regularization="auto" if seed % 2 else 1e-3), None),
        "clustering": lambda: (
            SpectralClustering(2, affinity="rbf", gamma="median", random_state=0),
            None,
        ),
    }[name]()
    if name == "missing values":
        X[rng.integers(1, n, 2), rng.integers(X.shape[1], size=2)] = np.nan
    order_matters = name in IN_ORDER or (name in WITH_GRAPH and graph_name == "temporal")
    if kind == 4 and (name == "neighbors" or (name in WITH_GRAPH and graph_name in OF_ROWS)):
        order_matters = True  # only some of several equal rows are neighbours
    return Configuration(kind, name, estimator, X, y, order_matters, rng)


def _rows(rng, kind, name):
    n, n_columns = int(rng.integers(12, 70)), int(rng.integers(1, 9))
    X = rng.standard_normal((n, n_columns))
    if kind == 1:
        return X @ rng.standard_normal((n_columns, n_columns))
    if kind == 2:
        scales, offsets = 10.0 ** rng.integers(-4, 5, n_columns), rng.standard_normal(n_columns)
        # Hierarchies expand unscaled columns.
        return X * scales + 100 * offsets * (scales if name == "hierarchy" else 1.0)
    if kind == 3:
        return np.column_stack([X, X[:, 0], np.ones(n)])  # duplicated and constant
    if kind == 4:
        return np.concatenate([X, X[: n // 3]])  # equal rows
    if kind == 5:
        return np.linalg.qr(X - X.mean(axis=0))[0]  # decorrelated
    return X


def outputs(estimator, X, y, new):
    """Return the outputs of a fitted estimator for new rows, or the type of the error that it raises."""
    try:
        model = estimator.fit(X, y)
    except ValueError as error:
        return type(error)
    if hasattr(model, "labels_"):
        return np.equal.outer(model.labels_, model.labels_).astype(float)  # names of clusters have no meaning
    method = next(v for v in ("predict_proba", "predict", "transform") if hasattr(model, v))
    values = np.asarray(getattr(model, method)(new))
    if getattr(model, "period", None):  # 0 and the period are the same angle
        values = np.column_stack([np.cos(values), np.sin(values)])
    return values


def variants(case):
    """Yield what is changed, training rows, labels, new rows, and the function that restores the outputs."""
    rng, X, y = case.rng, case.X, case.y
    columns, rows = rng.permutation(X.shape[1]), rng.permutation(len(X))
    wide = np.zeros((2 * len(X), X.shape[1] + 3))
    wide[::2, 1:-2] = X
    for name, other in {"layout": np.asfortranarray(X), "stride": wide[::2, 1:-2]}.items():
        yield name, other, y, other, lambda Y: Y
    yield "columns", X[:, columns], y, X[:, columns], lambda Y: Y
    if not case.order_matters:
        yield "rows", X[rows], None if y is None else y[rows], X, lambda Y: Y
    if y is not None:
        restore = {
            **dict.fromkeys(("classifier", "images"), lambda P: P[:, ::-1]),
            **dict.fromkeys(("regressor", "targets"), lambda Y: -Y),
            "angles": lambda Y: Y * [1, -1],
        }
        yield "sign of labels", X, -y, X, restore.get(case.name, lambda Y: Y)


def differences(case):
    """Return the largest differences of the outputs (in standard deviations), keyed by what was changed.

    They are infinite if shapes differ, if one of two fits raises an error, if outputs are not finite or if
    the data were changed. The result is empty if the estimator always raises an error.
    """
    X, y = case.X.copy(), None if case.y is None else case.y.copy()
    case.X.flags.writeable = False
    first = outputs(case.estimator, case.X, case.y, case.X)
    differences_by_change = {}
    if not (y is None or np.array_equal(y, case.y)) or not np.array_equal(X, case.X, equal_nan=True):
        differences_by_change["data"] = np.inf
    is_error = isinstance(first, type)
    expected = ~np.isnan(X).any(axis=1)  # incomplete rows have outputs of NaN
    if not is_error and not (np.isfinite(first).reshape(len(first), -1).all(axis=1) == expected).all():
        differences_by_change["values"] = np.inf
    scale = case.y.std(axis=0) if case.name in ("regressor", "targets") else 1.0
    for name, training, targets, new, restore in variants(case):
        other = outputs(case.estimator, training, targets, new)
        if is_error:
            if other is not first:
                differences_by_change[name] = np.inf
            continue
        if isinstance(other, type) or other.shape != first.shape:
            differences_by_change[name] = np.inf
            continue
        differences_by_change[name] = float(
            np.max((np.abs(restore(other) - first) / scale)[expected], initial=0.0)
        )
    return differences_by_change


def limit(case):
    """Return the difference that rounding may cause.

    An expansion of a column with mean ``m`` and standard deviation ``s`` is linear up to a part of relative
    size ``s / m``, and its rounding error has the relative size ``eps m / s``. The nonlinear part is thus
    known up to ``eps (m / s)^2``. Outputs that depend on it differ by up to a thousand times as much.
    """
    means, stds = np.nanmean(case.X, axis=0), np.nanstd(case.X, axis=0)
    varying = stds > 0.0
    ratio = np.max(np.abs(means[varying] / stds[varying]), initial=0.0)
    return max(1e-5, 1e3 * np.finfo(float).eps * ratio**2)


def main():
    """Print, for each estimator, the numbers of configurations and of errors, and the largest differences."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--configurations", type=int, default=500)
    parser.add_argument("--first", type=int, default=1000, help="seed of the first configuration")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts, errors, largest, beyond = {}, {}, {}, []
    for seed in range(options.first, options.first + options.configurations):
        case = draw(seed)
        case_differences = differences(case)
        counts[case.name] = counts.get(case.name, 0) + 1
        errors[case.name] = errors.get(case.name, 0) + (not case_differences)
        name, difference = max(case_differences.items(), key=lambda item: item[1], default=("", 0.0))
        largest[case.name] = max(largest.get(case.name, (0.0, "", seed)), (difference, name, seed))
        if not difference < limit(case):  # also NaN
            beyond.append((seed, case, case_differences))
    for name, (difference, changed, seed) in largest.items():
        sys.stdout.write(
            f"{name:16s} {counts[name]:4d} configurations, {errors[name]:3d} errors of all variants; "
            f"largest difference {difference:.1e} ({changed}, configuration {seed})\n"
        )
    for seed, case, case_differences in beyond:
        text = ", ".join(f"{name} {difference:.1e}" for name, difference in case_differences.items())
        sys.stdout.write(f"configuration {seed}: {case.estimator} on X{case.X.shape}: {text}\n")
    sys.stdout.write(f"{len(beyond)} of {options.configurations} configurations are beyond the limit\n")


if __name__ == "__main__":
    main()
