"""The variational guide is exact for a normal density, from any start."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp

from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.sampling import variational
from probsfa.bayes.sampling.laplace import LaplaceApproximation
from probsfa.bayes.sampling.variational import (
    Guide,
    GuideComponent,
    GuideFit,
    draw_from_guides,
    fit_guide,
    mix,
)
from tests.bayes.sampling.gaussian import GaussianTarget
from tests.tolerances import mc_tolerance


def displaced(target):
    """Return coordinates with a centre off by 0.5 standard deviations and a scale 20 % too large."""
    root = np.linalg.cholesky(target.covariance())
    return LaplaceApproximation(target.mean() + 0.5 * root.sum(axis=1), 1.2 * root, 0.0, 0)


def test_guide_draws_and_bound_are_those_of_the_posterior(rng):
    target = GaussianTarget(3, log_evidence=-7.0)
    laplace = displaced(target)
    fit = fit_guide(target, target.data(), laplace, n_steps=60, seed=0)
    assert len(fit.elbo) == 60 and not fit.interrupted
    # Each estimate averages eight antithetic pairs; the variance of a pair is half the number of parameters.
    assert abs(np.mean(fit.elbo[-30:]) + 7.0) < mc_tolerance(1.5 / 8, 30, 5)
    std = np.sqrt(np.diag(target.covariance()))
    mean = laplace.apply(fit.guide.mean)
    np.testing.assert_allclose((mean - target.mean()) / std, 0.0, atol=0.02)
    root = laplace.factor @ fit.guide.root
    np.testing.assert_allclose(
        root @ root.T / np.outer(std, std), target.covariance() / np.outer(std, std), atol=0.05
    )
    (mode,) = mix([(laplace, fit)])
    assert mode.share == 1.0
    drawn = draw_from_guides(target, target.data(), [mode], 2000, rng)
    assert drawn.vectors.shape == (2000, 3) and drawn.pareto_k < 0.5
    np.testing.assert_allclose((drawn.vectors.mean(axis=0) - target.mean()) / std, 0.0, atol=0.15)
    np.testing.assert_allclose(drawn.vectors.std(axis=0) / std, 1.0, atol=0.15)


def test_draws_have_the_shares_of_two_modes_for_any_shares_of_the_guides(rng):
    """Importance weights correct wrong shares of the guides."""
    target = TwoGaussians(3, rng.standard_normal((3, 3)))
    modes = [
        GuideComponent(LaplaceApproximation(centre, root, 0.0, 0), Guide(np.zeros(3), 1.1 * np.eye(3)), share)
        for centre, root, share in zip(target.centres, target.roots, (0.5, 0.5), strict=True)
    ]
    drawn = draw_from_guides(target, target.data(), modes, 4000, rng)
    assert drawn.pareto_k < 0.5
    assert abs(np.mean(drawn.modes == 0) - target.shares[0]) < 0.02
    for i, (centre, root) in enumerate(zip(target.centres, target.roots, strict=True)):
        of_mode = np.linalg.solve(root, (drawn.vectors[drawn.modes == i] - centre).T).T
        np.testing.assert_allclose(of_mode.mean(axis=0), 0.0, atol=0.15)
        np.testing.assert_allclose(of_mode.std(axis=0), 1.0, atol=0.1)


def test_shares_of_a_mixture_are_those_of_the_evidence():
    """The ELBO of an exact guide is the log evidence of its mode."""
    laplace = LaplaceApproximation(np.zeros(2), np.eye(2), 0.0, 0)
    guide = Guide(np.zeros(2), np.eye(2))
    fits = [(laplace, GuideFit(guide, np.full(4, bound), False)) for bound in np.log([0.2, 0.8, 1e-4])]
    shares = [mode.share for mode in mix(fits)]
    np.testing.assert_allclose(shares, [0.8, 0.2])


@dataclass(frozen=True, eq=False)
class TwoGaussians:
    """A target with two modes that do not overlap, with known shares."""

    size: int
    directions: np.ndarray
    shares = (0.7, 0.3)

    @property
    def centres(self):
        return [np.zeros(3), np.full(3, 30.0)]

    @property
    def roots(self):
        return [np.eye(3), np.linalg.cholesky(self.directions @ self.directions.T + np.eye(3))]

    def data(self):
        return TargetData((np.array(self.centres), np.array(self.roots)))

    def potential(self, vector, data):
        centres, roots = data.series
        apart = jax.vmap(jnp.linalg.solve)(roots, vector - centres)
        log_dets = jnp.linalg.slogdet(roots)[1]
        return -logsumexp(jnp.log(jnp.array(self.shares)) - 0.5 * jnp.sum(apart**2, axis=1) - log_dets)


def test_equal_seeds_give_equal_guides():
    target = GaussianTarget(3)
    one, same, other = (
        fit_guide(target, target.data(), displaced(target), n_steps=5, seed=s).guide for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.root, same.root)
    assert not np.array_equal(one.root, other.root)


class HeavyTarget(GaussianTarget):
    """Independent Student-t variables with ten degrees of freedom."""

    def potential(self, vector, data):
        del data
        return 5.5 * jnp.sum(jnp.log1p(vector**2 / 10.0))


def test_widened_guides_have_importance_weights_with_lighter_tails(monkeypatch):
    target = HeavyTarget(6)
    laplace = LaplaceApproximation(np.zeros(6), np.eye(6), 0.0, 0)
    modes = mix([(laplace, fit_guide(target, target.data(), laplace, n_steps=60, seed=0))])

    def drawn(seed):
        return draw_from_guides(target, target.data(), modes, 2000, np.random.default_rng(seed))

    wide = [drawn(seed) for seed in range(5)]
    assert np.std([one.vectors for one in wide]) == pytest.approx(np.sqrt(10.0 / 8.0), rel=0.02)
    monkeypatch.setattr(variational, "_RELATIVE_WIDENING", 0.0)
    narrow = [drawn(seed).pareto_k for seed in range(5)]
    assert np.mean([one.pareto_k for one in wide]) < np.mean(narrow) - 0.15
