"""The Bayesian information criterion of all comparisons of models."""

import numpy as np

__all__ = ["bayesian_criterion"]


def bayesian_criterion(log_likelihood: float, n_parameters: int, n_rows: int, *, share: float = 1.0) -> float:
    """Return the Bayesian information criterion; smaller is better (Schwarz 1978).

    ``P log N - 2 log L``, with ``N`` rows in which any value is observed: values of one row are not
    independent observations of the parameters, and those of different rows nearly are.

    Parameters
    ----------
    log_likelihood : float
        Log-likelihood in nats, of the data in their own units.
    n_parameters : int
        Number of free parameters, ``P``.
    n_rows : int
        Number of rows in which any value is observed, ``N``.
    share : float, default=1.0
        Share of these rows in the likelihood. The others are assumed to be as informative, so that models
        fitted to a part of the rows are compared as if fitted to all.

    Returns
    -------
    float

    References
    ----------
    Schwarz (1978), Annals of Statistics 6:461, doi:10.1214/aos/1176344136.
    """
    return float(n_parameters * np.log(n_rows) - 2.0 * log_likelihood / share)
