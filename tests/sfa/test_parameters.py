"""Invalid parameters are named before the computation, and before memory is allocated."""

import tracemalloc

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer

from probsfa import graphs
from probsfa.expansions import Polynomial, RadialBasis
from probsfa.sfa import (
    IGSFA,
    SFA,
    XSFA,
    GraphSFA,
    GraphSFAClassifier,
    GraphSFARegressor,
    HierarchicalSFA,
    KernelSFA,
    Layer,
    SpectralClustering,
)

WRONG_RANK_TOLS = [
    lambda tol: SFA(rank_tol=tol),
    lambda tol: IGSFA(graph="temporal", rank_tol=tol),
    lambda tol: GraphSFAClassifier(rank_tol=tol),
    lambda tol: GraphSFARegressor(rank_tol=tol),
    lambda tol: KernelSFA(n_support=5, regularization=1e-3, rank_tol=tol),
    lambda tol: XSFA(rank_tol=tol),
    lambda tol: HierarchicalSFA([Layer(2)], rank_tol=tol),
    lambda tol: Polynomial(2, rank_tol=tol),
    lambda tol: Polynomial(2, whiten=True, rank_tol=tol),
]


@pytest.mark.parametrize("make", WRONG_RANK_TOLS)
@pytest.mark.parametrize("tol", [float("nan"), 2.5, -1, "small", True])
def test_rank_tol_is_a_number_between_0_and_1(rng, make, tol):
    """With 2.5 or NaN, the message was that every column is constant."""
    X = rng.standard_normal((20, 3))
    with pytest.raises(ValueError, match="rank_tol must.*got"):
        make(tol).fit(X, np.arange(20) % 2)


@pytest.mark.parametrize("wrong", ["svc", 3, object(), GraphSFAClassifier])
@pytest.mark.parametrize("name", ["classifier", "soft labels", "regressor", "clusterer"])
def test_classifiers_regressors_and_clusterers_must_be_estimators(rng, name, wrong):
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    model = {
        "classifier": GraphSFAClassifier(classifier=wrong),
        "soft labels": GraphSFARegressor(classifier=wrong),
        "regressor": GraphSFARegressor(regressor=wrong),
        "clusterer": SpectralClustering(2, clusterer=wrong, n_neighbors=5),
    }[name]
    named = "classifier" if name == "soft labels" else name
    with pytest.raises(ValueError, match=f"^{named}"):
        model.fit(X, np.arange(20) % 2 if name == "classifier" else y)


def test_a_clusterer_has_labels_for_its_points(rng):
    """An estimator with fit alone raised an AttributeError after the eigenproblem."""
    with pytest.raises(ValueError, match=r"clusterer.*got SFA\(\)"):
        SpectralClustering(2, clusterer=SFA(), n_neighbors=5).fit(rng.standard_normal((20, 3)))


@pytest.mark.parametrize("period", ["360", float("nan"), -1, 0, [1, 2], True])
def test_periods_are_positive_numbers(rng, period):
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    for use in (lambda: GraphSFARegressor(period=period).fit(X, y), lambda: graphs.ring(y, period)):
        with pytest.raises(ValueError, match="period must.*got"):
            use()


def test_a_lag_beyond_the_rows_allocates_no_memory(rng):
    """A lag of 1e8 took 2.4 GB, before the error."""
    X = rng.standard_normal((50, 3))
    for make in (SFA, XSFA, lambda lag: HierarchicalSFA([Layer(2)], lag=lag)):
        tracemalloc.start()
        with pytest.raises(ValueError, match="rows 100000000"):
            make(lag=10**8).fit(X)
        assert tracemalloc.get_traced_memory()[1] < 2**22
        tracemalloc.stop()


def test_an_expansion_too_large_for_memory_is_refused_before_it_is_computed(rng):
    """A polynomial of degree 60 was computed for all rows, before NumPy could not allocate 3 TB."""
    calls = []

    def expand(X):
        calls.append(len(X))
        return np.ones((len(X), 2_000_000))

    X = rng.standard_normal((50, 3))
    for make in (SFA, XSFA, lambda expansion: GraphSFA(graph="clustered", expansion=expansion)):
        with pytest.raises(ValueError, match="expansion.*2,000,000.*29,802 GiB"):
            make(expansion=FunctionTransformer(expand)).fit(X, np.arange(50) % 2)
    assert set(calls) == {1}


def test_errors_contain_the_invalid_label_or_parameter(rng):
    X, names = rng.standard_normal((20, 3)), np.array(["a", "b"])[np.arange(20) % 2]
    with pytest.raises(ValueError, match=r"\by\b.*graph.*'a'"):
        graphs.serial(names)
    with pytest.raises(ValueError, match="bandwidth=1e-09"):
        graphs.heat_kernel(X, 1e-9)
    with pytest.raises(ValueError, match=r"period: ring\(y, period=360\)"):
        graphs.ring(np.arange(0, 360, 10))
    with pytest.raises(ValueError, match=r"least_variance.*got \[0\.1\]"):
        XSFA(least_variance=[0.1]).fit(X)


def test_centres_are_the_same_in_every_fit(rng):
    X = rng.standard_normal((100, 2))
    for centers in ("kmeans", "sample"):
        one, two = (RadialBasis(5, centers=centers).fit(X).centers_ for _ in range(2))
        np.testing.assert_array_equal(one, two)
