# %% [markdown]
# # Process monitoring
#
# Sensors of a plant depend on a few slow causes. **Control charts** of slow features monitor the operating
# point, the dynamics, and deviations from the model. Shang et al. (2015) showed why the second chart is
# needed: after a disturbance a controller may keep the plant at a new operating point. The chart of the
# operating point then has alarms, but that of the dynamics has none, so that the operator can distinguish a
# new operating point from a fault.
#
# This notebook simulates a plant, estimates control limits, and simulates three faults.

# %%
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


def plant(n, seed, *, shift=0.0, shake=0.0, bias=0.0, at=0):
    """Simulate a table of `n` rows; from row `at` on, with a fault."""
    rng = np.random.default_rng(seed)
    latents = np.zeros((n, 3))
    latents[0] = rng.standard_normal(3)
    for t in range(1, n):
        latents[t] = DECAY * latents[t - 1] + np.sqrt(1 - DECAY**2) * rng.standard_normal(3)
    on = np.arange(n) >= at
    latents[:, 0] += shift * on * (1 - np.exp(-(np.arange(n) - at) / 30.0)) * (np.arange(n) >= at)
    latents[:, 1] += shake * on * np.sin(2.0 * np.pi * np.arange(n) / 5.0)
    X = latents @ MIXING.T + 0.5 * rng.standard_normal((n, 8))
    X[:, 6] += bias * on
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
print("time scales of the latents:", monitor.model_.timescales_.round(1), "rows")
print("limits:", {name: round(limit, 1) for name, limit in monitor.limits_.items()})

fresh = plant(20_000, seed=1)
false_alarms = np.mean(monitor.predict(fresh))
print(f"alarms in 20,000 fresh normal rows: {100 * false_alarms:.2f} %")
assert 0.002 < false_alarms < 0.02

# %% [markdown]
# The false alarm rate on new rows is nominal.
#
# ## Three faults
#
# * **A new operating point:** the feed changes slowly and permanently.
# * **Shaking:** the second cause oscillates with a period of five rows.
# * **A biased sensor:** the readings of the *bottom* temperature are too high.

# %%
FAULTS = {
    "new operating point": {"shift": 6.0},
    "shaking": {"shake": 1.6},
    "biased sensor": {"bias": 2.5},
}
records = {name: plant(600, seed=10 + i, at=300, **fault) for i, (name, fault) in enumerate(FAULTS.items())}
truth = np.arange(600) >= 300
found = {}
for name, record in records.items():
    above = monitor.score_samples(record) > pd.Series(monitor.limits_)
    found[name] = above[truth].mean()
    print(
        f"{name:<20} alarms before: {100 * above[~truth].any(axis=1).mean():.1f} %   after, by chart:",
        {chart: f"{100 * rate:.0f} %" for chart, rate in found[name].items()},
    )

# %%
for name, record in records.items():
    axes = plt.subplots(len(monitor.statistics_), 1, figsize=(8, 4.6), sharex=True, layout="constrained")[1]
    monitor.plot(record, truth=truth, axes=axes)
    axes[0].set_title(name)

# %% [markdown]
# Grey segments have a fault. Each fault is visible in one chart:
#
# * the **new operating point** only in T2: the dynamics at the new operating point are normal;
# * the **shaking** in S2: the operating point is normal, but changes are too fast;
# * the **biased sensor** in the residual: the reading of *bottom* is inconsistent with any values of the
#   three causes.

# %%
loudest = {name: rates.idxmax() for name, rates in found.items()}
print(loudest)
assert loudest == {"new operating point": "T2", "shaking": "S2", "biased sensor": "residual"}
assert found["new operating point"]["S2"] < 0.03
assert found["new operating point"]["residual"] < 0.03

# %% [markdown]
# ## Fault diagnosis
#
# `contributions` returns, for each value, the decrease of the statistic if only this value is replaced by
# its optimal reconstruction. If a single sensor is faulty, its contribution explains the whole deviation.

# %%
contributions = monitor.contributions(records["biased sensor"])
fig, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained", width_ratios=[2.2, 1])
image = axes[0].imshow(
    np.log10(contributions.T + 1.0), aspect="auto", cmap="magma_r", interpolation="nearest"
)
axes[0].set_yticks(range(8), SENSORS)
axes[0].set(xlabel="row", title="contribution of each value")
fig.colorbar(image, ax=axes[0], shrink=0.8, label="log10(1 + contribution)")
axes[1].barh(SENSORS[::-1], contributions[truth].mean()[::-1])
_ = axes[1].set(xlabel="contribution", title="mean after row 300")

# %%
ranking = contributions[truth].mean().sort_values(ascending=False)
print(ranking.round(1).to_string())
assert ranking.index[0] == "bottom"
assert ranking.iloc[0] > 4 * ranking.iloc[1]

# %% [markdown]
# ## Small persistent faults
#
# The biased sensor has alarms in two of three rows. A bias of a third of this size is not detected in
# single rows because of noise. With `window=50` statistics are averaged over the last 50 rows, which
# reduces the noise but not the bias; limits are those of averaged statistics.

# %%
small = plant(1500, seed=20, at=500, bias=0.9)
after = np.arange(1500) >= 550
share = {}
for window in (1, 50):
    patient = ProcessMonitor(ProbabilisticSFA(3), alpha=0.01, window=window).fit(normal)
    alarms = patient.predict(small)
    share[window] = alarms[after].mean()
    before = 100 * alarms[:500].mean()
    print(
        f"window {window:>2}: alarms in {before:.1f} % of the rows before, {100 * share[window]:.0f} % after"
    )
assert share[50] > 4 * share[1]
worst = patient.contributions(small, "residual")[after].mean().idxmax()
print("largest contribution:", worst)
assert worst == "bottom"

# %% [markdown]
# ## Missing values
#
# A fifth of all values is removed at random, in normal and in faulty rows. The statistics of a row then
# depend on its observed values and on earlier rows.

# %%
rng = np.random.default_rng(5)


def with_holes(table):
    """Take away a fifth of the cells."""
    return table.mask(rng.random(table.shape) < 0.2)


patchy = ProcessMonitor(ProbabilisticSFA(3), alpha=0.01).fit(with_holes(normal))
false_alarms = np.mean(patchy.predict(with_holes(fresh)))
print(f"alarms in 20,000 new normal rows with missing values: {100 * false_alarms:.2f} %")
for name, record in records.items():
    rates = [
        100 * m.predict(table)[truth].mean() for m, table in [(patchy, with_holes(record)), (monitor, record)]
    ]
    print(f"{name:<20} rows with an alarm after the fault: {rates[0]:.0f} %, complete rows {rates[1]:.0f} %")
assert false_alarms < 0.02

# %% [markdown]
# ## Summary
#
# * T2 monitors the operating point, S2 the dynamics, and the residual deviations from the model. The charts
#   with alarms indicate the type of the fault.
# * Limits must be estimated from rows that were not used in the fit; `ProcessMonitor` holds out segments
#   for them.
# * `contributions` identifies the faulty sensor; `window` detects small persistent faults.
# * Missing values need not be imputed: with `ProbabilisticSFA` the limits are valid for incomplete rows.
# * Normal rows must include all normal conditions, because a new condition has alarms.
