"""Classification and regression from slow features."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from probsfa import graphs
from probsfa.expansions import Polynomial
from probsfa.graphs.training_graph import graph_moments
from probsfa.sfa import GraphSFA, GraphSFAClassifier, GraphSFARegressor
from probsfa.sfa._shrinkage import ledoit_wolf, shrunken_directions_by_intensity
from probsfa.sfa.supervised import choice
from probsfa.sfa.supervised.choice import _row_space_coordinates, whole_blocks
from probsfa.sfa.supervised.classifier import GaussianClassifier
from probsfa.sfa.supervised.regressor import RidgeStep
from tests.sampling import parametrize, parametrize_with_checks
from tests.tolerances import EXACT


@parametrize_with_checks(
    [
        GraphSFAClassifier(cv=2),
        GraphSFAClassifier("auto", preset="images", cv=2),
        GraphSFARegressor(1, expansion=None, cv=2),
        GraphSFARegressor(cv=2),
        GraphSFARegressor(1, graph="mixed", cv=2),
    ]
)
@pytest.mark.filterwarnings(
    "ignore:The .* rows have rank:UserWarning",
    "ignore:The serial graph of . groups:UserWarning",
    "ignore:.*SCIPY_ARRAY_API",
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def rings(rng, n=300):
    """Three classes on rings: quadratic functions separate them, linear functions do not."""
    y = rng.integers(0, 3, n)
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1 + y + 0.15 * rng.standard_normal(n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), np.array(["a", "b", "c"])[y]


def curve(rng, n=400):
    """Return noisy samples on a curve, and their positions on it."""
    y = rng.uniform(0, 1, n)
    X = np.column_stack([np.cos(4 * y), np.sin(4 * y), y**2]) + 0.05 * rng.standard_normal((n, 3))
    return X, y


def friedman(X, y, Z, pooling, damping):
    """Logarithms of the probabilities of the classes, by the definition with loops."""
    names, total, scatter = np.unique(y), len(X), {}
    for c in names:
        scatter[c] = sum(np.outer(x, x) for x in X[y == c] - X[y == c].mean(axis=0))
    joint = []
    for c in names:
        n = np.sum(y == c)
        weight = (1 - pooling) * n + pooling * total
        C = ((1 - pooling) * scatter[c] + pooling * sum(scatter.values())) / weight
        C = (1 - damping) * C + damping * X.var(axis=0).mean() * np.eye(X.shape[1])
        joint.append(multivariate_normal(X[y == c].mean(axis=0), C).logpdf(Z) + np.log(n / total))
    return np.column_stack(joint) - logsumexp(joint, axis=0)[:, None]


@pytest.mark.parametrize("pooling", [0.0, 0.3, 1.0])
def test_gaussian_classifier_equals_its_definition(rng, pooling):
    X, y = rng.standard_normal((60, 3)), np.repeat([0, 1, 2], [40, 15, 5])
    X += y[:, None]
    gaussian = GaussianClassifier(pooling, 0.1).fit(X, y)
    expected = friedman(X, y, X, pooling, 0.1)
    np.testing.assert_allclose(gaussian.predict_log_proba(X), expected, atol=EXACT)
    np.testing.assert_array_equal(gaussian.predict(X), expected.argmax(axis=1))


def test_gaussian_classifier_with_one_covariance_is_linear_discriminant_analysis(rng):
    X, y = rng.standard_normal((60, 3)), np.repeat([0, 1, 2], [30, 20, 10])
    lda = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    gaussian = GaussianClassifier(1.0, 0.0).fit(X, y)
    np.testing.assert_allclose(gaussian.predict_proba(X), lda.predict_proba(X), rtol=EXACT)


def test_classifier_is_a_gaussian_classifier_on_slow_features(rng):
    X, y = rings(rng)
    model = GraphSFAClassifier(expansion=Polynomial(2), shrinkage=None).fit(X, y)
    gsfa = GraphSFA(2, graph="clustered", expansion=Polynomial(2)).fit(X, y)
    Y, step = gsfa.transform(X), model.classifier_
    expected = np.exp(friedman(Y, y, Y, step.pooling, step.damping))
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=EXACT)
    np.testing.assert_array_equal(model.predict(X), np.array(["a", "b", "c"])[expected.argmax(axis=1)])
    assert list(model.classes_) == ["a", "b", "c"]


def test_classifier_needs_the_expansion_and_profits_from_it(rng):
    X, y = rings(rng, 600)
    linear = GraphSFAClassifier(expansion=None, classifier=LinearDiscriminantAnalysis()).fit(X[:300], y[:300])
    quadratic = GraphSFAClassifier(expansion=Polynomial(2)).fit(X[:300], y[:300])
    assert linear.score(X[300:], y[300:]) < 0.6
    assert quadratic.score(X[300:], y[300:]) > 0.97


def test_one_sample_more_in_the_smallest_class_does_not_change_the_step():
    """Digits: a classifier that became quadratic at ten samples of a class lost a tenth of its accuracy."""
    X, y = load_digits(return_X_y=True)
    scores: dict[int, list[float]] = {9: [], 10: []}
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        members = [order[y[order] == c] for c in range(10)]
        test = np.concatenate([m[30:] for m in members])
        for n, right in scores.items():
            train = np.concatenate([m[:n] for m in members])
            right.append(GraphSFAClassifier().fit(X[train], y[train]).score(X[test], y[test]))
    assert np.mean(scores[9]) > 0.84
    assert np.mean(scores[10]) > np.mean(scores[9]) - 0.005


def test_regression_from_few_rows_for_its_features(rng):
    """Seven of ten columns are noise. With a covariance for each group of labels, the RMSE was 0.066."""
    errors = []
    for _ in range(3):
        y = rng.uniform(0, 1, 500)
        X = np.column_stack([np.cos(4 * y), np.sin(4 * y), y**2, rng.standard_normal((500, 7))])
        X += 0.05 * rng.standard_normal((500, 10))
        estimate = GraphSFARegressor(9).fit(X[:100], y[:100]).predict(X[100:])
        errors.append(np.sqrt(np.mean((estimate - y[100:]) ** 2)))
    assert np.mean(errors) < 0.035


def test_selection_uses_held_out_samples(rng):
    """One of 60 columns separates the classes; shrinkage is selected, which avoids overfitting."""
    y = np.arange(80) % 2
    X = rng.standard_normal((80, 60))
    X[:, 0] += 3 * y
    model = GraphSFAClassifier().fit(X, y)
    plain = GraphSFAClassifier(shrinkage=None).fit(X, y)
    Z, labels = rng.standard_normal((400, 60)), np.arange(400) % 2
    Z[:, 0] += 3 * labels
    assert model.gsfa_.shrinkage_ > 0
    assert model.score(Z, labels) > plain.score(Z, labels) + 0.05


def test_all_features_where_classes_differ_in_their_spread(rng):
    """The means are equal, so that no slow feature of the clustered graph separates the classes."""
    y = np.arange(600) % 3
    X = rng.standard_normal((600, 4)) * np.array([[1, 1, 1, 1], [4, 1, 1, 1], [1, 1, 4, 1]])[y]
    few = GraphSFAClassifier(expansion=None).fit(X[:300], y[:300])
    many = GraphSFAClassifier("auto", expansion=None).fit(X[:300], y[:300])
    assert len(many.gsfa_.delta_values_) == 4
    assert many.score(X[300:], y[300:]) > few.score(X[300:], y[300:]) + 0.05
    qda = QuadraticDiscriminantAnalysis().fit(X[:300], y[:300])
    assert many.score(X[300:], y[300:]) > qda.score(X[300:], y[300:]) - 0.02


@pytest.mark.exhaustive
def test_preset_for_images():
    """Quadratic functions of the principal components; rows, images and channels are the same."""
    X, y = load_digits(return_X_y=True)
    train, test = np.arange(300), np.arange(900, 1200)
    linear = GraphSFAClassifier(expansion=None).fit(X[train], y[train]).score(X[test], y[test])
    model = GraphSFAClassifier(preset="images", cv=2).fit(X[train].reshape(-1, 8, 8), y[train])
    assert model.score(X[test].reshape(-1, 8, 8, 1), y[test]) > linear + 0.02
    np.testing.assert_array_equal(model.predict(X[test]), model.predict(X[test].reshape(-1, 8, 8)))
    with pytest.raises(ValueError, match="sets the expansion"):
        GraphSFAClassifier(preset="images", expansion=Polynomial(2)).fit(X[train], y[train])


def test_pickled_classifiers_do_not_contain_the_graph(rng):
    X, y = rings(rng, 30_000)
    model = GraphSFAClassifier(cv=2, classifier=NearestCentroid(), shrinkage=None).fit(X, y)
    assert len(pickle.dumps(model)) < 5_000


def test_default_components_stop_at_the_rank(rng):
    x = np.linspace(0, 1, 40)
    X, y = np.column_stack([x, 2 * x]), np.repeat([0, 1, 2, 3], 10)
    assert len(GraphSFAClassifier(shrinkage=None).fit(X, y).gsfa_.delta_values_) == 1
    assert len(GraphSFARegressor(shrinkage=None).fit(X, x).gsfa_.delta_values_) == 1
    for estimator in (GraphSFAClassifier(3, shrinkage=None), GraphSFARegressor(3, shrinkage=None)):
        with pytest.raises(ValueError, match="n_components=3 .* rank 1"):
            estimator.fit(X, y)


def test_methods_depend_on_the_classifier(rng):
    X, y = rings(rng)
    centroid = GraphSFAClassifier(expansion=Polynomial(2), classifier=NearestCentroid()).fit(X, y)
    assert centroid.score(X, y) > 0.9
    assert not hasattr(GraphSFAClassifier(classifier=LinearSVC()).fit(X, y), "predict_proba")


def test_regressor_gives_soft_labels(rng):
    """Equation 36: the mean of the labels of the groups under their probabilities."""
    X, y = curve(rng)
    gaussian = QuadraticDiscriminantAnalysis(reg_param=0.01)
    model = GraphSFARegressor(3, graph="serial", n_labels=10, classifier=gaussian, shrinkage=None).fit(X, y)
    groups = np.argsort(np.argsort(y)) * 10 // 400
    labels = [y[groups == g].mean() for g in range(10)]
    np.testing.assert_allclose(model.label_values_, labels, rtol=EXACT)
    gsfa = GraphSFA(3, graph="serial").fit(X, y)
    gaussian.fit(gsfa.transform(X), groups)
    soft = [
        sum(p * label for p, label in zip(row, labels, strict=True))
        for row in gaussian.predict_proba(gsfa.transform(X))
    ]
    np.testing.assert_allclose(model.predict(X), soft, rtol=EXACT)


def test_ridge_step_leaves_out_one_sample_at_a_time(rng):
    """The chosen penalty is the best of all by refitting without each sample; the weights are its ridge."""
    every = np.arange(8)
    for _ in range(10):  # in a third of such sets, the share 1/N of the mean changes the selection
        X, y = rng.standard_normal((8, 3)), rng.standard_normal((8, 2))
        y[:, 0] += X[:, 0]
        step = RidgeStep().fit(X, y)
        ones = np.column_stack([np.ones(8), (X - X.mean(axis=0)) / X.std(axis=0)])

        def estimates(penalty, train, held_out, ones=ones, y=y):
            A, P = ones[train], penalty * np.diag([0.0, 1, 1, 1])
            return ones[held_out] @ np.linalg.solve(A.T @ A + P, A.T @ y[train])

        np.testing.assert_allclose(step.predict(X), estimates(step.penalty_, every, every), atol=EXACT)
        errors = {
            float(p): sum(np.sum((estimates(p, np.delete(every, i), [i])[0] - y[i]) ** 2) for i in every)
            for p in np.logspace(-8, 3, 23) * 8
        }
        best = min(errors.values())
        assert errors[min(errors, key=lambda p: abs(p - step.penalty_))] == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("period", [360.0, 2 * np.pi])
def test_estimated_angles_do_not_depend_on_their_origin(rng, period):
    """Estimates do not depend on the origin of the angles."""
    angle = rng.uniform(0, 2 * np.pi, 600)
    circle = np.column_stack([np.cos(angle), np.sin(angle), rng.standard_normal(600)])
    X = circle @ rng.standard_normal((3, 3)) + 0.05 * rng.standard_normal((600, 3))
    y = angle / (2 * np.pi) * period
    model = GraphSFARegressor(period=period, cv=2).fit(X[:300], y[:300])
    estimate = model.predict(X[300:])
    assert (estimate >= 0).all() and (estimate < period).all()
    off = np.abs(estimate - y[300:])
    assert np.sqrt(np.mean(np.minimum(off, period - off) ** 2)) < 0.03 * period
    assert model.score(X[300:], y[300:]) > 0.95
    shifted = GraphSFARegressor(period=period, cv=2).fit(X[:300], y[:300] - 17 * period)
    off = np.abs(shifted.predict(X[300:]) - estimate)
    assert np.minimum(off, period - off).max() < 1e-6 * period


def test_the_default_finds_quadratic_classes_and_reports_it(rng):
    X, y = rings(rng, 600)
    model = GraphSFAClassifier(cv=2).fit(X[:300], y[:300])
    assert model.gsfa_.expansion_ is not None and model.score(X[300:], y[300:]) > 0.97
    plane = rng.standard_normal((200, 5)) + 3 * np.eye(5)[np.arange(200) % 3]
    assert GraphSFAClassifier(cv=2).fit(plane, np.arange(200) % 3).gsfa_.expansion_ is None


def test_probabilities_of_few_samples_in_many_columns_are_calibrated(rng):
    """With features of training samples, probabilities are too confident: the log-loss was above 2."""
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 80)) + 1.5 * np.eye(80)[y]
    Z, labels = rng.standard_normal((600, 80)), np.arange(600) % 3
    Z += 1.5 * np.eye(80)[labels]
    logs = GraphSFAClassifier().fit(X, y).predict_log_proba(Z)
    assert -np.mean(logs[np.arange(600), labels]) < np.log(3)


def test_temperature_divides_log_probabilities(rng):
    X, y = rng.standard_normal((60, 3)), np.repeat([0, 1, 2], 20)
    logs = GaussianClassifier(0.5).fit(X, y).predict_log_proba(X) / 4
    warm = GaussianClassifier(0.5, temperature=4.0).fit(X, y)
    expected = logs - logsumexp(logs, axis=1)[:, None]
    np.testing.assert_allclose(warm.predict_log_proba(X), expected, atol=EXACT)


@pytest.mark.parametrize("n", [20, 90])
def test_one_decomposition_gives_the_directions_of_every_shrinkage(rng, n):
    """With fewer rows than columns, too, in the space of the rows."""
    X, y = rng.standard_normal((n, 30)) * np.linspace(1, 3, 30), np.arange(n) % 3
    graph = graphs.clustered(y)
    rows, others = _row_space_coordinates(X, X[:5]) if n < 30 else (X, X[:5])
    moments = graph_moments(graph, rows)
    for s, found in zip(
        (0.1, 0.7), shrunken_directions_by_intensity(moments, (0.1, 0.7), 2, 30), strict=True
    ):
        expected = GraphSFA(2, graph="clustered", shrinkage=s, shrinkage_target="identity").fit(X, y)
        np.testing.assert_allclose(found.delta_values, expected.delta_values_, rtol=1e-9)
        outputs = (others - moments.mean) @ found.weights
        np.testing.assert_allclose(np.abs(outputs), np.abs(expected.transform(X[:5])), atol=1e-9)


@pytest.mark.parametrize(("gains", "better"), [([4.0, 0.0, 4.0, 0.0], 1), ([4.0, -2.0, 4.0, -2.0], 0)])
def test_further_bases_are_better_by_more_than_a_standard_error(monkeypatch, gains, better):
    """The standard error of a mean over four folds is 1.15 and 1.73, and the means are 2 and 1."""
    bases = [choice.Basis(None, "identity", [shrinkage], "clustered") for shrinkage in (0.2, 0.1)]
    losses = np.array([[10.0] * 4, 10.0 - np.array(gains)])
    features = [(np.zeros((6, 2)), np.zeros((2, 2)), np.zeros(2))] * 4

    def best_of(data, tried, options, loss):
        i = bases.index(tried[0])
        return choice._Candidate(bases[i], features, losses[i][:, None, None, None])

    monkeypatch.setattr(choice, "_best_of", best_of)
    options = choice.Options(bases[:1], lambda *_: bases[1:], [1, 2], [LinearRegression()])
    y, rows = np.arange(8) % 2, np.arange(8)
    folds = [(np.delete(rows, [i, i + 4]), rows[[i, i + 4]]) for i in range(4)]
    assert choice.choose(None, np.zeros((8, 2)), y, y, options, folds, None, [8]).basis == bases[better]


def test_features_of_few_rows_are_those_of_all_columns(rng, monkeypatch):
    """With the diagonal target, the problem of 41 columns is solved in 19 coordinates of the row space."""
    # Eigenproblems of all columns: for 100 rows of 1,024 columns, a fit took 24 s in place of 2 s.
    monkeypatch.setattr(choice, "_slowest", None)
    y = np.arange(30) % 3
    units = np.append(10.0 ** rng.integers(-3, 4, 40), 1.0)
    X = np.column_stack(
        [rng.standard_normal((30, 40)) + np.eye(3)[y] @ rng.standard_normal((3, 40)), np.ones(30)]
    )
    X *= units
    train, held_out = np.arange(20), np.arange(20, 30)
    data = choice._Data(None, X, y, y, np.zeros(30, dtype=int), [])
    basis = choice.Basis(None, "diagonal", [0.1, "auto"], "clustered")
    options = choice.Options([basis], lambda *_: [], [2], [])
    found = list(choice._features(data, basis, options, train, held_out))
    rows, graph = X[train], graphs.clustered(y[train])
    A, B = graph_moments(graph, rows).difference_moment, np.cov(rows.T, bias=True)
    T = np.diag(np.diag(A) / 2)
    auto = ledoit_wolf(graph, rows, graph_moments(graph, rows), "diagonal")
    for (inside, outside, deltas), s in zip(found, (0.1, auto), strict=True):
        A_s, B_s = ((1 - s) * M + factor * s * T for M, factor in ((A, 2), (B, 1)))
        values, vectors = scipy.linalg.eigh(
            A_s[:40, :40] / units[:40] / units[:40, None], B_s[:40, :40] / units[:40] / units[:40, None]
        )
        wanted = ((X - rows.mean(axis=0)) / units)[:, :40] @ vectors[:, :2]
        np.testing.assert_allclose(deltas[:2], values[:2], rtol=1e-9)
        for outputs, which in ((inside, train), (outside, held_out)):
            np.testing.assert_allclose(np.abs(outputs[:, :2]), np.abs(wanted[which]), rtol=1e-7, atol=1e-9)


def test_three_samples_of_a_class(rng):
    """Folds leave two samples for training: nothing is selected; accuracy is that of shrunken LDA."""
    scores = []
    for _ in range(5):
        centres = 1.6 * rng.standard_normal((6, 20))
        y, labels = np.arange(18) % 6, np.arange(300) % 6
        X, Z = (centres[k] + 2 * rng.standard_normal((len(k), 20)) for k in (y, labels))
        peer = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X, y)
        scores.append(GraphSFAClassifier().fit(X, y).score(Z, labels) - peer.score(Z, labels))
    assert np.mean(scores) > -0.01


@pytest.mark.parametrize(("noise", "warned"), [(0.6, False), (0.8, True)])
def test_angles_are_warned_of_if_half_of_their_variance_is_not_explained(noise, warned):
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 360, 60)
    X = np.column_stack([np.sin(np.radians(angle)), np.cos(np.radians(angle))])
    model = GraphSFARegressor(period=360, cv=3, expansion=None, shrinkage=0.01)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X + noise * rng.standard_normal((60, 2)), angle)
    assert (model.held_out_score_ < 0.5) == (len(caught) == 1) == warned


def test_angles_that_columns_do_not_determine_are_reported(rng):
    angle = rng.uniform(0, 360, 40)
    X = np.column_stack([np.cos(np.radians(2 * angle)), np.sin(np.radians(2 * angle))])
    X += 0.01 * rng.standard_normal(X.shape)
    with pytest.warns(UserWarning, match="sines"):
        model = GraphSFARegressor(period=360, cv=3).fit(X, angle)
    assert model.held_out_score_ < 0.5
    whole = np.column_stack([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    assert GraphSFARegressor(period=360, cv=3).fit(whole, angle).held_out_score_ > 0.95


def test_images_keep_their_shape(rng):
    X, y = rng.standard_normal((12, 4, 3)), np.arange(12) % 2
    model = GraphSFAClassifier(preset="images", shrinkage=0.5, cv=2).fit(X, y)
    with pytest.raises(ValueError, match=r"\(3, 4, 1\).*\(4, 3, 1\)"):
        model.predict(X.transpose(0, 2, 1))
    with pytest.raises(ValueError, match=r"12.*\(4, 3\).*np.stack"):
        GraphSFAClassifier(preset="images").fit(list(X), y)
    with pytest.raises(ValueError, match="expansion.*got 'images'"):
        GraphSFAClassifier(expansion="images").fit(X[:, 0], y)


@pytest.mark.parametrize("make", [GraphSFAClassifier, GraphSFARegressor])
def test_a_list_of_images_is_not_treated_as_sequences_without_a_warning(rng, make):
    X, y = rng.standard_normal((12, 4, 5)), np.arange(12) % 4
    X += y[:, None, None]
    model = make(expansion=None, shrinkage=None, cv=2)
    with pytest.raises(ValueError, match=r'\(12, 4, 5\).*preset="images".*list\(X\)'):
        model.fit(X, y)
    for labels in (y, y.tolist()):
        with pytest.warns(UserWarning, match=r'12 arrays of shape \(4, 5\).*4 rows.*preset="images"'):
            model.fit(list(X), labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(list(X), [np.full(4, label) for label in y])
        model.fit([x[:3] for x in X], y)  # three rows are not an image
        model.fit([x[: 4 - i % 2] for i, x in enumerate(X)], y)
        model.fit([np.repeat(x, 3, axis=0) for x in X], y)  # 12 rows of 5 columns
    with pytest.raises(ValueError, match=r"\(12, 4, 5\)"):
        model.predict(X)


@parametrize("seed", range(3))
def test_predictions_depend_on_the_samples_alone(seed):
    """When folds depended on positions, and directions on rounding, R2 changed from 0.32 to -0.1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 12)) @ rng.standard_normal((12, 12))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(60)
    rows, columns = rng.permutation(60), rng.permutation(12)
    first = GraphSFARegressor(cv=3).fit(X, y).predict(X)
    for other in (
        GraphSFARegressor(cv=3).fit(X[rows], y[rows]).predict(X),
        GraphSFARegressor(cv=3).fit(np.asfortranarray(X[:, columns]), y).predict(X[:, columns]),
        -GraphSFARegressor(cv=3).fit(X, -y).predict(X),
    ):
        np.testing.assert_allclose(other, first, atol=1e-6 * np.std(y))
    classes = (y > np.median(y)).astype(int)
    share = GraphSFAClassifier(cv=3).fit(X, classes).predict_proba(X)
    renamed = GraphSFAClassifier(cv=3).fit(X[rows][:, columns], -classes[rows]).predict_proba(X[:, columns])
    np.testing.assert_allclose(renamed[:, ::-1], share, atol=1e-6)


