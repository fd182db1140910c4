"""Control charts, drawn by :meth:`probsfa.monitoring.ProcessMonitor.plot`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probsfa.plots.arguments import check_axes, row_times
from probsfa.plots.style import BLUE, GREY, ORANGE, figure, format_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_control_charts"]


def plot_control_charts(
    statistics: Any,
    limits: Mapping[str, float],
    *,
    truth: Any = None,
    times: Any = None,
    axes: "Sequence[Axes] | NDArray[Any] | None" = None,
) -> "list[Axes]":
    """Draw control charts: statistics over time, control limits, and rows above them.

    Parameters
    ----------
    statistics : DataFrame (T, S)
        Result of `ProcessMonitor.score_samples`.
    limits : mapping of str to float
        Control limit of each column, such as `ProcessMonitor.limits_`.
    truth : array-like of bool (T,), default=None
        Rows that are known to be faulty; they are shaded.
    times : array-like (T,), default=None
        Positions of the rows on the time axis; the index of the table by default.
    axes : sequence of S matplotlib Axes or None, default=None
        Axes to draw on, one for each statistic; a new figure by default.

    Returns
    -------
    list of matplotlib Axes
        Statistics on a logarithmic scale; rows above the limit are marked.

    Raises
    ------
    ValueError
        If there are not as many axes as statistics, or a limit is missing.

    See Also
    --------
    probsfa.monitoring.ProcessMonitor.plot : Compute and draw the statistics of rows.

    Examples
    --------
    >>> from probsfa import SFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> from probsfa.monitoring import ProcessMonitor
    >>> X = make_slow_mixture(800, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> monitor = ProcessMonitor(SFA(), alpha=0.05).fit(X[:600])
    >>> axes = plot_control_charts(monitor.score_samples(X[600:]), monitor.limits_)
    >>> [ax.get_ylabel() for ax in axes] == list(monitor.statistics_)
    True
    """
    names = list(statistics.columns)
    absent = [name for name in names if name not in limits]
    if absent:
        raise ValueError(f"limits has no entry for {absent}. Pass one for each statistic.")
    n = len(statistics)
    time_values = row_times(statistics.index if times is None else times, n)
    if axes is None:
        axes = np.atleast_1d(figure(8.0, 1.0 + 1.3 * len(names)).subplots(len(names), 1, sharex=True))
    axes = check_axes(axes, len(names), "one for each statistic")
    faulty = None if truth is None else np.asarray(truth, dtype=bool)
    if faulty is not None and faulty.shape != (n,):
        raise ValueError(f"truth must have shape ({n},), one for each row, got {faulty.shape}.")
    for ax, name in zip(axes, names, strict=True):
        values, limit = statistics[name].to_numpy(dtype=np.float64), float(limits[name])
        if faulty is not None:
            for first, last in _runs(faulty):
                ax.axvspan(time_values[first], time_values[last], color=GREY, alpha=0.2, lw=0.0)
        ax.plot(time_values, values, color=BLUE, lw=0.8)
        with np.errstate(invalid="ignore"):
            is_above = values > limit
        ax.plot(time_values[is_above], values[is_above], ls="none", marker=".", ms=3.5, color=ORANGE)
        ax.axhline(limit, color=ORANGE, lw=1.0, ls="--")
        ax.set_yscale("log")
        ax.set_ylabel(name)
        # The scale begins at limit / 30, because values near zero would otherwise take up most of it.
        finite = values[np.isfinite(values)]
        top = max(np.max(finite, initial=limit), limit)
        ax.set_ylim(limit / 30.0, 2.0 * top)
        format_axes(ax, time_values)
    axes[-1].set_xlabel("row" if time_values.dtype.kind in "iu" else "")
    return axes


def _runs(rows: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the first and the last row of each run of True."""
    edges = np.diff(np.concatenate([[0], rows.astype(int), [0]]))
    return list(
        zip(np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) - 1).tolist(), strict=True)
    )
