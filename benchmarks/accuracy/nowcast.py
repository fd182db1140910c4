"""The ragged edge of an economy: what a later vintage reveals, predicted from the one before.

29 monthly and quarterly series of the United States as they were known on 2016-06-29; a month later 21 cells
that were missing are published (`probsfa.datasets.load_nowcast`). Each method predicts these 21 from the June
vintage alone. Errors are divided by the standard deviation of each series in the June vintage.

What a method leaves open is judged in the June vintage too: the last months are taken away one after the
other, each time the cells at the end are hidden as they are missing at the end of June, and errors in hidden
cells say which candidates are good. The models are fitted once to what precedes all of these months, and once
more to all of June. Beside the best candidate there is the mean of the predictions of all that are not worse
than it by more than two standard errors. The series mean, the last value (a quarter before for quarterly
series) and an autoregression of order one for each series leave nothing open.

    python benchmarks/accuracy/nowcast.py [--more]
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from probsfa.datasets import load_nowcast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.nowcast_methods import (
    are_quarterly,
    by_autoregression,
    by_last_value,
    by_mean,
    dynamic_factors,
    ours,
)
from common.options import read_options
from common.side_by_side import setting
from common.tables import Table

#: Earlier ends of the table whose ragged edges are hidden.
MONTHS = 36
#: Rows at the end in which cells are missing although their month is over.
EDGE = 2


def main() -> None:
    """Print the table, and the 21 cells."""
    arguments = read_options(
        __doc__,
        more=(False, "also Student-t noise, latents of blocks, quarters that are seen in all their months"),
    )
    nowcast = load_nowcast()
    june, later = nowcast.june, nowcast.july.reindex_like(nowcast.june)
    revealed = june.isna() & later.notna()
    std = june.std()

    families = {"probsfa": ours(more=arguments.more), "statsmodels": dynamic_factors()}
    print(setting("probsfa", "numpy", "jax", "statsmodels"), "\n")
    print(f"{int(revealed.to_numpy().sum())} cells revealed; choices by {MONTHS} hidden edges.\n")

    simple = {"series mean": by_mean, "last value": by_last_value, "AR(1) of each series": by_autoregression}
    cells, hidden = {}, edges(june)
    in_quarters = np.concatenate([are_quarterly(june)[np.nonzero(mask)[1]] for _, mask in hidden])
    squares: dict[str, list[np.ndarray]] = {}
    rows = []

    def add(name: str, spent: str) -> None:
        in_all = np.concatenate(squares[name])
        means = np.mean(in_all), np.mean(in_all[in_quarters])
        of_edges = (f"{np.sqrt(mean):.3f}" for mean in means)
        rows.append((name, *errors(cells[name], later, revealed, std), *of_edges, spent))

    for name, predict in simple.items():
        squares[name] = [in_edge(predict(past), june, mask, std) ** 2 for past, mask in hidden]
        cells[name] = predict(june)
        add(name, "")
    for family, candidates in families.items():
        edge_errors, made, seconds = {}, {}, {}
        for name, fit in candidates.items():
            started = time.process_time()
            predict = fit(june.iloc[:-MONTHS])
            edge_errors[name] = [in_edge(predict(past), june, mask, std) for past, mask in hidden]
            made[name] = fit(june)(june)
            seconds[name] = time.process_time() - started
            score = np.sqrt(np.mean(np.concatenate(edge_errors[name]) ** 2))
            print(f"  {family}, {name}: {score:.4f}, {seconds[name]:.0f} s of processor time", flush=True)
        for title, chosen in choices(edge_errors).items():
            label = f"{family}, {title}"
            cells[label] = sum(made[name] for name in chosen) / len(chosen)
            squares[label] = [
                np.mean(each, axis=0) ** 2
                for each in zip(*(edge_errors[name] for name in chosen), strict=True)
            ]
            add(label, f"{sum(seconds[name] for name in chosen):.0f}")
    header = ("method", "RMSE", "MAE", "RMSE in hidden edges", "in quarterly series there", "processor s")
    print("\nErrors of the 21 cells, in standard deviations of each series:\n")
    Table(*header, rows=rows)
    print("\nMean squared errors of ours less those of statsmodels, and their standard errors:\n")
    masked = revealed.to_numpy()
    of_cells = {name: ((made - later) / std).to_numpy()[masked] ** 2 for name, made in cells.items()}
    of_edges = {name: np.array([np.mean(one) for one in each]) for name, each in squares.items()}
    Table("ours", "statsmodels", "21 cells", "hidden edges", rows=differences(of_cells, of_edges))
    print("\nThe 21 cells, in the units of `load_nowcast().june`:\n")
    header, rows = by_cell(cells, later, revealed)
    Table(*header, rows=rows)


def choices(found: dict[str, list[np.ndarray]]) -> dict[str, list[str]]:
    """The candidate with the smallest error in hidden edges, and all that are within two standard errors."""
    by_edge = {name: np.array([np.mean(one**2) for one in each]) for name, each in found.items()}
    best = min(found, key=lambda name: np.mean(np.concatenate(found[name]) ** 2))
    level = []
    for name, squares in by_edge.items():
        behind = squares - by_edge[best]
        if np.mean(behind) <= 2.0 * np.std(behind) / np.sqrt(len(behind)):
            level.append(name)
    return {f"{best}": [best], f"mean of {len(level)} that are level": level}


def differences(*squares: dict[str, np.ndarray]) -> list[tuple[str, ...]]:
    """Rows of a table: by how much each of ours lies above each of statsmodels."""
    names = list(squares[0])
    pairs = [
        (one, other)
        for one in names
        for other in names
        if one[:7] == "probsfa" and other[:11] == "statsmodels"
    ]
    rows = []
    for one, other in pairs:
        behind = [each[one] - each[other] for each in squares]
        told = (f"{np.mean(b):+.3f} +- {np.std(b, ddof=1) / np.sqrt(len(b)):.3f}" for b in behind)
        rows.append((one.partition(", ")[2], other.partition(", ")[2], *told))
    return rows


def edges(june: pd.DataFrame) -> list[tuple[pd.DataFrame, np.ndarray]]:
    """Earlier ends of the table with their last cells hidden as those of June are, and which these are."""
    missing = june.isna().to_numpy()[-EDGE:]
    out = []
    for k in range(1, MONTHS + 1):
        past = june.iloc[:-k].copy()
        mask = np.zeros(june.shape, dtype=bool)
        mask[len(past) - EDGE : len(past)] = missing & past.notna().to_numpy()[-EDGE:]
        past = past.mask(mask[: len(past)])
        out.append((past, mask))
    return out


def in_edge(predicted: pd.DataFrame, truth: pd.DataFrame, mask: np.ndarray, std: pd.Series) -> np.ndarray:
    """Errors of the masked cells in standard deviations."""
    error = ((predicted - truth.loc[predicted.index]) / std).to_numpy()
    return error[mask[: len(error)]]


def errors(
    predicted: pd.DataFrame, truth: pd.DataFrame, mask: pd.DataFrame, std: pd.Series
) -> tuple[str, str]:
    """Root mean square and mean absolute error of the cells, in standard deviations."""
    error = ((predicted - truth) / std).to_numpy()[mask.to_numpy()]
    return f"{np.sqrt(np.mean(error**2)):.3f}", f"{np.mean(np.abs(error)):.3f}"


def by_cell(
    cells: dict[str, pd.DataFrame], truth: pd.DataFrame, mask: pd.DataFrame
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of cells."""
    rows = []
    for row, column in np.argwhere(mask.to_numpy()):
        month = f"{truth.index[row]:%Y-%m}"
        values = [frame.iloc[row, column] for frame in (truth, *cells.values())]
        rows.append([f"{truth.columns[column]} {month}", *(f"{value:.2f}" for value in values)])
    return ["cell", "published", *cells], rows


if __name__ == "__main__":
    main()
