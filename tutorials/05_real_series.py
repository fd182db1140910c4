# %% [markdown]
# # Components of a real series: stochastic cycles, AR(1) noise, outliers
#
# Real series consist of more than slow factors and white noise: they have daily cycles, autocorrelated
# noise of single sensors, and wrong readings. This notebook decomposes two months of weather into these
# components. Diagnostics of the model show at each step which component is missing.

# %%
import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from probsfa import ProbabilisticSFA
from probsfa.datasets import load_nyc_weather

plt.rcParams["date.converter"] = "concise"  # short dates on the axes

# %% [markdown]
# The data are temperature and wind (components to the east, `u`, and to the north, `v`) at three airports,
# for every hour of February and March 2013. The first half of April is held out.

# %%
weather = load_nyc_weather().data.filter(regex="temp|^u_|^v_")
record, later = weather["2013-02-01":"2013-03-31"], weather["2013-04-01":"2013-04-14"]
empty = 100 * record.isna().to_numpy().mean()
print(f"{len(record)} hours, {record.shape[1]} columns, {empty:.1f} % missing")

fig, axes = plt.subplots(2, 1, figsize=(9, 3.6), sharex=True, layout="constrained")
for ax, name, label in zip(axes, ["temp_EWR", "u_EWR"], ["temperature (F)", "eastward (mph)"], strict=True):
    ax.plot(record.index, record[name], lw=0.8)
    ax.set_ylabel(label)
_ = axes[0].set_title("temperature and wind at Newark, as recorded")

# %% [markdown]
# One wind is a thousand miles per hour.
#
# ## Outliers
#
# Here the reading could be removed by hand. With hundreds of columns outliers must be detected; the fit of
# a model reports the column:

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    plain = ProbabilisticSFA(6).fit(record)
print(textwrap.fill(plain.status_, 100))

# %% [markdown]
# With `robust=True` the noise has heavy tails, so that outliers have small weights. `outlier_scores`
# returns, for each value, the distance from its prediction by all other values, in standard deviations.

# %%
robust = ProbabilisticSFA(6, robust=True).fit(record)
scores = robust.outlier_scores(record)
worst = scores.stack().sort_values(ascending=False).head(5)
for (when, column), score in worst.items():
    value = record.loc[when, column]
    print(f"{when:%d %b %H:%M}  {column:<9} {value:8.1f}   {score:6.1f} standard deviations off")

# %%
impossible = pd.Timestamp("2013-02-12T08:00", tz="UTC")
assert {worst.index[0], worst.index[1]} == {(impossible, "u_EWR"), (impossible, "v_EWR")}
assert worst.iloc[1] > 2 * worst.iloc[2]

spread = record["u_EWR"].std()
clean = record.mask(scores > 0.5 * worst.iloc[1])
print(f"standard deviation of u_EWR: {spread:.1f} mph with the reading, {clean['u_EWR'].std():.1f} without")

# %% [markdown]
# The scores of the two impossible values are far higher than all others. These values are treated as
# missing in the following.
#
# ## Diagnostics of a model with white noise
#
# The model has six AR(1) factors and white noise. `diagnose` tests its one-hour-ahead prediction errors.

# %%
plain = ProbabilisticSFA(6).fit(clean)
for sentence in plain.diagnose(clean).advice:
    print(textwrap.fill(f"- {sentence}", 100, subsequent_indent="  "))

# %% [markdown]
# ## Stochastic cycles
#
# AR(1) factors have no period, and cannot represent a daily cycle. `rhythms` adds stochastic cycles: damped
# oscillations with a random phase. The given period is a starting value; the period is estimated.

# %%
rhythmic = ProbabilisticSFA(6, rhythms=["24h"]).fit(clean)
print(f"period: {rhythmic.rhythm_periods_[0]:.2f} hours")
gain = rhythmic.log_likelihood_ - plain.log_likelihood_
price = rhythmic.bic(clean) - plain.bic(clean)
print(f"log-likelihood: {gain:+.0f} nats; BIC, where less is better: {price:+.0f}")
assert abs(rhythmic.rhythm_periods_[0] - 24.0) < 1.0
assert gain > 50.0

# %% [markdown]
# Amplitude and phase describe the daily cycle of each column. The phase is the delay relative to the column
# with the largest amplitude.

# %%
delay = rhythmic.rhythm_phases_[:, 0] / (2 * np.pi) * rhythmic.rhythm_periods_[0]
day = pd.DataFrame(
    {"amplitude": rhythmic.rhythm_amplitudes_[:, 0], "hours after the strongest": delay}, index=clean.columns
)
print(day.round(1).to_string())

# %% [markdown]
# ## AR(1) noise
#
# Each airport also has local weather that lasts for hours, but white noise is independent between hours.
# With `noise="ar1"` each column has AR(1) noise in addition to white noise.

