"""Columns with transforms (`transforms="auto"`) and without, on three data sets.

A tenth of the values is hidden, as single values or in blocks of 24 rows. Models with 6 factors, and with as
many as columns, are fitted to the rest and impute the hidden values. Numbers are means over random choices of
hidden values. Errors are in standard deviations of the columns, intervals those of `impute(quantile=[0.05,
0.95])`, and imputed values are means. An imputed value is out of range if it is negative in a column without
negative values, or above 100 in a column whose maximum is from 99 to 100.

    python benchmarks/accuracy/scales.py [--draws N] [--rows N] [--data FOLDER]
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from probsfa import ProbabilisticSFA
from probsfa.datasets import hide_blocks, hide_values

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import records
from common.options import read_options
from common.side_by_side import setting
from common.tables import Table

NAMES = ("Beijing, one station", "air quality", "weather")
#: Minimum number of observed values of a column.
FEWEST_CELLS = 1000
HEADER = (
    "record",
    "hidden",
    "factors",
    "transforms",
    "RMSE",
    "MAE",
    "coverage of 90 % intervals",
    "out of range",
    "columns mapped",
)


def main() -> None:
    """Print the table."""
    arguments = read_options(
        __doc__,
        data="beijing_multisite and air_quality_uci",
        draws=(3, "random choices of hidden values"),
        rows=(4000, "rows of each record, its first ones"),
    )
    print(setting("probsfa", "numpy", "jax"), "\n")
    found = records(arguments.data)
    rows = []
    for name in NAMES:
        values = found[name]
        if values is None:
            print(f"{name}: its file is missing.")
            continue
        values = values[: arguments.rows]
        values = values[:, np.isfinite(values).sum(axis=0) > FEWEST_CELLS]
        print(f"{name}: {values.shape[0]} rows, {values.shape[1]} columns.", flush=True)
        for hidden, hide in (("values", hide_values), ("blocks", hide_blocks)):
            for n_factors in (6, values.shape[1]):
                for transforms in (None, "auto"):
                    measured = [
                        one(values, hide(values, random_state=draw), n_factors, transforms)
                        for draw in range(arguments.draws)
                    ]
                    rows.append((name, hidden, n_factors, transforms, *written(measured)))
    print()
    Table(*HEADER, rows=rows)


def one(values: np.ndarray, hidden: np.ndarray, n_factors: int, transforms: str | None) -> tuple[float, ...]:
    """Return errors, coverage, the number of imputed values out of range, and the transformed columns."""
    incomplete = np.where(hidden, np.nan, values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ProbabilisticSFA(n_factors, transforms=transforms).fit(incomplete)
        filled = model.impute(incomplete)
        low, high = model.impute(incomplete, quantile=[0.05, 0.95])
    error = ((filled - values) / np.nanstd(values, axis=0))[hidden]
    inside = ((low <= values) & (values <= high))[hidden]
    highest = np.nanmax(values, axis=0)
    outside = (filled < 0.0) & (np.nanmin(values, axis=0) >= 0.0)
    outside |= (filled > 100.0) & (highest <= 100.0) & (highest >= 99.0)
    mapped = 0 if transforms is None else sum(each is not None for each in model.transforms_.values())
    return (
        float(np.sqrt(np.mean(error**2))),
        float(np.mean(np.abs(error))),
        float(np.mean(inside)),
        int(np.count_nonzero(outside & hidden)),
        int(np.count_nonzero(hidden)),
        mapped,
    )


def written(measured: list[tuple[float, ...]]) -> tuple[str, ...]:
    """Return means over draws, as texts of the table."""
    rmse, mae, inside, outside, hidden, mapped = np.mean(measured, axis=0)
    return (
        f"{rmse:.3f}",
        f"{mae:.3f}",
        f"{100 * inside:.1f} %",
        f"{outside:.0f} of {hidden:.0f}",
        f"{mapped:.1f}",
    )


if __name__ == "__main__":
    main()
