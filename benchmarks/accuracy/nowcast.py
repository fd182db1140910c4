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

    python benchmarks/accuracy/nowcast.py [--months N] [--without-peers]
"""

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probsfa import ProbabilisticSFA
from probsfa.datasets import load_nowcast
from probsfa.statespace import StateSpace, make_parameters

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import setting, table

#: Rows at the end in which cells are missing although their month is over.
EDGE = 2
Predict = Callable[[pd.DataFrame], pd.DataFrame]


def main() -> None:
    """Print the table, and the 21 cells."""
    arguments = read_options(
        __doc__,
        months=(36, "ragged edges that are hidden to choose by"),
        more=(False, "also Student-t noise, latents of blocks, quarters that are seen in all their months"),
        without_peers=(False, "leave statsmodels out"),
    )
    nowcast = load_nowcast()
    june, later = nowcast.june, nowcast.july.reindex_like(nowcast.june)
    revealed = june.isna() & later.notna()
    std = june.std()

    families = {"probsfa": ours(more=arguments.more)}
    packages = ["probsfa", "numpy", "jax"]
    if not arguments.without_peers:
        families["statsmodels"] = dynamic_factors()
        packages.append("statsmodels")
    print(setting(*packages), "\n")
    print(f"{int(revealed.to_numpy().sum())} cells revealed; choices by {arguments.months} hidden edges.\n")

    simple = {"series mean": by_mean, "last value": by_last_value, "AR(1) of each series": by_autoregression}
    cells, hidden = {}, edges(june, arguments.months)
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
            predict = fit(june.iloc[: -arguments.months])
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
    print(table(header, rows))
    if not arguments.without_peers:
        print("\nMean squared errors of ours less those of statsmodels, and their standard errors:\n")
        masked = revealed.to_numpy()
        of_cells = {name: ((made - later) / std).to_numpy()[masked] ** 2 for name, made in cells.items()}
        of_edges = {name: np.array([np.mean(one) for one in each]) for name, each in squares.items()}
        print(table(("ours", "statsmodels", "21 cells", "hidden edges"), differences(of_cells, of_edges)))
    print("\nThe 21 cells, in the units of `load_nowcast().june`:\n")
    print(table(*by_cell(cells, later, revealed)))


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


def are_quarterly(rows: pd.DataFrame) -> np.ndarray:
    """Which columns are quarterly."""
    return (load_nowcast().series["frequency"] == "quarter")[rows.columns].to_numpy()


def ours(*, more: bool = False) -> dict[str, Callable[[pd.DataFrame], Predict]]:
    """Candidates of this package by name: functions that fit and return what predicts."""

    def with_options(
        k: int, memory: bool, spread: bool = False, **options: Any
    ) -> Callable[[pd.DataFrame], Predict]:
        def fit(rows: pd.DataFrame) -> Predict:
            rows = in_their_months(rows) if spread else rows
            model = ProbabilisticSFA(k, **options).fit(rows)
            if memory:
                init = memories_of_residuals(model, rows)
                model = ProbabilisticSFA(k, noise="ar1", init=init, **options).fit(rows)

            def predict(known: pd.DataFrame) -> pd.DataFrame:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    filled = model.impute(in_their_months(known) if spread else known)
                if spread:
                    for name in known.columns[are_quarterly(known)]:
                        filled[name] = known[name].fillna(filled[name].rolling(3).mean())
                return filled

            return predict

        return fit

    candidates = {
        f"{k} latents{', memory' if memory else ''}": with_options(k, memory)
        for memory, numbers in ((False, (1, 3)), (True, (1, 2, 3, 4, 6)))
        for k in numbers
    }
    if not more:
        return candidates
    for k in (1, 3):
        candidates[f"{k} latents, robust"] = with_options(k, False, robust=True)
        candidates[f"{k} latents, memory, quarters in their months"] = with_options(k, True, spread=True)
    for shared in (1, 2):
        blocks = loaded(load_nowcast().june.columns, shared)
        candidates[f"{shared} shared latents and 3 of blocks, memory"] = with_options(
            blocks.shape[1], True, fixed={"loadings": blocks}
        )
    return candidates


def in_their_months(rows: pd.DataFrame) -> pd.DataFrame:
    """The value of a quarter in each of its months, so that it is seen beside what they all had."""
    out = rows.copy()
    quarterly = are_quarterly(rows)
    out.loc[:, quarterly] = rows.loc[:, quarterly].bfill(limit=2)
    return out


#: Series of the blocks beside what all share; the rest are prices.
BLOCKS = {
    "surveys": "GACDISA066MSFRBNY GACDFSA066MSFRBPHI",
    "labour": "PAYEMS JTSJOL UNRATE ULCNFB",
    "real": "DGORDER HSN1F RSAFS HOUST INDPRO DSPIC96 BOPTEXP BOPTIMP WHLSLRIMSA TTLCONS PERMIT TCU BUSINV "
    "PCEC96 GDPC1 A261RX1Q020SBEA",
}


def loaded(columns: pd.Index, shared: int) -> np.ndarray:
    """Which series see which latents (D, K): some that all see, and one for each block."""
    of_blocks = [columns.isin(names.split()) for names in BLOCKS.values()]
    return np.stack([np.ones(len(columns), dtype=bool)] * shared + of_blocks, axis=1)


def memories_of_residuals(model: ProbabilisticSFA, rows: pd.DataFrame) -> StateSpace:
    """Where to start noise with memory: at the correlation of what the latents leave of each series.

    Growth of noisy amounts comes back the month after: these memories are negative, and a climb that starts
    at positive ones takes such series for white.
    """
    left = rows - model.mean_ - model.transform(rows).to_numpy() @ model.loadings_.T
    correlation = np.array([series.dropna().autocorr(1) for _, series in left.items()])
    correlation = np.nan_to_num(correlation)
    least = np.where(correlation < 0.0, -0.1, 0.1)  # none starts at zero, where its sign would be open
    decay = np.where(np.abs(correlation) < 0.1, least, np.clip(correlation, -0.9, 0.95))
    params = model.params_
    return make_parameters(
        params.decay,
        params.loadings,
        0.4 * params.noise_variance,
        params.offset,
        memory_decay=decay,
        memory_scale=np.sqrt(0.6 * params.noise_variance),
    )


def dynamic_factors() -> dict[str, Callable[[pd.DataFrame], Predict]]:
    """Candidates of statsmodels: Banbura & Modugno's dynamic factor model for mixed frequencies."""
    from statsmodels.tsa.api import DynamicFactorMQ

    quarterly = load_nowcast().series["frequency"] == "quarter"

    def split(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        in_months = rows.set_axis(rows.index.to_period("M"))
        of_quarters = in_months.loc[in_months.index.month % 3 == 0, quarterly.to_numpy()]
        return in_months.loc[:, ~quarterly.to_numpy()], of_quarters.set_axis(of_quarters.index.asfreq("Q"))

    def with_factors(factors: int, memory: bool) -> Callable[[pd.DataFrame], Predict]:
        def fit(rows: pd.DataFrame) -> Predict:
            monthly, of_quarters = split(rows)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = DynamicFactorMQ(
                    monthly,
                    endog_quarterly=of_quarters,
                    factors=factors,
                    factor_orders=1,
                    idiosyncratic_ar1=memory,
                )
                fitted = model.fit(disp=False, maxiter=200)

            def predict(known: pd.DataFrame) -> pd.DataFrame:
                months, quarters = split(known)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    applied = fitted.apply(months, endog_quarterly=quarters, retain_standardization=True)
                    smoothed = applied.get_prediction(information_set="smoothed").predicted_mean
                return smoothed[list(known.columns)].set_axis(known.index)

            return predict

        return fit

    return {
        f"DynamicFactorMQ, {k} factors{', memory' if memory else ''}": with_factors(k, memory)
        for memory in (True, False)
        for k in (1, 2, 3)
    }


def by_mean(known: pd.DataFrame) -> pd.DataFrame:
    """The mean of each series."""
    return known.fillna(known.mean())


def by_last_value(known: pd.DataFrame) -> pd.DataFrame:
    """The last value of each series that is known."""
    return known.ffill()


def by_autoregression(known: pd.DataFrame) -> pd.DataFrame:
    """Least squares of each series on its last publication, and forecasts from that."""
    filled = known.copy()
    for name, series in known.items():
        seen = series.dropna()
        step = 3 if len(seen) < 0.5 * (len(series) - series.index.get_loc(seen.index[0])) else 1
        x, y = seen.to_numpy()[:-1], seen.to_numpy()[1:]
        slope, intercept = np.polyfit(x, y, 1)
        last, value = series.index.get_loc(seen.index[-1]), seen.iloc[-1]
        for row in range(last + step, len(series), step):
            value = intercept + slope * value
            filled.iloc[row, filled.columns.get_loc(name)] = value
    return filled


def edges(june: pd.DataFrame, months: int) -> list[tuple[pd.DataFrame, np.ndarray]]:
    """Earlier ends of the table with their last cells hidden as those of June are, and which these are."""
    missing = june.isna().to_numpy()[-EDGE:]
    out = []
    for k in range(1, months + 1):
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
