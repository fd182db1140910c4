"""What a fit leaves unexplained: whether anything is worth trying beside its latents.

A model that is right leaves errors one row ahead without correlation, and a whitened spectrum without peaks.
Looking at these takes less than one evaluation of a posterior, a fit of what would explain them takes many.
"""

from typing import NamedTuple

import numpy as np

from probsfa._validation import Sequences
from probsfa.statespace.learning.budget import stretches
from probsfa.statespace.learning.process_starts import on_even_grid, power_of_a_rhythm
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.panel import make_panel
from probsfa.statespace.student_model import StudentModel
from probsfa.statespace.whiteness import autocorrelation

__all__ = ["Leftovers", "leftovers"]

# Lags at which errors are looked at, and rows of which they are taken: one by one these take time.
_LAGS, _ROWS = np.arange(1, 6), 2000


class Leftovers(NamedTuple):
    """What a fit leaves unexplained.

    Attributes
    ----------
    rhythm : float
        Most that another rhythm may add to the log-likelihood, about, in nats.
    correlation : float
        Most that correlation of errors one row ahead may add to it, about, in nats.
    """

    rhythm: float
    correlation: float


def leftovers(model: LinearGaussianModel, sequences: Sequences) -> Leftovers:
    """Look at the errors of a model one row ahead, and at its whitened periodogram.

    Parameters
    ----------
    model : LinearGaussianModel
        The fit. Of Student-t noise nothing is known here, so that anything may be left.
    sequences : Sequences
        The rows that it was fitted to.

    Returns
    -------
    Leftovers
    """
    if isinstance(model, StudentModel):
        return Leftovers(np.inf, np.inf)
    fitted = model.fitted
    timed = sequences.standardised(fitted.shift, fitted.scale).retimed(fitted.time_unit)
    params = fitted.standardised_params.state_space
    centred = [rows - params.offset for rows in on_even_grid(make_panel(timed))]
    return Leftovers(power_of_a_rhythm(params, centred), _correlation(model, sequences))


def _correlation(model: LinearGaussianModel, sequences: Sequences) -> float:
    """Half the statistic of Box & Pierce of all columns, less what it is on average where there is nothing.

    That is about what autoregressions of the errors, each in its column, would add to the log-likelihood.
    """
    rows = sequences
    if rows.n_rows > _ROWS:
        sample = stretches(rows.mask, rows.lengths, _ROWS)
        rows = rows if sample is None else rows.cut_out(sample)
    try:
        ahead = model.errors_of_few(rows)
    except np.linalg.LinAlgError:  # rounding, where there is hardly any noise
        return np.inf
    errors = autocorrelation(ahead, rows.lengths, _LAGS)
    counted = errors.n_pairs > 0.0
    squares = errors.n_pairs[counted] * errors.values[counted] ** 2
    return 0.5 * float(np.sum(squares - 1.0)) * sequences.n_rows / rows.n_rows
