"""Figures.

Every function draws on given axes, or on a new figure, and returns the axes. Figures are neither shown nor
saved, and global settings of matplotlib are not changed. With axes from ``matplotlib.pyplot`` figures are
displayed in notebooks.
"""

from probsfa.plots.diagnostics import plot_diagnostics as plot_diagnostics
from probsfa.plots.graphs import plot_eigengap as plot_eigengap
from probsfa.plots.graphs import plot_embedding as plot_embedding
from probsfa.plots.graphs import plot_graph as plot_graph
from probsfa.plots.model_selection import plot_model_selection as plot_model_selection
from probsfa.plots.monitoring import plot_control_charts as plot_control_charts
from probsfa.plots.posterior import plot_imputation_fan as plot_imputation_fan
from probsfa.plots.posterior import plot_latents as plot_latents
from probsfa.plots.posterior import plot_loadings as plot_loadings
from probsfa.plots.posterior import plot_predictive_check as plot_predictive_check
from probsfa.plots.posterior import plot_timescales as plot_timescales
from probsfa.plots.series import plot_delta_values as plot_delta_values
from probsfa.plots.series import plot_history as plot_history
from probsfa.plots.series import plot_imputation as plot_imputation
from probsfa.plots.series import plot_selection as plot_selection
from probsfa.plots.series import plot_slow_features as plot_slow_features

__all__ = [
    "plot_control_charts",
    "plot_delta_values",
    "plot_diagnostics",
    "plot_eigengap",
    "plot_embedding",
    "plot_graph",
    "plot_history",
    "plot_imputation",
    "plot_imputation_fan",
    "plot_latents",
    "plot_loadings",
    "plot_model_selection",
    "plot_predictive_check",
    "plot_selection",
    "plot_slow_features",
    "plot_timescales",
]
