"""Where a fit starts: the maximum of the likelihood, near which that of the posterior is."""

from typing import NamedTuple

import numpy as np

from probsfa._validation import Sequences
from probsfa.bayes.fitted import Units
from probsfa.statespace.checks import noise_kind, standardisation, time_unit_of
from probsfa.statespace.learning.fit import LEAST_NOISE, fit
from probsfa.statespace.learning.objective import Noise
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import Parameters, canonical, rescale

# A start need not have converged.
_MAX_ITER, _TOL = 100, 1e-2


class Start(NamedTuple):
    """Parameters in data units, and the units in which the data are standardised."""

    params: Parameters
    units: Units


def maximum_likelihood_start(sequences: Sequences, n_components: int, noise: str | float) -> Start:
    """Maximise the likelihood, roughly.

    Parameters
    ----------
    sequences : Sequences
        Checked data.
    n_components : int
        Number of latents.
    noise : {"diagonal", "isotropic"} or float
        As in :class:`probsfa.BayesianSFA`.

    Raises
    ------
    ValueError
        If no column varies, or no sequence has two rows.
    KeyboardInterrupt
        If an interrupt from the keyboard cut it short: there is nothing to draw from yet.
    """
    time_unit = time_unit_of(sequences)
    kind = noise_kind(noise)
    units = Units(*standardisation(sequences.values, by_feature=kind == "diagonal"), time_unit)
    known = float(noise) / units.scale**2 if kind == "fixed" else None
    floor = np.full(units.scale.size, LEAST_NOISE) if known is None else known
    result = fit(
        make_panel(units.standardized(sequences)),
        n_components,
        Noise(kind, floor),
        known,
        solver="auto",
        max_iter=_MAX_ITER,
        tol=_TOL,
        guarded=True,
    )
    if result.status == "interrupted":
        raise KeyboardInterrupt
    return Start(canonical(rescale(result.params, units.shift, units.scale), units.scale), units)
