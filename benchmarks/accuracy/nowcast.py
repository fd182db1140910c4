"""Nowcast of a ragged edge: values of a later vintage, predicted from the previous vintage.

29 monthly and quarterly series of the United States as published on 2016-06-29. A month later, 21 of the
missing values are published (`probsfa.datasets.load_nowcast`). Each method predicts these 21 values from the
June vintage alone. Errors are divided by the standard deviation of each series in the June vintage.

Parameters of the methods are selected in the June vintage, too. The last months are removed one by one. In
each of these shorter tables the last values are hidden in the same pattern as those missing at the end of
June, and candidates are ranked by the errors of the hidden values. Models are fitted twice: to the rows
before all of these months, and to all rows of June. The table has the best candidate, and the mean of the
predictions of all candidates whose errors are at most two standard errors larger. Three methods have nothing
to select: the mean of the series, the last value (of the previous quarter for quarterly series), and an AR(1)
regression of each series.

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

#: Number of shorter tables in which a ragged edge is hidden.
MONTHS = 36
#: Final rows with missing values of past months.
EDGE = 2


def main() -> None:
    """Print the table of errors, and the 21 values."""
    arguments = read_options(
        __doc__,
        more=(False, "also Student-t noise, factors of blocks, quarters repeated in their months"),
    )
    nowcast = load_nowcast()
    june, later = nowcast.june, nowcast.july.reindex_like(nowcast.june)
    revealed = june.isna() & later.notna()
    std = june.std()

    families = {"probsfa": ours(more=arguments.more), "statsmodels": dynamic_factors()}
    print(setting("probsfa", "numpy", "jax", "statsmodels"), "\n")
    n_values = int(revealed.to_numpy().sum())
    print(f"{n_values} values of the second vintage; models are selected by {MONTHS} hidden edges.\n")

    simple = {"series mean": by_mean, "last value": by_last_value, "AR(1) of each series": by_autoregression}
    predictions, hidden = {}, edges(june)
    in_quarters = np.concatenate([are_quarterly(june)[np.nonzero(mask)[1]] for _, mask in hidden])
    squares: dict[str, list[np.ndarray]] = {}
    rows = []

    def add(name: str, spent: str) -> None:
        in_all = np.concatenate(squares[name])
        means = np.mean(in_all), np.mean(in_all[in_quarters])
        of_edges = (f"{np.sqrt(mean):.3f}" for mean in means)
        rows.append((name, *errors(predictions[name], later, revealed, std), *of_edges, spent))

    for name, predict in simple.items():
        squares[name] = [in_edge(predict(past), june, mask, std) ** 2 for past, mask in hidden]
        predictions[name] = predict(june)
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
            predictions[label] = sum(made[name] for name in chosen) / len(chosen)
            squares[label] = [
                np.mean(each, axis=0) ** 2
                for each in zip(*(edge_errors[name] for name in chosen), strict=True)
            ]
            add(label, f"{sum(seconds[name] for name in chosen):.0f}")
    header = ("method", "RMSE", "MAE", "RMSE in hidden edges", "in quarterly series there", "processor s")
    print("\nErrors of the 21 values, in standard deviations of each series:\n")
    Table(*header, rows=rows)
    print("\nMean squared errors of ours less those of statsmodels, and their standard errors:\n")
    masked = revealed.to_numpy()
    of_values = {name: ((made - later) / std).to_numpy()[masked] ** 2 for name, made in predictions.items()}
    of_edges = {name: np.array([np.mean(one) for one in each]) for name, each in squares.items()}
    Table("ours", "statsmodels", "21 values", "hidden edges", rows=differences(of_values, of_edges))
    print("\nThe 21 values, in the units of `load_nowcast().june`:\n")
    header, rows = table_of_values(predictions, later, revealed)
    Table(*header, rows=rows)


def choices(found: dict[str, list[np.ndarray]]) -> dict[str, list[str]]:
    """Return the candidate with the smallest error of hidden values, and all within two standard errors."""
    by_edge = {name: np.array([np.mean(one**2) for one in each]) for name, each in found.items()}
    best = min(found, key=lambda name: np.mean(np.concatenate(found[name]) ** 2))
    level = []
    for name, squares in by_edge.items():
        behind = squares - by_edge[best]
        if np.mean(behind) <= 2.0 * np.std(behind) / np.sqrt(len(behind)):
            level.append(name)
    return {f"{best}": [best], f"mean of the {len(level)} best": level}


def differences(*squares: dict[str, np.ndarray]) -> list[tuple[str, ...]]:
    """Return table rows with the differences of errors between each model of ours and each of statsmodels."""
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
    """Return shorter tables whose last values are hidden as at the end of June, and their masks."""
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
    """Return errors of the masked values in standard deviations."""
    error = ((predicted - truth.loc[predicted.index]) / std).to_numpy()
    return error[mask[: len(error)]]


def errors(
    predicted: pd.DataFrame, truth: pd.DataFrame, mask: pd.DataFrame, std: pd.Series
) -> tuple[str, str]:
    """Return root mean square and mean absolute error of the masked values, in standard deviations."""
    error = ((predicted - truth) / std).to_numpy()[mask.to_numpy()]
    return f"{np.sqrt(np.mean(error**2)):.3f}", f"{np.mean(np.abs(error)):.3f}"


def table_of_values(
    predictions: dict[str, pd.DataFrame], truth: pd.DataFrame, mask: pd.DataFrame
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table of predicted values."""
    rows = []
    for row, column in np.argwhere(mask.to_numpy()):
        month = f"{truth.index[row]:%Y-%m}"
        values = [frame.iloc[row, column] for frame in (truth, *predictions.values())]
        rows.append([f"{truth.columns[column]} {month}", *(f"{value:.2f}" for value in values)])
    return ["value", "published", *predictions], rows


if __name__ == "__main__":
    main()
