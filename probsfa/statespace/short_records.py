"""Noise of short records: white beside as many latents as columns, or with memory beside few.

As many latents as columns serve best where there are data for them. Where there are few, they learn what is
particular to the cells, and a few latents beside a memory of each column may fill holes better. Cells that
were learned from do not tell: they look well explained by many latents. The information criterion does, but
it judges the record as a whole and knows of no holes; so it is asked only where straight lines come near, and
the many latents are of little use in any case.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from probsfa.statespace.columns import ColumnMoments
from probsfa.statespace.criterion import bayesian_criterion
from probsfa.statespace.learning.budget import COLUMNS_FOR_A_LATENT
from probsfa.statespace.learning.maximum_likelihood import InMemory
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.models import LinearGaussianModel

__all__ = ["few_data", "or_with_memory"]

# Observed cells of a column for each column, below which data are few; the fewest columns that have something
# to share beside their memories; and what memories of all columns may cost: rows times states to the third.
_CELLS_FOR_A_COLUMN, _FEWEST_COLUMNS, _AFFORDABLE = 50, 3, 3e7
# Straight lines come near where the error of cells left out is this part of theirs, or more. They are cells
# that were learned from, which look the better beside new ones the fewer there are.
_NEAR = 0.65


def few_data(columns: ColumnMoments) -> bool:
    """Whether as many latents as columns are many for the data, and memories of all columns affordable."""
    varying = ~columns.constant
    n_varying, counts = int(varying.sum()), np.asarray(columns.counts)
    if n_varying < _FEWEST_COLUMNS:
        return False
    few = float(counts[varying].mean()) < _CELLS_FOR_A_COLUMN * n_varying
    return (
        few
        and sum(columns.lengths) * (-(-n_varying // COLUMNS_FOR_A_LATENT) + len(counts)) ** 3 <= _AFFORDABLE
    )


def or_with_memory(
    white: LinearGaussianModel,
    data: InMemory,
    options: FitOptions,
    fit: Callable[[FitOptions], LinearGaussianModel],
) -> LinearGaussianModel:
    """Fit noise with memory, too, where that may serve a short record better, and take the better model.

    Parameters
    ----------
    white : LinearGaussianModel
        The model with white noise.
    data : InMemory
        What it was fitted to.
    options : FitOptions
        What was asked for.
    fit : callable
        Fits a model to these rows.

    Returns
    -------
    LinearGaussianModel
        That with the lower information criterion (BIC); its status says so where it is the other.
    """
    if not options.leaves_noise_open or white.fitted.interrupted or not few_data(data.columns):
        return white
    sequences = data.sequences
    comparison = white.impute(sequences).beside_interpolation
    if comparison is None or comparison.model < _NEAR * comparison.interpolation:
        return white
    memory = fit(replace(options, noise="ar1"))
    n_rows = int(np.count_nonzero(sequences.mask.any(axis=1)))
    criteria = [
        bayesian_criterion(model.fitted.log_likelihood, model.n_parameters, n_rows)
        for model in (white, memory)
    ]
    if not criteria[1] < criteria[0]:
        return white
    status = (
        f"{memory.fitted.status} noise='auto' took noise with memory: BIC {criteria[1]:.6g}, against "
        f"{criteria[0]:.6g} of white noise and {white.fitted.params.n_components} latents."
    )
    return replace(memory, fitted=replace(memory.fitted, status=status))
