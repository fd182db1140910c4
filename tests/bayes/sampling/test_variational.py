"""The variational guide: exact for a normal density, wherever its coordinates begin."""

import numpy as np

from probsfa.bayes.sampling.laplace import LaplaceApproximation
from probsfa.bayes.sampling.variational import draw_from_guide, fit_guide
from tests.bayes.sampling.gaussian import GaussianTarget
from tests.tolerances import mc_tolerance


def displaced(target):
    """Coordinates off by half a standard deviation, and too wide by a fifth."""
    root = np.linalg.cholesky(target.covariance())
    return LaplaceApproximation(target.mean() + 0.5 * root.sum(axis=1), 1.2 * root, 0.0, 0)


def test_guide_draws_and_bound_are_those_of_the_posterior(rng):
    target = GaussianTarget(3, log_evidence=-7.0)
    laplace = displaced(target)
    fit = fit_guide(target, target.data(), laplace, n_steps=60, seed=0)
    assert len(fit.elbo) == 60 and not fit.interrupted
    # Each estimate is a mean over eight pairs of a number whose variance is half the size of the vector.
    assert abs(np.mean(fit.elbo[-30:]) + 7.0) < mc_tolerance(1.5 / 8, 30, 5)
    std = np.sqrt(np.diag(target.covariance()))
    mean = laplace.apply(fit.guide.mean)
    np.testing.assert_allclose((mean - target.mean()) / std, 0.0, atol=0.02)
    root = laplace.factor @ fit.guide.root
    np.testing.assert_allclose(
        root @ root.T / np.outer(std, std), target.covariance() / np.outer(std, std), atol=0.05
    )
    drawn = draw_from_guide(target, target.data(), fit.guide, laplace, 2000, rng)
    assert drawn.vectors.shape == (2000, 3) and drawn.pareto_k < 0.5
    np.testing.assert_allclose((drawn.vectors.mean(axis=0) - target.mean()) / std, 0.0, atol=0.15)
    np.testing.assert_allclose(drawn.vectors.std(axis=0) / std, 1.0, atol=0.15)


def test_the_same_seed_gives_the_same_guide():
    target = GaussianTarget(3)
    one, same, other = (
        fit_guide(target, target.data(), displaced(target), n_steps=5, seed=s).guide for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.root, same.root)
    assert not np.array_equal(one.root, other.root)
