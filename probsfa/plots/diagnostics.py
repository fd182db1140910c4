"""Figure of residual diagnostics, drawn by the method `plot` of `Diagnostics`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.plots.arguments import check_axes
from probsfa.plots.style import BLACK, BLUE, GREEN, GREY, ORANGE, PALETTE, figure, format_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from probsfa.statespace.diagnostics import Diagnostics

__all__ = ["plot_diagnostics"]

_STYLES = {"one step": (BLUE, "o"), "cells": (ORANGE, "s"), "rows": (GREEN, "^"), "blocks": (PALETTE[3], "D")}
_LABELS = {"cells": "single values"}  # in legends; other keys are shown unchanged
# Names of columns are drawn for at most this number of columns.
_MAX_NAMES = 40


def plot_diagnostics(
    diagnostics: "Diagnostics", *, axes: "Sequence[Axes] | NDArray[Any] | None" = None
) -> "list[Axes]":
    """Draw residual diagnostics and coverage by column.

    Parameters
    ----------
    diagnostics : Diagnostics
        Result of `ProbabilisticSFA.diagnose`.
    axes : sequence of 4 matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    list of matplotlib Axes
        1. Autocorrelations of the innovations by column and lag.
        2. Normal quantile plots of the innovations by column.
        3. Calibration curves by pattern of hidden values: mean over columns (solid), and the column with the
           lowest coverage of 90 % intervals (dotted).
        4. Coverage of 90 % intervals by column.

    Raises
    ------
    ValueError
        If there are not four axes.

    See Also
    --------
    probsfa.ProbabilisticSFA.diagnose : Compute diagnostics.
    plot_predictive_check : Posterior predictive check of the autocorrelation.

    Examples
    --------
    >>> from probsfa import ProbabilisticSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(200, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> axes = plot_diagnostics(ProbabilisticSFA(1).fit(X).diagnose(X))
    >>> [ax.get_xlabel() for ax in axes]
    ['lag (rows)', 'normal quantile', 'nominal coverage', 'coverage of 90 % intervals']
    """
    d = len(diagnostics.feature_names)
    if axes is None:
        height = 3.0 + 0.16 * min(d, _MAX_NAMES)
        axes = figure(10.0, 2.0 * height).subplots(2, 2).ravel()
    axes = check_axes(axes, 4, "for autocorrelations, quantiles, calibration and coverage by column")
    _draw_autocorrelation(diagnostics, axes[0])
    _draw_quantiles(diagnostics, axes[1])
    _draw_calibration(diagnostics, axes[2])
    _draw_coverage(diagnostics, axes[3])
    return axes


def _draw_autocorrelation(diagnostics: "Diagnostics", ax: "Axes") -> None:
    values = diagnostics.autocorrelation.T
    image = ax.imshow(values, cmap="RdBu_r", vmin=-0.6, vmax=0.6, aspect="auto", interpolation="nearest")
    ax.set_xticks(range(len(diagnostics.lags)), [str(lag) for lag in diagnostics.lags])
    _name_columns(diagnostics, ax)
    ax.set_xlabel("lag (rows)")
    ax.set_title("autocorrelation of innovations", fontsize="medium")
    ax.figure.colorbar(image, ax=ax, shrink=0.8)


def _draw_quantiles(diagnostics: "Diagnostics", ax: "Axes") -> None:
    from scipy.special import ndtri

    errors = _as_array(diagnostics.innovations)
    heaviest = -1
    if not np.isnan(diagnostics.excess_kurtosis).all():
        heaviest = int(np.nanargmax(diagnostics.excess_kurtosis))
    for j, name in enumerate(diagnostics.feature_names):
        x = np.sort(errors[~np.isnan(errors[:, j]), j])
        if x.size == 0:
            continue
        normal = ndtri((np.arange(x.size) + 0.5) / x.size)
        if j == heaviest:
            ax.plot(normal, x, color=ORANGE, lw=1.2, label=f"{name} (heaviest tails)", zorder=3)
        else:
            ax.plot(normal, x, color=BLUE, lw=0.7, alpha=0.5)
    ends = np.array([-3.5, 3.5])
    ax.plot(ends, ends, color=BLACK, lw=0.8, ls="--")
    ax.set_xlabel("normal quantile")
    ax.set_ylabel("standardized innovation")
    ax.set_title("quantiles of innovations", fontsize="medium")
    if heaviest >= 0:
        ax.legend(loc="best", frameon=False, fontsize="small")
    format_axes(ax)


def _draw_calibration(diagnostics: "Diagnostics", ax: "Axes") -> None:
    ax.plot([0.0, 1.0], [0.0, 1.0], color=BLACK, lw=0.8, ls="--")
    level_index = int(np.flatnonzero(np.isclose(diagnostics.levels, 0.9))[0])
    for kind, curves in diagnostics.coverage.items():
        has_value = ~np.isnan(curves[level_index])
        if not has_value.any():
            continue
        color, marker = _STYLES.get(kind, (GREY, "x"))
        mean = curves[:, has_value].mean(axis=1)
        ax.plot(
            diagnostics.levels,
            mean,
            marker=marker,
            color=color,
            lw=1.2,
            ms=4.0,
            label=_LABELS.get(kind, kind),
        )
        worst_column = int(np.flatnonzero(has_value)[np.argmin(curves[level_index, has_value])])
        ax.plot(diagnostics.levels, curves[:, worst_column], color=color, lw=0.7, ls=":")
    ax.plot([], [], color=GREY, lw=0.7, ls=":", label="lowest column")
    ax.set_xlabel("nominal coverage")
    ax.set_ylabel("empirical coverage")
    ax.set_title("calibration of intervals", fontsize="medium")
    ax.legend(loc="lower right", frameon=False, fontsize="small")
    format_axes(ax)


def _draw_coverage(diagnostics: "Diagnostics", ax: "Axes") -> None:
    rows = np.arange(len(diagnostics.feature_names))
    for kind, coverages in diagnostics.covered(0.9).items():  # colours as in the calibration curves
        color, marker = _STYLES.get(kind, (GREY, "x"))
        ax.plot(coverages, rows, marker, color=color, ms=4.0, alpha=0.8)
    ax.axvline(0.9, color=GREY, lw=0.8, ls="--", zorder=0)
    _name_columns(diagnostics, ax)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel("coverage of 90 % intervals")
    ax.set_title("coverage by column", fontsize="medium")
    format_axes(ax)


def _name_columns(diagnostics: "Diagnostics", ax: "Axes") -> None:
    names = diagnostics.feature_names
    if len(names) <= _MAX_NAMES:
        ax.set_yticks(range(len(names)), list(names), fontsize="small")


def _as_array(values: Any) -> FloatArray:
    """Concatenate values (T, D), or a list of them, to one array."""
    pieces = values if isinstance(values, list) else [values]
    return np.concatenate([np.asarray(piece, dtype=np.float64) for piece in pieces])
