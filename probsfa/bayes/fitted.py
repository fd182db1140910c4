"""The record of a fit: posterior draws, and what is needed to predict from them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.draws import AnyDraws
from probsfa.bayes.relabelling.matching import Relabelling
from probsfa.statespace.parameters import Parameters


class Units(NamedTuple):
    """Units that the model computes in: its values are ``(x - shift) / scale``.

    Attributes
    ----------
    shift, scale : ndarray (D,)
        Origin and unit of each column, in data units.
    time_unit : float
        Time of one step: one row, or the median time between rows.
    """

    shift: FloatArray
    scale: FloatArray
    time_unit: float

    def retimed(self, sequences: Sequences) -> Sequences:
        """Sequences with times in steps."""
        return sequences.retimed(self.time_unit)

    def standardized(self, sequences: Sequences) -> Sequences:
        """Sequences with values and times in these units."""
        return sequences.standardised(self.shift, self.scale).retimed(self.time_unit)


class Inferred(NamedTuple):
    """What a sampler or a variational fit gives.

    Attributes
    ----------
    vectors : ndarray (C, N, P)
        Draws of the unconstrained vector, of C chains.
    sample_stats : dict of ndarray (C, N)
        Statistics of each draw of the sampler; none where the draws are not the sampler's.
    interrupted : bool
        Whether an interrupt from the keyboard cut it short.
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
        How the posterior was inferred.
    draws : Draws
        Relabelled draws in data units, labels in canonical order.
    raw_draws : Draws
        The same as they were sampled.
    maximum : Parameters
        Maximum a posteriori in the sampler's coordinates, in data units.
    relabelling : Relabelling
        The signed permutation that each draw was given, one chain after the other.
    inferred : Inferred
        The draws in the sampler's coordinates, and how they came about.
    units : Units
        Units of the priors.
    target : Target
        The posterior density.
    data : TargetData
        What it is conditioned on.
    sequences : Sequences
        The training data.
    time_index : ndarray (T,)
        The user's own times of all training rows.
    seed : int
        Seed of what is drawn from the fit for ArviZ.
    degrees : ndarray (C, N) or None, default=None
        Draws of the degrees of freedom of Student-t noise, of which `draws` have the squared scales as noise
        variances; None where noise is Gaussian.
    """

    method: str
    draws: AnyDraws
    raw_draws: AnyDraws
    maximum: Parameters
    relabelling: Relabelling
    inferred: Inferred
    units: Units
    target: Target
    data: TargetData
    sequences: Sequences
    time_index: NDArray[Any]
    seed: int
    degrees: FloatArray | None = None

    @property
    def reported_states(self) -> NDArray[np.intp]:
        """States of :attr:`.Parameters.state_space` without those of the AR(1) noise of columns."""
        return self.maximum.shared_states

    @property
    def hierarchical(self) -> bool:
        """Whether each sequence has noise of its own."""
        return self.target.n_sequences is not None
