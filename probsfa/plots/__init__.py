"""Figures.

Every function draws on given axes, or on a new figure, and returns the axes. Figures are not shown or saved,
and global settings of matplotlib do not change. In a notebook, draw on axes made by ``matplotlib.pyplot``, or
display ``ax.figure``.
"""

from probsfa._lazy import deprecated as _deprecated
from probsfa.plots.graphs import plot_eigengap as plot_eigengap
from probsfa.plots.graphs import plot_embedding as plot_embedding
from probsfa.plots.graphs import plot_graph as plot_graph
from probsfa.plots.posterior import plot_factors as plot_factors
from probsfa.plots.posterior import plot_imputation_fan as plot_imputation_fan
from probsfa.plots.posterior import plot_loadings as plot_loadings
from probsfa.plots.posterior import plot_predictive_check as plot_predictive_check
from probsfa.plots.posterior import plot_timescales as plot_timescales
from probsfa.plots.series import plot_delta_values as plot_delta_values
from probsfa.plots.series import plot_history as plot_history
from probsfa.plots.series import plot_imputation as plot_imputation
from probsfa.plots.series import plot_slow_features as plot_slow_features

__all__ = [
    "plot_delta_values",
    "plot_eigengap",
    "plot_embedding",
    "plot_factors",
    "plot_graph",
    "plot_history",
    "plot_imputation",
    "plot_imputation_fan",
    "plot_loadings",
    "plot_predictive_check",
    "plot_slow_features",
    "plot_timescales",
]

_METHOD = "Use the method plot of"
__getattr__ = _deprecated(
    __name__,
    {
        "plot_control_charts": ("probsfa.plots.monitoring:plot_control_charts", f"{_METHOD} ProcessMonitor."),
        "plot_latents": ("probsfa.plots.posterior:plot_factors", "Use plot_factors."),
        "plot_diagnostics": ("probsfa.plots.diagnostics:plot_diagnostics", f"{_METHOD} the Diagnostics."),
        "plot_model_selection": (
            "probsfa.plots.model_selection:plot_model_selection",
            f"{_METHOD} the ModelSelection.",
        ),
        "plot_selection": (
            "probsfa.plots.model_selection:plot_model_selection",
            f"{_METHOD} the ModelSelection.",
        ),
    },
)