def test_more_samples_than_centres_in_any_order(rng):
    """The centres of kernels were the rows at some positions."""
    X = rng.uniform(-3, 3, (300, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    rows = rng.permutation(300)
    first = GraphSFARegressor(cv=2).fit(X, y)
    assert first.regressor_.basis == "kernel"
    other = GraphSFARegressor(cv=2).fit(X[rows], y[rows]).predict(X)
    np.testing.assert_allclose(other, first.predict(X), atol=1e-6)


def test_numbers_of_features_do_not_divide_a_block():
    """A serial graph of four groups has three delta values below 4 that differ, and 2 for all else."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 20)), rng.standard_normal(80)
    model = GraphSFARegressor(graph=graphs.Serial(n_groups=4), cv=2).fit(X, y)
    every = (
        GraphSFA(graph=graphs.Serial(n_groups=4), shrinkage=model.gsfa_.shrinkage_).fit(X, y).delta_values_
    )
    K = len(model.gsfa_.delta_values_)
    assert model.gsfa_.n_components == K and (K == len(every) or every[K] - every[K - 1] > 1e-6)
    assert whole_blocks(np.array([0.1, 2.0, 2.0, 3.0]), 2) == 1
    assert whole_blocks(np.array([0.1, 2.0, 2.0, 3.0]), 3) == 3
    assert whole_blocks(np.array([0.0, 0.0, 0.0, 3.0]), 2) == 2


def test_several_targets_at_once(rng):
    a, b = rng.uniform(-1, 1, (2, 500))
    X = np.column_stack([a + b, a * b, a - 2 * b, b**2]) + 0.01 * rng.standard_normal((500, 4))
    Y = np.column_stack([a, 10 * b])
    model = GraphSFARegressor(cv=2).fit(X[:250], Y[:250])
    estimates = model.predict(X[250:])
    assert estimates.shape == (250, 2)
    assert np.sqrt(np.mean(((estimates - Y[250:]) / [1, 10]) ** 2)) < 0.05
    assert GraphSFARegressor(cv=2).fit(X[:250], Y[:250, :1]).predict(X[:3]).shape == (3, 1)
    with pytest.raises(ValueError, match=r"y\[:, 1\]"):
        GraphSFARegressor().fit(X, np.column_stack([a, np.ones(500)]))
    with pytest.raises(ValueError, match="soft labels"):
        GraphSFARegressor(classifier=NearestCentroid()).fit(X, Y)


def test_estimates_of_a_regressor_are_continuous(rng):
    """Estimates are not restricted to the means of groups of labels."""
    y = rng.uniform(-1, 1, 300)
    X = np.column_stack([y + 0.01 * rng.standard_normal(300), rng.standard_normal(300)])
    estimate = GraphSFARegressor().fit(X[:150], y[:150]).predict(X[150:])
    assert np.sqrt(np.mean((estimate - y[150:]) ** 2)) < 0.015
    other = GraphSFARegressor(regressor=LinearRegression()).fit(X[:150], y[:150])
    assert isinstance(other.regressor_, LinearRegression)


@pytest.mark.parametrize("seed", [1, 3, 7, 10])
def test_the_penalty_of_a_ridge_step_has_the_least_leave_one_out_error(seed):
    """Every sample is left out once; the intercept is estimated from the others."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((8, 3))
    y = X[:, :1] + rng.standard_normal((8, 1))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    penalties = 8 * np.logspace(-8, 3, 23)
    errors = np.zeros(23)
    for p, penalty in enumerate(penalties):
        for i in range(8):
            kept = np.arange(8) != i
            other = Ridge(penalty).fit(Z[kept], y[kept, 0])
            errors[p] += (other.predict(Z[i : i + 1])[0] - y[i, 0]) ** 2
    assert RidgeStep().fit(X, y).penalty_ == pytest.approx(penalties[errors.argmin()], rel=1e-9)


@pytest.mark.parametrize("chosen", ["default", "sliding_window"])
def test_the_graph_is_chosen_on_held_out_samples(chosen):
    """A serial graph of 60 samples has 7 groups, 6 features: too few if eight columns determine the label."""
    rng = np.random.default_rng(5 if chosen == "default" else 42)
    y = rng.standard_normal(120)
    X = y[:, None] + 0.2 * rng.standard_normal((120, 3))
    if chosen == "sliding_window":
        X = rng.standard_normal((120, 8))
        y = X[:, :4].sum(axis=1) + X[:, 4] * X[:, 5] + X[:, 6] * X[:, 7]
    settings = {
        "cv": 3,
        "regressor": make_pipeline(Polynomial(2), Ridge(0.1)),
        "expansion": None,
        "shrinkage": 0.01,
    }
    fits = {
        name: GraphSFARegressor(graph=graph, **settings).fit(X[:60], y[:60])
        for name, graph in (("auto", None), ("default", "serial"), ("sliding_window", "sliding_window"))
    }
    assert fits["auto"].gsfa_.graph.name == chosen
    np.testing.assert_array_equal(fits["auto"].predict(X), fits[chosen].predict(X))
    assert fits["auto"].held_out_score_ == max(fit.held_out_score_ for fit in fits.values())


@pytest.mark.parametrize(("graph", "n_warnings"), [(None, 0), ("serial", 1)])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_few_distinct_labels_cause_at_most_one_warning(rng, graph, n_warnings, n_labels):
    X, y = rng.standard_normal((40, 3)), np.arange(40) % n_labels
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GraphSFARegressor(graph=graph, cv=2).fit(X, y)
    assert len(caught) == n_warnings


def test_a_ring_of_degrees_requires_the_period(rng):
    y = rng.uniform(0, 360, 40)
    X = np.column_stack([np.cos(np.radians(y)), np.sin(np.radians(y))])
    with pytest.raises(ValueError, match="y.*period"):
        GraphSFARegressor(graph="ring", cv=2).fit(X, y)


@parametrize("graph", ["serial", "mixed", "sliding_window", "reordering"], quick=2)
def test_the_error_of_a_regressor_is_below_that_of_rounding_to_groups(rng, graph):
    X, y = curve(rng, 800)
    found = GraphSFARegressor(graph=graph, expansion=Polynomial(2), n_labels=10).fit(X[:400], y[:400])
    error = np.sqrt(np.mean((found.predict(X[400:]) - y[400:]) ** 2))
    assert error < 0.1 / np.sqrt(12)  # the error of rounding to ten groups


def test_sequences_of_rows_with_labels(rng):
    X, y = rings(rng)
    whole = GraphSFAClassifier(expansion=Polynomial(2)).fit(X, y)
    pieces = GraphSFAClassifier(expansion=Polynomial(2)).fit(np.split(X, 3), np.split(y, 3))
    predicted = pieces.predict(np.split(X, 3))
    assert isinstance(predicted, list)
    np.testing.assert_array_equal(np.concatenate(predicted), whole.predict(X))


@pytest.mark.parametrize("estimator", [GraphSFAClassifier, GraphSFARegressor])
@pytest.mark.parametrize("shrinkage", [0.05, "auto"])
def test_graphs_in_time_have_no_edges_between_sequences(rng, estimator, shrinkage):
    sizes = [5, 1, 6, 4, 5, 7, 6, 6]
    sequence = np.repeat(np.arange(8), sizes)
    X = rng.standard_normal((len(sequence), 3)).cumsum(axis=0)
    y = sequence % 2 + (0.0 if estimator is GraphSFAClassifier else 0.1 * rng.standard_normal(len(sequence)))
    cuts = np.cumsum(sizes)[:-1]
    model = estimator(2, graph="temporal", expansion=None, shrinkage=shrinkage).fit(
        np.split(X, cuts), np.split(y, cuts)
    )
    steps = [X[t + 1] - X[t] for t in range(len(X) - 1) if sequence[t] == sequence[t + 1]]
    moment = sum(np.outer(step, step) for step in steps) / len(steps)
    np.testing.assert_allclose(model.gsfa_.moments_.difference_moment, moment, rtol=EXACT, atol=EXACT)


@pytest.mark.exhaustive
def test_grid_search_over_graphs_and_expansions(rng):
    X, y = curve(rng, 120)
    grid = {"graph": ["serial", "mixed"], "expansion": [None, Polynomial(2)], "n_components": [1, 2]}
    search = GridSearchCV(GraphSFARegressor(), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.8


def test_one_label_for_each_sequence(rng):
    y = np.array(["a", "b", "c"])[np.arange(12) % 3]
    X = [rng.standard_normal((5 + i % 4, 2)) + 3 * (i % 3) for i in range(12)]
    whole = GraphSFAClassifier().fit(X, [np.full(len(x), c) for x, c in zip(X, y, strict=True)])
    each = GraphSFAClassifier().fit(X, y)
    for one, other in zip(whole.predict(X), each.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert each.score(X, y) > 0.9
    rows = each.score(np.concatenate(X), np.repeat(y, [len(x) for x in X]))
    assert each.score(X, y) == pytest.approx(rows)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, float("nan")])
def test_missing_labels_raise_an_error_with_advice(rng, missing):
    X = rng.standard_normal((10, 2))
    y = np.array(["a", "b"] * 5, dtype=object)
    y[3] = missing
    with pytest.raises(ValueError, match=r"y\[3\].*missing \(1.*10"):
        GraphSFAClassifier().fit(X, y)
    y = np.arange(10.0).astype(object)
    y[3] = missing
    with pytest.raises(ValueError, match=r"y\[3\].*missing \(1.*10"):
        GraphSFARegressor().fit(X, y)


@pytest.mark.filterwarnings(
    "ignore:.* samples have no edges:UserWarning", "ignore:y has the label -1 beside:UserWarning"
)
def test_labels_that_are_no_classes_are_reported(rng):
    X = rng.standard_normal((10, 2))
    with pytest.raises(ValueError, match="GraphSFARegressor"):
        GraphSFAClassifier().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="10.*y.*GraphSFARegressor"):
        GraphSFAClassifier().fit(X, np.arange(10))
    with pytest.warns(UserWarning, match="7.*8.*y"):
        GraphSFAClassifier().fit(X, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7])
    with pytest.warns(UserWarning, match="label -1"):
        GraphSFAClassifier().fit(X, [0, 1, 0, 1, 0, 1, -1, -1, -1, -1])


