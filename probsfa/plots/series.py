"""Figures of series with prediction bands, and of the progress of a fit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probsfa.plots.arguments import (
    check_axes,
    check_same_length,
    half_widths,
    matrix,
    missing_and_adjacent,
    row_times,
    vector,
)
from probsfa.plots.style import BLACK, BLUE, GREY, ORANGE, axes_or_new, figure, format_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


__all__ = [
    "plot_delta_values",
    "plot_history",
    "plot_imputation",
    "plot_slow_features",
]


def plot_slow_features(
    means: ArrayLike,
    std: ArrayLike | None = None,
    *,
    times: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    level: float = 0.9,
    axes: "Sequence[Axes] | NDArray[Any] | None" = None,
) -> "list[Axes]":
    """Draw slow features or factors, slowest on top, with credible bands.

    Parameters
    ----------
    means : array-like (T, K)
        Slow features, such as the output of ``SFA.transform``, or posterior means.
    std : array-like (T, K) or None, default=None
        Posterior standard deviations, for the bands.
    times : array-like (T,) or None, default=None
        Times of the rows: numbers or dates. Row numbers by default.
    names : sequence of str or None, default=None
        A label for each feature.
    level : float, default=0.9
        Nominal coverage of the band, above 0 and below 1.
    axes : sequence of K matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    list of matplotlib Axes

    Raises
    ------
    ValueError
        If shapes differ or `level` is out of range.

    See Also
    --------
    plot_delta_values : Delta values of the features.
    plot_factors : Factors with parameter uncertainty.

    Examples
    --------
    >>> from probsfa.datasets import make_slow_mixture
    >>> factors = make_slow_mixture(200, timescales=[50.0, 10.0], random_state=0).latents
    >>> axes = plot_slow_features(factors, names=["slow", "less slow"])
    >>> [ax.get_ylabel() for ax in axes]
    ['slow', 'less slow']
    """
    means = matrix(means, "means")
    half_width = None if std is None else half_widths(std, means.shape, level)
    time_values = row_times(times, len(means))
    n = means.shape[1]
    if names is not None and len(names) != n:
        raise ValueError(f"names must have {n} entries, one for each column; got {len(names)}.")
    if axes is None:
        axes = figure(8.0, 0.6 + 1.3 * n).subplots(n, 1, sharex=True, squeeze=False)[:, 0]
    axes = check_axes(axes, n, "one for each feature")
    for k, ax in enumerate(axes):
        if half_width is not None:
            ax.fill_between(
                time_values,
                means[:, k] - half_width[:, k],
                means[:, k] + half_width[:, k],
                color=BLUE,
                alpha=0.25,
                lw=0,
            )
        ax.plot(time_values, means[:, k], color=BLUE, lw=1.0)
        ax.axhline(0.0, color=GREY, lw=0.5, zorder=0)
        ax.set_ylabel(f"feature {k + 1}" if names is None else names[k])
        format_axes(ax, time_values)
    _label_time(axes[-1], times)
    return axes


def plot_imputation(
    observed: ArrayLike,
    filled: ArrayLike,
    std: ArrayLike | None = None,
    *,
    truth: ArrayLike | None = None,
    times: ArrayLike | None = None,
    level: float = 0.9,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one series with imputed values, prediction bands and, if known, true values.

    Parameters
    ----------
    observed : array-like (T,)
        The series as observed, NaN where missing.
    filled : array-like (T,)
        The series with imputed values.
    std : array-like (T,) or None, default=None
        Standard deviations of the imputed values, for the band.
    truth : array-like (T,) or None, default=None
        True values, NaN where unknown; drawn only at missing values.
    times : array-like (T,) or None, default=None
        Times of the rows: numbers or dates. Row numbers by default.
    level : float, default=0.9
        Nominal coverage of the band, above 0 and below 1.
    ax : matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If lengths differ, or if `std` is given and `level` is out of range.

    See Also
    --------
    plot_imputation_fan : Several intervals, from a fitted `BayesianSFA`.

    Examples
    --------
    >>> import numpy as np
    >>> ax = plot_imputation([0.0, np.nan, 2.0], [0.0, 1.1, 2.0], [0.0, 0.2, 0.0], truth=[0.0, 1.0, 2.0])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['observed', 'imputed', '90 % interval', 'truth']
    """
    observed, filled = vector(observed, "observed"), vector(filled, "filled")
    check_same_length(len(observed), filled=filled)
    time_values = row_times(times, len(observed))
    missing = np.isnan(observed)
    ax = axes_or_new(ax, 8.0, 3.0)
    ax.plot(time_values, observed, ".-", color=BLACK, lw=0.8, ms=3.0, label="observed")
    # Lines and bands of missing blocks begin and end at adjacent observations.
    is_shown = missing_and_adjacent(missing)
    ax.plot(time_values, np.where(is_shown, filled, np.nan), color=BLUE, lw=1.4, label="imputed")
    if std is not None:
        half_width = np.where(missing, half_widths(vector(std, "std"), observed.shape, level), 0.0)
        low, high = (
            np.where(is_shown, filled - half_width, np.nan),
            np.where(is_shown, filled + half_width, np.nan),
        )
        ax.fill_between(
            time_values, low, high, color=BLUE, alpha=0.25, lw=0, label=f"{100.0 * level:g} % interval"
        )
    if truth is not None:
        true_values = vector(truth, "truth")
        check_same_length(len(observed), truth=true_values)
        ax.plot(time_values, np.where(missing, true_values, np.nan), ".", color=ORANGE, ms=4.0, label="truth")
    format_axes(ax, time_values)
    _label_time(ax, times)
    ax.legend(loc="best", frameon=False, ncols=4, fontsize="small")
    return ax


