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
# The columns are changes since the previous publication: growth in per cent for amounts and prices,
# differences for rates, and surveys unchanged. Three series are quarterly, with values in the last month of
# each quarter.
#
# ## The ragged edge
#
# Dark values of the figure are known. The missing values in the last two rows are to be predicted.

# %%
year = june.iloc[-15:]
fig, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
ax.imshow(year.notna(), cmap="Greys", vmin=0, vmax=1.4, aspect="auto", interpolation="nearest")
ax.set_xticks(range(june.shape[1]), june.columns, rotation=90, fontsize=7)
ax.set_yticks(range(0, 15, 2), [f"{month:%b %Y}" for month in year.index[::2]], fontsize=8)
ax.axhline(12.5, color="tab:orange", lw=2)
_ = ax.set_title("known on 29 June 2016 (dark); below the line, the ragged edge")

# %%
revealed = june.isna() & july.reindex_like(june).notna()
print(f"{100 * june.isna().to_numpy().mean():.0f} % of the cells are missing")
print(f"{revealed.to_numpy().sum()} of them are published by 29 July")
assert revealed.to_numpy().sum() == 21

# %% [markdown]
# ## Model selection without the second vintage
#
# The number of factors and AR(1) noise are selected from the June vintage alone. For each of several
# earlier months, values at the end are hidden *in the pattern of the missing values at the end of June*,
# and the errors of the models at hidden values are compared. Each model is fitted once, to the data before
# these months.

# %%
N_MONTHS = 36
std = june.std()
edge = june.isna().to_numpy()[-2:]


def hidden_edges():
    """Return earlier ends of the table with the same ragged edge, and what is hidden there."""
    for k in range(1, N_MONTHS + 1):
        past = june.iloc[:-k]
        hidden = np.zeros(past.shape, dtype=bool)
        hidden[-2:] = edge & past.notna().to_numpy()[-2:]
        yield past, hidden


def error_in_hidden_edges(fill):
    """Return the root mean square error of a way to fill, in standard deviations of the series."""
    squares = [
        (((fill(past.mask(hidden)) - past) / std).to_numpy()[hidden] ** 2) for past, hidden in hidden_edges()
    ]
    return np.sqrt(np.mean(np.concatenate(squares)))