def test_errors_name_the_argument(rng):
    X = rng.standard_normal((10, 2))
    with pytest.raises(ValueError, match=r"\by\b.*'1'"):
        GraphSFAClassifier().fit(X, np.ones(10, dtype=int))
    with pytest.raises(ValueError, match=r"\by\b.*1.0"):
        GraphSFARegressor().fit(X, np.ones(10))
    with pytest.raises(ValueError, match="n_labels.*got 1"):
        GraphSFARegressor(n_labels=1).fit(X, np.arange(10))
    with pytest.raises(ValueError, match="requires y"):
        GraphSFARegressor().fit(X, None)
    with pytest.raises(ValueError, match="n_components.*got 'all'"):
        GraphSFAClassifier("all").fit(X, np.arange(10) % 2)
    with pytest.raises(ValueError, match="preset.*got 'text'"):
        GraphSFAClassifier(preset="text").fit(X, np.arange(10) % 2)
    with pytest.raises(ValueError, match=r"period.*got 0\.0"):
        GraphSFARegressor(period=0.0).fit(X, np.arange(10))
    with pytest.raises(ValueError, match="4.*X.*10"):
        GraphSFAClassifier(graph=graphs.temporal(4)).fit(X, np.arange(10) % 2)


def test_classes_without_any_spread_are_reported():
    """The slow feature is constant within classes, so that discriminant analysis would divide by zero."""
    X = np.array([[-0.2, -1.2, 0.9], [-0.2, -1.2, 0.9], [-1.5, -3.8, 1.0]])
    with pytest.raises(ValueError, match="constant.*class"):
        GraphSFAClassifier(1, shrinkage=None, classifier=LinearDiscriminantAnalysis()).fit(X, [0, 0, 2])
    assert list(GraphSFAClassifier(1, shrinkage=None).fit(X, [0, 0, 2]).predict(X)) == [0, 0, 2]


