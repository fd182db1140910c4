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
train, test = weather["2013-02-01":"2013-03-31"], weather["2013-04-01":"2013-04-14"]
percent_missing = 100 * train.isna().to_numpy().mean()
print(f"{len(train)} hours, {train.shape[1]} columns, {percent_missing:.1f} % missing")

fig, axes = plt.subplots(2, 1, figsize=(9, 3.6), sharex=True, layout="constrained")
for ax, name, label in zip(axes, ["temp_EWR", "u_EWR"], ["temperature (F)", "eastward (mph)"], strict=True):
    ax.plot(train.index, train[name], lw=0.8)
    ax.set_ylabel(label)
_ = axes[0].set_title("temperature and wind at Newark, as recorded")

# %% [markdown]
# One wind speed is about a thousand miles per hour, which is impossible.
#
# ## Outliers
#
# In this series the wrong reading could be removed by hand. With hundreds of columns, outliers must be
# detected automatically; the fit of a model reports the column:

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    white_noise_model = ProbabilisticSFA(6).fit(train)
print(textwrap.fill(white_noise_model.status_, 100))

# %% [markdown]
# With `robust=True` the noise has heavy tails, so that outliers have small weights. `outlier_scores`
# returns, for each value, the distance from its prediction by all other values, in standard deviations.

# %%
robust_model = ProbabilisticSFA(6, robust=True).fit(train)
scores = robust_model.outlier_scores(train)
worst = scores.stack().sort_values(ascending=False).head(5)
for (when, column), score in worst.items():
    value = train.loc[when, column]
    print(f"{when:%d %b %H:%M}  {column:<9} {value:8.1f}   {score:6.1f} standard deviations off")

# %%
outlier_time = pd.Timestamp("2013-02-12T08:00", tz="UTC")
assert {worst.index[0], worst.index[1]} == {(outlier_time, "u_EWR"), (outlier_time, "v_EWR")}
assert worst.iloc[1] > 2 * worst.iloc[2]

std = train["u_EWR"].std()
clean = train.mask(scores > 0.5 * worst.iloc[1])
std_clean = clean["u_EWR"].std()
print(f"standard deviation of u_EWR: {std:.1f} mph with the wrong reading, {std_clean:.1f} mph without")

# %% [markdown]
# The scores of the two impossible values are far higher than all others. These values are treated as
# missing in the following.
#
# ## Diagnostics of a model with white noise
#
# The model has six AR(1) factors and white noise. `diagnose` tests its one-hour-ahead prediction errors.

# %%
white_noise_model = ProbabilisticSFA(6).fit(clean)
for sentence in white_noise_model.diagnose(clean).advice:
    print(textwrap.fill(f"- {sentence}", 100, subsequent_indent="  "))

# %% [markdown]
# ## Stochastic cycles
#
# AR(1) factors have no period, and cannot represent a daily cycle. `rhythms` adds stochastic cycles: damped
# oscillations with a random phase. The number in the list is the initial value of the period, which is then
# estimated.

# %%
with_cycle = ProbabilisticSFA(6, rhythms=["24h"]).fit(clean)
print(f"period: {with_cycle.rhythm_periods_[0]:.2f} hours")
gain = with_cycle.log_likelihood_ - white_noise_model.log_likelihood_
bic_difference = with_cycle.bic(clean) - white_noise_model.bic(clean)
print(
    f"change of the log-likelihood: {gain:+.0f} nats; of the BIC (smaller is better): {bic_difference:+.0f}"
)
assert abs(with_cycle.rhythm_periods_[0] - 24.0) < 1.0
assert gain > 50.0

# %% [markdown]
# Amplitude and phase describe the daily cycle of each column. The phase is the delay relative to the column
# with the largest amplitude.

# %%
delay = with_cycle.rhythm_phases_[:, 0] / (2 * np.pi) * with_cycle.rhythm_periods_[0]
day = pd.DataFrame(
    {"amplitude": with_cycle.rhythm_amplitudes_[:, 0], "delay (hours)": delay},
    index=clean.columns,
)
print(day.round(1).to_string())

# %% [markdown]
# ## AR(1) noise
#
# Each airport also has local weather that lasts for hours, but white noise is independent between hours.
# With `noise="ar1"` each column has AR(1) noise in addition to white noise.

# %%
with_ar1_noise = ProbabilisticSFA(6, rhythms=["24h"], noise="ar1").fit(clean)
ar1_noise_table = pd.DataFrame(
    {
        "standard deviation": with_ar1_noise.noise_scale_,
        "time scale (hours)": with_ar1_noise.noise_timescales_,
    },
    index=clean.columns,
)
print(ar1_noise_table.round(1).to_string())
winds = ar1_noise_table.index.str.match("u_|v_")
assert (
    ar1_noise_table["standard deviation"][winds].min()
    > 1.0
    > ar1_noise_table["standard deviation"][~winds].max()
)

# %% [markdown]
# The AR(1) noise of the winds has standard deviations of one to three miles per hour and time scales of
# about two to four hours. The AR(1) noise of the temperatures is close to zero: local variation of a
# temperature is slow and represented by a factor.

