"""Forecasts of the bundled weather 1 to 24 hours ahead, beside persistence and autoregressions.

Weather of three airports (18 columns, hourly): all methods learn from March and April and forecast from 60
hours spread evenly over May, knowing the 400 rows before. A line for each: the mean absolute error at some
leads and over all 24, in standard deviations of the columns in March and April; how often the 90 % intervals
hold, over all leads; and seconds of the processor for the fit.

    persistence    the last value seen
    AutoReg(25)    statsmodels, each column from its own last 25 values
    VAR            statsmodels, all columns from their last values; as many as the criterion BIC takes

Where these need values at missing cells, these are filled along straight lines, or by the last value seen.

    python benchmarks/accuracy/weather_forecasts.py [--latents K]
"""

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from statsmodels.tsa.api import VAR
from statsmodels.tsa.ar_model import AutoReg

from probsfa import ProbabilisticSFA
from probsfa.datasets import load_nyc_weather

#: Hours ahead, origins, rows before each that are known, and lags of the autoregressions.
STEPS, ORIGINS, KNOWN, LAGS = 24, 60, 400, 25
LEADS = (1, 3, 6, 12, 24)
#: Half the width of a 90 % interval, in standard deviations.
HALF_WIDTH = 1.6448536269514722

#: Gives means (24, D) and standard deviations, if it has any, for the rows after a frame.
Forecaster = Callable[[pd.DataFrame], tuple[np.ndarray, np.ndarray | None]]


def filled(rows: pd.DataFrame) -> np.ndarray:
    """Rows without holes: straight lines, and the nearest value at the ends."""
    return rows.interpolate(limit_direction="both").to_numpy()


def persistence(train: pd.DataFrame) -> Forecaster:
    """The last value seen."""
    return lambda rows: (np.tile(rows.ffill().iloc[-1].to_numpy(), (STEPS, 1)), None)


def autoregressions(train: pd.DataFrame) -> Forecaster:
    """Each column by itself."""
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
    """All columns from all, with the lags of the smallest BIC."""
    values = filled(train)
    shift, scale = values.mean(axis=0), values.std(axis=0)
    fit = VAR((values - shift) / scale).fit(maxlags=LAGS, ic="bic")

    def forecast(rows: pd.DataFrame) -> tuple[np.ndarray, None]:
        known = ((filled(rows) - shift) / scale)[-max(fit.k_ar, 1) :]
        return shift + scale * fit.forecast(known, STEPS), None

    return forecast


def latents(**options: object) -> Callable[[pd.DataFrame], Forecaster]:
    """A model of this package."""

    def fit(train: pd.DataFrame) -> Forecaster:
        model = ProbabilisticSFA(**options).fit(train)

        def forecast(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
            ahead = model.forecast(rows, STEPS)
            return np.asarray(ahead.means), np.asarray(ahead.std)

        return forecast

    return fit


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--latents", type=int, default=6, help="number of latents")
    parser.add_argument("--methods", choices=("all", "peers", "models"), default="all", help="whose lines")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    data = load_nyc_weather().data.loc["2013-03":"2013-05"]
    train = data.loc["2013-03":"2013-04"]
    scale = train.std().to_numpy()
    origins = np.linspace(len(train), len(data) - STEPS, ORIGINS).astype(int)
    k, day = options.latents, {"rhythms": ["1D"]}
    peers = {
        "persistence": persistence,
        f"AutoReg({LAGS})": autoregressions,
        "VAR": vector_autoregression,
    }
    models = {
        f"{k} latents": latents(n_components=k),
        f"{k} latents, memory": latents(n_components=k, noise="ar1"),
        f"{k} latents, a day, memory": latents(n_components=k, noise="ar1", **day),
        f"{k} latents, a day, 2 smooth, memory": latents(n_components=k, noise="ar1", smooth=2, **day),
    }
    methods = {"peers": peers, "models": models, "all": peers | models}[options.methods]
    heads = "".join(f"{f'{lead} h':>8}" for lead in LEADS)
    print(f"{'mean absolute error':38}{heads}{'1-24 h':>8}{'90 %':>8}{'s fit':>8}")
    for called, learn in methods.items():
        begin = time.process_time()
        forecast = learn(train)
        seconds = time.process_time() - begin
        errors, spreads = [], []
        for origin in origins:
            means, std = forecast(data.iloc[origin - KNOWN : origin])
            errors.append(np.abs(means - data.iloc[origin : origin + STEPS].to_numpy()))
            spreads.append(np.full_like(means, np.nan) if std is None else std)
        held = np.array(errors) <= HALF_WIDTH * np.array(spreads)
        seen = ~np.isnan(errors)
        by_lead = np.nanmean(np.array(errors) / scale, axis=(0, 2))
        covered = f"{100 * held[seen].mean():7.1f}%" if not np.isnan(spreads).any() else f"{'-':>8}"
        cells = "".join(f"{by_lead[lead - 1]:8.3f}" for lead in LEADS)
        print(f"{called:38}{cells}{by_lead.mean():8.3f}{covered}{seconds:8.0f}", flush=True)


if __name__ == "__main__":
    main()
