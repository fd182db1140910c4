"""IGSFA: the algorithm of the paper, GraphSFA and PCA as special cases, and nodes of hierarchies."""

import pickle

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression

from probsfa import graphs
from probsfa.expansions import FourierFeatures, Polynomial, Power
from probsfa.metrics import principal_angles
from probsfa.sfa import IGSFA, GraphSFA, HierarchicalSFA, Layer
from tests.sampling import parametrize_with_checks
from tests.tolerances import EXACT, SPECTRAL


@parametrize_with_checks(
    [
        IGSFA(graph="clustered"),
        IGSFA(2, graph="serial", expansion=Polynomial(2), scaling="qr"),
        IGSFA(graph="temporal", delta_threshold=0.0),
    ]
)
@pytest.mark.filterwarnings(
    "ignore:The .* rows have rank:UserWarning",
    "ignore:The serial graph of . groups:UserWarning",
    "ignore:.*SCIPY_ARRAY_API",
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def labelled(rng, n=200, d=6):
    """Return samples on a curve with strong signals that do not depend on the label, and labels."""
    y = rng.uniform(0, 3, n)
    X = np.column_stack([np.cos(y), np.sin(2 * y), *(3 * rng.standard_normal((d - 2, n)))])
    return X @ rng.standard_normal((d, d)) + rng.standard_normal(d), y


@pytest.mark.parametrize("expansion", [None, Polynomial(2)])
def test_the_algorithm_step_by_step(rng, expansion):
    """Slow features, regression of the input on them, QR scaling, principal components of the rest."""
    X, y = labelled(rng)
    model = IGSFA(5, graph="serial", expansion=expansion, delta_threshold=1.0, scaling="qr").fit(X, y)
    gsfa = GraphSFA(graph="serial", expansion=expansion).fit(X, y)
    J = min(5, int(np.sum(gsfa.delta_values_ < 1.0)))
    assert 0 < J < 5
    v = graphs.serial(y).node_weights
    s = gsfa.transform(X)[:, :J]
    regression = LinearRegression().fit(s, X, sample_weight=v)
    Q, R = np.linalg.qr(regression.coef_)
    rest = X - regression.predict(s)
    C = np.cov(rest.T, aweights=v, bias=True)
    V = np.linalg.eigh(C)[1][:, ::-1][:, : 5 - J]
    Y = model.transform(X)
    assert model.n_slow_ == J
    np.testing.assert_allclose(np.abs(Y[:, :J]), np.abs(s @ R.T), atol=SPECTRAL)
    np.testing.assert_allclose(np.abs(Y[:, J:]), np.abs(rest @ V), atol=SPECTRAL * np.abs(rest).max())
    np.testing.assert_allclose(
        model.inverse_transform(Y) - rest @ V @ V.T, regression.predict(s), atol=SPECTRAL
    )
    np.testing.assert_allclose(Y[:, :J] @ model.slow_loadings_.T, s @ (Q @ R).T, atol=SPECTRAL)


def test_slow_part_is_that_of_gsfa_times_the_scale_of_the_input(rng):
    X, y = labelled(rng)
    model = IGSFA(4, graph="mixed", delta_threshold=1.5).fit(X, y)
    v = graphs.mixed(y).node_weights
    scale = np.sqrt(np.trace(np.cov(X.T, aweights=v, bias=True)) / 6)
    slow = GraphSFA(model.n_slow_, graph="mixed").fit(X, y)
    np.testing.assert_allclose(
        model.transform(X)[:, : model.n_slow_], scale * slow.transform(X), atol=SPECTRAL
    )
    np.testing.assert_allclose(model.delta_values_, slow.delta_values_, rtol=EXACT)


def test_a_threshold_of_zero_gives_principal_components(rng):
    X, y = labelled(rng)
    model = IGSFA(3, graph="clustered", delta_threshold=0.0).fit(X, y > 1)  # all weights are 1
    pca = PCA(3).fit(X)
    assert model.n_slow_ == 0
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(pca.transform(X)), atol=SPECTRAL * 10)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X)), pca.inverse_transform(pca.transform(X))
    )


def test_a_high_threshold_gives_slow_features_alone(rng):
    X, y = labelled(rng)
    model = IGSFA(graph="serial", delta_threshold=10.0).fit(X, y)
    gsfa = GraphSFA(graph="serial").fit(X, y)
    assert model.n_slow_ == 6 and len(model.residual_components_) == 0
    assert principal_angles(model.transform(X), gsfa.transform(X))[-1] < SPECTRAL
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=SPECTRAL)


@pytest.mark.parametrize("scaling", ["qr", "input"])
@pytest.mark.parametrize("K", [2, 3, 5, 6])
def test_reconstruction_between_slow_features_and_principal_components(rng, scaling, K):
    """The error is below that of slow features alone or with random directions, not below that of PCA."""
    X, y = labelled(rng)
    y = y > 1.5
    model = IGSFA(K, graph="clustered", scaling=scaling, delta_threshold=1.9).fit(X, y)
    J = model.n_slow_
    assert J == 1

    def error(reconstruction):
        return np.mean((X - reconstruction) ** 2)

    mine = error(model.inverse_transform(model.transform(X)))
    gsfa = GraphSFA(J, graph="clustered").fit(X, y)
    pca = PCA(K).fit(X)
    assert mine < error(gsfa.inverse_transform(gsfa.transform(X)))
    assert mine >= error(pca.inverse_transform(pca.transform(X))) - EXACT
    for _ in range(10):
        others = np.hstack([gsfa.transform(X), X @ rng.standard_normal((6, K - J))])
        assert mine <= error(LinearRegression().fit(others, X).predict(others)) + EXACT


