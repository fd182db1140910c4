"""A larger model from a smaller one: where a climb begins that has a fit with fewer latents behind it.

New AR(1) latents are found by slow feature analysis, and from lagged covariances, of what the smaller model
leaves unexplained; rhythms where that has most power beyond the model; smooth latents as AR(1) ones that are
made smooth. All are tried as they are and weaker, since what is unexplained is mostly noise, and the exact
likelihood chooses.
"""

import numpy as np

from probsfa.statespace.learning.noise import Noise
from probsfa.statespace.learning.options import Given
from probsfa.statespace.learning.pair_starts import (
    MEMORIES,
    on_even_grid,
    smooth_from_slow,
    strongest_frequency,
    with_rhythm,
)
from probsfa.statespace.learning.starts import interpolate, starts
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Latents, Parameters, with_more_latents
from probsfa.statespace.posterior import expected_statistics, smooth

__all__ = ["enlarged", "reduced"]

_STRENGTHS = (1.0, 0.3)


def enlarged(
    params: Parameters, panel: Panel, latents: Latents, noise: Noise, given: Given | None = None
) -> Parameters:
    """The same latents and new ones, from what these leave unexplained.

    Parameters
    ----------
    params : Parameters
        The smaller model, of standardised data.
    panel : Panel
        Standardised observations.
    latents : Latents
        Which latents there shall be, as many of each kind as there are or more.
    noise : Noise
        What may happen to the noise variance.
    given : Given, optional
        Frequencies and rates that are known.

    Returns
    -------
    larger : Parameters
        Where to begin: of what was tried, the one of the highest likelihood.
    """
    more = latents.without(params.latents)
    left = panel.values[:] - params.offset
    n = panel.n_rows
    left[:n] -= smooth(params, panel).means @ params.state_space.loadings.T
    residual = panel._replace(values=left * panel.mask[:])
    for kind in (Latents(more.n_components), Latents(0, 0, more.n_smooth)):
        if kind.n_states:
            params = _best(_with_latents(params, residual, kind, noise, given), panel)
    for j in range(more.n_rhythms):
        params = _with_rhythm(params, panel, latents.n_rhythms - more.n_rhythms + j, noise, given)
    return params


def reduced(params: Parameters, latents: Latents) -> Parameters:
    """The model without the latents that explain least, as many of each kind as are wanted; noise takes them.

    Parameters
    ----------
    params : Parameters
        The larger model, of standardised data.
    latents : Latents
        Which latents there shall be, as many of each kind as there are or fewer.
    """
    power = params.loadings**2 / params.noise_variance[:, None]
    size = power.sum(axis=0)
    k, r = params.n_components, len(params.rhythm_decay)
    pairs = size[k:].reshape(-1, 2).sum(axis=1)
    slow = np.sort(np.argsort(-size[:k], kind="stable")[: latents.n_components])
    rhythms = np.sort(np.argsort(-pairs[:r], kind="stable")[: latents.n_rhythms])
    smooth_ones = np.sort(np.argsort(-pairs[r:], kind="stable")[: latents.n_smooth])
    of_pairs = np.concatenate([rhythms, r + smooth_ones]).astype(int)
    kept = np.concatenate([slow, (k + 2 * of_pairs[:, None] + np.arange(2)).ravel()]).astype(int)
    lost = np.sum(np.delete(params.loadings, kept, axis=1) ** 2, axis=1)
    return params.replace(
        decay=params.decay[slow],
        loadings=params.loadings[:, kept],
        noise_variance=params.noise_variance + 0.5 * lost,
        rhythm_decay=params.rhythm_decay[rhythms],
        rhythm_frequency=params.rhythm_frequency[rhythms],
        smooth_rate=params.smooth_rate[smooth_ones],
    )


def _best(tried: list[Parameters], panel: Panel) -> Parameters:
    """The one of the highest likelihood."""
    # The fit asks for these statistics too, so that one program is compiled for both.
    values = [expected_statistics(params, panel).log_likelihood for params in tried]
    return tried[int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))]


def _joined(params: Parameters, new: Parameters, noise: Noise) -> list[Parameters]:
    """A model with new latents of several strengths; the noise gives what these explain."""
    out = []
    for strength in _STRENGTHS:
        loadings = strength * new.loadings
        variance = params.noise_variance
        if noise.kind == "diagonal":
            explained = np.minimum(np.sum(loadings**2, axis=1), 0.5 * variance)
            variance = np.maximum(variance - explained, noise.floor)
        both = with_more_latents(params, new.replace(loadings=loadings))
        out.append(both.replace(noise_variance=variance))
    return out


def _with_latents(
    params: Parameters, residual: Panel, more: Latents, noise: Noise, given: Given | None
) -> list[Parameters]:
    """The model with more AR(1) latents, or more smooth ones."""
    n = more.n_components + more.n_smooth
    news = starts(interpolate(residual), np.zeros(params.n_features), Latents(n))
    if more.n_smooth:
        rates = None if given is None or given.rates is None else given.rates[-more.n_smooth :]
        news = (smooth_from_slow(new, more.n_smooth, rates) for new in news)
    return [each for new in news for each in _joined(params, new, noise)]


def _with_rhythm(
    params: Parameters, panel: Panel, which: int, noise: Noise, given: Given | None
) -> Parameters:
    """The model with one more rhythm, at its given frequency or where the data have most beyond the model."""
    grid = on_even_grid(panel)
    centred = [rows - params.offset for rows in grid]
    if given is None or given.frequencies is None:
        frequency = strongest_frequency(params.state_space, centred)
    else:
        frequency = float(given.frequencies[which])
    k = params.latents
    tried = []
    for memory in MEMORIES:
        whole = with_rhythm(params, frequency, centred, memory)
        first = k.n_components + 2 * k.n_rhythms
        alone = Parameters(
            np.zeros(0),
            whole.loadings[:, first : first + 2],
            params.noise_variance,
            params.offset,
            rhythm_decay=whole.rhythm_decay[-1:],
            rhythm_frequency=whole.rhythm_frequency[-1:],
        )
        tried += _joined(params, alone, noise)
    return _best(tried, panel)
