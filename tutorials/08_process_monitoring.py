# %% [markdown]
# # Process monitoring
#
# Sensors of a plant depend on a few slow causes. **Control charts** of slow features monitor the operating
# point, the dynamics, and deviations from the model. Shang et al. (2015) explain the purpose of the chart of
# the dynamics: after a disturbance a controller may keep the plant at a new operating point. Then only the
# chart of the operating point raises alarms. The operator can thus distinguish this case from a fault that
# changes the dynamics.
#
# This notebook simulates a plant, estimates control limits, and simulates three faults.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from probsfa import ProbabilisticSFA, ProcessMonitor

SENSORS = ["feed", "level", "pressure", "flow", "heater", "top", "bottom", "product"]

# %% [markdown]
# ## A plant
#
# The plant has three causes: the quality of the feed (slow), the weather (less slow), and a valve (fast).
# Eight sensors measure mixtures of the three, each with independent noise.

# %%
DECAY = np.array([0.98, 0.92, 0.6])
MIXING = np.array(
    [
        [1.0, 0.0, 0.3],
        [0.6, 0.5, 0.0],
        [0.0, 0.9, 0.5],
        [0.3, 0.0, 1.0],
        [0.0, 1.0, 0.2],
        [0.8, 0.4, 0.0],
        [-0.5, 0.6, 0.3],
        [0.9, -0.3, 0.4],
    ]
)


def plant(n, seed, *, shift=0.0, amplitude=0.0, bias=0.0, onset=0):
    """Return a table of `n` simulated rows, with a fault from row `onset` on."""
    rng = np.random.default_rng(seed)
    causes = np.zeros((n, 3))
    causes[0] = rng.standard_normal(3)
    for t in range(1, n):
        causes[t] = DECAY * causes[t - 1] + np.sqrt(1 - DECAY**2) * rng.standard_normal(3)
    is_faulty = np.arange(n) >= onset
    causes[:, 0] += shift * is_faulty * (1 - np.exp(-(np.arange(n) - onset) / 30.0))
    causes[:, 1] += amplitude * is_faulty * np.sin(2.0 * np.pi * np.arange(n) / 5.0)
    X = causes @ MIXING.T + 0.5 * rng.standard_normal((n, 8))
    X[:, 6] += bias * is_faulty
    return pd.DataFrame(X, columns=SENSORS)


normal = plant(3000, seed=0)

# %%
axes = plt.subplots(4, 1, figsize=(8, 4.2), sharex=True, layout="constrained")[1]
for ax, name in zip(axes, SENSORS[:4], strict=True):
    ax.plot(normal[name].iloc[:600], lw=0.7)
    ax.set_ylabel(name)
axes[0].set_title("four of eight sensors, normal operation (simulated units)")
_ = axes[-1].set_xlabel("row")

# %% [markdown]
# ## Control limits
#
# `ProcessMonitor` fits a model to normal rows and sets a limit for each chart. Limits from rows that were
# used in the fit would be too low. Therefore segments of rows are held out one after the other, and limits
# are quantiles of held-out statistics. `alpha` is the false alarm rate of *all charts together*.

# %%
monitor = ProcessMonitor(ProbabilisticSFA(3), alpha=0.01).fit(normal)
print("time scales of the factors:", monitor.model_.timescales_.round(1), "rows")
print("limits:", {name: round(limit, 1) for name, limit in monitor.limits_.items()})

new = plant(20_000, seed=1)
false_alarms = np.mean(monitor.predict(new))
print(f"alarms in 20,000 new normal rows: {100 * false_alarms:.2f} %")
assert 0.002 < false_alarms < 0.02

# %% [markdown]
# The false alarm rate in new rows is below its nominal value of 1 %.
#
# ## Three faults
#
# * **A new operating point:** the feed changes slowly and permanently.
# * **Oscillation:** the second cause oscillates with a period of five rows.
# * **A biased sensor:** all readings of the *bottom* temperature are too high by the same amount.

# %%
FAULTS = {
    "new operating point": {"shift": 6.0},
    "oscillation": {"amplitude": 1.6},
    "biased sensor": {"bias": 2.5},
}
test_runs = {
    name: plant(600, seed=10 + i, onset=300, **fault) for i, (name, fault) in enumerate(FAULTS.items())
}
is_faulty = np.arange(600) >= 300
alarm_rates = {}
for name, run in test_runs.items():
    alarms = monitor.score_samples(run) > pd.Series(monitor.limits_)
    alarm_rates[name] = alarms[is_faulty].mean()
    before = 100 * alarms[~is_faulty].any(axis=1).mean()
    print(
        f"{name:<20} alarms before the fault: {before:.1f} %   after, by chart:",
        {chart: f"{100 * rate:.0f} %" for chart, rate in alarm_rates[name].items()},
    )

# %%
for name, run in test_runs.items():
    axes = plt.subplots(len(monitor.statistics_), 1, figsize=(8, 4.6), sharex=True, layout="constrained")[1]
    monitor.plot(run, truth=is_faulty, axes=axes)
    axes[0].set_title(name)

