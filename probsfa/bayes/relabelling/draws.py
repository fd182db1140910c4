"""Posterior draws as the estimator keeps them: relabelled, in the units of the data."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

from probsfa.bayes.coordinates.target import Draws
from probsfa.bayes.relabelling.matching import Relabelling
from probsfa.linalg import canonical_signs
from probsfa.statespace.parameters import Parameters

FloatArray = NDArray[np.float64]


def in_data_units(draws: Draws, shift: FloatArray, scale: FloatArray) -> Draws:
    """Draws for ``shift + scale * x`` from those for ``x``."""
    return Draws(
        draws.decay,
        draws.loadings * scale[:, None],
        draws.noise_variance * scale**2,
        shift + scale * draws.offset,
    )


def relabelled(draws: Draws, labels: Relabelling) -> Draws:
    """Draws (C, N, ...) in the labelling found for all of them, one after the other."""
    chains, n, k = draws.decay.shape
    decay = labels.latents(draws.decay.reshape(chains * n, k), signed=False)
    loadings = labels.latents(draws.loadings.reshape(chains * n, -1, k))
    return draws._replace(
        decay=decay.reshape(draws.decay.shape), loadings=loadings.reshape(draws.loadings.shape)
    )


def canonical_order(draws: Draws, scale: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Order and signs of the labels by the package's rule: slowest first, largest correlation positive."""
    order = np.argsort(-np.median(draws.decay, axis=(0, 1)), kind="stable")
    loadings = np.mean(draws.loadings, axis=(0, 1))[:, order]
    return order, canonical_signs(loadings, scale)


def reordered(draws: Draws, order: NDArray[np.intp], signs: FloatArray) -> Draws:
    """Draws with their labels in another order and with other signs."""
    return draws._replace(decay=draws.decay[..., order], loadings=draws.loadings[..., order] * signs)


def typical(draws: Draws) -> Parameters:
    """Posterior means; of a hierarchical model's noise, the mean over its sequences."""
    means = [np.mean(x, axis=(0, 1)) for x in draws]
    noise = means[2] if means[2].ndim == 1 else np.mean(means[2], axis=0)
    return Parameters(means[0], means[1], noise, means[3])


def spread_out(draws: Draws, n_wanted: int) -> NDArray[np.intp]:
    """Which draws to use where all would be too many: evenly spread, the same in each chain."""
    chains, n = draws.decay.shape[:2]
    each = min(n, max(1, -(-n_wanted // chains)))
    return np.unique(np.linspace(0, n - 1, each).round().astype(np.intp))


def each_draw(draws: Draws, n_panels: int, chosen: NDArray[np.intp]) -> Iterator[list[Parameters]]:
    """Parameters of each panel for chosen draws of each chain, chain after chain."""
    for chain in range(draws.decay.shape[0]):
        for n in chosen:
            decay, loadings, noise, offset = (x[chain, n] for x in draws)
            if noise.ndim == 1:
                yield [Parameters(decay, loadings, noise, offset)] * n_panels
            else:
                yield [Parameters(decay, loadings, one, offset) for one in noise]


def diagnose(draws: Draws) -> dict[str, dict[str, FloatArray]]:
    """Split R-hat and effective sample size of each entry: ``{"rhat": {...}, "ess": {...}}``.

    NaN for what does not vary, such as a known noise, and for R-hat of a single draw.
    """
    found: dict[str, dict[str, FloatArray]] = {"rhat": {}, "ess": {}}
    for name, values in draws._asdict().items():
        flat = values.reshape(*values.shape[:2], -1)
        varies = np.ptp(flat, axis=(0, 1)) > 1e-12 * np.max(np.abs(flat), axis=(0, 1), initial=1e-300)
        for kind, measure in (("rhat", split_gelman_rubin), ("ess", effective_sample_size)):
            out = np.full(flat.shape[-1], np.nan)
            if flat.shape[1] >= 4 and np.any(varies):
                out[varies] = np.asarray(measure(flat[..., varies]))
            found[kind][name] = out.reshape(values.shape[2:])
    return found
