"""What must not change an estimator: the order of rows and columns, the memory layout, the sign of labels.

Random configurations of all deterministic estimators, on random data of awkward kinds. Orders of rows are
tried where they have no meaning, signs where labels are numbers. A few run with every test; 500 with

    python -m pytest tests/laws/test_invariance.py -m exhaustive
"""

import numpy as np
import pytest

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
OF_NUMBERS = ("serial", "mixed", "sliding_window", "reordering")
OF_ROWS = ("nearest_neighbors",)
OWN_GRAPH = ("classifier", "regressor", "eigenmaps", "diffusion map", "clustering", "kernel")

N_ESTIMATORS = 11


def draw(seed):
    """Return a function that makes an estimator, data, labels, and what the estimator depends on."""
    rng = np.random.default_rng(seed)
    n, n_columns = int(rng.integers(12, 70)), int(rng.integers(1, 9))
    X = rng.standard_normal((n, n_columns))
    kind = seed % 6
    if kind == 1:
        X = X @ rng.standard_normal((n_columns, n_columns))
    elif kind == 2:
        scales, offsets = 10.0 ** rng.integers(-4, 5, n_columns), rng.standard_normal(n_columns)
        hierarchy = seed // 6 % N_ESTIMATORS == 4  # expands columns as they are
        X = X * scales + 100 * offsets * (scales if hierarchy else 1.0)
    elif kind == 3:
        X = np.column_stack([X, X[:, 0], np.ones(n)])  # duplicated and constant
    elif kind == 4:
        X = np.concatenate([X, X[: n // 3]])  # equal rows
    elif kind == 5:
        X = np.linalg.qr(X - X.mean(axis=0))[0]  # decorrelated
    n = len(X)
    numbers = X[:, 0] / X[:, 0].std() + 0.5 * rng.standard_normal(n)
    if rng.random() < 0.3:
        numbers = np.round(2 * numbers)
    classes = np.arange(n) % int(rng.integers(2, 5))
    expansion = (None, None, Polynomial(2), Power())[rng.integers(4)]
    name = str(rng.choice([*OF_CLASSES, *OF_NUMBERS, *OF_ROWS, "temporal"]))
    labels = classes if name in OF_CLASSES else numbers if name in OF_NUMBERS else None
    K = None if rng.random() < 0.5 else 1
    shrinkage = (None, 0.2, "auto")[rng.integers(3)]
    makers = {
        "SFA": (lambda: SFA(K, expansion=expansion), None),
        "XSFA": (lambda: XSFA(1, expansion=Polynomial(2)), None),
        "GraphSFA": (lambda: GraphSFA(K, graph=name, expansion=expansion, shrinkage=shrinkage), labels),
        "IGSFA": (lambda: IGSFA(graph=name, expansion=expansion, shrinkage=shrinkage), labels),
        "hierarchy": (lambda: HierarchicalSFA([Layer(1, expansion=Polynomial(2))], graph=name), labels),
        "classifier": (lambda: GraphSFAClassifier(cv=2), classes),
        "regressor": (lambda: GraphSFARegressor(cv=2), numbers),
        "eigenmaps": (lambda: LaplacianEigenmaps(1, affinity="rbf", gamma="median"), None),
        "diffusion map": (lambda: DiffusionMap(1, gamma="median"), None),
        "kernel": (lambda: KernelSFA(1, regularization="auto" if seed % 2 else 1e-3), None),
        "clustering": (lambda: SpectralClustering(2, affinity="rbf", gamma="median", random_state=0), None),
    }
    chosen = list(makers)[seed // 6 % N_ESTIMATORS]
    make, y = makers[chosen]
    # K-means draws the rows that it starts from by their places.
    in_time = chosen in ("SFA", "XSFA", "kernel", "clustering") or (
        name == "temporal" and chosen not in OWN_GRAPH
    )
    return rng, chosen, make, X, y, in_time


def outputs(make, X, y, new):
    """Return what an estimator makes of rows, or the type of the error that it raises."""
    try:
        model = make().fit(X, y)
    except ValueError as error:
        return type(error)
    if hasattr(model, "labels_"):
        return np.equal.outer(model.labels_, model.labels_).astype(float)  # names of clusters have no meaning
    verb = next(v for v in ("predict_proba", "predict", "transform") if hasattr(model, v))
    return np.asarray(getattr(model, verb)(new))


def variants(rng, chosen, X, y, in_time):
    """Yield names, training rows, labels, new rows, and what brings outputs back."""
    columns, rows = rng.permutation(X.shape[1]), rng.permutation(len(X))
    wide = np.zeros((2 * len(X), X.shape[1] + 3))
    wide[::2, 1:-2] = X
    same = {"the layout": np.asfortranarray(X), "the stride": wide[::2, 1:-2]}
    for name, other in same.items():
        yield name, other, y, other, lambda Y: Y
    yield "columns", X[:, columns], y, X[:, columns], lambda Y: Y
    if not in_time:
        yield "rows", X[rows], None if y is None else y[rows], X, lambda Y: Y
    if y is not None:
        back = {"classifier": lambda P: P[:, ::-1], "regressor": lambda Y: -Y}
        yield "the sign of labels", X, -y, X, back.get(chosen, lambda Y: Y)


def check(seed):
    rng, chosen, make, X, y, in_time = draw(seed)
    X.flags.writeable = False
    labels = None if y is None else y.copy()
    first = outputs(make, X, y, X)
    assert y is None or (y == labels).all()
    assert isinstance(first, type) or np.isfinite(first).all()
    for name, training, targets, new, back in variants(rng, chosen, X, y, in_time):
        other = outputs(make, training, targets, new)
        if isinstance(first, type):
            assert other is first, (chosen, name)
            continue
        scale = y.std() if chosen == "regressor" else 1.0
        difference = np.abs(back(other) - first).max() / scale if other.shape == first.shape else np.inf
        # With means of many thousand standard deviations, expanded columns have condition numbers of 1e12.
        limit = 1e-4 if seed % 6 == 2 else 1e-5
        assert difference < limit, f"{make()} on X{X.shape}: {name} changed outputs by {difference:.2g}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(0, 66, 2))
def test_nothing_depends_on_orders_layouts_and_signs(seed):
    check(seed)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_nothing_depends_on_orders_layouts_and_signs_in_500_configurations(seed):
    check(seed)