def plot_delta_values(delta_values: ArrayLike, *, ax: "Axes | None" = None) -> "Axes":
    """Draw delta values on a logarithmic scale, slowest first, with the delta value of white noise.

    Parameters
    ----------
    delta_values : array-like (K,)
        Mean squared differences of features of unit variance, such as ``SFA.delta_values_``.
    ax : matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `delta_values` is not one-dimensional.

    See Also
    --------
    plot_slow_features : Time series of the features.
    probsfa.metrics.delta_value : Delta values of any signals.

    Examples
    --------
    >>> ax = plot_delta_values([0.01, 0.2, 1.9])
    >>> ax.get_yscale()
    'log'
    """
    deltas = vector(delta_values, "delta_values")
    ax = axes_or_new(ax, 5.0, 3.2)
    order = np.arange(1, len(deltas) + 1)
    ax.plot(order, np.where(deltas > 0.0, deltas, np.nan), "o-", color=BLUE, lw=0.8, ms=4.0)
    ax.axhline(2.0, color=GREY, lw=0.8, ls="--")
    ax.annotate(
        "white noise",
        (1.0, 2.0),
        (0, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        color="#666666",
        fontsize="small",
        ha="right",
    )
    ax.set_yscale("log")
    _integer_ticks(ax)
    ax.set_xlabel("feature")
    ax.set_ylabel("delta value")
    format_axes(ax)
    return ax


def plot_history(history: ArrayLike, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the difference of the objective from its final value during a fit, on a logarithmic scale.

    Parameters
    ----------
    history : array-like (n_iter,)
        Objective after each iteration, such as ``ProbabilisticSFA.history_``. Only values below the final
        value are drawn.
    ax : matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `history` is not one-dimensional.

    See Also
    --------
    probsfa.ProbabilisticSFA : Its attribute `history_`.

    Examples
    --------
    >>> ax = plot_history([-500.0, -320.0, -300.1, -300.0])
    >>> ax.get_xlabel()
    'iteration'
    """
    values = vector(history, "history")
    ax = axes_or_new(ax, 5.0, 3.2)
    distance = values[-1] - values
    ax.plot(
        np.arange(len(values)), np.where(distance > 0.0, distance, np.nan), ".-", color=BLUE, lw=0.8, ms=4.0
    )
    ax.set_yscale("log")
    _integer_ticks(ax)
    ax.set_xlabel("iteration")
    ax.set_ylabel("final value - value (nats)")
    format_axes(ax)
    return ax


def _integer_ticks(ax: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _label_time(ax: "Axes", times: ArrayLike | None) -> None:
    if times is None:
        ax.set_xlabel("row")
