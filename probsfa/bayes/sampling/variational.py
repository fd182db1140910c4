"""Variational inference with a Gaussian of full covariance, in whitened coordinates, corrected by weights.

The guide is ``u = m + L e``. It starts at Laplace's approximation, ``m = 0`` and ``L = I``, which is close
already, and descends the Kullback-Leibler divergence by natural gradients (Salimbeni, Eleftheriadis &
Hensman 2018) of the path-derivative estimator (Roeder, Wu & Duvenaud 2017), whose noise vanishes where the
guide fits. Draws from it are then drawn once more, in proportion to how much denser the posterior is than
the guide (:mod:`.importance`), which mends tails that no normal distribution has.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.sampling.evaluation import PotentialEvaluator
from probsfa.bayes.sampling.importance import resample, smoothed_weights
from probsfa.bayes.sampling.laplace import LaplaceApproximation

# Gradients of a step.
_BATCH = 16
# Share of the steps at the end whose guides are averaged.
_AVERAGED = 0.5
# Length of the first steps, and after how many steps they get shorter.
_RATE, _SLOWING = 0.5, 15.0


class Guide(NamedTuple):
    """A Gaussian in whitened coordinates: ``mean`` (P,) and lower triangular ``root`` (P, P)."""

    mean: FloatArray
    root: FloatArray


class GuideFit(NamedTuple):
    """Outcome of a variational fit.

    Attributes
    ----------
    guide : Guide
        Averaged over the last steps.
    elbo : ndarray (S,)
        Estimates of the evidence lower bound, one for each step.
    interrupted : bool
        Whether an interrupt cut it short.
    """

    guide: Guide
    elbo: FloatArray
    interrupted: bool


class GuideDraws(NamedTuple):
    """Draws from a guide: ``vectors`` (N, P) and the tail index of their weights (see `draw`)."""

    vectors: FloatArray
    pareto_k: float


def fit_guide(
    target: Target,
    data: TargetData,
    laplace: LaplaceApproximation,
    *,
    n_steps: int,
    seed: int,
    report: Callable[[int], None] | None = None,
) -> GuideFit:
    """Fit the guide.

    Parameters
    ----------
    target : Target
        The posterior.
    data : TargetData
        What it is conditioned on.
    laplace : LaplaceApproximation
        Coordinates of the guide.
    n_steps : int
        Steps, of 16 gradients each, in pairs at opposite points.
    seed : int
        Source of all randomness.
    report : callable, optional
        Called with the number of steps since the last call.

    Returns
    -------
    GuideFit
    """
    rng = np.random.default_rng(seed)
    size = target.size
    constant = 0.5 * size * (1.0 + np.log(2.0 * np.pi)) + np.linalg.slogdet(laplace.factor)[1]
    # Long steps first, then ever shorter ones, whose average converges (Polyak & Juditsky 1992).
    rates = _RATE / (1.0 + np.arange(n_steps) / _SLOWING) ** 0.7
    guides = [Guide(np.zeros(size), np.eye(size))]
    elbo: list[float] = []
    try:
        with PotentialEvaluator(target, data) as evaluate:
            for rate in rates:
                guide = guides[-1]
                half = rng.standard_normal((_BATCH // 2, size))
                normals = np.concatenate([half, -half])
                vectors = laplace.apply(guide.mean + normals @ guide.root.T)
                potentials, slopes = evaluate.many(vectors)
                entropy = constant + np.sum(np.log(np.abs(np.diag(guide.root))))
                guides.append(_improved(guide, normals, slopes @ laplace.factor, rate))
                elbo.append(float(entropy - np.mean(potentials)))
                if report is not None:
                    report(1)
    except KeyboardInterrupt:
        return GuideFit(_average(guides), np.array(elbo), True)
    return GuideFit(_average(guides), np.array(elbo), False)


def _improved(guide: Guide, normals: FloatArray, slopes: FloatArray, rate: float) -> Guide:
    """The guide after a step, from the slopes (N, P) of the potential at its draws."""
    # In the guide's own coordinates the exact slope would be e: what is left tells how the guide errs.
    excess = slopes @ guide.root - normals
    excess = np.where(np.isfinite(excess), excess, 0.0)
    by_mean = np.mean(excess, axis=0)
    by_root = excess.T @ normals / len(normals)
    by_root = 0.5 * (by_root + by_root.T)
    # Natural gradient, no longer than a step after which the root is still positive.
    length = np.sqrt(np.sum(by_mean**2) + np.sum(by_root**2))
    rate = rate / max(1.0, rate * length)
    change = np.tril(by_root, -1) + 0.5 * np.diag(np.diag(by_root))
    return Guide(guide.mean - rate * guide.root @ by_mean, guide.root - rate * guide.root @ change)


def _average(guides: list[Guide]) -> Guide:
    last = guides[-max(1, int(_AVERAGED * len(guides))) :]
    return Guide(*(np.mean(parts, axis=0) for parts in zip(*last, strict=True)))


def draw_from_guide(
    target: Target,
    data: TargetData,
    guide: Guide,
    laplace: LaplaceApproximation,
    n_draws: int,
    rng: np.random.Generator,
) -> GuideDraws:
    """Draws from the guide, and among them draws by how much denser the posterior is.

    Parameters
    ----------
    target, data, guide, laplace
        As in and from `fit_guide`.
    n_draws : int
        Draws wanted; twice as many are made, in pairs of opposite ones, and weighed.
    rng : Generator
        Source of all randomness.

    Returns
    -------
    GuideDraws
        ``pareto_k`` tells how far the guide is from the posterior: below 0.7 the weights mend it, above they
        do not (Vehtari et al. 2024); NaN after an interrupt, which leaves the guide's draws as they are.
    """
    half = rng.standard_normal((n_draws, target.size))
    normals = np.concatenate([half, -half])
    vectors = laplace.apply(guide.mean + normals @ guide.root.T)
    try:
        with PotentialEvaluator(target, data) as evaluate:
            potentials = evaluate.values(vectors)
    except KeyboardInterrupt:
        return GuideDraws(vectors[:n_draws], np.nan)
    weights, pareto_k = smoothed_weights(0.5 * np.sum(normals**2, axis=1) - potentials)
    return GuideDraws(vectors[resample(weights, n_draws, rng)], pareto_k)
