"""Expected information: quadrature, spectra and blocks against spectra differentiated numerically."""

import numpy as np
import pytest

from probsfa.statespace.learning.coordinates import Coordinates, information_frequencies, latent_spectra
from probsfa.statespace.learning.fisher_metric import (
    CompleteData,
    Metric,
    complete_data_without_missing_values,
)
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateLayout
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import model_of_decays, scaled_error, to_panel, to_parameters, uneven_times


def information(coordinates, params, n_rows, damping=0.0):
    """Return the information of a series of `n_rows` complete rows."""
    return Metric(coordinates, params, complete_data_without_missing_values(n_rows, coordinates)).to_dense(
        damping
    )


@pytest.mark.parametrize("decay", [[0.5], [0.999], [1 - 1e-7], [-0.9], [0.99, 0.3, -0.8], [0.0]])
def test_quadrature_integrates_the_spectra(decay):
    """The mean of a spectrum is one, and that of its square is (1 + a^2) / (1 - a^2)."""
    decay = np.array(decay)
    params = model_of_decays(decay)
    omega, weights = information_frequencies(params)
    spectrum, derivative = latent_spectra(params, omega, evenly_sampled=True)[:2]
    assert np.all((omega > 0) & (omega < np.pi)) and np.all(weights > 0)
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(weights @ spectrum, 1.0, rtol=1e-6)
    np.testing.assert_allclose(weights @ spectrum**2, (1 + decay**2) / (1 - decay**2), rtol=1e-4)
    np.testing.assert_allclose(weights @ derivative, 0.0, atol=1e-5)


def test_spectra_are_sums_of_autocovariances(rng):
    decay, omega = np.array([0.9, -0.5, 0.0]), rng.uniform(0, np.pi, 7)
    lags = np.arange(1, 600)
    wanted = np.array([[1 + 2 * np.sum(a**lags * np.cos(w * lags)) for a in decay] for w in omega])
    found, derivative = latent_spectra(model_of_decays(decay), omega, evenly_sampled=True)[:2]
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    free, h = np.arctanh(decay), 1e-5
    up, down = (
        latent_spectra(model_of_decays(np.tanh(free + s * h)), omega, evenly_sampled=True).values
        for s in (1, -1)
    )
    np.testing.assert_allclose(derivative, (up - down) / (2 * h), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 3), (5, 3)])
def test_information_is_whittles_formula(rng, shape):
    model = oracle.random_model(rng, *shape)._replace(decay=np.array([0.7, 0.4, -0.5])[: shape[1]])
    params = to_parameters(model)
    coordinates = Coordinates(StateLayout(shape[1]), NoiseVariances.diagonal(shape[0]), True)
    found = information(coordinates, params, 1)
    wanted = oracle.whittle_information(model, n_frequencies=200)
    assert scaled_error(found, wanted) < 1e-6
    assert scaled_error(found, found.T) < 1e-14
    assert np.linalg.eigvalsh(found).min() > -1e-10


def test_information_is_the_difference_of_information_for_one_more_row(rng):
    """In the difference of the exact information of two lengths, terms of the ends of the series cancel."""
    model = oracle.random_model(rng, 2, 1)._replace(decay=np.array([0.5]))
    exact = {n: exact_information(model, n) for n in (15, 30)}
    params = to_parameters(model)
    found = information(Coordinates(StateLayout(1), NoiseVariances.diagonal(2), True), params, 15)
    assert scaled_error(found, exact[30] - exact[15]) < 1e-6


def exact_information(model, n):
    """Return (1/2) tr(S^-1 d_i S S^-1 d_j S) + d_i mu' S^-1 d_j mu of the joint Gaussian of n rows."""

    def moments(vector):
        m = oracle.unpack(vector, model, "diagonal")
        H = oracle.observation_matrix(m, n)
        S = H @ oracle.latent_covariance(m, [np.zeros((n, 2))]) @ H.T + np.diag(np.tile(m.noise, n))
        return S, np.tile(m.offset, n)

    at, h = oracle.pack(model, "diagonal"), 1e-5
    inverse = np.linalg.inv(moments(at)[0])
    derivatives, shifts = [], []
    for e in np.eye(len(at)):
        (up, mu_up), (down, mu_down) = moments(at + h * e), moments(at - h * e)
        derivatives.append(inverse @ (up - down) / (2 * h))
        shifts.append((mu_up - mu_down) / (2 * h))
    flat, shifts = np.array(derivatives), np.array(shifts)
    return 0.5 * np.einsum("iab,jba->ij", flat, flat) + shifts @ inverse @ shifts.T


