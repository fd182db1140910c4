"""Forecasts of the bundled weather 1 to 24 hours ahead, beside persistence and autoregressions.

Weather of three airports (18 columns, hourly): all methods learn from March and April and forecast from 60
hours spread evenly over May, knowing the 400 rows before. A line for each: the mean absolute error at some
leads and over all 24, in standard deviations of the columns in March and April; how often the 90 % intervals
hold, over all leads; and seconds of the processor for the fit.

    persistence    the last value seen
    AutoReg(25)    statsmodels, each column from its own last 25 values
    VAR            statsmodels, all columns from their last values; as many as the criterion BIC takes

Where these need values at missing cells, these are filled along straight lines, or by the last value seen.

The model "as advised" has the rhythms, smooth latents and memory that `diagnose` of the plain one suggests
on March and April; robust noise, which it suggests too, is left out. Below, by model: in how many columns
errors one hour ahead have a lag-1 autocorrelation below 0.1 in May, and how many are level with persistence,
in mean absolute error over all hours of May; and, from every 25th hour, how often 90 % intervals hold in May,
and in March and April themselves, and the root mean square of errors in predicted standard deviations, which
is one if the model is right, by lead. With `--columns` figures by column, too.

    python benchmarks/accuracy/weather_forecasts.py [--latents K] [--methods models] [--columns]
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

from probsfa import ProbabilisticSFA
from probsfa.datasets import load_nyc_weather
from probsfa.statespace.columns import autocorrelation

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options

#: Hours ahead, origins, rows before each that are known, and lags of the autoregressions.
STEPS, ORIGINS, KNOWN, LAGS = 24, 60, 400, 25
LEADS = (1, 3, 6, 12, 24)
#: Hours between origins, and first rows of March that are not forecast, of the tables by lead.
EVERY, FIRST = 25, 200
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


def latents(
    called: str, fitted: dict[str, ProbabilisticSFA], advised: str | None = None, **options: object
) -> Callable[[pd.DataFrame], Forecaster]:
    """A model of this package, which joins those that are fitted; with what one of these is advised."""

    def fit(train: pd.DataFrame) -> Forecaster:
        if advised is not None:
            suggested = dict(fitted[advised].diagnose(train).suggested)
            print(f"    diagnose suggests {suggested}")
            suggested.pop("robust", None)
            options.update(suggested)
        model = fitted[called] = ProbabilisticSFA(**options).fit(train)

        def forecast(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
            ahead = model.forecast(rows, STEPS)
            return np.asarray(ahead.means), np.asarray(ahead.std)

        return forecast

    return fit


def standardised(model: ProbabilisticSFA, data: pd.DataFrame, rows: range) -> np.ndarray:
    """Errors (O, 24, D) of forecasts from some rows, in their predicted standard deviations."""
    values, out = data.to_numpy(), []
    for row in rows:
        ahead = model.forecast(data.iloc[max(row + 1 - KNOWN, 0) : row + 1], STEPS)
        out.append((values[row + 1 : row + 1 + STEPS] - np.asarray(ahead.means)) / np.asarray(ahead.std))
    return np.array(out)


def within(errors: np.ndarray, axis: object = None) -> np.ndarray:
    """How often 90 % intervals hold, in per cent, where a cell is observed."""
    return 100.0 * np.mean(np.abs(errors) <= HALF_WIDTH, axis=axis, where=~np.isnan(errors))


def examine(fitted: dict[str, ProbabilisticSFA], data: pd.DataFrame, n_train: int, columns: bool) -> None:
    """Print what errors of the models are like one hour ahead, and by lead."""
    values, may = data.to_numpy(), slice(n_train, None)
    stays = np.nanmean(np.abs(values - data.ffill().shift(1).to_numpy())[may], axis=0)
    months = {"March, April": range(FIRST, n_train - STEPS - 1, EVERY)}
    months["May"] = range(n_train - 1, len(data) - STEPS - 1, EVERY)
    heads = "".join(f"{f'{lead} h':>14}" for lead in LEADS)
    print(f"\n{'90 % intervals hold, size of errors':52}{heads}{'1-24 h':>14}")
    for called, model in fitted.items():
        ahead = model.filter(data)
        innovations = np.asarray(ahead.innovations)[may]
        first = autocorrelation(innovations, [len(innovations)], np.array([1])).values[0]
        error = np.nanmean(np.abs(values - np.asarray(ahead.predictions))[may], axis=0)
        white, level = np.count_nonzero(np.abs(first) < 0.1), np.count_nonzero(error <= stays)
        print(f"{called}: white in {white} of {first.size} columns, level with persistence in {level}")
        table = {"lag 1": first, "1 h / last": error / stays}
        for month, rows in months.items():
            errors = standardised(model, data, rows)
            size = np.sqrt(np.nanmean(errors**2, axis=(0, 2)))
            held = within(errors, (0, 2))
            cells = "".join(f"{held[lead - 1]:7.1f}% {size[lead - 1]:5.2f}" for lead in LEADS)
            print(f"    {month:48}{cells}{within(errors):7.1f}% {np.sqrt(np.nanmean(errors**2)):5.2f}")
            table |= {f"{month} %": within(errors, (0, 1))}
        if columns:
            print(pd.DataFrame(table, index=data.columns).round(2).to_string(), flush=True)


def main() -> None:
    """Print the tables."""
    options = read_options(
        __doc__,
        latents=(6, "number of latents"),
        methods={"choices": ("all", "peers", "models", "advised"), "default": "all", "help": "whose lines"},
        columns=(False, "figures by column, too"),
    )
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
    kinds: dict[str, dict[str, object]] = {
        f"{k} latents": {},
        f"{k} latents, memory": {"noise": "ar1"},
        f"{k} latents, a day, memory": {"noise": "ar1", **day},
        f"{k} latents, as advised": {"advised": f"{k} latents"},
        f"{k} latents, a day, 2 smooth, memory": {"noise": "ar1", "smooth": 2, **day},
    }
    fitted: dict[str, ProbabilisticSFA] = {}
    models = {name: latents(name, fitted, n_components=k, **kind) for name, kind in kinds.items()}
    plain, *_, advised, _ = models
    methods = {"peers": peers, "models": models, "all": peers | models}.get(
        options.methods, {name: models[name] for name in (plain, advised)}
    )
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
    if fitted:
        examine(fitted, data, len(train), options.columns)


if __name__ == "__main__":
    main()
