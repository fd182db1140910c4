"""The supervised step: classes and numbers from slow features."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from probsfa import graphs
from probsfa.expansions import Polynomial
from probsfa.sfa import GraphSFA, GraphSFAClassifier, GraphSFARegressor
from tests.tolerances import EXACT


@parametrize_with_checks([GraphSFAClassifier(), GraphSFARegressor(), GraphSFARegressor(1, graph="mixed")])
@pytest.mark.filterwarnings(
    "ignore:The .* rows vary in:UserWarning",
    "ignore:The serial graph of . groups:UserWarning",
    "ignore:.*SCIPY_ARRAY_API",
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def rings(rng, n=300):
    """Three classes on rings: no direction tells them apart, quadratic functions do."""
    y = rng.integers(0, 3, n)
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1 + y + 0.15 * rng.standard_normal(n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), np.array(["a", "b", "c"])[y]


def curve(rng, n=400):
    """A number that moves samples along a curve, in noise."""
    y = rng.uniform(0, 1, n)
    X = np.column_stack([np.cos(4 * y), np.sin(4 * y), y**2]) + 0.05 * rng.standard_normal((n, 3))
    return X, y


def test_classifier_is_a_gaussian_classifier_on_slow_features(rng):
    X, y = rings(rng)
    found = GraphSFAClassifier(expansion=Polynomial(2)).fit(X, y)
    gsfa = GraphSFA(2, graph="clustered", expansion=Polynomial(2)).fit(X, y)
    gaussian = QuadraticDiscriminantAnalysis(reg_param=0.01).fit(gsfa.transform(X), y)
    np.testing.assert_array_equal(found.predict(X), gaussian.predict(gsfa.transform(X)))
    np.testing.assert_allclose(found.predict_proba(X), gaussian.predict_proba(gsfa.transform(X)), rtol=EXACT)
    assert list(found.classes_) == ["a", "b", "c"]


def test_classifier_needs_the_expansion_and_profits_from_it(rng):
    X, y = rings(rng, 600)
    linear = GraphSFAClassifier(classifier=LinearDiscriminantAnalysis()).fit(X[:300], y[:300])
    quadratic = GraphSFAClassifier(expansion=Polynomial(2)).fit(X[:300], y[:300])
    assert linear.score(X[300:], y[300:]) < 0.6
    assert quadratic.score(X[300:], y[300:]) > 0.97


def test_small_classes_share_one_covariance(rng):
    X = rng.standard_normal((30, 6))
    y = np.repeat([0, 1, 2, 3], [20, 6, 3, 1])
    found = GraphSFAClassifier().fit(X, y)
    assert isinstance(found.classifier_, LinearDiscriminantAnalysis)
    assert isinstance(GraphSFAClassifier().fit(X, y > 1).classifier_, QuadraticDiscriminantAnalysis)


def test_default_components_stop_at_the_rank(rng):
    x = np.linspace(0, 1, 40)
    X, y = np.column_stack([x, 2 * x]), np.repeat([0, 1, 2, 3], 10)
    assert len(GraphSFAClassifier().fit(X, y).gsfa_.delta_values_) == 1
    assert len(GraphSFARegressor().fit(X, x).gsfa_.delta_values_) == 1
    for estimator in (GraphSFAClassifier(3), GraphSFARegressor(3)):
        with pytest.raises(ValueError, match="n_components=3 .* rank 1"):
            estimator.fit(X, y)


def test_other_classifiers_bring_their_own_methods(rng):
    X, y = rings(rng)
    centroid = GraphSFAClassifier(expansion=Polynomial(2), classifier=NearestCentroid()).fit(X, y)
    assert centroid.score(X, y) > 0.9
    assert not hasattr(GraphSFAClassifier(classifier=LinearSVC()).fit(X, y), "predict_proba")


def test_regressor_gives_soft_labels(rng):
    """Equation 36: the mean of the labels of the groups under their probabilities."""
    X, y = curve(rng)
    found = GraphSFARegressor(3, n_labels=10).fit(X, y)
    groups = np.argsort(np.argsort(y)) * 10 // 400
    labels = [y[groups == g].mean() for g in range(10)]
    np.testing.assert_allclose(found.label_values_, labels, rtol=EXACT)
    gsfa = GraphSFA(3, graph="serial").fit(X, y)
    gaussian = QuadraticDiscriminantAnalysis(reg_param=0.01).fit(gsfa.transform(X), groups)
    soft = [
        sum(p * label for p, label in zip(row, labels, strict=True))
        for row in gaussian.predict_proba(gsfa.transform(X))
    ]
    np.testing.assert_allclose(found.predict(X), soft, rtol=EXACT)


@pytest.mark.parametrize("graph", ["serial", "mixed", "sliding_window", "reordering"])
def test_regressor_beats_the_width_of_its_groups(rng, graph):
    X, y = curve(rng, 800)
    found = GraphSFARegressor(graph=graph, expansion=Polynomial(2), n_labels=10).fit(X[:400], y[:400])
    error = np.sqrt(np.mean((found.predict(X[400:]) - y[400:]) ** 2))
    assert error < 0.1 / np.sqrt(12)  # what rounding to ten groups would cost by itself


def test_sequences_of_rows_with_labels(rng):
    X, y = rings(rng)
    whole = GraphSFAClassifier(expansion=Polynomial(2)).fit(X, y)
    pieces = GraphSFAClassifier(expansion=Polynomial(2)).fit(np.split(X, 3), np.split(y, 3))
    predicted = pieces.predict(np.split(X, 3))
    assert isinstance(predicted, list)
    np.testing.assert_array_equal(np.concatenate(predicted), whole.predict(X))


def test_grid_search_over_graphs_and_expansions(rng):
    X, y = curve(rng, 120)
    grid = {"graph": ["serial", "mixed"], "expansion": [None, Polynomial(2)], "n_components": [1, 2]}
    search = GridSearchCV(GraphSFARegressor(), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.8


def test_errors_name_the_argument(rng):
    X = rng.standard_normal((10, 2))
    with pytest.raises(ValueError, match="y has one class, '1'; a classifier needs at least two"):
        GraphSFAClassifier().fit(X, np.ones(10, dtype=int))
    with pytest.raises(ValueError, match="y has only one value, 1.0"):
        GraphSFARegressor().fit(X, np.ones(10))
    with pytest.raises(ValueError, match="n_labels must be an integer of at least 2"):
        GraphSFARegressor(n_labels=1).fit(X, np.arange(10))
    with pytest.raises(ValueError, match="requires y to be passed"):
        GraphSFARegressor().fit(X, None)
    with pytest.raises(ValueError, match="4 vertices; X has 10 rows"):
        GraphSFAClassifier(graph=graphs.temporal(4)).fit(X, np.arange(10) % 2)


def test_classes_without_any_spread_are_told():
    """The slow feature is the class itself: discriminant analysis has nothing to divide by."""
    X = np.array([[-0.2, -1.2, 0.9], [-0.2, -1.2, 0.9], [-1.5, -3.8, 1.0]])
    with pytest.raises(ValueError, match="take one value in each class"):
        GraphSFAClassifier(n_components=1).fit(X, [0, 0, 2])
