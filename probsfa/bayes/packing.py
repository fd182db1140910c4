"""Conversion of validated sequences to arrays of the model, and of parameters to values of its sites."""

from typing import Any

import numpy as np

from probsfa._times import timescales_from_decay
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.kinds import MAX_DECAY, MIN_DECAY, site_values
from probsfa.bayes.model import Series, from_panel
from probsfa.statespace.panel import Panel, make_panel, padded_length
from probsfa.statespace.parameters import StateSpace

# Smallest standard deviation of the AR(1) noise of a start, relative to that of the column.
_MIN_SCALE = 0.05
#: Smallest noise variance of a start and of draws, relative to the variance of the column.
MIN_NOISE = 1e-12


def pack(sequences: Sequences, hierarchical: bool) -> Series:
    """Return the sequences one after the other, (T, D); for a hierarchical model padded, (S, T, D)."""
    exog = sequences.exog
    if not hierarchical:
        series = from_panel(make_panel(sequences))
        return series if exog is None else series._replace(exog=_padded(exog, len(series.values)))
    panel_of_all = make_panel(sequences, pad=False)
    n_steps, d = padded_length(max(sequences.lengths)), sequences.n_features
    shape = (len(sequences.lengths), n_steps)
    values, mask = np.zeros((*shape, d)), np.zeros((*shape, d), dtype=bool)
    index = np.full(shape, panel_of_all.gaps.size, dtype=np.int32)
    for i, (rows, n) in enumerate(zip(sequences.slices, sequences.lengths, strict=True)):
        values[i, :n], mask[i, :n] = panel_of_all.values[rows], panel_of_all.mask[rows] > 0.0
        index[i, :n] = panel_of_all.gap_index[rows]
    if exog is not None:
        exog = np.stack([_padded(exog[rows], n_steps) for rows in sequences.slices])
    return Series(values, mask, index, panel_of_all.gaps, exog)


def _padded(exog: FloatArray, n_steps: int) -> FloatArray:
    """Return covariates (n_steps, P), zero in rows of padding."""
    return np.concatenate([exog, np.zeros((n_steps - len(exog), exog.shape[1]))])


def panels_of(sequences: Sequences, hierarchical: bool) -> tuple[list[Panel], list[list[tuple[int, int]]]]:
    """Return panels, one for each set of noise variances.

    The second result has, for each panel, pairs of the index of a sequence and its last row in the panel.
    """
    if not hierarchical:
        return [make_panel(sequences)], [[(i, s.stop - 1) for i, s in enumerate(sequences.slices)]]
    panels = [make_panel(sequences.sequence(i)) for i in range(len(sequences.lengths))]
    return panels, [[(i, n - 1)] for i, n in enumerate(sequences.lengths)]


def start_values(params: StateSpace, target: Target) -> dict[str, Any]:
    """Return the values of the model's sites at parameters, as a start.

    Time scales and noise are limited to positive finite values. Coefficients of covariates are zero.
    """
    noise = target.noise.group_values(np.maximum(params.noise_variance, MIN_NOISE))
    return site_values(params.to_arrays(), params.loadings, params.n_components) | {
        "timescale": timescales_from_decay(np.clip(params.decay, MIN_DECAY, MAX_DECAY)),
        "loadings": params.loadings[:, : params.n_components],
        "noise_std": np.sqrt(noise),
        "noise_variance": noise,
        "typical_noise_variance": noise,
        "noise_spread": 0.1,
        "noise_deviation": 0.0,
        "offset": params.offset,
        "exog_coef": 0.0,
        "ar_noise_timescale": timescales_from_decay(np.clip(params.noise_decay, MIN_DECAY, MAX_DECAY)),
        "ar_noise_std": np.maximum(params.noise_scale, _MIN_SCALE),
    }
