"""The result of a fit: posterior draws, and the data and units required for predictions."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.draws import AnyDraws, in_data_units
from probsfa.bayes.relabelling.matching import Relabelling
from probsfa.statespace.parameters import StateSpace


class Units(NamedTuple):
    """Units of the model: its observations are ``(x - shift) / scale``, and its covariates likewise.

    Attributes
    ----------
    shift, scale : ndarray (D,)
        Origin and unit of each column, in data units.
    time_unit : float
        Time of one step: one row, or the median time between rows.
    exog_shift, exog_scale : ndarray (P,)
        Origin and unit of each covariate.
    """

    shift: FloatArray
    scale: FloatArray
    time_unit: float
    exog_shift: FloatArray = np.zeros(0)
    exog_scale: FloatArray = np.zeros(0)

    def with_time_unit(self, sequences: Sequences) -> Sequences:
        """Return sequences with times in steps."""
        return sequences.with_time_unit(self.time_unit)

    def standardized(self, sequences: Sequences) -> Sequences:
        """Return sequences with values, covariates and times in these units."""
        exog = sequences.exog
        return replace(
            sequences.standardized(self.shift, self.scale).with_time_unit(self.time_unit),
            exog=None if exog is None else (exog - self.exog_shift) / self.exog_scale,
        )

    def in_data_units(self, draws: AnyDraws) -> AnyDraws:
        """Return draws in data units."""
        return in_data_units(draws, self.shift, self.scale, self.exog_shift, self.exog_scale)


class InferenceResult(NamedTuple):
    """Result of a sampler or of a variational fit.

    Attributes
    ----------
    vectors : ndarray (C, N, P)
        N draws of the unconstrained parameters in each of C chains.
    sample_stats : dict of ndarray (C, N)
        Statistics of the sampler for each draw. Empty for a variational fit, and after an interrupt of the
        warm-up.
    interrupted : bool
        Whether a keyboard interrupt ended the run.
    elbo : ndarray (S,) or None
        Estimates of the evidence lower bound (ELBO), one for each step of a variational fit.
    pareto_k : float or None
        Tail index of the importance weights of a variational fit.
    modes : ndarray (M, 2) or None
        Share of the draws, and ELBO, of each mode of a variational fit.
    """

    vectors: FloatArray
    sample_stats: dict[str, NDArray[Any]]
    interrupted: bool
    elbo: FloatArray | None = None
    pareto_k: float | None = None
    modes: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class FittedPosterior:
    """Outcome of a fit.

    Attributes
    ----------
    method : {"nuts", "svi"}
        Inference method.
    draws : Draws
        Relabelled draws in data units, with labels in canonical order.
    raw_draws : Draws
        The same draws before relabelling.
    maximum : StateSpace
        Parameters in data units at the maximum of the posterior density of the unconstrained parameters; with
        Student-t noise at the maximum of a lower bound of the likelihood.
    relabelling : Relabelling
        The signed permutation of each draw, one chain after the other.
    inferred : InferenceResult
        Draws of the unconstrained parameters, and statistics of the sampler.
    units : Units
        Units of the model, to which the priors refer.
    target : Target
        The posterior density.
    data : TargetData
        Data of the posterior density.
    sequences : Sequences
        The training data.
    time_index : ndarray (T,)
        Times of all training rows in the user's format.
    seed : int
        Seed of predictive draws for ArviZ.
    degrees : ndarray (C, N) or None, default=None
        Draws of the degrees of freedom of Student-t noise. The noise variances in `draws` are then squared
        scales. None for Gaussian noise.
    exog_names : tuple of str
        Names of the covariates.
    """

    method: str
    draws: AnyDraws
    raw_draws: AnyDraws
    maximum: StateSpace
    relabelling: Relabelling
    inferred: InferenceResult
    units: Units
    target: Target
    data: TargetData
    sequences: Sequences
    time_index: NDArray[Any]
    seed: int
    degrees: FloatArray | None = None
    exog_names: tuple[str, ...] = ()

    @property
    def reported_states(self) -> NDArray[np.intp]:
        """Indices of the states that predictions report: all except the AR(1) noise of columns."""
        return self.maximum.shared_states

    @property
    def hierarchical(self) -> bool:
        """Whether each sequence has its own noise variances."""
        return self.target.n_sequences is not None