def test_default_number_of_outputs_is_the_rank(rng):
    X, y = labelled(rng)
    X = np.column_stack([X, X[:, 0] - X[:, 1]])  # seven columns of rank six
    model = IGSFA(graph="serial", delta_threshold=1.0).fit(X, y)
    Y = model.transform(X)
    assert Y.shape[1] == 6
    np.testing.assert_allclose(model.inverse_transform(Y), X, atol=SPECTRAL)
    with pytest.raises(ValueError, match="n_components=7 is more than"):
        IGSFA(7, graph="serial", delta_threshold=1.0).fit(X, y)


def test_offsets_do_not_matter(rng):
    X, y = labelled(rng)
    near, far = (IGSFA(5, graph="serial", delta_threshold=1.0).fit(Z, y).transform(Z) for Z in (X, X + 1e6))
    np.testing.assert_allclose(near, far, atol=1e-4)


def test_sequences_pickling_and_errors(rng):
    X, y = labelled(rng)
    model = IGSFA(4, graph="temporal").fit([X[:80], X[80:]])
    pieces = model.transform([X[:80], X[80:]])
    np.testing.assert_array_equal(np.concatenate(pieces), model.transform(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), model.transform(X))
    with pytest.raises(ValueError, match="delta_threshold.*got -1"):
        IGSFA(graph="serial", delta_threshold=-1).fit(X, y)
    with pytest.raises(ValueError, match="scaling.*got 'none'"):
        IGSFA(graph="serial", scaling="none").fit(X, y)
    with pytest.raises(ValueError, match="3.*inverse_transform.*4"):
        model.inverse_transform(np.ones((2, 3)))


# Nodes of hierarchies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("expansion", [None, Power(), Polynomial(2)])
def test_one_node_is_the_estimator(rng, expansion):
    X, y = labelled(rng)
    layer = Layer(5, method="igsfa", expansion=expansion, delta_threshold=1.0)
    hierarchy = HierarchicalSFA([layer], graph="serial").fit(X, y)
    model = IGSFA(5, graph="serial", expansion=expansion, delta_threshold=1.0).fit(X, y)
    assert 0 < model.n_slow_ < 5
    np.testing.assert_allclose(
        np.abs(hierarchy.transform(X)), np.abs(model.transform(X)), atol=SPECTRAL * np.abs(X).max()
    )
    np.testing.assert_allclose(hierarchy.delta_values_[: model.n_slow_], model.delta_values_, rtol=SPECTRAL)


def test_nodes_retain_components_from_which_the_next_layer_extracts_slow_features(rng):
    """Both factors of a slow product are fast, so that slow features of the first layer lack the product."""
    t = np.arange(3000)
    slow = np.sin(2 * np.pi * t / 600)
    carrier = np.sign(rng.standard_normal(3000))
    distractors = np.column_stack([np.sin(2 * np.pi * t / p) for p in (47.0, 31.0)])
    left = np.column_stack([carrier * (1.5 + slow), distractors[:, 0]])
    right = np.column_stack([carrier, distractors[:, 1]])
    X = np.hstack([left, right]) + 1e-3 * rng.standard_normal((3000, 4))

    def correlation(method):
        layers = [Layer(2, field=2, method=method, delta_threshold=0.5), Layer(1, expansion=Polynomial(2))]
        if method == "sfa":
            layers[0] = Layer(1, field=2)
        output = HierarchicalSFA(layers).fit(X).transform(X)[:, 0]
        return abs(np.corrcoef(output, slow)[0, 1])

    assert correlation("igsfa") > 0.99
    assert correlation("sfa") < 0.5


def test_shared_weights_and_nodes_with_constant_inputs(rng):
    X = np.cumsum(rng.standard_normal((300, 8)), axis=0)
    layers = [Layer(2, field=2, method="igsfa", share_weights=True), Layer(3, method="igsfa")]
    assert HierarchicalSFA(layers).fit(X).transform(X).shape == (300, 3)
    X[:, :2] = 1.0  # the inputs of the first node are constant
    layers[0] = Layer(2, field=2, method="igsfa")
    outputs = HierarchicalSFA(layers).fit(X).transform_layer(X, 0)
    np.testing.assert_array_equal(outputs[:, :2], 0)
    assert np.isfinite(outputs).all()


def test_invalid_layers():
    X = np.random.default_rng(0).standard_normal((50, 4))
    with pytest.raises(ValueError, match="inputs as the first"):
        HierarchicalSFA([Layer(1, method="igsfa", expansion=FourierFeatures())]).fit(X)
    with pytest.raises(ValueError, match="inputs as the first"):
        HierarchicalSFA([Layer(1, method="igsfa", expansion=Power(include_input=False))]).fit(X)
    with pytest.raises(ValueError, match=r"layers\[0\].clip must be"):
        HierarchicalSFA([Layer(1, method="igsfa", clip=3.0)]).fit(X)
    with pytest.raises(ValueError, match=r"layers\[0\].delta_threshold must be"):
        HierarchicalSFA([Layer(1, method="igsfa", delta_threshold=-1.0)]).fit(X)


def test_slow_features_are_those_below_the_threshold(rng):
    X, y = rng.standard_normal((80, 6)), rng.standard_normal(80)
    deltas = GraphSFA(graph="serial").fit(X, y).delta_values_
    for j, (below, above) in enumerate(zip(deltas[:-1], deltas[1:], strict=True)):
        for threshold in (below + 1e-6 * (above - below), above - 1e-6 * (above - below)):
            model = IGSFA(graph="serial", delta_threshold=float(threshold)).fit(X, y)
            assert model.n_slow_ == j + 1
