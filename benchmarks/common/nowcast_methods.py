"""Methods that predict the missing values of the nowcast panel; all return a complete table."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from probsfa import ProbabilisticSFA
from probsfa.datasets import load_nowcast
from probsfa.statespace import StateSpace, make_parameters

Predict = Callable[[pd.DataFrame], pd.DataFrame]


def are_quarterly(rows: pd.DataFrame) -> np.ndarray:
    """Return a mask of the quarterly columns."""
    return (load_nowcast().series["frequency"] == "quarter")[rows.columns].to_numpy()


def ours(*, more: bool = False) -> dict[str, Callable[[pd.DataFrame], Predict]]:
    """Return candidates of this package by name: functions that fit a model and return a predictor."""

    def with_options(
        k: int, ar1_noise: bool, spread: bool = False, **options: Any
    ) -> Callable[[pd.DataFrame], Predict]:
        def fit(rows: pd.DataFrame) -> Predict:
            rows = in_their_months(rows) if spread else rows
            model = ProbabilisticSFA(k, **options).fit(rows)
            if ar1_noise:
                init = ar1_noise_of_residuals(model, rows)
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
        f"{k} factors{', AR(1) noise' if ar1_noise else ''}": with_options(k, ar1_noise)
        for ar1_noise, numbers in ((False, (1, 3)), (True, (1, 2, 3, 4, 6)))
        for k in numbers
    }
    if not more:
        return candidates
    for k in (1, 3):
        candidates[f"{k} factors, robust"] = with_options(k, False, robust=True)
        candidates[f"{k} factors, AR(1) noise, quarters in their months"] = with_options(k, True, spread=True)
    for shared in (1, 2):
        blocks = loaded(load_nowcast().june.columns, shared)
        candidates[f"{shared} shared factors and 3 of blocks, AR(1) noise"] = with_options(
            blocks.shape[1], True, fixed={"loadings": blocks}
        )
    return candidates


def in_their_months(rows: pd.DataFrame) -> pd.DataFrame:
    """Repeat the value of a quarter in each of its months, in which the other columns are observed."""
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
    """Return a mask (D, K) of nonzero loadings: factors of all series, then one factor for each block."""
    of_blocks = [columns.isin(names.split()) for names in BLOCKS.values()]
    return np.stack([np.ones(len(columns), dtype=bool)] * shared + of_blocks, axis=1)


def ar1_noise_of_residuals(model: ProbabilisticSFA, rows: pd.DataFrame) -> StateSpace:
    """Return initial parameters with AR(1) noise: decays are the autocorrelations of the residuals.

    Growth rates of noisy amounts reverse in the next month, so that their decays are negative. From positive
    initial decays the optimization ends at white noise for such series.
    """
    residuals = rows - model.mean_ - model.transform(rows).to_numpy() @ model.loadings_.T
    correlation = np.array([series.dropna().autocorr(1) for _, series in residuals.items()])
    correlation = np.nan_to_num(correlation)
    least = np.where(correlation < 0.0, -0.1, 0.1)  # not zero, to keep the sign
    decay = np.where(np.abs(correlation) < 0.1, least, np.clip(correlation, -0.9, 0.95))
    params = model.params_
    return make_parameters(
        params.decay,
        params.loadings,
        0.4 * params.noise_variance,
        params.offset,
        noise_decay=decay,
        noise_scale=np.sqrt(0.6 * params.noise_variance),
    )


def _fit_em(model: Any, maxiter: int = 200) -> Any:
    """Fit by EM, with half the iterations if parameters become NaN (statsmodels then raises a ValueError)."""
    try:
        return model.fit(disp=False, maxiter=maxiter)
    except ValueError:
        if maxiter < 2:
            raise
        return _fit_em(model, maxiter // 2)


def dynamic_factors() -> dict[str, Callable[[pd.DataFrame], Predict]]:
    """Return candidates of statsmodels: the mixed-frequency dynamic factor model of Banbura & Modugno."""
    from statsmodels.tsa.api import DynamicFactorMQ

    quarterly = load_nowcast().series["frequency"] == "quarter"

    def split(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        in_months = rows.set_axis(rows.index.to_period("M"))
        of_quarters = in_months.loc[in_months.index.month % 3 == 0, quarterly.to_numpy()]
        return in_months.loc[:, ~quarterly.to_numpy()], of_quarters.set_axis(of_quarters.index.asfreq("Q"))

    def with_factors(factors: int, ar1_noise: bool) -> Callable[[pd.DataFrame], Predict]:
        def fit(rows: pd.DataFrame) -> Predict:
            monthly, of_quarters = split(rows)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = DynamicFactorMQ(
                    monthly,
                    endog_quarterly=of_quarters,
                    factors=factors,
                    factor_orders=1,
                    idiosyncratic_ar1=ar1_noise,
                )
                fitted = _fit_em(model)

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
        f"DynamicFactorMQ, {k} factors{', AR(1) noise' if ar1_noise else ''}": with_factors(k, ar1_noise)
        for ar1_noise in (True, False)
        for k in (1, 2, 3)
    }


def by_mean(known: pd.DataFrame) -> pd.DataFrame:
    """Predict the mean of each series."""
    return known.fillna(known.mean())


def by_last_value(known: pd.DataFrame) -> pd.DataFrame:
    """Predict the last observed value of each series."""
    return known.ffill()


def by_autoregression(known: pd.DataFrame) -> pd.DataFrame:
    """Predict each series by a least-squares regression on its previous publication."""
    filled = known.copy()
    for name, series in known.items():
        published = series.dropna()
        step = 3 if len(published) < 0.5 * (len(series) - series.index.get_loc(published.index[0])) else 1
        x, y = published.to_numpy()[:-1], published.to_numpy()[1:]
        slope, intercept = np.polyfit(x, y, 1)
        last, value = series.index.get_loc(published.index[-1]), published.iloc[-1]
        for row in range(last + step, len(series), step):
            value = intercept + slope * value
            filled.iloc[row, filled.columns.get_loc(name)] = value
    return filled
