# %% [markdown]
# # Watching a process
#
# A plant has many sensors and a few things that really go on in it. Slow features are those things, and they
# make good **control charts**: one for *where* the process is, one for *how fast it moves*, and
# one for what slow features cannot explain. Shang and colleagues (2015) showed why the second matters: after
# a disturbance a controller may hold the plant at a new place, steady as ever. The first chart then alarms,
# the second does not, and the operator knows that this is another operating point and no fault of the
# dynamics.
#
# This notebook simulates a plant, learns what is normal, and breaks it in three ways.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from probsfa import ProbabilisticSFA, ProcessMonitor

SENSORS = ["feed", "level", "pressure", "flow", "heater", "top", "bottom", "product"]

# %% [markdown]
# ## A plant
#
# Three things go on in it: the quality of the feed (slow), the weather (less slow), and the action of a valve
# (fast). Eight sensors see mixtures of the three, each with noise of its own.

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
# ## What is normal?
#
# `ProcessMonitor` fits a model to normal rows and sets a limit for each chart. A row must not be judged by a
# model that has seen it: limits would be too tight. So segments of rows are held out one after the other,
# and limits are quantiles of what is found there. `alpha` is the rate of false alarms of *all charts
# together*.

# %%
monitor = ProcessMonitor(ProbabilisticSFA(3), alpha=0.01).fit(normal)
print("time scales of the latents:", monitor.model_.timescales_.round(1), "rows")
print("limits:", {name: round(limit, 1) for name, limit in monitor.limits_.items()})

fresh = plant(20_000, seed=1)
false_alarms = np.mean(monitor.predict(fresh))
print(f"alarms in 20,000 fresh normal rows: {100 * false_alarms:.2f} %")
assert 0.002 < false_alarms < 0.02

# %% [markdown]
# The limits hold on new rows.
#
# ## Three faults
#
# * **A new operating point:** the feed changes for good, smoothly.
# * **A shaking valve:** what should move in twenty rows swings every five.
# * **A biased sensor:** the *bottom* temperature reads too high.

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
# Grey is where the fault is. Each fault has its chart:
#
# * the **new operating point** is in T2 alone: the plant is elsewhere, and as steady there as before;
# * the **shaking** is in S2: the plant is where it always was, but moves too fast;
# * the **sensor** is in the residual: no movement of the three slow things would make *bottom* read so.

# %%
loudest = {name: rates.idxmax() for name, rates in found.items()}
print(loudest)
assert loudest == {"new operating point": "T2", "shaking": "S2", "biased sensor": "residual"}
assert found["new operating point"]["S2"] < 0.03
assert found["new operating point"]["residual"] < 0.03

# %% [markdown]
# ## Which sensor?
#
# `contributions` computes for each value: by how much would the statistic fall if this value, and no other,
# had its most plausible value? A sensor that is wrong by itself explains everything by itself.

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
# ## Small faults that stay
#
# The bias raised an alarm in two rows of three. A bias of a third of that size is lost in the noise of single
# rows. But it stays, and noise does not: with `window=50` statistics are averaged over the last 50 rows, and
# limits with them.

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
# ## A plant with missing values
#
# Sensors drop out. Remove a fifth of all values, at random, in the normal rows and in the faulty ones. Each
# row is judged by its observed values, and by those before it.

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
# ## What to remember
#
# * T2 shows where the process is, S2 how fast it moves, the residual what slow features cannot explain. Which
#   of them alarms shows what kind of fault it is.
# * Limits must come from rows that the model has not seen; `ProcessMonitor` holds out segments for them.
# * `contributions` names the sensor behind an alarm; `window` finds small faults that stay.
# * Missing values need no imputation: with `ProbabilisticSFA` the limits hold for incomplete rows.
# * Normal rows must cover what is normal. A monitor calls all that it has never seen a fault.