# %%
both = ProbabilisticSFA(6, rhythms=["24h"], noise="ar1").fit(clean)
own = pd.DataFrame(
    {"standard deviation": both.memory_scale_, "lasts for hours": both.memory_timescales_},
    index=clean.columns,
)
print(own.round(1).to_string())
winds = own.index.str.match("u_|v_")
assert own["standard deviation"][winds].min() > 1.0 > own["standard deviation"][~winds].max()

# %% [markdown]
# The AR(1) noise of the winds has standard deviations of one to three miles per hour and time scales of
# about two to four hours. That of the temperatures is close to zero: local variation of a temperature is
# slow and represented by a factor.

# %% [markdown]
# ## Predictions of held-out rows
#
# The models are compared by one-hour-ahead predictions in April, which was not used in any fit. The
# reference is the last observed value.

# %%
models = {"plain": plain, "with a day": rhythmic, "with a day and memory": both}
told = {name: model.diagnose(later) for name, model in models.items()}
last = (later.shift(1) - later).to_numpy()
print(f"{'':<26}{'BIC':>9}{'error / last value':>20}{'lag-1 correlation':>19}{'90 % hold':>11}")
judged = {}
for name, diagnostics in told.items():
    error = np.asarray(diagnostics.predictions) - later.to_numpy()
    there = ~np.isnan(error + last)
    ratio = np.sqrt(np.mean(error[there] ** 2) / np.mean(last[there] ** 2))
    memory = np.abs(diagnostics.autocorrelation[0]).mean()
    held = diagnostics.covered(0.9)["one step"].mean()
    judged[name] = ratio, memory, held
    print(f"{name:<26}{models[name].bic(clean):>9.0f}{ratio:>20.3f}{memory:>19.3f}{100 * held:>9.0f} %")

# %%
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for (name, diagnostics), marker in zip(told.items(), "os^", strict=True):
    near = diagnostics.lags <= 10
    size = np.abs(diagnostics.autocorrelation).mean(axis=1)
    ax.plot(diagnostics.lags[near], size[near], f"{marker}-", ms=4, label=name)
ax.axhline(0.8 / np.sqrt(len(later)), color="k", ls="--", lw=1, label="white noise")
ax.set(xlabel="lag (hours)", ylabel="mean size of the correlation", title="what prediction errors still hold")
ax.set_ylim(bottom=0)
_ = ax.legend(fontsize="small")

# %%
assert judged["with a day and memory"][0] < judged["plain"][0]
assert judged["with a day and memory"][0] < 1.0
assert judged["with a day and memory"][1] < 0.6 * judged["plain"][1]
assert all(0.78 < held < 0.88 for _, _, held in judged.values())

# %% [markdown]
# Each step reduces the prediction errors and their autocorrelation. The coverage of 90 % intervals is still
# only slightly above 80 % in April: the variance of weather changes between weeks, but the model has a
# constant variance. Intervals should be used with this in mind.

# %% [markdown]
# ## Decomposition
#
# `contributions` returns the contribution of each component to each value. Their sum is the series without
# white noise. The figure shows one week of northward wind at Kennedy airport.

# %%
parts = both.contributions(clean)
j = clean.columns.get_loc("v_JFK")
names = both.get_feature_names_out()
is_rhythm = np.array(["rhythm" in name for name in names])
shared = parts[:, j, : len(names)][:, ~is_rhythm].sum(axis=1)
rhythm = parts[:, j, : len(names)][:, is_rhythm].sum(axis=1)
memory = parts[:, j, -1]
recorded = clean["v_JFK"].to_numpy()

# %%
week = slice(24 * 30, 24 * 37)
fig, axes = plt.subplots(4, 1, figsize=(9, 6.5), sharex=True, layout="constrained")
for ax, values, label in zip(
    axes,
    [recorded, both.mean_[j] + shared, rhythm, memory],
    ["recorded", "shared with the other columns", "the day", "what Kennedy remembers on its own"],
    strict=True,
):
    ax.plot(clean.index[week], values[week], lw=1.2)
    ax.set_ylabel("mph")
    ax.set_title(label, fontsize="medium", loc="left")

# %%
left = recorded - both.mean_[j] - shared - rhythm - memory
print("standard deviations in mph")
for name, part in [
    ("recorded", recorded),
    ("shared", shared),
    ("day", rhythm),
    ("memory", memory),
    ("left", left),
]:
    print(f"  {name:<10}{np.nanstd(part):5.1f}")
assert np.nanstd(left) < 0.5 * np.nanstd(recorded)

# %% [markdown]
# ## Summary
#
# * After a fit, `status_` reports outliers, and `diagnose` tests for remaining cycles and autocorrelation.
# * `robust=True` with `outlier_scores` finds wrong readings, without a threshold for each column. Treat
#   them as missing.
# * `rhythms=["24h"]` adds a daily cycle, `noise="ar1"` autocorrelated noise of each column.
# * Compare models on held-out rows: prediction errors relative to those of the last value, autocorrelation
#   of the errors, and coverage of the intervals.