# %% [markdown]
# Rows with a fault have a grey background. Most alarms of each fault are in one chart:
#
# * the **new operating point** in T2: the dynamics at the new operating point are normal;
# * the **oscillation** in S2, and some in the residual: the operating point is normal, but changes are too
#   fast;
# * the **biased sensor** in the residual: the readings of *bottom* are inconsistent with all values of the
#   three causes.

# %%
chart_with_most_alarms = {name: rates.idxmax() for name, rates in alarm_rates.items()}
print(chart_with_most_alarms)
assert chart_with_most_alarms == {
    "new operating point": "T2",
    "oscillation": "S2",
    "biased sensor": "residual",
}
assert alarm_rates["new operating point"]["S2"] < 0.03
assert alarm_rates["new operating point"]["residual"] < 0.03

# %% [markdown]
# ## Fault diagnosis
#
# `contributions` returns, for each value, the decrease of the statistic if only this value is replaced by
# its optimal reconstruction. By default the statistic is that with the largest ratio to its limit. If a
# single sensor is faulty, its contribution accounts for most of the deviation.

# %%
contributions = monitor.contributions(test_runs["biased sensor"])
fig, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained", width_ratios=[2.2, 1])
image = axes[0].imshow(
    np.log10(contributions.T + 1.0), aspect="auto", cmap="magma_r", interpolation="nearest"
)
axes[0].set_yticks(range(8), SENSORS)
axes[0].set(xlabel="row", title="contribution of each value")
fig.colorbar(image, ax=axes[0], shrink=0.8, label="log10(1 + contribution)")
axes[1].barh(SENSORS[::-1], contributions[is_faulty].mean()[::-1])
_ = axes[1].set(xlabel="contribution", title="mean from row 300 on")

# %%
ranking = contributions[is_faulty].mean().sort_values(ascending=False)
print(ranking.round(1).to_string())
assert ranking.index[0] == "bottom"
assert ranking.iloc[0] > 4 * ranking.iloc[1]

# %% [markdown]
# ## Small persistent faults
#
# The biased sensor has alarms in two of three rows. A bias of about a third of this size is rarely detected
# in single rows because of noise. With `window=50` statistics are averaged over the last 50 rows. This
# reduces the noise but not the bias. The limits are quantiles of the averaged statistics.

# %%
small = plant(1500, seed=20, onset=500, bias=0.9)
after = np.arange(1500) >= 550
alarm_rate = {}
for window in (1, 50):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are few independent averages over 50 rows; see below
        averaging = ProcessMonitor(ProbabilisticSFA(3), alpha=0.01, window=window).fit(normal)
    alarms = averaging.predict(small)
    alarm_rate[window] = alarms[after].mean()
    before, in_new_rows = 100 * alarms[:500].mean(), 100 * np.mean(averaging.predict(new))
    print(
        f"window {window:>2}: alarms in {before:.1f} % of the rows before the fault,"
        f" {100 * alarm_rate[window]:.0f} % after, {in_new_rows:.1f} % of new normal rows"
    )
assert alarm_rate[50] > 4 * alarm_rate[1]
largest = averaging.contributions(small, "residual")[after].mean().idxmax()
print("largest contribution:", largest)
assert largest == "bottom"

# %% [markdown]
# With the window, false alarms are more frequent than the nominal 1 %, as a warning of `fit` reports.
# Averages over 50 rows change slowly, so that 3,000 normal rows contain few independent averages, and their
# quantiles are uncertain. For a large window use a longer normal series: after a fit to 12,000 rows the rate
# is 0.6 %.
#
# ## Missing values
#
# A fifth of all values is removed at random, in normal and in faulty rows. The statistics of a row then
# depend on its observed values and on earlier rows.

# %%
rng = np.random.default_rng(5)


def with_missing_values(table):
    """Return a table with a fifth of its values missing."""
    return table.mask(rng.random(table.shape) < 0.2)


incomplete_monitor = ProcessMonitor(ProbabilisticSFA(3), alpha=0.01).fit(with_missing_values(normal))
false_alarms = np.mean(incomplete_monitor.predict(with_missing_values(new)))
print(f"alarms in 20,000 new normal rows with missing values: {100 * false_alarms:.2f} %")
for name, run in test_runs.items():
    rates = [
        100 * m.predict(table)[is_faulty].mean()
        for m, table in [(incomplete_monitor, with_missing_values(run)), (monitor, run)]
    ]
    print(
        f"{name:<20} alarms after the fault: {rates[0]:.0f} % with missing values, {rates[1]:.0f} % without"
    )
assert false_alarms < 0.02

# %% [markdown]
# ## Summary
#
# * T2 monitors the operating point, S2 the dynamics, and the residual deviations from the model. The chart
#   with most alarms indicates the type of the fault.
# * Limits must be estimated from rows that were not used in the fit; `ProcessMonitor` holds out segments
#   for them.
# * `contributions` identifies the faulty sensor; `window` detects small persistent faults.
# * Missing values need not be imputed: with `ProbabilisticSFA` the limits are valid for incomplete rows.
# * The rows of the fit must include all normal conditions, because a condition that is not among them raises
#   alarms.