# %% [markdown]
# ## Predictions of held-out rows
#
# The models are compared by one-hour-ahead predictions in April, which was not used in any fit. The RMSE is
# divided by that of a simple prediction, the last observed value.

# %%
models = {
    "white noise": white_noise_model,
    "daily cycle": with_cycle,
    "daily cycle and AR(1) noise": with_ar1_noise,
}
diagnostics_of = {name: model.diagnose(test) for name, model in models.items()}
last_value_error = (test.shift(1) - test).to_numpy()
print(f"{'':<29}{'BIC':>9}{'RMSE ratio':>20}{'lag-1 correlation':>19}{'90 % coverage':>15}")
scores_of = {}
for name, diagnostics in diagnostics_of.items():
    error = np.asarray(diagnostics.predictions) - test.to_numpy()
    both_known = ~np.isnan(error + last_value_error)
    ratio = np.sqrt(np.mean(error[both_known] ** 2) / np.mean(last_value_error[both_known] ** 2))
    mean_autocorrelation = np.abs(diagnostics.autocorrelation[0]).mean()
    covered = diagnostics.covered(0.9)["one step"].mean()
    scores_of[name] = ratio, mean_autocorrelation, covered
    bic = models[name].bic(clean)
    print(f"{name:<29}{bic:>9.0f}{ratio:>20.3f}{mean_autocorrelation:>19.3f}{100 * covered:>13.0f} %")

# %%
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for (name, diagnostics), marker in zip(diagnostics_of.items(), "os^", strict=True):
    near = diagnostics.lags <= 10
    size = np.abs(diagnostics.autocorrelation).mean(axis=1)
    ax.plot(diagnostics.lags[near], size[near], f"{marker}-", ms=4, label=name)
ax.axhline(0.8 / np.sqrt(len(test)), color="k", ls="--", lw=1, label="white noise")
ax.set(xlabel="lag (hours)", ylabel="mean absolute correlation", title="autocorrelation of prediction errors")
ax.set_ylim(bottom=0)
_ = ax.legend(fontsize="small")

# %%
assert scores_of["daily cycle and AR(1) noise"][0] < scores_of["white noise"][0]
assert scores_of["daily cycle and AR(1) noise"][0] < 1.0
assert scores_of["daily cycle and AR(1) noise"][1] < 0.6 * scores_of["white noise"][1]
assert all(0.78 < covered < 0.88 for _, _, covered in scores_of.values())

# %% [markdown]
# Each step reduces the prediction errors and their autocorrelation. The coverage of 90 % intervals is still
# only slightly above 80 % in April: the variance of weather changes between weeks, but the model has a
# constant variance. In variable weeks its intervals are too narrow.

# %% [markdown]
# ## Decomposition
#
# `contributions` returns the contribution of each component to each value. Their sum is the series without
# white noise. The figure shows one week of northward wind at Kennedy airport.

# %%
contributions = with_ar1_noise.contributions(clean)
j = clean.columns.get_loc("v_JFK")
names = with_ar1_noise.get_feature_names_out()
is_cycle = np.array(["rhythm" in name for name in names])
shared = contributions[:, j, : len(names)][:, ~is_cycle].sum(axis=1)
cycle = contributions[:, j, : len(names)][:, is_cycle].sum(axis=1)
ar1_noise = contributions[:, j, -1]
recorded = clean["v_JFK"].to_numpy()

# %%
week = slice(24 * 30, 24 * 37)
fig, axes = plt.subplots(4, 1, figsize=(9, 6.5), sharex=True, layout="constrained")
for ax, values, label in zip(
    axes,
    [recorded, with_ar1_noise.mean_[j] + shared, cycle, ar1_noise],
    ["recorded", "shared with the other columns", "daily cycle", "AR(1) noise of v_JFK"],
    strict=True,
):
    ax.plot(clean.index[week], values[week], lw=1.2)
    ax.set_ylabel("mph")
    ax.set_title(label, fontsize="medium", loc="left")

# %%
residual = recorded - with_ar1_noise.mean_[j] - shared - cycle - ar1_noise
print("standard deviations in mph")
for name, part in [
    ("recorded", recorded),
    ("shared", shared),
    ("cycle", cycle),
    ("AR(1) noise", ar1_noise),
    ("residual", residual),
]:
    print(f"  {name:<12}{np.nanstd(part):5.1f}")
assert np.nanstd(residual) < 0.5 * np.nanstd(recorded)

# %% [markdown]
# ## Summary
#
# * After a fit, `status_` reports outliers, and `diagnose` tests for remaining cycles and autocorrelation.
# * `robust=True` with `outlier_scores` finds wrong readings, without a threshold for each column. Treat
#   them as missing.
# * `rhythms=["24h"]` adds a daily cycle, `noise="ar1"` autocorrelated noise of each column.
# * Compare models on held-out rows: prediction errors relative to those of the last observed value,
#   autocorrelation of the errors, and coverage of the intervals.
