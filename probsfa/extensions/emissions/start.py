"""Starting point of the maximization: a Gaussian model of transformed values.

Counts are transformed by square roots, outliers are clipped, and zeros and ones are not changed. The loadings
of the predictors are approximated by the loadings of the Gaussian model, divided by the derivatives of the
transformed values with respect to the predictors.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from probsfa._validation import Sequences
from probsfa.extensions.emissions.learning import Prior, Report
from probsfa.extensions.emissions.sites import Block, Shapes
from probsfa.statespace.learning.maximum_likelihood import InMemory, maximum_likelihood
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.parameters import StateSpace

__all__ = ["Start", "initialize"]

# Maximum norm of the initial loadings of a column without a scale, in units of the predictor.
_MAX_LOADING_NORM = 2.0
# Maximum absolute value of an initial decay.
_MAX_DECAY = 0.9999


class Start(NamedTuple):
    """Starting point of the maximization.

    Attributes
    ----------
    params : StateSpace
        Parameters of the predictors; noise variances are not used.
    shapes : tuple of ndarray
        Shape parameters of each block.
    prior : Prior
        Weak priors, centred at the means of the columns.
    time_unit : float
        Unit of time of the decays.
    interrupted : bool
        Whether an interrupt from the keyboard ended the fit of the Gaussian model.
    """

    params: StateSpace
    shapes: Shapes
    prior: Prior
    time_unit: float
    interrupted: bool


def initialize(
    sequences: Sequences, blocks: tuple[Block, ...], options: FitOptions, report: Report | None = None
) -> Start:
    """Fit the Gaussian model to encoded rows, and convert its parameters to those of the predictors.

    Parameters
    ----------
    sequences : Sequences
        Encoded rows, in the units of the model.
    blocks : tuple of Block
        Families of the model columns.
    options : FitOptions
        Options of the Gaussian model.
    report : callable, optional
        Called with the number of evaluations and the best log-likelihood so far.

    Returns
    -------
    Start
    """
    mask = sequences.mask
    filled = np.where(mask, sequences.values, 0.0)
    counts = mask.sum(axis=0)
    means = filled.sum(axis=0) / counts
    scores = np.full_like(filled, np.nan)
    derivatives = np.ones(filled.shape[1])
    for family, columns in blocks:
        if not family.has_scale:
            # A pseudo-observation of 0.5 with weight 0.5 keeps means of binary columns inside (0, 1), and
            # means of counts positive.
            means[columns] = (means[columns] * counts[columns] + 0.25) / (counts[columns] + 0.5)
        scores[:, columns], derivatives[columns] = family.gaussian_scores(filled[:, columns], means[columns])
    gaussian = maximum_likelihood(
        InMemory(replace(sequences, values=np.where(mask, scores, np.nan))), options, report=report
    )
    params = gaussian.params
    loadings = params.loadings / derivatives[:, None]
    offset, centre = params.offset.copy(), np.zeros(len(means))
    has_prior = np.zeros(len(means), dtype=bool)
    shapes = []
    for family, columns in blocks:
        noise = params.noise_variance[columns]
        shapes.append(family.initial_shape(filled[:, columns], mask[:, columns].astype(np.float64), noise))
        if family.has_scale:
            continue
        loading_norms = np.linalg.norm(loadings[columns], axis=1, keepdims=True)
        loadings[columns] *= np.minimum(1.0, _MAX_LOADING_NORM / np.maximum(loading_norms, 1e-300))
        centre[columns] = family.predictor_of(means[columns])
        offset[columns] = centre[columns]
        if family.is_integer and family.name != "bernoulli":
            # The mean of exp(eta) is exp(mean + variance / 2).
            offset[columns] -= 0.5 * np.sum(loadings[columns] ** 2, axis=1)
        has_prior[columns] = True
    params = params.replace(
        decay=np.clip(params.decay, -_MAX_DECAY, _MAX_DECAY),
        loadings=loadings,
        offset=offset,
        noise_variance=np.ones(len(means)),
    )
    return Start(params, tuple(shapes), Prior(has_prior, centre), gaussian.time_unit, gaussian.interrupted)
