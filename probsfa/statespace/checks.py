"""What the estimator checks and prepares before the mathematics: its parameters, units and scales."""

import numbers
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from probsfa._validation import Sequences, check_count, check_option

FloatArray = NDArray[np.float64]


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a real number; True and False are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def noise_kind(noise: Any) -> Any:
    """How the noise is learned: "diagonal", "isotropic", or "fixed" where a variance is given."""
    return "fixed" if is_number(noise) else noise


def check_fit_parameters(
    n_components: Any, noise: Any, solver: Any, max_iter: Any, tol: Any, noise_floor: Any
) -> None:
    """Check the parameters of a fit.

    Raises
    ------
    ValueError
        That names the parameter, what came and what is wanted.
    """
    check_count("n_components", n_components)
    check_count("max_iter", max_iter)
    check_option("solver", solver, ("auto", "em", "lbfgs"))
    if is_number(noise):
        if not (np.isfinite(noise) and noise >= 0.0):
            raise ValueError(f"noise must be a finite variance, zero or larger; got {noise!r}.")
    elif noise not in ("diagonal", "isotropic"):
        raise ValueError(f"noise must be 'diagonal', 'isotropic' or a variance; got {noise!r}.")
    if not (is_number(tol) and tol > 0.0):
        raise ValueError(f"tol must be a positive number of nats; got {tol!r}.")
    if noise_floor != "auto" and not (is_number(noise_floor) and 0.0 < noise_floor < 1.0):
        raise ValueError(
            f"noise_floor must be 'auto' or a fraction of the variance between 0 and 1; got {noise_floor!r}."
        )


def standardisation(values: FloatArray, *, by_feature: bool) -> tuple[FloatArray, FloatArray]:
    """Shift and scale of each feature, NaN being missing; one scale for all unless `by_feature`.

    Raises
    ------
    ValueError
        If no feature varies.
    """
    shift = np.nanmean(values, axis=0)
    deviation = values - shift
    shift = shift + np.nanmean(deviation, axis=0)
    std = np.sqrt(np.nanmean((values - shift) ** 2, axis=0))
    return units(shift, std, by_feature=by_feature)


def units(shift: FloatArray, std: FloatArray, *, by_feature: bool) -> tuple[FloatArray, FloatArray]:
    """Shift and scale from means and standard deviations; see :func:`standardisation`."""
    # What rounding leaves of a constant column is no variation.
    std = np.where(std <= 8.0 * np.finfo(np.float64).eps * np.abs(shift), 0.0, std)
    if not np.any(std > 0.0):
        raise ValueError("X has only constant columns; there is nothing to find time scales of.")
    if by_feature:
        return shift, np.where(std > 0.0, std, 1.0)
    return shift, np.full_like(std, np.sqrt(np.mean(std**2)))


def retimed(found: Sequences, values: FloatArray, time_unit: float) -> Sequences:
    """The same rows with other values, and times in the given unit."""
    times = None if found.times is None else found.times / time_unit
    return Sequences(values, found.lengths, times, found.is_list, found.feature_names)


def time_unit_of(found: Sequences) -> float:
    """Unit of time of the decays: one row, or the median time between rows."""
    if max(found.lengths) < 2:
        raise ValueError("X has no sequence of two rows or more; time scales need at least one.")
    if found.times is None:
        return 1.0
    gaps = np.concatenate([np.diff(found.times[s]) for s in found.slices])
    return float(np.median(gaps))


def timescales_of(decay: FloatArray, time_unit: float) -> FloatArray:
    """Time in which correlations fall by 1/e; NaN where the decay is not positive."""
    positive = np.where(decay > 0.0, decay, np.nan)
    return -time_unit / np.log(positive)
