# %% [markdown]
# # Nowcasting an economy with a ragged edge
#
# At the end of June, what do we know of June? Surveys come out within the month, jobs a week later, trade
# after five weeks, and gross domestic product long after its quarter has ended. A table of an economy always
# ends in a **ragged edge**: each column stops somewhere else. To *nowcast* is to fill in that edge.
#
# Here are the data that the Federal Reserve Bank of New York published with its own nowcast: the same table
# as it was known on 29 June 2016, and again one month later. So the answers are in the box, and we can open
# it at the end.

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
# The columns are changes since the publication before: growth in per cent for amounts and prices, differences
# for rates, and surveys as they are. Three series are quarterly and stand in the last month of a quarter.
#
# ## The edge
#
# A cell of the picture is dark where the value is known. The last two rows are what this notebook is about.

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
# ## Choosing a model without looking at July
#
# How many latents, and does each series have AR(1) noise of its own beside them? We ask June itself. Take the
# last months away one by one, hide the values at the end *as they are missing at the end of June*, and see
# which model finds them again. The models are fitted once, to what precedes all those months.

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
# ### Memory of each series
#
# Growth has a habit: houses that were sold this month are missing in the next one, while a survey that was
# gloomy stays so. With `noise="ar1"` each series has AR(1) noise of its own, beside the factors that all
# share. Some autocorrelations are positive and some negative, and the optimizer may not get from one side to
# the other. So we give it a starting point: at the correlation, from month to month, of what the latents
# leave of each series.


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
# All models with AR(1) noise are better than all without, and than the simple rules. Between one latent, two
# and three there is little to choose: their differences are no larger than chance would make them. Where
# several models are as good, the **mean of their predictions** is a safer choice than any of them. Only now
# do we fit to all of June, and only then look at July.
#
# ## Twenty-one answers
#
# Each model imputes all missing values, with standard deviations. The variance of the committee is the
# mean of theirs, and how far they are apart.

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
# Twenty-one values are few, and luck matters. The benchmark on which this notebook is built has statsmodels'
# dynamic factor model beside it: that is better on these 21 values, and worse on the hundreds of values in
# hidden edges.
#
# ## What the series share
#
# Ask the model that has one latent alone what that is, and when it was lowest.

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
half = 1.645 * shared.std.iloc[:, 0]
ax.fill_between(june.index, course - half, course + half, alpha=0.3)
ax.plot(course, lw=1)
_ = ax.set(title="the latent that all share, with 90 % intervals", ylabel="latent")

# %% [markdown]
# It is not output but prices: the table holds many series of them, and energy moves all at once. The fall of
# late 2008 stands out from thirty years.
#
# ## News
#
# On 28 July, the day before the second vintage, gross domestic product of the second quarter was still
# unknown. How had the month of releases moved its nowcast, and which of them did it? Nowcasts are linear in
# the data, so the answer is exact: each release moves the nowcast by its surprise times its weight.

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
# Factories and jobs spoke for more growth, and what was published was less than either nowcast. It lies
# inside its interval, which is wide. News explains why a nowcast moved; it does not make it right.
#
# ## What to remember
#
# * A ragged edge is a table with missing values at its end. The probabilistic model uses it directly: monthly
#   beside quarterly, late beside early.
# * Choose the model on *hidden edges* of the data you have: hide values as they will be missing when it
#   counts.
# * Memory in the noise (`noise="ar1"`) is for what is particular to a series; latents are for what series
#   share.
# * A nowcast needs a prediction interval. Measure its coverage.
# * `news` shows which release moved a nowcast, and its impacts add up to the whole change.
