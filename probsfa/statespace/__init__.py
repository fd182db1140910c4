"""The factorial AR(1) state-space model: exact inference, learning, prediction, and its estimator."""

from probsfa.statespace.estimator import ProbabilisticSFA as ProbabilisticSFA
from probsfa.statespace.estimator import load as load
from probsfa.statespace.filtering import FilterResult as FilterResult
from probsfa.statespace.filtering import FilterState as FilterState
from probsfa.statespace.learning.standard_errors import StandardErrors as StandardErrors
from probsfa.statespace.parameters import Parameters as Parameters
from probsfa.statespace.parameters import make_parameters as make_parameters
from probsfa.statespace.posterior import Posterior as Posterior
from probsfa.statespace.posterior import on_devices as on_devices
from probsfa.statespace.prediction import Forecast as Forecast
from probsfa.statespace.selection import Selection as Selection
from probsfa.statespace.selection import select_n_components as select_n_components

__all__ = [
    "FilterResult",
    "FilterState",
    "Forecast",
    "Parameters",
    "Posterior",
    "ProbabilisticSFA",
    "Selection",
    "StandardErrors",
    "load",
    "make_parameters",
    "on_devices",
    "select_n_components",
]
