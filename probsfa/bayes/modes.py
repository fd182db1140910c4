"""Modes of a posterior, found from several starts.

A Gaussian approximation covers one mode, and its importance weights cannot reveal other modes, because it has
no draws near them. The density is therefore maximized from further starts. The first of them has as loadings
the principal components of the covariance that the known mode does not explain. The others have random
loadings and time scales.

With stochastic cycles the density has a mode at each of several periods, and the mode near the maximum of the
likelihood may have a negligible share: in two of twenty short series (40 rows, three columns), the highest
modes were 9 and 18 nats higher. Further starts therefore have other periods.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to

from probsfa._typing import FloatArray
from probsfa.bayes.coordinates.batches import constrain
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.packing import start_values
from probsfa.bayes.relabelling.labelling import Labelling
from probsfa.bayes.sampling.evaluation import PotentialEvaluator
from probsfa.bayes.sampling.laplace import LaplaceApproximation, approximate_by_laplace, maximize_from
from probsfa.statespace.engine.settings import engine_settings
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.processes.rhythm import Rhythm

# Number of starts of a search, including the known mode.
_N_STARTS = 4
# Maxima closer than this number of posterior standard deviations are the same mode.
_MIN_MODE_DISTANCE = 1.0
# An approximate maximum is not refined if it is closer to a mode than this number of posterior standard
# deviations.
_MIN_DISTANCE_TO_REFINE = 3.0
# An approximate maximum is not refined if it is lower than the highest mode by more than this number of nats.
_MAX_LOSS_TO_REFINE = 12.0
# A mode is omitted if its approximate log evidence is lower than the largest by more than this number of
# nats. Its share of the posterior is then below 1/1000.
_MAX_EVIDENCE_LOSS = 7.0
# Sites of the period and of the damping time scale of cycles.
_CYCLE_SITES = ("period", "cycle_timescale")
# A maximum with other periods replaces the known mode if it is higher by more than this number of nats.
_MIN_GAIN_OF_CYCLES = 0.5
# Number of periods tried for each cycle, and the shortest of them, in steps.
_N_PERIODS, _MIN_PERIOD = 5, 2.5
# Minimum noise variance of a start, as a share of the variance of the column.
_MIN_NOISE_SHARE = 0.1


class Modes(NamedTuple):
    """Modes of a posterior, and whether the search was interrupted."""

    found: list[LaplaceApproximation]
    interrupted: bool


def find_modes(
    target: Target,
    data: TargetData,
    first: LaplaceApproximation,
    labelling: Labelling,
    rng: np.random.Generator,
) -> Modes:
    """Maximize a posterior density from several starts.

    Parameters
    ----------
    target : Target
        The posterior.
    data : TargetData
        Data of the posterior density.
    first : LaplaceApproximation
        The known mode.
    labelling : Labelling
        Labelling of the factors at this mode, used for all modes.
    rng : Generator
        Source of the random starts.

    Returns
    -------
    Modes
        Modes whose approximate evidence is at least 1/1000 of the largest. After a keyboard interrupt, the
        modes found so far.
    """
    data = data._replace(symmetry_reference=None)
    found = [first]
    try:
        for values in _starts(target, data, first, rng):
            with PotentialEvaluator(target, data) as evaluate:
                maximum = maximize_from(evaluate, labelling.to_vector(values))
            if maximum is None:
                continue
            vector, potential = labelling.fold(maximum[0][None])[0], maximum[1]
            if potential <= min(mode.potential for mode in found) + _MAX_LOSS_TO_REFINE:
                _add_if_new(found, target, data, vector)
    except KeyboardInterrupt:
        return Modes(found, True)
    return Modes(_with_evidence(found), False)


def find_modes_of_cycles(
    target: Target, data: TargetData, first: LaplaceApproximation, labelling: Labelling
) -> tuple[list[LaplaceApproximation], TargetData]:
    """Maximize the posterior density of a model with cycles from starts with different periods.

    Parameters
    ----------
    target : Target
        The posterior.
    data : TargetData
        Data of the posterior density.
    first : LaplaceApproximation
        The known mode.
    labelling : Labelling
        Labelling of the factors at this mode, used for all modes.

    Returns
    -------
    modes : list of LaplaceApproximation
        Modes whose approximate evidence is at least 1/1000 of the largest, by descending evidence.
    data : TargetData
        The data, with the phases of cycles fixed by the loadings of the highest maximum.
    """
    maxima = [(first.centre, first.potential)]
    with PotentialEvaluator(target, data._replace(symmetry_reference=None)) as evaluate:
        for start in _starts_of_cycles(target, data, first):
            found = maximize_from(evaluate, start)
            if found is not None:
                maxima.append((labelling.fold(found[0][None])[0], found[1]))
    maxima.sort(key=lambda maximum: maximum[1])
    vector, lowest = maxima[0]
    modes = [first]
    if lowest < first.potential - _MIN_GAIN_OF_CYCLES:
        loadings = constrain(target, data, vector).loadings
        assert target.kinds is not None
        cycles = target.kinds.others.states[Rhythm]
        k = target.n_components
        data = data._replace(phase_reference=loadings[:, k + cycles.start : k + cycles.stop])
        modes = [approximate_by_laplace(target, data, vector)]
    for vector, potential in maxima:
        if potential <= lowest + _MAX_LOSS_TO_REFINE:
            _add_if_new(modes, target, data, vector)
    return sorted(_with_evidence(modes), key=lambda mode: -mode.log_evidence), data


def _add_if_new(
    modes: list[LaplaceApproximation], target: Target, data: TargetData, vector: FloatArray
) -> None:
    """Refine an approximate maximum (P,) and add it to the known modes, unless it is close to one of them."""
    if any(_distance(mode, vector) < _MIN_DISTANCE_TO_REFINE for mode in modes):
        return
    new = approximate_by_laplace(target, data, vector)
    if all(
        min(_distance(new, mode.centre), _distance(mode, new.centre)) > _MIN_MODE_DISTANCE for mode in modes
    ):
        modes.append(new)


def _with_evidence(modes: list[LaplaceApproximation]) -> list[LaplaceApproximation]:
    """Return the modes whose approximate evidence is not negligible relative to the largest."""
    least = max(mode.log_evidence for mode in modes) - _MAX_EVIDENCE_LOSS
    return [mode for mode in modes if mode.log_evidence > least]


def _starts_of_cycles(target: Target, data: TargetData, first: LaplaceApproximation) -> Iterator[FloatArray]:
    """Yield copies (P,) of a mode, in each of which period and damping of one cycle have another value.

    The period and the damping time scale have the same value.
    """
    n_rows = int(np.sum(np.any(np.asarray(data.series.mask), axis=-1)))
    periods = np.geomspace(_MIN_PERIOD, max(n_rows / 1.5, 2.0 * _MIN_PERIOD), _N_PERIODS)
    with engine_settings():
        transforms = {name: biject_to(target.sites[name].support) for name in _CYCLE_SITES}
        for i in range(target.slices["period"].start, target.slices["period"].stop):
            for period in periods.tolist():
                vector = first.centre.copy()
                for name, transform in transforms.items():
                    place = target.slices[name].start + i - target.slices["period"].start
                    vector[place] = float(transform.inv(jnp.asarray(period)))
                yield vector


def _distance(mode: LaplaceApproximation, vector: FloatArray) -> float:
    """Return the Mahalanobis distance of a vector from a mode."""
    return float(np.linalg.norm(np.linalg.solve(mode.factor, vector - mode.centre)))


def _starts(
    target: Target, data: TargetData, first: LaplaceApproximation, rng: np.random.Generator
) -> list[dict[str, FloatArray]]:
    """Return further starts, each with values of all sites of the model."""
    values_of_first = constrain(target, data, first.centre)
    values = np.where(data.series.mask, data.series.values, np.nan)
    if data.series.exog is not None:
        values = values - data.series.exog @ values_of_first.exog_coef.T
    values = values.reshape(-1, target.n_features)
    counts = np.maximum(np.sum(~np.isnan(values), axis=0), 1)
    centred = np.nan_to_num(values - np.nansum(values, axis=0) / counts)
    observed = (~np.isnan(values)).astype(np.float64)
    covariance = centred.T @ centred / np.maximum(observed.T @ observed, 1.0)
    n_rows = max(int(np.sum(np.any(observed > 0.0, axis=1))), 10)
    starts = []
    for i in range(_N_STARTS - 1):
        decay = values_of_first.decay
        if i == 0:
            loadings = _principal_loadings(
                covariance - values_of_first.loadings @ values_of_first.loadings.T, target.n_components
            )
        else:
            directions = rng.standard_normal((target.n_features, target.n_components))
            directions /= np.linalg.norm(directions, axis=0) * np.sqrt(max(target.n_components / 2.0, 1.0))
            loadings = _principal_loadings(covariance, target.n_features) @ directions
            decay = np.exp(-1.0 / np.exp(rng.uniform(0.0, np.log(n_rows / 5.0), target.n_components)))
        variances = np.diagonal(covariance)
        noise = np.maximum(variances - np.sum(loadings**2, axis=1), _MIN_NOISE_SHARE * variances)
        start = start_values(StateSpace(decay, loadings, noise, values_of_first.offset), target)
        starts.append(start | {"exog_coef": values_of_first.exog_coef})
    return starts


def _principal_loadings(covariance: FloatArray, n_components: int) -> FloatArray:
    """Return the loadings (D, n_components) of the leading principal components, padded with zeros."""
    sizes, axes = np.linalg.eigh(covariance)
    scaled_axes = axes[:, ::-1] * np.sqrt(np.maximum(sizes[::-1], 0.0))
    out = np.zeros((len(covariance), n_components))
    out[:, : scaled_axes.shape[1]] = scaled_axes[:, :n_components]
    return out
