# %% [markdown]
# # Nowcasting with a ragged edge
#
# Economic series are published with different delays: surveys within the month, employment a week later,
# trade after five weeks, and gross domestic product long after the end of the quarter. At its end a table
# of such series has a **ragged edge** of missing values. *Nowcasting* is the imputation of these values.
#
# The data are those that the Federal Reserve Bank of New York published with its own nowcast: one vintage
# of 29 June 2016, and one a month later. The second vintage has values that are missing in the first, and
# is used for the evaluation.

# %%
import warnings
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from probsfa import ProbabilisticSFA
from probsfa.datasets import load_nowcast
from probsfa.statespace import make_parameters

nowcast = load_nowcast()
june, july = nowcast.june, nowcast.july
print(f"June vintage: {june.shape[0]} months, {june.shape[1]} series")
print(nowcast.series.iloc[[0, 6, 23, 26]].to_string())

# %% [markdown]
# Columns of amounts and prices are growth in per cent since the previous month or quarter, columns of rates
# are differences, and surveys are not transformed. Three series are quarterly, with values in the last month
# of each quarter.
#
# ## The ragged edge
#
# Published values are dark in the figure. The missing values in the last two rows are to be predicted.

# %%
year = june.iloc[-15:]
fig, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
ax.imshow(year.notna(), cmap="Greys", vmin=0, vmax=1.4, aspect="auto", interpolation="nearest")
ax.set_xticks(range(june.shape[1]), june.columns, rotation=90, fontsize=7)
ax.set_yticks(range(0, 15, 2), [f"{month:%b %Y}" for month in year.index[::2]], fontsize=8)
ax.axhline(12.5, color="tab:orange", lw=2)
ax.set(xlabel="series", ylabel="month")
_ = ax.set_title("values published by 29 June 2016 (dark); the ragged edge is below the line")

# %%
revealed = june.isna() & july.reindex_like(june).notna()
print(f"{100 * june.isna().to_numpy().mean():.0f} % of the values are missing")
print(f"{revealed.to_numpy().sum()} of them are published by 29 July")
assert revealed.to_numpy().sum() == 21

# %% [markdown]
# ## Model selection without the second vintage
#
# The number of factors and AR(1) noise are selected from the June vintage alone. For each of 36 earlier
# months, the table is cut after this month. Values in its last two rows are hidden *in the pattern of the
# missing values at the end of June*. The models are compared by their errors at hidden values. Each model is
# fitted once, to the data before these months.

# %%
N_MONTHS = 36
std = june.std()
is_missing_at_edge = june.isna().to_numpy()[-2:]


def hidden_edges():
    """Yield tables that end in earlier months, and masks of the values hidden at their ends."""
    for k in range(1, N_MONTHS + 1):
        table = june.iloc[:-k]
        hidden = np.zeros(table.shape, dtype=bool)
        hidden[-2:] = is_missing_at_edge & table.notna().to_numpy()[-2:]
        yield table, hidden


def hidden_edge_rmse(impute):
    """Return the root mean square error of an imputation method, in standard deviations of the series."""
    squares = [
        (((impute(table.mask(hidden)) - table) / std).to_numpy()[hidden] ** 2)
        for table, hidden in hidden_edges()
    ]
    return np.sqrt(np.mean(np.concatenate(squares)))


def impute_by_model(model, table):
    """Impute missing values by a fitted model."""
    # The warning that linear interpolation is as accurate is not relevant at the end of a table.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.impute(table)


def impute_by_autoregression(table):
    """Impute the end of each series by a regression on its previous value."""
    imputed = table.copy()
    for name, series in table.items():
        observed = series.dropna()
        step = 3 if nowcast.series.loc[name, "frequency"] == "quarter" else 1
        slope, intercept = np.polyfit(observed.to_numpy()[:-1], observed.to_numpy()[1:], 1)
        value, row = observed.iloc[-1], table.index.get_loc(observed.index[-1]) + step
        while row < len(table):
            value = intercept + slope * value
            imputed.loc[table.index[row], name] = value
            row += step
    return imputed


# %% [markdown]
# ### AR(1) noise of each series
#
# Series are autocorrelated: strong growth of house sales in one month is followed by weak growth, but surveys
# remain low for several months. With `noise="ar1"` each series has AR(1) noise in addition to the common
# factors. Some autocorrelations are positive and some negative, and an optimizer rarely changes their signs.
# Therefore their starting values are lag-one autocorrelations of the residuals of a model with white noise.


