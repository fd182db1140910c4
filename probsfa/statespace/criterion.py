"""The Bayesian information criterion, as every comparison of models takes it."""

import numpy as np

__all__ = ["bayesian_criterion"]


def bayesian_criterion(log_likelihood: float, n_parameters: int, n_rows: int, *, share: float = 1.0) -> float:
    """Bayesian information criterion, smaller is better (Schwarz 1978).

    ``P log N - 2 log L``, with ``N`` rows in which anything is observed: rows of one time are no independent
    observations of the parameters, and those of different times nearly are.

    Parameters
    ----------
    log_likelihood : float
        In nats, of the data in their own units.
    n_parameters : int
        Free parameters, ``P``.
    n_rows : int
        Rows in which anything is observed, ``N``.
    share : float, default=1.0
        Part of these rows that the likelihood is of. The rest is taken to be as informative, so that models
        fitted to a part are compared as they would be on all.

    Returns
    -------
    float

    References
    ----------
    Schwarz (1978), Annals of Statistics 6:461, doi:10.1214/aos/1176344136.
    """
    return float(n_parameters * np.log(n_rows) - 2.0 * log_likelihood / share)
