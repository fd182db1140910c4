"""Standard errors from the observed information.

The second derivative of the log-likelihood is taken as central differences of the exact score, in the free
coordinates (:mod:`.coordinates`), where the likelihood is closest to a parabola; the
delta method brings the errors to the parameters. A noise variance at its floor is not free and has no
standard error.
"""

import warnings
from typing import NamedTuple

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.learning import processes
from probsfa.statespace.learning.coordinates import Coordinates, from_vector, score, to_vector
from probsfa.statespace.learning.fisher_metric import Metric, complete_data_of
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import expected_statistics

# Steps of the differences, in units of the expected standard errors.
_STEP = 0.01


class StandardErrors(NamedTuple):
    """Standard errors of the parameters, with the parameters' own shapes and units.

    Attributes
    ----------
    decay : ndarray of shape (K,)
    loadings : ndarray of shape (D, K)
    noise_variance : ndarray of shape (D,)
        NaN where the variance is fixed or at its floor.
    offset : ndarray of shape (D,)
    timescales : ndarray of shape (K,)
        NaN where the decay is not positive.
    """

    decay: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray
    timescales: FloatArray


def observed_information(
    layout: Coordinates, params: Parameters, panel: Panel, free: BoolArray
) -> FloatArray:
    """Minus the second derivative of the log-likelihood by the free coordinates, shape (F, F)."""
    vector = to_vector(layout, params)
    stats = expected_statistics(params, panel)
    expected = np.diag(Metric(layout, params, complete_data_of(stats)).to_dense())
    indices = np.flatnonzero(free)
    columns = []
    for i in indices:
        step = np.zeros_like(vector)
        step[i] = _STEP / np.sqrt(max(float(expected[i]), 1.0))
        ahead, behind = (
            _score_at(layout, vector + sign * step, params, panel)[indices] for sign in (1.0, -1.0)
        )
        columns.append((behind - ahead) / (2.0 * step[i]))
    information = np.array(columns)
    return 0.5 * (information + information.T)


def _score_at(layout: Coordinates, vector: FloatArray, template: Parameters, panel: Panel) -> FloatArray:
    params = from_vector(layout, vector, template)
    return score(layout, params, panel.gaps, expected_statistics(params, panel))


def standard_errors(
    layout: Coordinates,
    params: Parameters,
    panel: Panel,
    floors: tuple[float, ...],
    scale: FloatArray,
    time_unit: float,
) -> StandardErrors:
    """Standard errors at a maximum of the likelihood.

    Parameters
    ----------
    layout : Coordinates
        Free coordinates.
    params : Parameters
        Maximum-likelihood parameters of the standardised data.
    panel : Panel
        Standardised observations.
    floors : tuple of float
        Noise variances (standardised) at which a feature counts as held up by a floor.
    scale : ndarray of shape (D,)
        Unit of each standardised feature, in data units.
    time_unit : float
        Unit of time of the decays.

    Returns
    -------
    StandardErrors
        In data units.

    Warns
    -----
    UserWarning
        If the information is not positive definite; the errors concerned are NaN.
    """
    d, k = layout.n_features, layout.n_states
    at_floor = np.any(np.isclose(params.noise_variance[:, None], floors, rtol=1e-6), axis=1)
    free = np.ones(layout.size, dtype=bool)
    free[layout.slices[1]] = params.free_loadings.ravel()
    free[layout.slices[2]] = {"diagonal": ~at_floor, "isotropic": [not at_floor.any()], "fixed": []}[
        layout.noise
    ]
    information = observed_information(layout, params, panel, free)
    variances = np.full(layout.size, np.nan)
    diagonal = np.diag(information)
    unit = 1.0 / np.sqrt(np.maximum(diagonal, np.finfo(np.float64).eps * max(float(diagonal.max()), 1.0)))
    values, vectors = np.linalg.eigh(information * unit[:, None] * unit)
    if np.any(diagonal <= 0.0) or values[0] <= 1e-12 * values[-1]:
        warnings.warn(
            "The observed information is not positive definite: the fit is not at a maximum, or some "
            "parameters are not identified by the data. Their standard errors are NaN.",
            stacklevel=3,
        )
        positive = values > 1e-12 * values[-1]
        weak = np.sum(vectors[:, ~positive] ** 2, axis=1) > 1e-6
        inverse = np.sum(vectors[:, positive] ** 2 / values[positive], axis=1)
        variances[free] = np.where(weak, np.nan, inverse) * unit**2
    else:
        variances[free] = np.sum(vectors**2 / values, axis=1) * unit**2
    dynamics_part, loadings_part, noise_part, offset_part = (
        np.sqrt(variances[part]) for part in layout.slices
    )
    noise = {"diagonal": noise_part, "isotropic": np.repeat(noise_part, d), "fixed": np.full(d, np.nan)}
    dynamics = processes.standard_errors(
        params, dynamics_part, time_unit, evenly_sampled=layout.evenly_sampled
    )
    return StandardErrors(
        loadings=loadings_part.reshape(d, k) * scale[:, None],
        noise_variance=noise[layout.noise] * params.noise_variance * scale**2,
        offset=offset_part * scale,
        **dynamics,
    )