@pytest.mark.parametrize("noise", ["isotropic", "known"])
def test_other_noise_structures_are_sums_and_selections(rng, noise):
    model = oracle.random_model(rng, 5, 3)._replace(noise=np.full(5, 0.4))
    params = to_parameters(model)
    free = information(Coordinates(StateLayout(3), NoiseVariances.diagonal(5), True), params, 7)
    found = information(Coordinates(StateLayout(3), getattr(NoiseVariances, noise)(5), True), params, 7)
    # Derivatives of all 28 coordinates with respect to the free ones.
    kept = [*range(18), *range(23, 28)]
    J = np.eye(28)[:, kept]
    if noise == "isotropic":
        J = np.insert(J, 18, np.isin(np.arange(28), range(18, 23)), axis=1)
    np.testing.assert_allclose(found, J.T @ free @ J, rtol=1e-12, atol=1e-12)


def test_uneven_coordinates_change_the_decay_only(rng):
    model = oracle.random_model(rng, 5, 3)._replace(decay=np.array([0.9, 0.6, 0.2]))
    params = to_parameters(model)
    even = information(Coordinates(StateLayout(3), NoiseVariances.diagonal(5), True), params, 7)
    uneven = information(Coordinates(StateLayout(3), NoiseVariances.diagonal(5), False), params, 7)
    u, h = oracle.pack(model, "diagonal", even=False), 1e-6
    jacobian = np.eye(28)
    for k in range(3):
        up, down = (np.arctanh(np.exp(-np.exp(u[k] + s * h))) for s in (1, -1))
        jacobian[k, k] = (up - down) / (2 * h)
    assert scaled_error(uneven, jacobian.T @ even @ jacobian) < 1e-8


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("noise", ["diagonal", "isotropic", "known"])
def test_complete_information_bounds_the_expected_one(rng, noise, even):
    """The information with observed states minus that without is positive semidefinite."""
    model = oracle.random_model(rng, 5, 3)._replace(decay=np.array([0.9, 0.6, 0.2]), noise=np.full(5, 0.3))
    params, coordinates = (
        to_parameters(model),
        Coordinates(StateLayout(3), getattr(NoiseVariances, noise)(5), even),
    )
    expected = information(coordinates, params, 100)
    whole = information(coordinates, params, 100, damping=1.0) - expected
    assert np.linalg.eigvalsh(whole - expected).min() > -1e-8 * np.abs(whole).max()


def test_complete_information_is_the_curvature_of_the_complete_likelihood(rng):
    """Compare with second differences of the expected complete-data log-likelihood."""
    model = oracle.random_model(rng, 3, 2)._replace(decay=np.array([0.9, 0.4]))
    n = 6
    data = [np.full((n, 3), np.nan)]
    dense = oracle.joint_posterior(model, data)  # without observations, the factors have their prior
    data = [np.zeros((n, 3))]

    def value(vector):
        return oracle.expected_complete_log_likelihood(oracle.unpack(vector, model, "known"), dense, data)

    curvature = -oracle.numerical_hessian(value, oracle.pack(model, "known"))
    coordinates, params = Coordinates(StateLayout(2), NoiseVariances.known(3), True), to_parameters(model)
    found = information(coordinates, params, n, damping=1.0) - information(coordinates, params, n)
    decay, loadings, _, offset = coordinates.slices
    at = np.r_[loadings, offset]
    np.testing.assert_allclose(found[np.ix_(at, at)], curvature[np.ix_(at, at)], atol=1e-5)
    # The decay has the information of n - 1 transitions, and its expected score is zero.
    np.testing.assert_allclose(
        found[decay, decay] * (n - 1) / n, curvature[decay, decay], rtol=1e-5, atol=1e-6
    )


@parametrize("damping", [0.0, 1e-3, 1.0], quick=[0.0, 1e-3])
@parametrize("variance", [0.3, 1e-5], quick=[1e-5])
@pytest.mark.parametrize("noise", ["diagonal", "isotropic", "known"])
@parametrize("shape", [(1, 1), (2, 3), (3, 3), (7, 3)], quick=[(2, 3), (7, 3)])
def test_solving_inverts_the_dense_matrix(rng, shape, noise, variance, damping):
    """With fixed coordinates, missing values, curvature terms and small noise."""
    d, k = shape
    model = oracle.random_model(rng, d, k)._replace(noise=np.full(d, variance))
    coordinates = Coordinates(StateLayout(k), getattr(NoiseVariances, noise)(d), True)
    moments = rng.standard_normal((40, k))
    complete = CompleteData(rng.integers(20, 60, d).astype(float), moments.T @ moments, 60.0)
    metric = Metric(coordinates, to_parameters(model), complete, rng.standard_normal(coordinates.size))
    free = np.ones(coordinates.size, dtype=bool)
    free[coordinates.slices[2]] = np.arange(coordinates.n_noise) % 3 != 1
    matrix = metric.to_dense(damping)[np.ix_(free, free)]
    unit = 1.0 / np.sqrt(np.diag(matrix))
    scaled = matrix * unit[:, None] * unit
    gradient = rng.standard_normal(coordinates.size)
    step = metric.solve(gradient, free, damping)
    np.testing.assert_array_equal(step[~free], 0.0)
    # The residual of a backward stable solution is a rounding error times the norms of matrix and solution.
    residual = scaled @ (step[free] / unit) - gradient[free] * unit
    size = np.linalg.norm(scaled, 2) * np.linalg.norm(step[free] / unit)
    assert np.linalg.norm(residual) < 1e-11 * size


