"""Fitted attributes of maximum-likelihood models: values, names, units and interval scales."""

from collections.abc import Iterable, Mapping
from typing import Any

from probsfa._times import timescales_from_decay
from probsfa.statespace.noise import TAILS
from probsfa.statespace.noise.gaussian import OF_AR1_NOISE, OF_WHITE_NOISE
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.processes import KINDS
from probsfa.statespace.processes.ar1 import OF_AR1
from probsfa.statespace.quantities import Quantity

__all__ = ["QUANTITIES", "fitted_attributes"]

_COEFFICIENTS = Quantity("exog_coef_", "coefficient", "data", ("column", "covariate"), "linear")
_MEAN = Quantity("mean_", "mean", "data", ("column",), "linear", "offset")
_LOADINGS = Quantity("loadings_", "loading", "data", ("column", "state"), "linear")


def _by_attribute(*groups: Iterable[Quantity]) -> Mapping[str, Quantity]:
    return {one.attribute: one for group in groups for one in group}


#: Quantities of all models by attribute.
QUANTITIES: Mapping[str, Quantity] = _by_attribute(
    (_COEFFICIENTS,),
    OF_AR1,
    *(kind.quantities for kind in KINDS),
    OF_AR1_NOISE,
    *(tails.quantities for tails in TAILS.values()),
    (_MEAN,),
    OF_WHITE_NOISE,
    (_LOADINGS,),
)


def fitted_attributes(params: StateSpace, time_unit: float) -> dict[str, Any]:
    """Return the fitted attributes of the processes, the columns and the noise that a model has.

    Parameters
    ----------
    params : StateSpace
        Parameters in data units.
    time_unit : float
        Unit of time of the decays.
    """
    found = {
        "decay_": params.decay,
        "timescales_": timescales_from_decay(params.decay, time_unit),
        "loadings_": params.loadings,
        "noise_variance_": params.noise_variance,
        "mean_": params.offset,
    }
    for one in params.processes:
        values = one.attributes(params.loadings_of(one), time_unit)
        found |= {each.attribute: value for each, value in zip(one.quantities, values, strict=True)}
    if params.has_ar1_noise:
        timescales = timescales_from_decay(params.memory_decay, time_unit)
        values = params.memory_decay, timescales, params.memory_scale, params.memory_share
        found |= {each.attribute: value for each, value in zip(OF_AR1_NOISE, values, strict=True)}
    return found
