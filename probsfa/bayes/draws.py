"""Posterior draws of the parameters, of all chains."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from probsfa._renamed import warn_of_old_name
from probsfa._times import timescales_from_decay
from probsfa._typing import FloatArray
from probsfa.statespace.parameters import StateLayout, StateSpace
from probsfa.statespace.processes import KINDS, Process

_EMPTY: FloatArray = np.zeros(0)


class Draws(NamedTuple):
    """Posterior draws of the parameters.

    Leading axes are those of the draws, usually ``(chain, draw)``.

    Attributes
    ----------
    decay : ndarray (..., K)
        Autocorrelation of each factor over one step.
    loadings : ndarray (..., D, K)
        Observation matrix.
    noise_variance : ndarray (..., D), or (..., S, D) for a hierarchical model of S sequences
        Variance of the observation noise.
    offset : ndarray (..., D)
        Mean of the observations; with covariates, their mean where all covariates are zero.
    exog_coef : ndarray (..., D, P)
        Coefficients of covariates.
    """

    decay: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray
    exog_coef: FloatArray = _EMPTY


class StructuralDraws(NamedTuple):
    """Posterior draws of the parameters of a model with AR(1) noise or processes other than AR(1) factors.

    The fields are the arrays of :class:`probsfa.statespace.StateSpace` and the coefficients of covariates,
    ``exog_coef``. All have the leading axes of the draws; fields that the model does not use are empty.
    """

    decay: Any
    loadings: Any
    noise_variance: Any
    offset: Any
    exog_coef: Any = _EMPTY
    level_start: Any = _EMPTY
    rhythm_decay: Any = _EMPTY
    rhythm_frequency: Any = _EMPTY
    smooth_rate: Any = _EMPTY
    line_ratio: Any = _EMPTY
    smoother_rate: Any = _EMPTY
    noise_decay: Any = _EMPTY
    noise_scale: Any = _EMPTY

    @property
    def memory_decay(self) -> Any:
        """Former name of `noise_decay`; will be removed in version 2.0."""
        warn_of_old_name("StructuralDraws.memory_decay", "noise_decay")
        return self.noise_decay

    @property
    def memory_scale(self) -> Any:
        """Former name of `noise_scale`; will be removed in version 2.0."""
        warn_of_old_name("StructuralDraws.memory_scale", "noise_scale")
        return self.noise_scale

    def of_kind(self, kind: type[Process]) -> list[Any]:
        """Return the arrays of the processes of a kind; empty if Bayesian models do not support it."""
        return [getattr(self, name, _EMPTY) for name in kind.names.values()]

    @property
    def other_processes(self) -> StateLayout:
        """Numbers of processes other than AR(1) factors."""
        return StateLayout(0, {kind: self.of_kind(kind)[0].shape[-1] for kind in KINDS})


AnyDraws: TypeAlias = Draws | StructuralDraws


def timescales(draws: AnyDraws, time_unit: float = 1.0) -> FloatArray:
    """Return the time scales (..., K) of draws; `time_unit` is the time of one step."""
    return timescales_from_decay(draws.decay, time_unit)


def in_data_units(
    draws: AnyDraws,
    shift: FloatArray,
    scale: FloatArray,
    exog_shift: FloatArray = _EMPTY,
    exog_scale: FloatArray = _EMPTY,
) -> AnyDraws:
    """Convert draws for observations ``x`` to draws for observations ``shift + scale * x``.

    Shifts and scales have shape (D,). Covariates ``u`` become ``exog_shift + exog_scale * u``, with shifts
    and scales (P,).
    """
    if isinstance(draws, StructuralDraws) and draws.noise_scale.shape[-1]:
        draws = draws._replace(noise_scale=draws.noise_scale * scale)
    offset = shift + scale * draws.offset
    if draws.exog_coef.shape[-1]:
        coefficients = draws.exog_coef * scale[:, None] / exog_scale
        draws = draws._replace(exog_coef=coefficients)
        offset = offset - coefficients @ exog_shift
    return draws._replace(
        loadings=draws.loadings * scale[:, None],
        noise_variance=draws.noise_variance * scale**2,
        offset=offset,
    )


def as_parameters(draws: AnyDraws, of_array: Callable[[Any], FloatArray]) -> StateSpace:
    """Apply a function to each array of draws except ``exog_coef``, and return the results as parameters."""
    arrays = {name: array for name, array in draws._asdict().items() if name != "exog_coef"}
    return StateSpace.from_arrays({name: of_array(array) for name, array in arrays.items()})


def posterior_mean(draws: AnyDraws) -> StateSpace:
    """Return the mean over draws (C, N, ...).

    Noise variances of a hierarchical model are also averaged over sequences.
    """
    params = as_parameters(draws, lambda x: np.mean(x, axis=(0, 1)))
    if params.noise_variance.ndim == 1:
        return params
    return params.replace(noise_variance=np.mean(params.noise_variance, axis=0))


def thinned_indices(draws: AnyDraws, n_wanted: int) -> NDArray[np.intp]:
    """Return the indices of evenly spaced draws of each chain, about `n_wanted` in total (rounded up)."""
    chains, n = draws.decay.shape[:2]
    n_per_chain = min(n, max(1, -(-n_wanted // chains)))
    return np.unique(np.linspace(0, n - 1, n_per_chain).round().astype(np.intp))


def parameters_of_draw(draws: AnyDraws, chain: int, draw: int, n_sequences: int) -> list[StateSpace]:
    """Return the parameters of each sequence for one draw; in hierarchical models their noise differs."""
    params = as_parameters(draws, lambda x: x[chain, draw])
    if params.noise_variance.ndim == 1:
        return [params] * n_sequences
    return [params.replace(noise_variance=variances) for variances in params.noise_variance]
