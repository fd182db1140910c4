"""Choice of the reference points of rotation and offset coordinates for given data."""

from typing import Any

import jax
import numpy as np

from probsfa._typing import FloatArray
from probsfa.bayes.coordinates.data import Chart, TargetData
from probsfa.bayes.coordinates.offset_scale import MAX_RELATIVE_TIMESCALE, OffsetScale, make_offset_scale
from probsfa.bayes.coordinates.rotation import RotationFrame, choose_frame
from probsfa.bayes.coordinates.target import Target, is_real
from probsfa.statespace.engine.settings import engine_settings


def choose_chart(target: Target, values: dict[str, Any], data: TargetData) -> Chart:
    """Return the chart with given parameters as reference point.

    `rotation` or `offset_scale` of the chart is None if the model does not support these coordinates.

    Parameters
    ----------
    target : Target
        The posterior.
    values : dict
        The parameters at the reference point: values of all sites of the model.
    data : TargetData
        Data of the posterior; their chart is not used.

    Returns
    -------
    Chart
    """
    if not target.has_innovation_units or target.kinds is not None:
        return Chart()
    by_group = np.asarray(values["noise_variance"])
    noise = target.noise.column_values(by_group, 0.0 if data.known_noise is None else data.known_noise)
    return Chart(_rotation(target, values, data, noise), _offset_scale(target, values, data, noise))


def _rotation(
    target: Target, values: dict[str, Any], data: TargetData, noise: FloatArray
) -> RotationFrame | None:
    """Return the frame of rotations, if the priors are symmetric in order and signs of the factors."""
    if not (target.symmetry.order and target.symmetry.signs):
        return None
    loadings, timescale = (np.asarray(values[name]) for name in ("loadings", "timescale"))
    vector = target.to_vector(values)
    coordinate, scaled = (vector[target.slices[name]] for name in ("timescale", "loadings"))
    n_rows = int(np.sum(np.any(np.asarray(data.series.mask), axis=-1)))
    return choose_frame(timescale, coordinate, loadings, scaled.reshape(loadings.shape), noise, n_rows)


def _offset_scale(
    target: Target, values: dict[str, Any], data: TargetData, noise: FloatArray
) -> OffsetScale | None:
    """Return the scale of the offset, if its support is the real line and no factor is too slow."""
    if target.n_sequences is not None or not is_real(target.sites["offset"].support):
        return None
    mask, timescale = np.asarray(data.series.mask), np.asarray(values["timescale"])
    observed = np.flatnonzero(np.any(mask, axis=1))
    if np.max(timescale) > MAX_RELATIVE_TIMESCALE * len(observed):
        return None
    # Rows after the last observed row may be padding, in which each row counts as a new sequence.
    index = np.asarray(data.series.gap_index)[: 1 + np.max(observed, initial=0)]
    n_sequences = np.sum(index == len(data.series.gaps))
    with engine_settings():
        return make_offset_scale(
            np.sum(mask, axis=0, dtype=np.float64),
            max(float(len(observed)), 1.0),
            float(n_sequences),
            np.broadcast_to(_precision(target.priors.offset), (target.n_features,)),
            np.exp(-1.0 / timescale),
            np.asarray(values["loadings"]),
            noise,
        )


def _precision(prior: Any) -> FloatArray:
    """Return the inverse variance of a prior; zero if the variance does not exist."""
    with engine_settings(), jax.ensure_compile_time_eval():
        try:
            variance = np.asarray(prior.variance, np.float64)
        except NotImplementedError:
            return np.zeros(())
    is_valid = np.isfinite(variance) & (variance > 0.0)
    return np.where(is_valid, 1.0 / np.where(is_valid, variance, 1.0), 0.0)