def test_scores_of_a_classifier_without_probabilities(rng):
    X, y = rings(rng)
    model = GraphSFAClassifier(expansion=Polynomial(2), shrinkage=None, classifier=LinearSVC()).fit(X, y)
    features = GraphSFA(2, graph="clustered", expansion=Polynomial(2)).fit(X, y).transform(X)
    expected = LinearSVC().fit(features, y).decision_function(features)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-6)
    assert not hasattr(GraphSFAClassifier(), "decision_function")


def _images_of_turning_blobs(angles, seed):
    """Orthographic images (N, 64) of ten blobs in space that turn around the vertical axis."""
    x, y, z = np.random.default_rng(seed).standard_normal((3, 10))
    cos, sin = np.cos(np.radians(angles))[:, None], np.sin(np.radians(angles))[:, None]
    pixels = np.linspace(-2.5, 2.5, 8)
    horizontal = np.exp(-2 * (pixels - (x * cos - y * sin)[:, :, None]) ** 2)
    vertical = np.exp(-2 * (pixels - z[:, None]) ** 2)
    brightness = 1 + 0.3 * (x * sin + y * cos)
    return np.einsum("nb,nbi,bj->nij", brightness, horizontal, vertical).reshape(len(angles), -1)


def test_angles_of_new_images_are_as_accurate_as_of_held_out_ones():
    # 24 images of 64 pixels: with all features of the row space the angle is linear in the pixels.
    for seed in range(4):
        rng = np.random.default_rng(seed)
        training, new = rng.uniform(0, 360, 24), rng.uniform(0, 360, 100)
        model = GraphSFARegressor(period=360).fit(_images_of_turning_blobs(training, seed), training)
        estimates = model.predict(_images_of_turning_blobs(new, seed))
        squares = 2 - 2 * np.cos(np.radians(estimates - new))  # of sines and cosines, whose variance is 1
        assert model.held_out_score_ > 0.9
        assert np.mean(squares) < 0.1
