"""Residual diagnostics during a model selection: evidence for cycles or autocorrelation in the residuals.

If a model is correct, its one-step prediction errors are uncorrelated, and the whitened spectrum of the data
has no peaks. These diagnostics are faster than one likelihood evaluation, and a fit of a larger model
requires many evaluations.
"""

from typing import NamedTuple

import numpy as np

from probsfa._validation import Sequences
from probsfa.statespace.columns import autocorrelation
from probsfa.statespace.learning.budget import choose_segments
from probsfa.statespace.learning.starts import interpolate_to_grid, likelihood_gain_of_cycle
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.student_model import StudentModel

__all__ = ["ResidualStructure", "expected_gain_of_cycle", "required_gain_of_cycle", "residual_structure"]

# Lags at which the autocorrelation is computed, and maximum number of rows from which it is computed.
_LAGS, _MAX_ROWS = np.arange(1, 6), 2000


class ResidualStructure(NamedTuple):
    """Residual diagnostics of a fitted model.

    Attributes
    ----------
    cycle : float
        Approximate maximum gain in log-likelihood from another stochastic cycle, in nats.
    autocorrelation : float
        Approximate maximum gain in log-likelihood, in nats, if the model included the autocorrelation of the
        one-step prediction errors.
    """

    cycle: float
    autocorrelation: float


def residual_structure(model: LinearGaussianModel, sequences: Sequences) -> ResidualStructure:
    """Compute diagnostics from the one-step prediction errors and the whitened periodogram of a model.

    Parameters
    ----------
    model : LinearGaussianModel
        The fitted model. For Student-t models the diagnostics are not computed, and are infinite.
    sequences : Sequences
        Rows of the training data.

    Returns
    -------
    ResidualStructure
    """
    if isinstance(model, StudentModel):
        return ResidualStructure(np.inf, np.inf)
    return ResidualStructure(
        expected_gain_of_cycle(model, sequences), _gain_of_autocorrelation(model, sequences)
    )


def expected_gain_of_cycle(model: LinearGaussianModel, sequences: Sequences) -> float:
    """Return the approximate maximum gain in log-likelihood from another stochastic cycle, in nats."""
    params = model.fitted.standardized_params.state_space
    centred = [rows - params.offset for rows in interpolate_to_grid(model.standardized_panel(sequences))]
    return likelihood_gain_of_cycle(params, centred)


def required_gain_of_cycle(n_features: int, n_observed: int) -> float:
    """Return the gain in log-likelihood, in nats, above which BIC prefers another stochastic cycle.

    A cycle has ``2 n_features + 1`` free parameters.

    Parameters
    ----------
    n_features, n_observed : int
        Numbers of columns, and of rows with at least one observed value.
    """
    return (n_features + 0.5) * float(np.log(n_observed))


def _gain_of_autocorrelation(model: LinearGaussianModel, sequences: Sequences) -> float:
    """Return half the Box-Pierce statistic of all columns, less its expectation for white noise.

    The result approximates the gain in log-likelihood from an autoregression of the errors of each column.
    """
    rows = sequences
    if rows.n_rows > _MAX_ROWS:
        sample = choose_segments(rows.mask, rows.lengths, _MAX_ROWS)
        rows = rows if sample is None else rows.segments_as_sequences(sample)
    try:
        errors = model.one_step_errors(rows)
    except np.linalg.LinAlgError:  # rounding errors with near-zero noise
        return np.inf
    correlations = autocorrelation(errors, rows.lengths, _LAGS)
    has_pairs = correlations.n_pairs > 0.0
    squares = correlations.n_pairs[has_pairs] * correlations.values[has_pairs] ** 2
    return 0.5 * float(np.sum(squares - 1.0)) * sequences.n_rows / rows.n_rows