# %%
def fit_with_ar1_noise(k, rows):
    """Fit k factors and AR(1) noise, started from a fit with white noise and its residuals."""
    white = ProbabilisticSFA(k).fit(rows)
    residuals = rows - white.mean_ - white.transform(rows).to_numpy() @ white.loadings_.T
    autocorrelation = np.array([series.dropna().autocorr(1) for _, series in residuals.items()])
    # 60 % of the noise variance is AR(1) noise at the start, and 40 % white noise.
    start = make_parameters(
        white.decay_,
        white.loadings_,
        0.4 * white.noise_variance_,
        white.mean_,
        noise_decay=np.sign(autocorrelation) * np.clip(np.abs(autocorrelation), 0.1, 0.9),
        noise_scale=np.sqrt(0.6 * white.noise_variance_),
    )
    return ProbabilisticSFA(k, noise="ar1", init=start).fit(rows)


training_months = june.iloc[:-N_MONTHS]
candidates = {
    "1 factor, AR(1) noise": fit_with_ar1_noise(1, training_months),
    "2 factors, AR(1) noise": fit_with_ar1_noise(2, training_months),
    "3 factors, AR(1) noise": fit_with_ar1_noise(3, training_months),
}
methods = {name: partial(impute_by_model, model) for name, model in candidates.items()}
methods["2 factors, white noise"] = partial(impute_by_model, ProbabilisticSFA(2).fit(training_months))
methods["mean of the series"] = lambda table: table.fillna(table.mean())
methods["last value"] = lambda table: table.ffill()
methods["AR(1) of each series"] = impute_by_autoregression
scores = {name: hidden_edge_rmse(impute) for name, impute in methods.items()}
for name, score in scores.items():
    print(f"{name:<22} RMSE {score:.3f} standard deviations")

largest_of_candidates = max(scores[name] for name in candidates)
assert largest_of_candidates < min(score for name, score in scores.items() if name not in candidates)

# %% [markdown]
# All models with AR(1) noise are better than the model with white noise and the simple reference methods. The
# differences between one, two and three factors are small. If several models are equally good, the **mean of
# their predictions** is a safe choice. Only now are the models fitted to all data of June and compared with
# July.
#
# ## Predictions of 21 values
#
# Each model imputes all missing values, with standard deviations. The variance of the mean prediction is
# the mean of their variances plus the variance of their predictions.

# %%
models = {k: fit_with_ar1_noise(k, june) for k in (1, 2, 3)}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    predictions = [model.impute(june, return_std=True) for model in models.values()]
prediction = sum(mean for mean, _ in predictions) / len(predictions)
variance = sum(std_k**2 + (mean - prediction) ** 2 for mean, std_k in predictions) / len(predictions)
prediction_std = variance**0.5
model = models[3]

truth = july.reindex_like(june)
positions = np.argwhere(revealed.to_numpy())


def standardized(table):
    """Return the 21 values of a table, in standard deviations from the mean of each series."""
    return ((table - june.mean()) / std).to_numpy()[revealed.to_numpy()]


imputed_tables = {
    "mean of the series": june.fillna(june.mean()),
    "last value": june.ffill(),
    "AR(1) of each series": impute_by_autoregression(june),
    "mean of three models with AR(1) noise": prediction,
}
rmse = {
    name: np.sqrt(np.mean((standardized(table) - standardized(truth)) ** 2))
    for name, table in imputed_tables.items()
}
for name, error in rmse.items():
    print(f"{name:<38} RMSE of 21 values {error:.3f} standard deviations")
*reference_rmse, model_rmse = rmse.values()
assert model_rmse < min(reference_rmse)

# %%
low, high = (standardized(prediction + sign * 1.645 * prediction_std) for sign in (-1, 1))
inside = (standardized(truth) >= low) & (standardized(truth) <= high)
print(f"{inside.sum()} of 21 published values are inside their 90 % intervals")
assert 16 <= inside.sum() <= 21
assert inside[-1]  # gross domestic product

