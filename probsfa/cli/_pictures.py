"""Figures of the commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probsfa import plots
from probsfa._typing import FloatArray
from probsfa.cli.tables.input import Input
from probsfa.imputation import Comparison, EstimatorImputation, LinearInterpolation
from probsfa.plots.style import GREY

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["draw_demo", "draw_missing_blocks", "longest_block", "save_picture", "window"]

_DEMO_COLUMN = "temp_LGA"
_MAX_COLUMNS = 4


def draw_missing_blocks(series: Input, filled: FloatArray, std: FloatArray) -> "Figure":
    """Draw the longest missing block of each of at most four columns."""
    from matplotlib.figure import Figure

    blocks_of_columns = [_longest_missing_block(series, j) for j in range(series.values.shape[1])]
    selected = sorted(
        range(len(blocks_of_columns)),
        key=lambda j: blocks_of_columns[j][1].start - blocks_of_columns[j][1].stop,
    )[:_MAX_COLUMNS]
    figure = Figure(figsize=(8.0, 0.4 + 2.1 * len(selected)), layout="constrained")
    axes = figure.subplots(len(selected), 1, squeeze=False)[:, 0]
    for ax, j in zip(axes, selected, strict=True):
        sequence, block = blocks_of_columns[j]
        rows = sequence[window(block, len(sequence))]
        times = None if series.row_times.stamps is None else series.row_times.stamps[rows]
        plots.plot_imputation(series.values[rows, j], filled[rows, j], std[rows, j], times=times, ax=ax)
        ax.set_ylabel(series.names[j])
        if ax is not axes[0]:
            ax.get_legend().remove()
    return figure


def draw_demo(data: "pd.DataFrame", blocks: Comparison, model: Any) -> "Figure":
    """Draw a segment with imputed hidden blocks and, below it, the slowest features of the year."""
    from matplotlib.figure import Figure

    times = np.asarray(data.index, dtype="datetime64[ns]")
    figure = Figure(figsize=(9.0, 6.4), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=[1.1, 1.0])
    upper, lower = halves

    column = data.columns.get_loc(_DEMO_COLUMN)
    rows = _segment_with_most_missing(np.isnan(blocks.incomplete[:, column]), 14 * 24)
    segment = rows, column
    filled = blocks.filled[EstimatorImputation.name]
    ax = upper.subplots()
    plots.plot_imputation(
        blocks.incomplete[segment],
        filled.values[segment],
        None if filled.std is None else filled.std[segment],
        truth=data.to_numpy()[segment],
        times=times[rows],
        ax=ax,
    )
    linear = LinearInterpolation.name
    interpolated = blocks.filled[linear].values[segment]
    ax.plot(times[rows], interpolated, "--", color=GREY, lw=1.0, label=linear, zorder=1.5)
    ax.set_ylabel("LaGuardia, °F")
    ax.set_title("Temperature with hidden values", loc="left", fontsize="medium")
    legend_position = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
    ax.legend(
        **legend_position, ncols=5, columnspacing=1.2, handlelength=1.5, frameon=False, fontsize="small"
    )

    posterior = model.posterior(blocks.incomplete)
    n = min(3, posterior.means.shape[1])
    axes = lower.subplots(n, 1, sharex=True, squeeze=False)[:, 0]
    means, std = (np.asarray(values)[:, :n] for values in (posterior.means, posterior.std))
    plots.plot_slow_features(means, std, times=times, axes=axes)
    axes[0].set_title("The slowest features of the year", loc="left", fontsize="medium")
    return figure


def _longest_missing_block(series: Input, column: int) -> tuple[NDArray[np.intp], slice]:
    """Return the longest missing block of a column: the rows of its sequence, and a slice of these rows."""
    blocks = [
        (rows, longest_block(np.isnan(series.values[rows, column]))) for rows in series.row_times.sequences
    ]
    return max(blocks, key=lambda block: block[1].stop - block[1].start)


def longest_block(missing: NDArray[np.bool_]) -> slice:
    """Return the longest block of missing values; an empty slice without missing values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(np.int8)))
    starts, stops = edges[::2], edges[1::2]
    if not starts.size:
        return slice(0, 0)
    longest = int(np.argmax(stops - starts))
    return slice(int(starts[longest]), int(stops[longest]))


def window(block: slice, n_rows: int, min_rows: int = 60, max_rows: int = 240) -> slice:
    """Return the rows of a block with margins on both sides.

    A margin is as long as the block, but at least `min_rows` and at most `max_rows`. The block and the margin
    after it have at most ``2 * max_rows`` rows.
    """
    margin = min(max(block.stop - block.start, min_rows), max_rows)
    return slice(max(block.start - margin, 0), min(block.stop + margin, block.start + 2 * max_rows, n_rows))


def save_picture(figure: "Figure", path: Path) -> None:
    """Save a figure in the format of its file extension."""
    figure.savefig(path, dpi=120)


def _segment_with_most_missing(missing: NDArray[np.bool_], n_rows: int) -> slice:
    """Return the segment of `n_rows` rows with the most missing values in its inner three quarters."""
    n_inner = n_rows - 2 * (n_rows // 8)
    cumulative_count = np.concatenate([[0], np.cumsum(missing)])
    start = max(int(np.argmax(cumulative_count[n_inner:] - cumulative_count[:-n_inner])) - n_rows // 8, 0)
    return slice(start, start + n_rows)