def test_the_block_diagonal_metric_has_the_blocks_of_the_full_one(rng):
    """Cross terms of loadings inside the span, noise and decays are neglected."""
    model, coordinates = (
        oracle.random_model(rng, 6, 3),
        Coordinates(StateLayout(3), NoiseVariances.diagonal(6), True),
    )
    params, complete = to_parameters(model), complete_data_without_missing_values(10.0, coordinates)
    fine = Metric(coordinates, params, complete).to_dense()
    metric = Metric(coordinates, params, complete, max_dense_size=8)
    coarse = metric.to_dense()
    decay, loadings, noise, offset = coordinates.slices
    for part in (decay, offset):
        np.testing.assert_allclose(coarse[part, part], fine[part, part], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(np.diag(coarse[noise, noise]), np.diag(fine[noise, noise]), rtol=0.2)
    # In the basis of the span, factor by factor.
    basis = np.kron(np.linalg.svd(params.loadings / np.sqrt(params.noise_variance)[:, None])[0], np.eye(3))
    unit = np.repeat(np.sqrt(params.noise_variance), 3)
    in_basis = [basis.T @ (m[loadings, loadings] * np.outer(unit, unit)) @ basis for m in (fine, coarse)]
    kept = np.kron(np.eye(6), np.ones((3, 3)))
    np.testing.assert_allclose(in_basis[1], kept * in_basis[0], atol=1e-8 * np.abs(in_basis[0]).max())
    gradient, free = rng.standard_normal(coordinates.size), np.ones(coordinates.size, dtype=bool)
    step = metric.solve(gradient, free, 0.1)
    np.testing.assert_allclose(metric.to_dense(0.1) @ step, gradient, rtol=1e-7, atol=1e-8)


def test_uneven_panels_have_the_gaps_of_their_times(rng):
    times = uneven_times(rng, (5, 7))
    panel = to_panel([np.zeros((5, 2)), np.zeros((7, 2))], times)
    elapsed = np.append(panel.gaps, np.inf)[panel.gap_index[:12]]
    wanted = np.concatenate([np.append(np.inf, np.diff(t)) for t in times])
    np.testing.assert_allclose(elapsed, wanted)


@pytest.mark.parametrize("damping", [0.0, 1e-3])
def test_solving_for_some_loadings_inverts_their_part_of_the_dense_matrix(rng, damping):
    model, coordinates = (
        oracle.random_model(rng, 5, 3),
        Coordinates(StateLayout(3), NoiseVariances.diagonal(5), True),
    )
    metric = Metric(
        coordinates, to_parameters(model), complete_data_without_missing_values(40.0, coordinates)
    )
    gradient, free = rng.standard_normal(coordinates.size), rng.random(coordinates.size) < 0.6
    step = metric.solve(gradient, free, damping)
    matrix = metric.to_dense(damping)[np.ix_(free, free)]
    np.testing.assert_array_equal(step[~free], 0.0)
    np.testing.assert_allclose(matrix @ step[free], gradient[free], rtol=1e-7, atol=1e-7)


def test_a_step_in_some_of_very_many_coordinates_increases_the_likelihood(rng):
    coordinates = Coordinates(StateLayout(25), NoiseVariances.diagonal(90), True)
    model = oracle.Model(
        np.linspace(0.2, 0.98, 25), rng.standard_normal((90, 25)), np.full(90, 0.3), np.zeros(90)
    )
    metric = Metric(
        coordinates, to_parameters(model), complete_data_without_missing_values(400.0, coordinates)
    )
    gradient, free = rng.standard_normal(coordinates.size), rng.random(coordinates.size) < 0.95
    step = metric.solve(gradient, free, 0.0)
    np.testing.assert_array_equal(step[~free], 0.0)
    assert gradient @ step > 0.0