def filled(model, table):
    """Fill a table; a warning that straight lines do as well inside of it is not for its edge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.impute(table)


def by_autoregression(table):
    """Fill the end of each series by least squares on its publication before."""
    out = table.copy()
    for name, series in table.items():
        seen = series.dropna()
        step = 3 if nowcast.series.loc[name, "frequency"] == "quarter" else 1
        slope, intercept = np.polyfit(seen.to_numpy()[:-1], seen.to_numpy()[1:], 1)
        value, row = seen.iloc[-1], table.index.get_loc(seen.index[-1]) + step
        while row < len(table):
            value = intercept + slope * value
            out.loc[table.index[row], name] = value
            row += step
    return out


# %% [markdown]
# ### AR(1) noise of each series
#
# Growth rates are autocorrelated: high sales of houses in one month are followed by low sales, but surveys
# remain low for several months. With `noise="ar1"` each series has AR(1) noise in addition to the common
# factors. Some autocorrelations are positive and some negative, and the optimizer may not change their
# signs. Therefore the starting values are the lag-one correlations of the residuals of the factors.


# %%
def with_memory(k, rows):
    """Fit k latents, look at what they leave of each series, and fit again with memory from there."""
    plain = ProbabilisticSFA(k).fit(rows)
    left = rows - plain.mean_ - plain.transform(rows).to_numpy() @ plain.loadings_.T
    correlation = np.array([series.dropna().autocorr(1) for _, series in left.items()])
    start = make_parameters(
        plain.decay_,
        plain.loadings_,
        0.4 * plain.noise_variance_,
        plain.mean_,
        memory_decay=np.sign(correlation) * np.clip(np.abs(correlation), 0.1, 0.9),
        memory_scale=np.sqrt(0.6 * plain.noise_variance_),
    )
    return ProbabilisticSFA(k, noise="ar1", init=start).fit(rows)


past = june.iloc[:-N_MONTHS]
candidates = {f"{k} latents and memory": with_memory(k, past) for k in (1, 2, 3)}
fills = {name: partial(filled, model) for name, model in candidates.items()}
fills["2 latents alone"] = partial(filled, ProbabilisticSFA(2).fit(past))
fills["mean of the series"] = lambda table: table.fillna(table.mean())
fills["last value"] = lambda table: table.ffill()
fills["AR(1) of each series"] = by_autoregression
scores = {name: error_in_hidden_edges(fill) for name, fill in fills.items()}
for name, score in scores.items():
    print(f"{name:<22} {score:.3f} standard deviations")

worst_with_memory = max(scores[name] for name in candidates)
assert worst_with_memory < min(score for name, score in scores.items() if name not in candidates)

# %% [markdown]
# All models with AR(1) noise are better than all models without it, and than the simple reference methods.
# The differences between one, two and three factors are within random variation. If several models are
# equally good, the **mean of their predictions** is a safe choice. Only now are the models fitted to all
# data of June and compared with July.
#
# ## Predictions of 21 values
#
# Each model imputes all missing values, with standard deviations. The variance of the mean prediction is
# the mean of their variances plus the variance of their predictions.

# %%
models = {k: with_memory(k, june) for k in (1, 2, 3)}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    parts = [model.impute(june, return_std=True) for model in models.values()]
estimate = sum(mean for mean, _ in parts) / len(parts)
uncertainty = (sum(spread**2 + (mean - estimate) ** 2 for mean, spread in parts) / len(parts)) ** 0.5
model = models[3]

truth = july.reindex_like(june)
cells = [(row, column) for row, column in np.argwhere(revealed.to_numpy())]


def values(table):
    """Return the 21 cells of a table, in standard deviations from the mean of each series."""
    return ((table - june.mean()) / std).to_numpy()[revealed.to_numpy()]


methods = {
    "mean of the series": june.fillna(june.mean()),
    "last value": june.ffill(),
    "AR(1) of each series": by_autoregression(june),
    "three models with memory, their mean": estimate,
}
rmse = {name: np.sqrt(np.mean((values(table) - values(truth)) ** 2)) for name, table in methods.items()}
for name, error in rmse.items():
    print(f"{name:<40} RMSE of the 21 cells {error:.3f}")
*simple, ours = rmse.values()
assert ours < min(simple)

# %%
low, high = (values(estimate + sign * 1.645 * uncertainty) for sign in (-1, 1))
inside = (values(truth) >= low) & (values(truth) <= high)
print(f"{inside.sum()} of 21 published values lie in their 90 % intervals")
assert 16 <= inside.sum() <= 21
assert inside[-1]  # gross domestic product

names = [f"{june.columns[j]}, {june.index[i]:%b}" for i, j in cells]
fig, ax = plt.subplots(figsize=(8.5, 5.2), layout="constrained")
place = np.arange(21)[::-1]
ax.hlines(place, low, high, color="tab:blue", lw=5, alpha=0.3, label="90 % interval")
ax.plot(values(estimate), place, "o", color="tab:blue", label="nowcast from June")
ax.plot(values(truth), place, "D", color="tab:orange", ms=5, label="published in July")
ax.axvline(0.0, color="0.6", lw=0.8)
ax.set_yticks(place, names, fontsize=8)
ax.set(xlabel="standard deviations from the mean of the series", title="what July revealed")
_ = ax.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.9))

# %% [markdown]
# Twenty-one values are a small sample. The benchmark of this notebook includes the dynamic factor model of
# statsmodels, which has smaller errors for these 21 values, and larger errors for the hundreds of values in
# hidden edges.
#
# ## Interpretation of the common factor
#
# For the model with one factor, we look at its loadings and its minimum.

# %%
shared = models[1].posterior(june)
strength = pd.Series(models[1].loadings_[:, 0] / std, index=june.columns)
sign = np.sign(strength["CPIAUCSL"])
strongest = strength.abs().sort_values(ascending=False).index[:5]
for name in strongest:
    print(f"{nowcast.series.loc[name, 'title']:<48} {sign * strength[name]:+.2f}")
course = sign * shared.means.iloc[:, 0]
print(f"lowest in {course.idxmin():%B %Y}")
assert set(strongest[:4]) <= {"CPIAUCSL", "PCEPI", "PPIFIS", "IR", "IQ"}
assert course.idxmin().year == 2008

fig, ax = plt.subplots(figsize=(8.5, 2.6), layout="constrained")
limits = [sign * end.iloc[:, 0] for end in models[1].factor_interval(june, 0.9)]
ax.fill_between(june.index, *limits, alpha=0.3)
ax.plot(course, lw=1)
_ = ax.set(title="the latent that all share, with 90 % intervals", ylabel="latent")

# %% [markdown]
# The factor represents prices rather than output: the table has many price series, and energy prices change
# together. Its minimum in thirty years is at the end of 2008.
#
# ## News
#
# On 28 July, the day before the second vintage, gross domestic product of the second quarter was still
# unknown. `news` attributes the change of its nowcast in this month to the releases. Nowcasts are linear in
# the data, so that the attribution is exact: each release changes the nowcast by its surprise times its
# weight.

# %%
target = (june.index.get_loc("2016-06-01"), "GDPC1")
until_28_july = july.copy()
until_28_july.iloc[target[0], june.columns.get_loc("GDPC1")] = np.nan
cell = (target[0], june.columns.get_loc(target[1]))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the two tables go without the names of their columns
    news = model.news(june.to_numpy(), until_28_july.to_numpy(), cell)
published = truth.iloc[target[0]]["GDPC1"]
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
_ = ax.set(xlabel="moved the nowcast of growth by (percentage points)", title="the releases of one month")

# %% [markdown]
# Releases on industry and employment increased the nowcast. The published value was lower than both
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
# * Report a prediction interval with each nowcast, and measure its coverage.
# * `news` attributes the change of a nowcast to releases; their impacts sum to the whole change.
