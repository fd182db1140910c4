"""NUTS in whitened coordinates: draws of a known density, with all chain methods."""

import threading

import jax
import numpy as np
import pytest

from probsfa.bayes.sampling import nuts
from probsfa.bayes.sampling.laplace import LaplaceApproximation
from tests.bayes.sampling.gaussian import GaussianTarget
from tests.tolerances import mc_tolerance


def sample(target, n_draws, chain_method="vectorized", report=None, **options):
    root = np.linalg.cholesky(target.covariance())
    # The centre is not the mean: the density is symmetric about the mean, where a reflection is not detected.
    centre = target.mean() + 0.5 * root.sum(axis=1)
    laplace = LaplaceApproximation(centre, 1.3 * root, 0.0, 0)
    return nuts.sample_chains(
        target,
        target.data(),
        [laplace],
        settings=nuts.SamplerSettings(150, 0.8, 10),
        n_draws=n_draws,
        n_chains=2,
        chain_method=chain_method,
        seed=0,
        fold=lambda vectors: vectors,
        report=report,
        **options,
    )


def test_moments_are_those_of_the_density():
    target, counts = GaussianTarget(3), []
    chains = sample(target, 1000, report=counts.append)
    assert chains.vectors.shape == (2, 1000, 3) and not chains.interrupted
    assert sum(counts) == 2 * (150 + 1000) and chains.stats["diverging"].sum() == 0
    assert 0.6 < chains.stats["acceptance_rate"].mean() < 0.99
    std = np.sqrt(np.diag(target.covariance()))
    flat = (chains.vectors.reshape(-1, 3) - target.mean()) / std
    # Draws are autocorrelated: the effective sample size is at least half of their number.
    assert np.all(np.abs(flat.mean(axis=0)) < mc_tolerance(1.0, 1000, 5))
    assert np.all(np.abs((flat**2).mean(axis=0) - 1.0) < mc_tolerance(2.0, 1000, 5))
    expected = target.covariance() / np.outer(std, std)
    np.testing.assert_allclose(flat.T @ flat / len(flat), expected, atol=0.2)
    potential = np.array([float(target.potential(v, target.data())) for v in chains.vectors[0, :5]])
    np.testing.assert_allclose(chains.stats["lp"][0, :5], -potential, rtol=1e-9)


@pytest.mark.parametrize("method", ["sequential", "parallel"])
def test_chain_methods_agree(method):
    target = GaussianTarget(3)
    one, other = sample(target, 50), sample(target, 50, method)
    # Different trajectories would differ by a standard deviation. Rounding errors differ between compiled
    # programs, and the iterations of the warm-up amplify them.
    np.testing.assert_allclose(other.vectors[:, 0], one.vectors[:, 0], rtol=1e-4)


@pytest.mark.parametrize("method", ["vectorized", "parallel"])
def test_chains_are_continued_until_they_have_converged(method):
    target, lengths = GaussianTarget(3), []

    def have_converged(vectors):
        lengths.append(vectors.shape[1])
        return len(lengths) == 3

    chains = sample(target, 50, method, max_draws=1000, have_converged=have_converged)
    assert lengths == [50, 62, 74] and chains.vectors.shape == (2, 74, 3)
    assert all(stat.shape == (2, 74) for stat in chains.stats.values())
    np.testing.assert_array_equal(chains.vectors, sample(target, 74, method).vectors)
    assert sample(target, 50, max_draws=60, have_converged=lambda vectors: False).vectors.shape[1] == 60


def test_chains_start_in_modes_in_proportion_to_their_evidence():
    modes = [LaplaceApproximation(np.zeros(2), np.eye(2), potential, 0) for potential in (0.0, 1.0, 4.0)]
    assert nuts._modes_of_chains(modes[:1], 4) == [0, 0, 0, 0]
    assert nuts._modes_of_chains(modes, 4) == [0, 0, 0, 1]  # shares 0.72, 0.27 and 0.01
    assert nuts._modes_of_chains(modes, 200).count(2) == 3


def test_coordinates_of_several_modes_are_those_within_modes(rng):
    problem = nuts._Problem(None, np.zeros(2), np.eye(2))
    vectors = rng.standard_normal((4, 500, 2)) * [1.0, 3.0]
    vectors[2:] += [50.0, 0.0]
    root = nuts._whitening_root(problem, vectors, [0, 0, 1, 1])
    np.testing.assert_allclose(root @ root.T, np.diag([1.0, 9.0]), atol=0.6)
    assert nuts._whitening_root(problem, vectors, [0, 0, 0, 0])[0, 0] > 10.0


def test_each_chain_has_a_thread_by_default(monkeypatch):
    threads, advance = set(), nuts._advance

    def recorded(*args):
        threads.add(threading.get_ident())
        return advance(*args)

    monkeypatch.setattr(nuts, "_advance", recorded)
    sample(GaussianTarget(3), 50, "auto")
    assert len(threads - {threading.get_ident()}) >= 2
    assert threading.get_ident() not in threads
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert nuts.chosen_chain_method() == "vectorized"
