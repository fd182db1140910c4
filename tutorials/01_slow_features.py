# %% [markdown]
# # Slow features in five minutes
#
# **Slow feature analysis** (SFA) finds the linear combinations of the columns of a time series that change
# least from one row to the next. If many noisy measurements depend on a few slow causes, such as a season,
# a position or the wear of a machine, these combinations recover the causes.
#
# This notebook shows the method on two simulated columns, then on a year of weather.

# %%
import matplotlib.pyplot as plt
import numpy as np

from probsfa import SFA, plots
from probsfa.datasets import load_nyc_weather
from probsfa.expansions import Polynomial
from probsfa.metrics import delta_value, eta_value

# %% [markdown]
# ## Two fast columns with a slow source
#
# Both columns of the figure change fast; column 1 also contains a slow component.

# %%
t = np.linspace(0.0, 2.0 * np.pi, 2000)
source = np.sin(t)
fast = np.cos(11.0 * t)
X = np.column_stack([source + fast**2, fast])

fig, axes = plt.subplots(2, 1, figsize=(7.5, 3), sharex=True, layout="constrained")
for j, ax in enumerate(axes):
    ax.plot(t, X[:, j], color="0.4", lw=1)
    ax.set_ylabel(f"column {j + 1}")
axes[0].set_title("the two observed columns (no units)")
_ = axes[1].set_xlabel("time (radians)")

# %% [markdown]
# The slow source is a sine with a single period. It is a nonlinear function of the columns: column 1 minus
# the *square* of column 2. No linear combination of the columns equals it. An *expansion* adds squares and
# products as further columns, and SFA of the expanded columns finds the source.

# %%
sfa = SFA(1, expansion=Polynomial(2)).fit(X)
slowest = sfa.transform(X)[:, 0]

agreement = abs(np.corrcoef(slowest, source)[0, 1])
print(f"correlation of the slowest feature with the source: {agreement:.6f}")
assert agreement > 0.999999

# %%
fig, ax = plt.subplots(figsize=(7.5, 2.4), layout="constrained")
ax.plot(t, X[:, 0], color="0.8", lw=1, label="column 1")
ax.plot(t, slowest * np.sign(slowest @ source), lw=2.5, label="slowest feature")
ax.plot(t, source / source.std(), "k--", lw=1, label="hidden sine, unit variance")
ax.set(xlabel="time (radians)", ylabel="standard deviations", title="SFA removes the fast part")
_ = ax.legend(ncols=3, fontsize="small", loc="lower left")

# %% [markdown]
# ## A measure of slowness
#
# The **delta value** is the mean squared difference of consecutive rows, divided by the variance. It is
# near 0 for slow signals and near 2 for white noise. The *eta value* is the number of periods of a sine with
# the same length and the same delta value.

# %%
for name, y in [("column 1", X[:, 0]), ("column 2", X[:, 1]), ("slowest feature", slowest)]:
    print(f"{name:<16} delta {delta_value(y):.6f}   eta {eta_value(y):5.2f} periods")

assert np.isclose(delta_value(slowest), sfa.delta_values_[0])
assert round(eta_value(X[:, 1]), 1) == 11.0
assert round(eta_value(slowest), 1) == 1.0

# %% [markdown]
# ## A year of weather
#
# The data are temperature, dew point, pressure, wind and visibility at the three airports of New York City,
# for every hour of 2013: 18 columns, with missing values. Classic SFA cannot use incomplete rows, and skips
# them here.

# %%
weather = load_nyc_weather(drop_impossible=True).data
print(f"{len(weather)} hours, {weather.shape[1]} columns: {', '.join(weather.columns[::3])} ...")

sfa = SFA(3, missing="skip").fit(weather)
features = sfa.transform(weather)
print("time scales of the three slowest features, in hours:", sfa.timescales_.round())

# %%
axes = plt.subplots(3, 1, figsize=(8, 4.5), sharex=True, layout="constrained")[1]
plots.plot_slow_features(features, times=weather.index, axes=axes)
for ax in axes:
    ax.set_ylabel(f"{ax.get_ylabel()} (sd)")
axes[0].set_title("the three slowest combinations of 18 columns, in standard deviations")
_ = axes[-1].set_xlabel("date (UTC)")

# %% [markdown]
# The slowest feature is the season, although the method has no information about seasons. No single column
# is as slow, because temperatures also follow day and night.

# %%
slowest_column = delta_value(weather).min()
print(f"delta of the slowest column {slowest_column:.4f}, of the slowest feature {sfa.delta_values_[0]:.4f}")
assert sfa.delta_values_[0] < 0.7 * slowest_column

# %% [markdown]
# ## Interpretation of a feature
#
# `loadings_` are the effects of a feature on each column. Divided by the columns' standard deviations they
# are correlations.

# %%
correlations = sfa.loadings_ / weather.dropna().std().to_numpy()[:, None]
strongest = np.argsort(-np.abs(correlations[:, 0]))[:6]
for j in strongest:
    print(f"{weather.columns[j]:<14} correlation with the slowest feature {correlations[j, 0]:+.2f}")

assert {name.split("_")[0] for name in weather.columns[strongest]} == {"temp", "dewp"}

# %% [markdown]
# ## Validation on held-out weeks
#
# With many columns and few rows, some combination is slow by chance. Therefore slowness is measured on rows
# that were not used in the fit: the model is fitted to the odd weeks, and slowness is measured on the even
# weeks. The weeks are passed as a list of sequences; no difference is taken from the last row of a week to
# the first row of another.

# %%
weeks = [week for _, week in weather.groupby(np.arange(len(weather)) // 168) if len(week) == 168]
sfa = SFA(3, missing="skip").fit(weeks[0::2])
held_out_delta = delta_value([sfa.transform(week) for week in weeks[1::2]])
for k in range(3):
    print(
        f"feature {k + 1}: delta {sfa.delta_values_[k]:.4f} in training,"
        f" {held_out_delta[k]:.4f} in held-out weeks"
    )

assert np.all(held_out_delta < 1.5 * sfa.delta_values_)

# %% [markdown]
# The features are about as slow in the held-out weeks.
#
# ## Limitations
#
# Incomplete rows were not used, and noise of the columns is part of the features.

# %%
skipped_share = np.isnan(features[:, 0]).mean()
missing_share = weather.isna().to_numpy().mean()
print(
    f"{100 * missing_share:.1f} % of the values are missing,"
    f" and {100 * skipped_share:.0f} % of the hours are skipped"
)
assert skipped_share > 4 * missing_share

# %% [markdown]
# The [next notebook](02_noise_and_missing_values.ipynb) introduces a model with noise and missing values.
#
# ## Summary
#
# * SFA finds the linear combinations of columns that change least from row to row. It is one eigenproblem,
#   without starting points or iterations.
# * If slow sources are nonlinear functions of the columns, use an *expansion*.
# * The delta value measures slowness; compute it on rows that were not used in the fit.
# * Classic SFA requires complete rows and little noise. For other data, continue with the next notebook.
