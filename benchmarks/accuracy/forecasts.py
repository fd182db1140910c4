"""Forecasts 1 to 24 hours ahead, compared with persistence and autoregressions.

Weather of three airports (18 columns, hourly, bundled): all methods are fitted to March and April and
forecast from 60 hours spread evenly over May. Electricity transformer (ETT_h1, 7 columns, hourly): they are
fitted to the first 3,000 hours and forecast from 60 of the next 1,500. The 400 rows before a forecast are
known. The table has a row for each method: the mean absolute error at some horizons and over all 24, in
standard deviations of the columns in training; the coverage of 90 % intervals over all horizons; and
processor seconds of the fit.

    persistence      the last observed value
    AutoReg(25)      statsmodels, each column from its last 25 values
    VAR              statsmodels, all columns, with the number of lags of the smallest BIC

If these methods require missing values, linear interpolation or the last observed value replaces them.

    python benchmarks/accuracy/forecasts.py [--only NAME] [--data FOLDER]
"""

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from statsmodels.tsa.api import VAR
from statsmodels.tsa.ar_model import AutoReg

from probsfa import ProbabilisticSFA, select_model
from probsfa.datasets import load_nyc_weather

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import setting
from common.tables import Table

#: Hours ahead, origins, rows before each that are known, and lags of the autoregressions.
STEPS, ORIGINS, KNOWN, LAGS = 24, 60, 400, 25
LEADS = (1, 3, 6, 12, 24)
#: Half the width of a 90 % interval, in standard deviations.
HALF_WIDTH = 1.6448536269514722

#: Return means (24, D) and, if there are any, standard deviations for the rows after a frame.
Forecaster = Callable[[pd.DataFrame], tuple[np.ndarray, np.ndarray | None]]


def filled(rows: pd.DataFrame) -> np.ndarray:
    """Return rows without missing values, by linear interpolation and the nearest value at the ends."""
    return rows.interpolate(limit_direction="both").to_numpy()


def persistence(train: pd.DataFrame) -> Forecaster:
    """Repeat the last observed value."""
    return lambda rows: (np.tile(rows.ffill().iloc[-1].to_numpy(), (STEPS, 1)), None)


def autoregressions(train: pd.DataFrame) -> Forecaster:
    """Fit an autoregression of each column."""
    fits = [AutoReg(column, LAGS).fit().params for column in filled(train).T]

    def forecast(rows: pd.DataFrame) -> tuple[np.ndarray, None]:
        out = []
        for column, (constant, *weights) in zip(filled(rows).T, fits, strict=True):
            values = list(column[-LAGS:])
            for _ in range(STEPS):
                values.append(constant + np.dot(weights, values[: -LAGS - 1 : -1]))
            out.append(values[LAGS:])
        return np.array(out).T, None

    return forecast


def vector_autoregression(train: pd.DataFrame) -> Forecaster:
    """Fit a vector autoregression with the lags of the smallest BIC."""
    values = filled(train)
    shift, scale = values.mean(axis=0), values.std(axis=0)
    fit = VAR((values - shift) / scale).fit(maxlags=LAGS, ic="bic")

    def forecast(rows: pd.DataFrame) -> tuple[np.ndarray, None]:
        known = ((filled(rows) - shift) / scale)[-max(fit.k_ar, 1) :]
        return shift + scale * fit.forecast(known, STEPS), None

    return forecast


def ours(fit: Callable[[pd.DataFrame], ProbabilisticSFA]) -> Callable[[pd.DataFrame], Forecaster]:
    """Forecast by a model of this package."""

    def learn(train: pd.DataFrame) -> Forecaster:
        model = fit(train)
        print(f"    {model.status_}")

        def forecast(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
            ahead = model.forecast(rows, STEPS)
            return np.asarray(ahead.means), np.asarray(ahead.std)

        return forecast

    return learn


METHODS: dict[str, Callable[[pd.DataFrame], Forecaster]] = {
    "persistence": persistence,
    f"AutoReg({LAGS})": autoregressions,
    "VAR": vector_autoregression,
    "ProbabilisticSFA()": ours(lambda train: ProbabilisticSFA().fit(train)),
    "select_model": ours(lambda train: select_model(train).best_estimator_),
    "6 factors, AR(1) noise, a day": ours(
        lambda train: ProbabilisticSFA(6, noise="ar1", rhythms=["1D"]).fit(train)
    ),
    "3 factors, AR(1) noise, 6 cycles": ours(
        lambda train: ProbabilisticSFA(3, noise="ar1", rhythms=["1D"] * 3 + ["12h"] * 2 + ["8h"]).fit(train)
    ),
}


def compare(data: pd.DataFrame, n_train: int, n_rows: int) -> None:
    """Print a line for each method."""
    train, data = data[:n_train], data[:n_rows]
    scale = train.std().to_numpy()
    table = Table("mean absolute error", *(f"{lead} h" for lead in LEADS), "1-24 h", "90 %", "s fit")
    for called, learn in METHODS.items():
        began = time.process_time()
        forecast = learn(train)
        seconds = time.process_time() - began
        errors, covered = [], []
        for origin in np.linspace(n_train, n_rows - STEPS, ORIGINS).astype(int):
            means, std = forecast(data.iloc[origin - KNOWN : origin])
            error = np.abs(means - data.iloc[origin : origin + STEPS].to_numpy())
            errors.append(error / scale)
            if std is not None:
                covered.append((error <= HALF_WIDTH * std)[~np.isnan(error)])
        by_lead = np.nanmean(np.array(errors), axis=(0, 2))
        coverage_text = f"{100 * np.concatenate(covered).mean():.1f}%" if covered else "-"
        means = [*(by_lead[lead - 1] for lead in LEADS), by_lead.mean()]
        table.add(called, *(f"{mean:.3f}" for mean in means), coverage_text, f"{seconds:.0f}")


def main() -> None:
    """Print a table for each record."""
    args = read_options(__doc__, data="etth1", only={"metavar": "NAME", "choices": ("weather", "ETT_h1")})
    warnings.simplefilter("ignore")
    print(setting("numpy", "statsmodels"))
    if args.only != "ETT_h1":
        weather = load_nyc_weather().data.loc["2013-03":"2013-05"]
        print("\nweather\n")
        compare(weather, len(weather.loc[:"2013-04"]), len(weather))
    path = args.data / "etth1" / "ETTh1.csv"
    if args.only != "weather" and path.exists():
        print("\nETT_h1\n")
        compare(pd.read_csv(path, index_col="date", parse_dates=True), 3000, 4500)


if __name__ == "__main__":
    main()
