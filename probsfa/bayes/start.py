"""Start of a fit: the maximum of the likelihood, which is near that of the posterior."""

from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.bayes.fitted import Units
from probsfa.statespace.columns import column_moments
from probsfa.statespace.learning.maximum_likelihood import InMemory, maximum_likelihood
from probsfa.statespace.learning.options import FitOptions, ProcessOptions
from probsfa.statespace.learning.regression import maximum_likelihood_with_covariates
from probsfa.statespace.parameters import StateSpace

# Maximum number of iterations, and expected gain in nats at which to stop. A start need not have converged.
_MAX_ITER, _TOL = 100, 1e-2


class Start(NamedTuple):
    """An approximate maximum of the likelihood.

    Attributes
    ----------
    params : StateSpace
        Parameters in data units.
    units : Units
        Units in which the data are standardized.
    degrees : float
        Degrees of freedom of Student-t noise; infinite for Gaussian noise.
    coefficients : ndarray (D, P) or None
        Coefficients of covariates, if any.
    """

    params: StateSpace
    units: Units
    degrees: float = np.inf
    coefficients: FloatArray | None = None


def maximum_likelihood_start(
    sequences: Sequences,
    n_components: int,
    noise: Any,
    *,
    robust: bool = False,
    processes: ProcessOptions | None = None,
) -> Start:
    """Maximize the likelihood approximately.

    Parameters
    ----------
    sequences : Sequences
        Checked data, with covariates if the model has any.
    n_components : int
        Number of factors.
    noise : str, float or array-like (D,)
        As in :class:`probsfa.BayesianSFA`.
    robust : bool, default=False
        Whether noise is Student-t.
    processes : ProcessOptions, optional
        Options of processes other than AR(1) factors; none by default.

    Returns
    -------
    Start

    Raises
    ------
    ValueError
        If no column varies, or no sequence has two rows.
    KeyboardInterrupt
        After a keyboard interrupt, because there is no posterior yet.
    """
    options = FitOptions(
        n_components,
        noise=noise,
        robust=robust,
        max_iter=_MAX_ITER,
        tol=_TOL,
        processes=processes or ProcessOptions(),
    )
    exog = sequences.exog
    if exog is None:
        fitted, regression = maximum_likelihood(InMemory(sequences), options), None
    else:
        names = tuple(str(j) for j in range(exog.shape[1]))
        fitted, regression = maximum_likelihood_with_covariates(sequences, names, options)
    if fitted.interrupted:
        raise KeyboardInterrupt
    if exog is not None and regression is not None:
        # Priors are relative to standard deviations of the columns, not of residuals of the regression.
        shift, scale = column_moments(sequences).units(by_feature=options.scales_by_feature)
        units = Units(shift, scale, fitted.time_unit, exog.mean(axis=0), exog.std(axis=0))
        return Start(fitted.params, units, coefficients=regression.coefficients)
    degrees = np.inf if fitted.tails is None else fitted.tails.shape
    return Start(fitted.params, Units(fitted.shift, fitted.scale, fitted.time_unit), degrees)
