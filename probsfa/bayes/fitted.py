"""The record of a fit: posterior draws, and the data and units required for predictions."""

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
    """Units of the model: its values are ``(x - shift) / scale``, and its covariates likewise.

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
            sequences.standardised(self.shift, self.scale).with_time_unit(self.time_unit),
            exog=None if exog is None else (exog - self.exog_shift) / self.exog_scale,
        )

    def in_data_units(self, draws: AnyDraws) -> AnyDraws:
        """Return draws in data units."""
        return in_data_units(draws, self.shift, self.scale, self.exog_shift, self.exog_scale)


class Inferred(NamedTuple):
    """Result of a sampler or of a variational fit.

    Attributes
    ----------
    vectors : ndarray (C, N, P)
        Draws of the unconstrained vector, of C chains.
    sample_stats : dict of ndarray (C, N)
        Statistics of each draw of the sampler; empty for other methods.
    interrupted : bool
        Whether a keyboard interrupt ended it.
    elbo : ndarray (S,) or None
        Estimates of the evidence lower bound, one for each step of a variational fit.
    pareto_k : float or None
        Tail index of the importance weights of a variational fit.
    modes : ndarray (M, 2) or None
        Share of the draws, and evidence lower bound, of each mode of a variational fit.
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
        Maximum a posteriori in the sampler's coordinates, in data units.
    relabelling : Relabelling
        The signed permutation of each draw, one chain after the other.
    inferred : Inferred
        The draws in the sampler's coordinates, and statistics of the sampler.
    units : Units
        Units of the priors.
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
        Draws of the degrees of freedom of Student-t noise; the noise variances in `draws` are then squared
        scales. None for Gaussian noise.
    exog_names : tuple of str
        Names of the covariates.
    """

    method: str
    draws: AnyDraws
    raw_draws: AnyDraws
    maximum: StateSpace
    relabelling: Relabelling
    inferred: Inferred
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
        """States of :attr:`.StateSpace.state_space` other than those of the AR(1) noise of columns."""
        return self.maximum.shared_states

    @property
    def hierarchical(self) -> bool:
        """Return whether each sequence has its own noise."""
        return self.target.n_sequences is not None
