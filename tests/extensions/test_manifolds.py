"""Principal curves and autoencoders: definitions, monotone objectives, input validation."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import probsfa
from probsfa.extensions import (
    Autoencoder,
    LinearAutoencoder,
    PrincipalCurve,
    autoencoder,
    principal_curve,
)
from probsfa.extensions._kernel_manifold import KernelManifold, landmark_grid, project, solve_coefficients
from tests.oracles import manifolds as oracle
from tests.sampling import parametrize, parametrize_with_checks
from tests.tolerances import EXACT, SPECTRAL

SMALL = [
    LinearAutoencoder(1, random_state=0),
    Autoencoder(1, hidden=4, random_state=0, max_iter=20),
    PrincipalCurve(n_landmarks=10, max_iter=3),
]


@parametrize_with_checks(SMALL)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The graph has:UserWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def spiral(seed, n=400, turns=2.0, noise=0.2):
    """Return points along a spiral with noise, and without."""
    rng = np.random.default_rng(seed)
    t = 2 * np.pi * turns * np.sqrt(rng.uniform(0.08, 1.0, n))
    points = np.column_stack([t * np.cos(t), t * np.sin(t)])
    return points + noise * rng.standard_normal((n, 2)), points


def arc(rng, n=120, noise=0.05):
    angle = rng.uniform(0, np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle), 0.3 * angle]) + noise * rng.standard_normal((n, 3))


# ------------------------------------------------------------------ principal curves


@pytest.mark.parametrize("k", [1, 2])
def test_closed_form_update_agrees_with_the_lecture_notes(rng, k):
    X, xi = rng.standard_normal((30, 3)), rng.uniform(size=(30, k))
    landmarks = landmark_grid(9, k)
    updated = solve_coefficients(X, xi, landmarks, 0.12, 0.05)
    expected = oracle.coefficients(X, xi, landmarks, 0.12, 0.05)
    np.testing.assert_allclose(updated.coefficients, expected, atol=SPECTRAL)
    value = oracle.objective(X, xi, landmarks, 0.12, expected, 0.05)
    np.testing.assert_allclose(updated.objective(X, xi, 0.05), value, rtol=EXACT)


def test_projection_is_the_nearest_point(rng):
    landmarks, alpha = landmark_grid(12, 1), rng.standard_normal((12, 2))
    X = rng.standard_normal((40, 2))
    curve = KernelManifold(landmarks, 0.1, alpha)
    squared = np.sum((X - curve(project(curve, X))) ** 2, axis=1)
    brute = oracle.nearest_on_grid(X, landmarks, 0.1, alpha)
    # Newton steps end at smaller distances than the finite grid of the oracle.
    assert np.all(squared <= brute + EXACT)
    np.testing.assert_allclose(squared, brute, atol=1e-4)


def test_derivatives_of_the_manifold_agree_with_finite_differences(rng):
    surface = KernelManifold(landmark_grid(9, 2), 0.3, rng.standard_normal((9, 3)))
    z, step = rng.uniform(size=(5, 2)), 1e-5
    _, first, second = surface.derivatives(z)
    for j in range(2):
        forward, backward = z + step * np.eye(2)[j], z - step * np.eye(2)[j]
        np.testing.assert_allclose(
            first[:, j], (surface(forward) - surface(backward)) / (2 * step), atol=1e-6
        )
        slope = (surface.derivatives(forward)[1] - surface.derivatives(backward)[1]) / (2 * step)
        np.testing.assert_allclose(second[:, :, j], slope, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "k"), [((2, 1), 1), ((3, 5), 1), ((40, 1), 1), ((40, 3), 1), ((5, 2), 2), ((60, 3), 2)]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The graph has:UserWarning")
def test_objective_never_increases(rng, shape, k):
    X = rng.standard_normal(shape) * rng.uniform(0.1, 10.0, shape[1])
    for init in ("pca", "eigenmap"):
        options = {"init": init, "max_iter": 6, "tol": 1e-12}
        model = PrincipalCurve(k, bandwidth=0.1, regularization=1e-2, **options).fit(X)
        assert np.all(np.diff(model.history_) <= 0.0)
        alpha, centred = model.coefficients_, X - model.mean_
        value = oracle.objective(centred, model.coordinates_, model.landmarks_, 0.1, alpha, 1e-2)
        np.testing.assert_allclose(model.objective_, value, rtol=1e-8)


def test_a_spiral_is_recovered_within_its_noise():
    for seed in range(2):
        X, points = spiral(seed, noise=0.2)
        model = PrincipalCurve().fit(X)
        t = np.linspace(0.0, 4 * np.pi, 4000)
        true = np.column_stack([t * np.cos(t), t * np.sin(t)])
        distances = np.min(np.linalg.norm(model.reconstruct(X)[:, None] - true, axis=2), axis=1)
        assert np.sqrt(np.mean(distances**2)) < 0.5 * 0.2
        # Noise along the curve changes the coordinate, so that only noise across the curve is an error.
        assert np.sqrt(-model.score(points)) < 0.2
        assert oracle.principal_risk(X, 1) > 100 * -model.score(X)


def test_arc_length_and_back(rng):
    X = arc(rng)
    model = PrincipalCurve(init="pca").fit(X)
    y = model.transform(X)
    np.testing.assert_allclose([y.min(), y.max()], [0.0, model.length_], atol=1e-3)
    assert abs(model.length_ - np.pi * np.hypot(1.0, 0.3)) < 0.5
    np.testing.assert_allclose(model.transform(model.inverse_transform(y)), y, atol=1e-2)
    # The length of a step along the curve is the difference of the coordinates.
    steps = np.linspace(0.0, model.length_, 2000)[:, None]
    lengths = np.linalg.norm(np.diff(model.inverse_transform(steps), axis=0), axis=1)
    np.testing.assert_allclose(lengths, model.length_ / 1999, rtol=1e-2)
    latent = clone(model).set_params(coordinate="latent").fit(X)
    z = latent.transform(X)
    assert 0.0 <= z.min() and z.max() <= 1.0
    np.testing.assert_allclose(latent.inverse_transform(z), model.inverse_transform(y), atol=1e-3)
    assert np.corrcoef(y[:, 0], X.T)[0, 1:][np.argmax(np.abs(np.corrcoef(y[:, 0], X.T)[0, 1:]))] > 0


def test_more_regularization_gives_a_smoother_curve_farther_from_the_rows(rng):
    X = arc(rng)
    models = [PrincipalCurve(bandwidth=0.1, regularization=r, init="pca").fit(X) for r in (1e-3, 0.03, 0.3)]
    scores = [model.score(X) for model in models]
    norms = [2 * (m.objective_ + s) / m.regularization for m, s in zip(models, scores, strict=True)]
    assert scores[0] > scores[1] > scores[2]
    assert norms[0] > norms[1] > norms[2]


def test_surface(rng):
    u = rng.uniform(-1, 1, (300, 2))
    X = np.column_stack([u, u[:, 0] ** 2 - u[:, 1] ** 2]) + 0.02 * rng.standard_normal((300, 3))
    model = PrincipalCurve(2, init="pca", bandwidth=0.3, regularization=1e-4, max_iter=40, tol=1e-2).fit(X)
    assert model.transform(X).shape == (300, 2) and np.isnan(model.length_)
    assert -model.score(X) < 0.1 * oracle.principal_risk(X, 2)
    assert list(model.get_feature_names_out()) == ["principalcurve0", "principalcurve1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 3}, "n_components must be 1"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"regularization": -1.0}, "regularization"),
        ({"coordinate": "angle"}, "coordinate"),
        ({"n_components": 2, "coordinate": "arc_length"}, "arc length"),
        ({"init": "random"}, "init"),
        ({"init": np.zeros((3, 1))}, "init"),
        ({"n_landmarks": 1}, "n_landmarks.*2"),
        ({"n_landmarks": 10**9}, "n_landmarks=1,000,000,000.*GiB"),
    ],
)
def test_errors_name_invalid_parameters(rng, options, message):
    with pytest.raises(ValueError, match=message):
        PrincipalCurve(**options).fit(rng.standard_normal((20, 2)))


@pytest.mark.parametrize("estimator", SMALL, ids=lambda e: type(e).__name__)
def test_errors_name_invalid_rows(rng, estimator):
    X = rng.standard_normal((20, 2))
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        clone(estimator).fit(X)
    with pytest.raises(ValueError, match="constant"):
        clone(estimator).fit(np.ones((20, 2)))


def interrupt_after(monkeypatch, module, name, calls):
    """Raise a KeyboardInterrupt in call number `calls` of a function."""
    function, count = getattr(module, name), [0]

    def interrupted(*args, **kwargs):
        count[0] += 1
        if count[0] == calls:
            raise KeyboardInterrupt
        return function(*args, **kwargs)

    monkeypatch.setattr(module, name, interrupted)


def test_an_interrupted_curve_is_usable(rng, monkeypatch):
    X = arc(rng)
    interrupt_after(monkeypatch, principal_curve, "project", 4)
    with pytest.warns(ConvergenceWarning, match="Interrupted.*3"):
        model = PrincipalCurve(bandwidth=0.1, init="pca").fit(X)
    monkeypatch.undo()
    assert not model.converged_ and len(model.history_) == 3
    assert -model.score(X) < oracle.principal_risk(X, 1)


def test_interrupted_selection_of_the_bandwidth_returns_a_curve(rng, monkeypatch):
    X = arc(rng)
    interrupt_after(monkeypatch, principal_curve, "project", 4)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = PrincipalCurve(init="pca").fit(X)
    monkeypatch.undo()
    assert not model.converged_ and model.bandwidth_ == 0.1 and np.isfinite(model.score(X))


@parametrize("n_rows", [200, 400])
@pytest.mark.parametrize(
    ("curve", "noise", "bandwidths"),
    [
        (lambda t: np.column_stack([7.0 * t, 0.0 * t]), 0.3, (0.4,)),
        (lambda t: np.column_stack([4.0 * t - 2.0, 3.0 * (2.0 * t - 1.0) ** 2]), 0.2, (0.2, 0.4)),
        (lambda t: np.column_stack([10.0 * t, np.sin(4.0 * np.pi * t)]), 0.2, (0.1, 0.2)),
        (lambda t: np.column_stack([np.cos(9.0 * t), np.sin(9.0 * t), 3.0 * t]), 0.1, (0.1, 0.2)),
    ],
    ids=["line", "parabola", "wave", "helix"],
)
def test_default_curves_have_the_length_of_the_true_curves(curve, noise, bandwidths, n_rows):
    rng = np.random.default_rng(0)
    points = curve(rng.uniform(size=n_rows))
    X = points + noise * rng.standard_normal(points.shape)
    true = curve(np.linspace(0.0, 1.0, 1000))
    length = np.linalg.norm(np.diff(true, axis=0), axis=1).sum()
    model = PrincipalCurve().fit(X)
    assert model.bandwidth_ in bandwidths
    assert model.length_ == pytest.approx(length, rel=0.1)
    points_on_curve = model.inverse_transform(np.linspace(0.0, model.length_, 200)[:, None])
    squared_distances = np.min(np.sum((points_on_curve[:, None] - true) ** 2, axis=2), axis=1)
    assert np.sqrt(np.mean(squared_distances)) < 0.5 * noise


def test_log_density_of_the_mixture_is_maximal_over_the_variance(rng):
    points, rows = rng.standard_normal((7, 2)), rng.standard_normal((9, 2))

    def log_density(log_variance):
        std = np.exp(0.5 * log_variance)
        each = norm.logpdf(rows[:, None], points, std).sum(axis=2)
        return np.sum(np.log(np.mean(np.exp(each), axis=1)))

    best = minimize_scalar(lambda v: -log_density(v), bounds=(-4.0, 2.0), method="bounded")
    found = principal_curve._mixture_log_densities(points, rows)
    assert found.shape == (9,) and found.sum() == pytest.approx(-best.fun, abs=1e-3)


# ------------------------------------------------------------------ autoencoders


@pytest.mark.parametrize("k", [1, 2, 4])
def test_linear_autoencoder_learns_the_principal_subspace(rng, k):
    X = rng.standard_normal((200, 5)) @ rng.standard_normal((5, 5)) + 3.0
    model = LinearAutoencoder(k, random_state=1).fit(X)
    directions = PCA(k).fit(X).components_
    projection = model.decoder_ @ model.encoder_
    np.testing.assert_allclose(projection, directions.T @ directions, atol=1e-6)
    assert np.all(np.diff(model.history_) <= 1e-12 * model.history_[0])
    np.testing.assert_allclose(-model.score(X), oracle.principal_risk(X, k), rtol=SPECTRAL)


def test_encoder_and_decoder_are_optimal_given_each_other(rng):
    X = rng.standard_normal((100, 4)) @ rng.standard_normal((4, 4))
    model = LinearAutoencoder(2, random_state=0).fit(X)
    centred = X - model.mean_
    codes = centred @ model.encoder_.T
    best_decoder = np.linalg.lstsq(codes, centred, rcond=None)[0].T
    np.testing.assert_allclose(model.decoder_, best_decoder, atol=1e-6)
    np.testing.assert_allclose(model.encoder_, np.linalg.pinv(model.decoder_), atol=EXACT)


def test_linear_autoencoder_of_a_singular_covariance(rng):
    X = rng.standard_normal((3, 6))
    model = LinearAutoencoder(4, random_state=0).fit(X)
    np.testing.assert_allclose(model.reconstruct(X), X, atol=1e-8)
    np.testing.assert_allclose(model.encoder_ @ model.decoder_, np.eye(4), atol=EXACT)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_autoencoder_has_a_smaller_error_than_a_line_on_a_curve(rng):
    X = arc(rng, 200)
    model = Autoencoder(1, hidden=8, random_state=0, max_iter=300).fit(X)
    assert -model.score(X) < 0.3 * oracle.principal_risk(X, 1)
    np.testing.assert_allclose(model.loss_, -model.score(X), rtol=EXACT)
    np.testing.assert_array_equal(model.inverse_transform(model.transform(X)), model.reconstruct(X))


@parametrize(
    "curve",
    [
        lambda t: np.column_stack(
            [np.sin(3.0 * np.pi * (t - 0.5)), np.sign(t - 0.5) * (np.cos(3.0 * np.pi * (t - 0.5)) - 1.0)]
        ),
        lambda t: (0.3 + 2.7 * t)[:, None] * 0.5 * np.column_stack([np.cos(9.0 * t), np.sin(9.0 * t)]),
        lambda t: np.column_stack([4.0 * t - 2.0, np.sin(4.0 * np.pi * t)]),
    ],
    ids=["S", "spiral", "wave"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_default_autoencoder_has_about_the_error_of_the_noise(curve):
    rng = np.random.default_rng(1)
    X, other = (curve(rng.uniform(size=300)) + 0.05 * rng.standard_normal((300, 2)) for _ in range(2))
    model = Autoencoder(1, random_state=1).fit(X)
    assert np.sqrt(model.loss_) < 0.13 and np.sqrt(-model.score(other)) < 0.15


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_autoencoder_agrees_with_predictions_of_the_network(rng):
    X = rng.standard_normal((50, 3))
    for activation in ("tanh", "relu", "logistic"):
        options = {"activation": activation, "max_iter": 30, "n_init": 1}
        model = Autoencoder(2, hidden=5, random_state=0, **options).fit(X)
        standard = (X - model.mean_) / model.scale_
        network, _ = model._train(standard, np.random.default_rng(0), model._starting_codes(standard))
        expected = model.mean_ + model.scale_ * network.predict(standard)
        np.testing.assert_allclose(model.reconstruct(X), expected, atol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_denoising_brings_noisy_rows_closer_to_the_curve(rng):
    clean = arc(rng, 300, noise=0.0)
    noisy = arc(rng, 200, noise=0.0)
    test = noisy + 0.2 * rng.standard_normal(noisy.shape)
    model = Autoencoder(1, hidden=12, corruption=0.3, n_noisy=5, random_state=0, max_iter=200).fit(clean)
    assert np.mean((model.reconstruct(test) - noisy) ** 2) < 0.7 * np.mean((test - noisy) ** 2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_autoencoder_does_not_depend_on_the_memory_order(rng):
    X = rng.standard_normal((60, 4)).cumsum(axis=0)
    rows = X, np.asfortranarray(X)
    fits = [Autoencoder(2, random_state=0, max_iter=200).fit(each).transform(X) for each in rows]
    np.testing.assert_array_equal(*fits)


def test_an_interrupted_autoencoder_is_usable(rng, monkeypatch):
    X = arc(rng)
    network = autoencoder.MLPRegressor
    interrupt_after(monkeypatch, network, "_loss_grad_lbfgs", 6)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = Autoencoder(1, hidden=4, random_state=0).fit(X)
    assert np.isfinite(model.score(X)) and not model.converged_


def test_an_interrupted_linear_autoencoder_is_usable(rng, monkeypatch):
    X = arc(rng)
    interrupt_after(monkeypatch, autoencoder, "_orthonormal", 4)
    with pytest.warns(ConvergenceWarning, match="Interrupted.*3"):
        model = LinearAutoencoder(1, random_state=0).fit(X)
    assert np.isfinite(model.score(X))


# ------------------------------------------------------------------ all estimators


@pytest.mark.parametrize("estimator", SMALL, ids=lambda e: type(e).__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_saved_and_loaded(rng, estimator, tmp_path):
    X = arc(rng)
    model = clone(estimator).fit(X)
    model.save(tmp_path / "model.npz")
    again = probsfa.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.score(X) == model.score(X)


@pytest.mark.parametrize("estimator", SMALL, ids=lambda e: type(e).__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_lists_frames_and_pipelines(rng, estimator):
    X = arc(rng)
    model = clone(estimator).fit([X[:50], X[50:]])
    np.testing.assert_array_equal(np.vstack(model.transform([X[:50], X[50:]])), model.transform(X))
    assert [len(part) for part in model.inverse_transform(model.transform([X[:50], X[50:]]))] == [50, 70]
    frame = clone(estimator).set_output(transform="pandas").fit(X).transform(X)
    assert list(frame.columns) == [f"{type(estimator).__name__.lower()}{j}" for j in range(frame.shape[1])]
    assert np.isfinite(make_pipeline(StandardScaler(), clone(estimator)).fit(X).score(X))
    with pytest.raises(ValueError, match="inverse_transform requires"):
        model.inverse_transform(np.zeros((2, 7)))
