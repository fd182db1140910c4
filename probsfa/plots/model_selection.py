"""Figure of a model selection, drawn by the method `plot` of `ModelSelection`."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probsfa.plots.arguments import check_axes
from probsfa.plots.style import BLUE, GREY, ORANGE, figure, format_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from probsfa.statespace import ModelSelection

__all__ = ["plot_model_selection"]


def plot_model_selection(
    selection: "ModelSelection", *, axes: "Sequence[Axes] | NDArray[Any] | None" = None
) -> "list[Axes]":
    """Draw held-out scores and errors of each model, and the selected model.

    Parameters
    ----------
    selection : ModelSelection
        Result of `probsfa.select_model`.
    axes : sequence of 2 matplotlib Axes or None, default=None
        Axes for scores and errors; a new figure by default.

    Returns
    -------
    list of matplotlib Axes
        One row for each model with held-out scores, the best at the top. Left: difference from the best
        score, with error bars of two standard errors. Right: root mean square error. The selected model is
        orange.

    Raises
    ------
    ValueError
        If there are not two axes.

    See Also
    --------
    probsfa.select_model : Select a model.
    probsfa.select_n_components : Select the number of factors.

    Examples
    --------
    >>> from probsfa import select_model
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(200, 4, decay=[0.9], noise_variance=0.2, random_state=0).data
    >>> axes = plot_model_selection(select_model(X, [{"n_components": 1}, {"n_components": 2}]))
    >>> [ax.get_xlabel() for ax in axes]
    ['score - best score', 'RMSE (standard deviations)']
    """
    scored = [row for row in selection.records if np.isfinite(row["score"])]
    last = {row["model"]: row for row in scored or selection.records}
    rows = sorted(last.values(), key=lambda row: (-row["round"], row["behind"]))
    if axes is None:
        axes = figure(8.0, 1.2 + 0.28 * len(rows)).subplots(1, 2, sharey=True)
    axes = check_axes(axes, 2, "for scores and errors")
    positions = np.arange(len(rows))
    colors = [ORANGE if row["verdict"] == "selected" else BLUE for row in rows]
    for y, row, color in zip(positions, rows, colors, strict=True):
        error = 2.0 * row["standard_error"]
        axes[0].errorbar(row["behind"], y, xerr=error, fmt="o", color=color, ms=4.0, lw=0.8, capsize=2.0)
        axes[1].plot(row["rmse"], y, "o", color=color, ms=4.0)
    axes[0].axvline(0.0, color=GREY, lw=0.8, ls="--", zorder=0)
    axes[0].set_yticks(positions, [row["model"] for row in rows], fontsize="small")
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    axes[0].set_xlabel("score - best score")
    axes[1].set_xlabel("RMSE (standard deviations)")
    for ax in axes:
        format_axes(ax)
    return axes
