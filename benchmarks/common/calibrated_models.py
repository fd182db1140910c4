"""Models of simulation-based calibration: prior draws, canonical forms, and the figure of the ranks."""

from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from probsfa.bayes import Priors
from probsfa.bayes.kinds import CYCLE_LOADING
from probsfa.statespace import StateSpace

BINS, KEPT = 10, 49  # ranks from 0 to 49, five to a bin


class Model(NamedTuple):
    """A model: numbers of columns, AR(1) factors and cycles, and whether noise is autocorrelated."""

    n_features: int
    n_components: int
    n_cycles: int = 0
    ar_noise: bool = False


MODELS = {"factors": Model(4, 2), "ar1": Model(3, 1, ar_noise=True), "cycle": Model(3, 1, 1)}


def prior_draw(model: Model, rng: np.random.Generator) -> StateSpace:
    """Draw parameters from the priors."""
    d, k, r = model.n_features, model.n_components, model.n_cycles
    own = d if model.ar_noise else 0
    priors = Priors()

    def draw(name: str, *shape: int) -> np.ndarray:
        with jax.enable_x64(True):
            key = jax.random.key(int(rng.integers(2**31)))
            return np.asarray(getattr(priors, name).sample(key, shape), np.float64)

    return StateSpace(
        np.exp(-1.0 / draw("timescale", k)),
        np.hstack([draw("loadings", d, k), CYCLE_LOADING * rng.standard_normal((d, 2 * r))]),
        draw("noise_std", d) ** 2,
        draw("offset", d),
        rhythm_decay=np.exp(-1.0 / draw("cycle_timescale", r)),
        rhythm_frequency=2.0 * np.pi / draw("cycle_period", r),
        noise_decay=np.exp(-1.0 / draw("ar_noise_timescale", own)),
        noise_scale=draw("ar_noise_std", own),
    )


def canonical(params: StateSpace, latents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return parameters (P,) and factors (T, S) with canonical order, signs and phases."""
    k, loadings, latents = len(params.decay), params.loadings.copy(), latents.copy()
    order = np.argsort(-params.decay)
    largest = loadings[np.argmax(np.abs(loadings[:, order]), axis=0), order]
    loadings[:, :k] = loadings[:, order] * np.sign(largest)
    latents[:, :k] = latents[:, order] * np.sign(largest)
    for j in range(k, loadings.shape[1], 2):
        phasor = loadings[:, j] + 1j * loadings[:, j + 1]
        turn = np.exp(-1j * np.angle(phasor[np.argmax(np.abs(phasor))]))
        for array, turned in (
            (loadings, phasor * turn),
            (latents, (latents[:, j] + 1j * latents[:, j + 1]) * turn),
        ):
            array[:, j], array[:, j + 1] = turned.real, turned.imag
        # Exactly, so that truth and draws are equal there whatever the rounding of the rotation.
        loadings[np.argmax(np.abs(phasor)), j + 1] = 0.0
    parts = [
        params.decay[order],
        loadings.ravel(),
        params.noise_variance,
        params.offset,
        params.rhythm_decay,
        params.rhythm_frequency,
        params.noise_decay,
        params.noise_scale,
    ]
    return np.concatenate(parts), latents


def names(model: Model) -> list[str]:
    """Return the names of the parameters of `canonical`."""
    d, k, r = range(model.n_features), range(model.n_components), range(model.n_cycles)
    own = d if model.ar_noise else ()
    states = [*(f"{i + 1}" for i in k), *(f"{part} {j + 1}" for j in r for part in ("cos", "sin"))]
    return [
        *(f"decay {i + 1}" for i in k),
        *(f"loading {i + 1},{state}" for i in d for state in states),
        *(f"noise {i + 1}" for i in d),
        *(f"offset {i + 1}" for i in d),
        *(f"damping {j + 1}" for j in r),
        *(f"frequency {j + 1}" for j in r),
        *(f"AR(1) decay {i + 1}" for i in own),
        *(f"AR(1) scale {i + 1}" for i in own),
    ]


def draw_figure(labels: list[str], ranks: np.ndarray, path: Path) -> None:
    """Draw histograms of the ranks, and the band that contains 99 % of the bars under calibration."""
    from matplotlib.figure import Figure
    from scipy.stats import binom

    n_rows = -(-len(labels) // 6)
    figure = Figure(figsize=(11, 2 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, 6, sharex=True, sharey=True).ravel()[: len(labels)]
    low, high = binom.ppf([0.005, 0.995], len(ranks), 1 / BINS)
    for ax, name, column in zip(axes, labels, ranks.T, strict=True):
        ax.axhspan(low, high, color="#0072B2", alpha=0.15, lw=0)
        ax.hist(column, bins=np.linspace(-0.5, KEPT + 0.5, BINS + 1), color="#0072B2", rwidth=0.9)
        ax.set_title(name, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(f"rank of the truth among {KEPT} draws; {len(ranks)} replicates")
    figure.savefig(path, dpi=110)