names = [f"{june.columns[j]}, {june.index[i]:%b}" for i, j in positions]
fig, ax = plt.subplots(figsize=(8.5, 5.2), layout="constrained")
y = np.arange(21)[::-1]
ax.hlines(y, low, high, color="tab:blue", lw=5, alpha=0.3, label="90 % prediction interval")
ax.plot(standardized(prediction), y, "o", color="tab:blue", label="nowcast of 29 June")
ax.plot(standardized(truth), y, "D", color="tab:orange", ms=5, label="published in July")
ax.axvline(0.0, color="0.6", lw=0.8)
ax.set_yticks(y, names, fontsize=8)
ax.set(
    xlabel="standard deviations from the mean of the series",
    title="nowcasts of 29 June and values published in July",
)
_ = ax.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.9))

# %% [markdown]
# Twenty-one values are a small sample. [A benchmark](../benchmarks/RESULTS.md#nowcast) includes the dynamic
# factor model of statsmodels. Its errors are smaller for these 21 values, and larger for the hundreds of
# values in hidden edges.
#
# ## Interpretation of the common factor
#
# The five largest loadings of the model with one factor are printed, and the month of its minimum.

# %%
posterior = models[1].posterior(june)
loadings = pd.Series(models[1].loadings_[:, 0] / std, index=june.columns)
sign = np.sign(loadings["CPIAUCSL"])
strongest = loadings.abs().sort_values(ascending=False).index[:5]
for name in strongest:
    print(f"{nowcast.series.loc[name, 'title']:<48} loading {sign * loadings[name]:+.2f} standard deviations")
factor = sign * posterior.means.iloc[:, 0]
print(f"lowest value of the factor in {factor.idxmin():%B %Y}")
assert set(strongest[:4]) <= {"CPIAUCSL", "PCEPI", "PPIFIS", "IR", "IQ"}
assert factor.idxmin().year == 2008

fig, ax = plt.subplots(figsize=(8.5, 2.6), layout="constrained")
limits = [sign * end.iloc[:, 0] for end in models[1].factor_interval(june, 0.9)]
ax.fill_between(june.index, *limits, alpha=0.3)
ax.plot(factor, lw=1)
_ = ax.set(title="common factor with 90 % credible intervals", xlabel="year", ylabel="factor (sd)")

# %% [markdown]
# The factor represents prices rather than output: the table has many price series, which change together.
# Its minimum in thirty years is in November 2008.
#
# ## News
#
# The growth of gross domestic product in the second quarter is hidden in the second vintage. `news`
# attributes the change of its nowcast between the vintages to releases and revisions. Nowcasts are linear in
# the data, so that the attribution is exact: each release changes the nowcast by its surprise times its
# weight. Impacts of gross domestic product and income are due to revisions of earlier quarters.

# %%
target = (june.index.get_loc("2016-06-01"), june.columns.get_loc("GDPC1"))
july_without_target = july.copy()
july_without_target.iloc[target] = np.nan
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the warning that the tables have no column names
    news = model.news(june.to_numpy(), july_without_target.to_numpy(), target)
published = truth.iloc[target]
print(f"growth in the second quarter: {news.before:.2f} % before, {news.after:.2f} % after")
print(f"published on 29 July: {published:.2f} %")
by_series = news.table.groupby("column")["impact"].sum()
largest = by_series[by_series.abs().sort_values(ascending=False).index[:8]]
print(largest.round(3).to_string())
assert np.isclose(news.impacts.sum(), news.after - news.before)
assert news.after > news.before > published

# %%
fig, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
ax.barh(np.arange(8)[::-1], largest, color=np.where(largest > 0, "tab:blue", "tab:orange"))
ax.set_yticks(np.arange(8)[::-1], [nowcast.series.loc[name, "title"] for name in largest.index], fontsize=8)
ax.axvline(0.0, color="0.4", lw=0.8)
_ = ax.set(xlabel="impact on the nowcast of growth (percentage points)", title="largest impacts by series")

# %% [markdown]
# Releases on industry and payroll employment increased the nowcast. The published value was lower than both
# nowcasts, but is within the wide prediction interval. News explains the change of a nowcast, not its
# error.
#
# ## Summary
#
# * A ragged edge is a table with missing values at its end. The probabilistic model uses it directly, with
#   monthly and quarterly series and different delays.
# * Select the model by *hidden edges*: hide values in the pattern in which they are missing in the
#   application.
# * AR(1) noise (`noise="ar1"`) represents variation of single series; factors represent common variation.
# * Report a prediction interval with each nowcast, and measure the coverage of the intervals.
# * `news` attributes the change of a nowcast to releases; their impacts sum to the whole change.
