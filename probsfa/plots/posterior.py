"""Figures of the posterior of a fitted `BayesianSFA`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probsfa._times import duration_text
from probsfa._typing import FloatArray
from probsfa.plots.arguments import (
    check_axes,
    check_feature,
    check_level,
    matrix,
    missing_and_adjacent,
    row_times,
    vector,
)
from probsfa.plots.style import BLACK, BLUE, GREY, ORANGE, PALETTE, axes_or_new, figure, format_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from probsfa.bayes.estimator import BayesianSFA

__all__ = [
    "plot_imputation_fan",
    "plot_factors",
    "plot_loadings",
    "plot_predictive_check",
    "plot_timescales",
]


def plot_timescales(model: "BayesianSFA", *, ax: "Axes | None" = None) -> "Axes":
    """Draw the posterior of each time scale, and their common prior.

    Parameters
    ----------
    model : BayesianSFA
        Fitted estimator.
    ax : matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Densities over the logarithm of the time scale.

    See Also
    --------
    plot_loadings : Posterior of the loadings.

    Examples
    --------
    >>> from probsfa import BayesianSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> model = BayesianSFA(1, inference="svi", verbose=False, random_state=0).fit(X)
    >>> ax = plot_timescales(model)
    >>> ax.get_xlabel()
    'time scale'
    """
    ax = axes_or_new(ax, 6.0, 3.2)
    tree = model.to_datatree()
    logs = np.log(tree["posterior"]["timescale"].to_numpy())
    logs = logs.reshape(-1, logs.shape[-1])
    prior = np.log(tree["prior"]["timescale"].to_numpy().ravel())
    ends = np.quantile(logs, [0.0, 1.0])
    low, high = min(ends[0], np.quantile(prior, 0.02)), max(ends[1], np.quantile(prior, 0.98))
    grid = np.linspace(low - 0.3, high + 0.3, 400)
    ax.fill_between(np.exp(grid), _density(prior, grid), color=GREY, alpha=0.3, lw=0, label="prior")
    for k in range(logs.shape[1]):
        ax.plot(
            np.exp(grid),
            _density(logs[:, k], grid),
            color=PALETTE[k % len(PALETTE)],
            label=f"component {k + 1}",
        )
    ax.set_xscale("log")
    ax.set_ylim(bottom=0.0)
    ax.set_yticks([])
    ax.set_xlabel(_time_scale_label(model))
    ax.set_ylabel("density of the log time scale")
    ax.legend(frameon=False, fontsize="small")
    format_axes(ax)
    return ax


def _time_scale_label(model: "BayesianSFA") -> str:
    """Return the label of an axis of time scales, with their unit if it is known."""
    seconds = model.time_unit_seconds_
    if seconds is None:
        return "time scale"
    # Files of earlier versions: models of unevenly spaced dates had seconds as time unit.
    return f"time scale (steps of {duration_text(seconds)})" if model.time_unit_ == 1.0 else "time scale (s)"


def plot_loadings(
    model: "BayesianSFA", *, level: float = 0.9, axes: "Sequence[Axes] | NDArray[Any] | None" = None
) -> "list[Axes]":
    """Draw a forest plot of the loadings: medians and credible intervals, a panel for each factor.

    Parameters
    ----------
    model : BayesianSFA
        Fitted estimator.
    level : float, default=0.9
        Probability of the thin intervals; thick intervals have probability one half.
    axes : sequence of K matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    list of matplotlib Axes

    Raises
    ------
    ValueError
        If `level` is out of range or there are not K axes.

    See Also
    --------
    plot_timescales : Posterior of the time scales.

    Examples
    --------
    >>> from probsfa import BayesianSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> model = BayesianSFA(1, inference="svi", verbose=False, random_state=0).fit(X)
    >>> [ax] = plot_loadings(model)
    >>> ax.get_title()
    'component 1'
    """
    draws = model.draws_.loadings
    scaled_draws = (draws / model.fitted_.units.scale[:, None]).reshape(-1, *draws.shape[2:])
    d, k = scaled_draws.shape[1:]
    if axes is None:
        axes = figure(1.5 + 2.2 * k, 1.0 + 0.22 * d).subplots(1, k, sharey=True, sharex=True, squeeze=False)[
            0
        ]
    axes = check_axes(axes, k, "one for each component")
    names = getattr(model, "feature_names_in_", [str(j) for j in range(d)])
    rows = np.arange(d)
    outer_interval, inner_interval = (
        _central_interval(scaled_draws, level),
        _central_interval(scaled_draws, 0.5),
    )
    for j, ax in enumerate(axes):
        ax.axvline(0.0, color=GREY, lw=0.5, zorder=0)
        ax.hlines(rows, outer_interval[0][:, j], outer_interval[1][:, j], color=BLUE, lw=1.0)
        ax.hlines(rows, inner_interval[0][:, j], inner_interval[1][:, j], color=BLUE, lw=3.0)
        ax.plot(np.median(scaled_draws[:, :, j], axis=0), rows, "o", color=BLACK, ms=3.0)
        ax.set_title(f"component {j + 1}", fontsize="medium")
        format_axes(ax)
    axes[0].set_yticks(rows, [str(name) for name in names])
    if not axes[0].yaxis_inverted():  # all panels share the axis
        axes[0].invert_yaxis()
    axes[len(axes) // 2].set_xlabel("loading / standard deviation of the column")
    return axes


def plot_factors(
    model: "BayesianSFA", *, level: float = 0.9, axes: "Sequence[Axes] | NDArray[Any] | None" = None
) -> "list[Axes]":
    """Draw the factors of the training data with credible bands that include parameter uncertainty.

    Parameters
    ----------
    model : BayesianSFA
        Fitted estimator.
    level : float, default=0.9
        Probability of the bands, which are quantiles of draws of a simulation smoother.
    axes : sequence of K matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    list of matplotlib Axes

    Raises
    ------
    ValueError
        If `level` is out of range or there are not K axes.

    See Also
    --------
    plot_slow_features : Features with bands from standard deviations.

    Examples
    --------
    >>> from probsfa import BayesianSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> model = BayesianSFA(1, inference="svi", verbose=False, random_state=0).fit(X)
    >>> [ax] = plot_factors(model)
    >>> ax.get_ylabel()
    'component 1'
    """
    factors = model.to_datatree()["posterior_predictive"]["latents"].to_numpy()
    stacked_draws = factors.reshape(-1, *factors.shape[2:])
    k = stacked_draws.shape[-1]
    if axes is None:
        axes = figure(8.0, 0.6 + 1.3 * k).subplots(k, 1, sharex=True, squeeze=False)[:, 0]
    axes = check_axes(axes, k, "one for each component")
    low, high = _central_interval(stacked_draws, level)
    for j, ax in enumerate(axes):
        for rows in model.fitted_.sequences.slices:  # without lines between sequences
            time_values = model.fitted_.time_index[rows]
            ax.fill_between(time_values, low[rows, j], high[rows, j], color=BLUE, alpha=0.25, lw=0)
            ax.plot(time_values, np.median(stacked_draws[:, rows, j], axis=0), color=BLUE, lw=1.0)
        ax.axhline(0.0, color=GREY, lw=0.5, zorder=0)
        ax.set_ylabel(f"component {j + 1}")
        format_axes(ax, model.fitted_.time_index)
    return axes


def plot_predictive_check(
    model: "BayesianSFA", feature: int = 0, *, lags: int = 30, ax: "Axes | None" = None
) -> "Axes":
    """Draw a posterior predictive check of the autocorrelation of a column.

    The observed autocorrelation is compared with autocorrelations of simulated series. A curve outside the
    band indicates a misfit, such as a daily cycle that the model lacks.

    Parameters
    ----------
    model : BayesianSFA
        Fitted estimator.
    feature : int, default=0
        Index of the column.
    lags : int, default=30
        Longest lag, in rows.
    ax : matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If there is no such column.

    See Also
    --------
    plot_timescales : Posterior of the time scales.

    Examples
    --------
    >>> from probsfa import BayesianSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> model = BayesianSFA(1, inference="svi", verbose=False, random_state=0).fit(X)
    >>> ax = plot_predictive_check(model, lags=10)
    >>> ax.get_ylabel()
    'autocorrelation of 0'
    """
    feature = check_feature(feature, model.n_features_in_)
    n_steps = max(model.fitted_.sequences.lengths)
    lags = min(lags, n_steps - 2)
    rng = np.random.default_rng(model.fitted_.seed)
    replicas = [
        _autocorrelation(
            [model.sample(n, random_state=rng)[0][:, feature] for n in model.fitted_.sequences.lengths], lags
        )
        for _ in range(100)
    ]
    observed = _autocorrelation(
        [model.fitted_.sequences.values[rows, feature] for rows in model.fitted_.sequences.slices], lags
    )
    ax = axes_or_new(ax, 6.0, 3.2)
    low, high = _central_interval(np.array(replicas), 0.9)
    steps = np.arange(lags + 1)
    ax.fill_between(steps, low, high, color=BLUE, alpha=0.25, lw=0, label="90 % of replicated series")
    ax.plot(steps, np.median(replicas, axis=0), color=BLUE, lw=1.0, label="median of replicated series")
    ax.plot(steps, observed, ".-", color=BLACK, lw=0.8, ms=4.0, label="observed")
    ax.axhline(0.0, color=GREY, lw=0.5, zorder=0)
    names = getattr(model, "feature_names_in_", None)
    ax.set_xlabel("lag (rows)")
    ax.set_ylabel(f"autocorrelation of {feature if names is None else names[feature]}")
    ax.legend(frameon=False, fontsize="small")
    format_axes(ax)
    return ax


def plot_imputation_fan(
    model: "BayesianSFA",
    X: Any,
    feature: int = 0,
    *,
    truth: ArrayLike | None = None,
    rows: slice | None = None,
    levels: Sequence[float] = (0.5, 0.8, 0.95),
    times: ArrayLike | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw imputed values of one column as a fan of prediction intervals.

    Parameters
    ----------
    model : BayesianSFA
        Fitted estimator.
    X : array-like (T, D)
        Rows in order of time, NaN where missing.
    feature : int, default=0
        Index of the column.
    truth : array-like (T,) or None, default=None
        True values; they are drawn where `X` is missing.
    rows : slice or None, default=None
        Rows to draw; all by default.
    levels : sequence of float, default=(0.5, 0.8, 0.95)
        Probabilities of the intervals.
    times : array-like (T,) or None, default=None
        Positions of the rows on the time axis: numbers or dates. By default, the index of a DataFrame, or the
        row numbers of an array.
    ax : matplotlib Axes or None, default=None
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If lengths do not agree or a level is out of range.

    See Also
    --------
    plot_imputation : One interval, from means and standard deviations.

    Examples
    --------
    >>> from probsfa import BayesianSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> model = BayesianSFA(1, inference="svi", verbose=False, random_state=0).fit(X)
    >>> X[20:30, 0] = np.nan
    >>> ax = plot_imputation_fan(model, X, levels=(0.5, 0.9))
    >>> ax.get_ylabel()
    'feature 0'
    """
    rows = slice(None) if rows is None else rows
    values = matrix(X, "X")
    feature = check_feature(feature, values.shape[1])
    observed = values[:, feature]
    missing = np.isnan(observed)
    time_values = row_times(getattr(X, "index", None) if times is None else times, len(observed))
    ax = axes_or_new(ax, 8.0, 3.2)
    # Bands include adjacent rows, because a missing block of one row would have no width.
    is_shown = missing_and_adjacent(missing)
    for level in sorted(levels, reverse=True):
        filled, low, high = (np.asarray(part)[:, feature] for part in model.impute(X, interval=level))
        ax.fill_between(
            time_values[rows], low[rows], high[rows], where=is_shown[rows], color=BLUE, alpha=0.2, lw=0
        )
    ax.plot(
        [], [], color=BLUE, lw=5.0, alpha=0.5, label=", ".join(f"{100 * x:.0f} %" for x in sorted(levels))
    )
    ax.plot(time_values[rows], np.where(is_shown, filled, np.nan)[rows], color=BLUE, lw=1.0, label="imputed")
    ax.plot(time_values[rows], observed[rows], color=BLACK, lw=0.8, label="observed")
    if truth is not None:
        true_missing = np.where(missing, vector(truth, "truth"), np.nan)
        ax.plot(time_values[rows], true_missing[rows], ".", color=ORANGE, ms=4.0, label="truth")
    names = getattr(model, "feature_names_in_", None)
    ax.set_ylabel(f"feature {feature}" if names is None else str(names[feature]))
    ax.legend(frameon=False, fontsize="small", ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.15))
    format_axes(ax, time_values[rows])
    return ax


def _central_interval(values: FloatArray, level: float) -> FloatArray:
    """Return the ends (2, ...) of central intervals of draws (n, ...) with probability `level`."""
    check_level(level)
    return np.quantile(values, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0)


def _density(values: FloatArray, grid: FloatArray) -> FloatArray:
    from scipy.stats import gaussian_kde

    return gaussian_kde(values)(grid)


def _autocorrelation(pieces: Sequence[FloatArray], lags: int) -> FloatArray:
    """Return the autocorrelation (lags + 1,) of several sequences, from pairs of observed values."""
    mean = np.nanmean(np.concatenate(pieces))
    centred = [piece - mean for piece in pieces]
    power = np.nanmean(np.concatenate(centred) ** 2)
    autocorrelations = []
    for lag in range(lags + 1):
        products = [x[lag:] * x[: len(x) - lag] for x in centred if len(x) > lag]
        autocorrelations.append(np.nanmean(np.concatenate(products)) / power)
    return np.array(autocorrelations)
