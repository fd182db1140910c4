"""Calendar covariates: imputation of blocks and day-ahead forecasts at one station of Beijing.

A tenth of the values of the first 4,000 hours is hidden in blocks of 24 rows; a model with 6 factors is
fitted to the rest. The days of the following 960 hours are then predicted, each from all previous hours.
Errors are in standard deviations of the columns over the hours of the fit. "All ahead" is the root mean
square over all columns, hours and days. All numbers are means over random choices of hidden values.

    python benchmarks/accuracy/covariates.py [--draws N] [--data FOLDER]
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from probsfa import ProbabilisticSFA
from probsfa.datasets import hide_blocks
from probsfa.statespace import calendar_terms, harmonics

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import records
from common.options import read_options
from common.side_by_side import setting
from common.tables import Table

COLUMNS = "PM2.5 PM10 SO2 NO2 CO O3 TEMP PRES DEWP RAIN WSPM".split()
ROWS, AHEAD, DAY = 4000, 960, 24
HEADER = ("covariates", "coefficients", "BIC", "hidden blocks", "all ahead", "temperature", "ozone")


def main() -> None:
    """Print the table."""
    arguments = read_options(
        __doc__,
        data="beijing_multisite",
        draws=(3, "random choices of hidden values"),
    )
    values = records(arguments.data)["Beijing, one station"]
    if values is None:
        raise SystemExit(
            f"{arguments.data} does not hold beijing_multisite; --data names the folder that does"
        )
    print(setting("probsfa", "numpy", "jax"), "\n")
    hours = pd.date_range("2013-03-01", periods=ROWS + AHEAD, freq="h")
    frame = pd.DataFrame(values[: ROWS + AHEAD], index=hours, columns=COLUMNS)
    asked = {
        "none": None,
        "three harmonics of the day, weekends": pd.concat(
            [harmonics(hours, "24h", 3), calendar_terms(hours, ["weekend"])], axis=1
        ),
        "indicators of hours and weekdays": calendar_terms(hours, ["hour", "weekday"]),
    }
    table = Table(*HEADER)
    for name, covariates in asked.items():
        measured = [one(frame, covariates, draw) for draw in range(arguments.draws)]
        bic, *errors = np.mean(measured, axis=0)
        n_coefficients = 0 if covariates is None else covariates.shape[1] * len(COLUMNS)
        table.add(name, n_coefficients, f"{bic:.0f}", *(f"{error:.3f}" for error in errors))


def one(frame: pd.DataFrame, covariates: pd.DataFrame | None, draw: int) -> tuple[float, ...]:
    """Return BIC and errors of a fit: hidden blocks, and forecasts of all columns, temperature and ozone."""
    fitted = frame.iloc[:ROWS]
    std = fitted.std()
    hidden = hide_blocks(fitted, length=DAY, random_state=draw)
    incomplete = pd.concat([fitted.mask(hidden), frame.iloc[ROWS:]])
    exog = {} if covariates is None else {"exog": covariates}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ProbabilisticSFA(6).fit(incomplete.iloc[:ROWS], **exog)
        filled = ((model.impute(incomplete.iloc[:ROWS], **exog) - fitted) / std).to_numpy()[hidden]
        ahead = []
        for first in range(ROWS, len(frame), DAY):
            mean = model.forecast(incomplete.iloc[:first], DAY, **exog).means
            truth = frame.iloc[first : first + DAY]
            ahead.append((np.asarray(mean) - truth.to_numpy()) / std.to_numpy())
        criterion = model.bic(incomplete.iloc[:ROWS], **exog)
    errors = np.concatenate(ahead)
    of_columns = np.sqrt(np.nanmean(errors**2, axis=0))
    return (
        float(criterion),
        float(np.sqrt(np.nanmean(filled**2))),
        float(np.sqrt(np.nanmean(errors**2))),
        float(of_columns[COLUMNS.index("TEMP")]),
        float(of_columns[COLUMNS.index("O3")]),
    )


if __name__ == "__main__":
    main()
