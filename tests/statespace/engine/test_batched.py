"""Linear algebra of batches of small matrices, compared with NumPy."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from probsfa.statespace.engine import batched, compiler, segmented
from tests.sampling import parametrize


def test_large_matrices_use_the_library_of_an_accelerator(rng, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    n, n_matrices = batched.MAX_UNROLLED + 2, 3
    with jax.enable_x64(True):
        left, right = (jnp.asarray(rng.standard_normal((n, n, n_matrices))) for _ in range(2))
        np.testing.assert_allclose(
            batched.times(left, right), np.einsum("iks,kjs->ijs", left, right), rtol=1e-10, atol=1e-12
        )
        square = batched.times_transpose(left, left)
        np.testing.assert_allclose(square, np.einsum("iks,jks->ijs", left, left), rtol=1e-10, atol=1e-12)
        upper, reciprocals = batched.cholesky(square)
        np.testing.assert_allclose(batched.transpose_times(upper, upper), square, rtol=1e-10, atol=1e-12)
        for i in range(n_matrices):
            np.testing.assert_array_equal(np.tril(upper[:, :, i], -1), 0.0)
            np.testing.assert_allclose(reciprocals[:, i] * np.diag(upper[:, :, i]), 1.0)
        down, up = (
            batched.solve_lower(upper, reciprocals, right),
            batched.solve_upper(upper, reciprocals, right),
        )
        np.testing.assert_allclose(batched.transpose_times(upper, down), right, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(batched.times(upper, up), right, rtol=1e-9, atol=1e-9)


def test_products_of_many_small_numbers_do_not_vanish():
    with jax.enable_x64(True):
        values = jnp.full((20, 2), 1e-30)
        logs = jnp.sum(jnp.log(batched.products(values)), axis=0)
    np.testing.assert_allclose(logs, 20 * np.log(1e-30))


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@parametrize("n", [1, 3, 10], quick=[3])
def test_whitening_is_a_solve_with_the_factor(rng, monkeypatch, platform, n):
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    roots, right = rng.standard_normal((4, n, n)), rng.standard_normal((4, n, 5))
    squares = roots @ roots.transpose(0, 2, 1) + 1e-3 * np.eye(n)
    factors = np.linalg.cholesky(squares)
    wanted = np.array([scipy.linalg.solve_triangular(factors[i], right[i], lower=True) for i in range(4)])
    with jax.enable_x64(True):
        arguments = (jnp.asarray(np.moveaxis(x, 0, -1)) for x in (squares, right))
        # A new function: otherwise JAX would use the cached program of the other platform.
        found = np.moveaxis(np.asarray(jax.jit(lambda *args: batched.whiten(*args))(*arguments)), -1, 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_loops_are_used_only_for_single_kernels():
    matrix, columns = (jax.ShapeDtypeStruct(shape, np.float32) for shape in [(3, 3, 4), (3, 4, 4)])
    segments = segmented.Summaries(columns, matrix, columns)

    def program_text():
        return jax.jit(lambda *args: segmented.condition_on_next(*args)).lower(segments, matrix).as_text()

    with_hints = program_text()
    # The other version is cached now.
    with compiler.without_kernel_hints():
        without_hints = program_text()
    assert "stablehlo.while" in with_hints and "xla_cpu_small_call" in with_hints
    assert "stablehlo.while" not in without_hints and "xla_cpu_small_call" not in without_hints
    assert program_text() == with_hints


@parametrize("n", [1, 4], quick=[4])
def test_programs_with_and_without_loops_agree(rng, n):
    roots = rng.standard_normal((n, n, 5))
    matrix = np.einsum("iks,jks->ijs", roots, roots) + 0.1 * np.eye(n)[:, :, None]
    transfers = rng.standard_normal((n, n + 1, 5))
    with jax.enable_x64(True):
        arguments = segmented.Summaries(*map(jnp.asarray, (transfers, matrix, transfers))), jnp.asarray(roots)
        with_loops = segmented.condition_on_next(*arguments)
        with compiler.without_kernel_hints():
            without_loops = segmented.condition_on_next(*arguments)
        for found, wanted in zip(with_loops, without_loops, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)
        # The definition, with inverses.
        for i in range(5):
            transfer, root = transfers[:, :n, i], roots[:, :, i].T
            covariance = np.linalg.inv(
                np.linalg.inv(root @ root.T) + transfer.T @ np.linalg.solve(matrix[:, :, i], transfer)
            )
            np.testing.assert_allclose(with_loops[1][:, :, i], covariance, rtol=1e-7, atol=1e-8)
            gain = covariance @ transfer.T @ np.linalg.inv(matrix[:, :, i])
            np.testing.assert_allclose(with_loops[0][:, :, i], gain, rtol=1e-7, atol=1e-8)


def inverse(matrix):
    """Return the exact inverse of a matrix of fractions (2, 2)."""
    (a, b), (c, d) = matrix
    return np.array([[d, -b], [-c, a]], dtype=object) / (a * d - b * c)


def test_gain_of_a_segment_with_nearly_zero_variance():
    # In the direction (0.8, 0.6), gain and variance are 1e-9.
    rotation = np.array([[0.8, -0.6], [0.6, 0.8]])
    matrix = rotation @ np.diag([1e-9, 0.7]) @ rotation.T
    transfer = np.column_stack([rotation @ np.diag([1e-9, 0.9]) @ rotation.T, np.zeros(2)])
    root = np.linalg.cholesky(np.array([[1e-4, 3e-5], [3e-5, 0.5]]))
    P, F, W = (np.vectorize(Fraction, otypes=[object])(x) for x in (matrix, transfer[:, :2], root))
    conditional_covariance = inverse(inverse(W @ W.T) + F.T @ inverse(P) @ F)
    wanted = [x.astype(float) for x in (conditional_covariance @ F.T @ inverse(P), conditional_covariance)]
    with jax.enable_x64(True):
        segments = segmented.Summaries(*(jnp.asarray(x[:, :, None]) for x in (transfer, matrix, transfer)))
        found = tuple(map(np.asarray, segmented.condition_on_next(segments, jnp.asarray(root.T[:, :, None]))))
    # Errors of the gain are relative to the root of the covariance.
    covariance_root = np.linalg.cholesky(matrix)
    np.testing.assert_allclose(
        found[0][:, :, 0] @ covariance_root, wanted[0] @ covariance_root, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(found[1][:, :, 0], wanted[1], rtol=1e-9, atol=1e-14)
