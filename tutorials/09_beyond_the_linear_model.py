# %% [markdown]
# # Beyond the linear model
#
# The model of slow features is linear with Gaussian noise. Turner & Sahani (2007, section 5) describe
# extensions for other data: counts and categories, objects that are present or absent, and nonlinear
# expansions. This notebook shows each of them in comparison with the linear model.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline

from probsfa import SFA, BilinearSFA, EmissionSFA, ProbabilisticSFA
from probsfa.expansions import Polynomial
from probsfa.extensions import ProductOfExpertsSFA

# %% [markdown]
# ## Counts
#
# Each of twenty simulated neurons fires about one spike in two time bins. Two slow signals modulate the
# rates, and a fifth of the values is missing. Nine of ten counts are 0 or 1, so that their distribution is
# far from Gaussian.

# %%
rng = np.random.default_rng(0)
T, N = 1000, 20
t = np.arange(T)
signals = np.column_stack([np.sin(2 * np.pi * t / 400), np.sin(2 * np.pi * t / 150 + 1.0)]) * np.sqrt(2.0)
weights = 0.7 * rng.standard_normal((N, 2))
rates = np.exp(np.log(0.35) + signals @ weights.T)
complete = rng.poisson(rates).astype(float)
hidden = rng.random(complete.shape) < 0.2
spikes = np.where(hidden, np.nan, complete)

fig, ax = plt.subplots(figsize=(8.5, 2.6), layout="constrained")
ax.imshow(
    np.ma.masked_invalid(spikes.T), aspect="auto", cmap="Greys", vmin=0, vmax=4, interpolation="nearest"
)
_ = ax.set(
    xlabel="time (bins)", ylabel="neuron", title="spike counts (white: 0 or missing; black: 4 or more)"
)

# %% [markdown]
# `EmissionSFA` replaces the Gaussian noise of the linear model by a Poisson distribution. Factors, missing
# values, intervals and forecasts are the same as in the linear model.

# %%
poisson = EmissionSFA(2, emission="poisson").fit(spikes)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the warning that columns contain counts is expected here
    gaussian = ProbabilisticSFA(2).fit(spikes)


def r2_of_signals(factors):
    """Return R2 of the true signals by linear regression on the factors."""
    return LinearRegression().fit(factors, signals).score(factors, signals)


def hidden_log_likelihood(predicted):
    """Return the mean log-likelihood of the hidden counts, as Poisson counts with the predicted means."""
    mean = np.maximum(predicted[hidden], 1e-3)
    return scipy.stats.poisson.logpmf(complete[hidden], mean).mean()


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the warning of negative imputed counts; the lowest is printed below
    imputed = {"Poisson": poisson.impute(spikes), "Gaussian": gaussian.impute(spikes)}
models = {"Poisson": poisson, "Gaussian": gaussian}
result = {}
for name, model in models.items():
    result[name] = r2_of_signals(model.transform(spikes)), hidden_log_likelihood(imputed[name])
    r2, score = result[name]
    print(f"{name:<9} R2 of the true signals {r2:.3f}   log-likelihood {score:.3f} nats per hidden count")
lowest = {name: values.min() for name, values in imputed.items()}
print("lowest imputed value:", {name: f"{value:.2f}" for name, value in lowest.items()})
assert imputed["Gaussian"].min() < 0 <= imputed["Poisson"].min()
best = hidden_log_likelihood(rates)
print(f"with the true rates: {best:.3f} nats per hidden count")
assert result["Poisson"][0] > result["Gaussian"][0]
assert result["Poisson"][1] > result["Gaussian"][1]

# %%
fig, axes = plt.subplots(2, 1, figsize=(8.5, 3.6), sharex=True, layout="constrained")
for ax, model, name in zip(axes, models.values(), models, strict=True):
    factors = model.transform(spikes)
    ax.plot(signals, color="0.75", lw=3)
    ax.plot(LinearRegression().fit(factors, signals).predict(factors), lw=1)
    ax.set_title(f"{name} model: true signals (grey) and estimates", fontsize=10)
    ax.set_ylabel("signal (no units)")
_ = axes[1].set(xlabel="time (bins)")

# %% [markdown]
# ## What and where
#
# Slow features mix the identity of objects (*what*) and their position (*where*). `BilinearSFA` has two
# kinds of latent variables: binary Markov chains (gates, "what") switch the effect of continuous factors
# ("where") on or off.
#
# A simulated camera with 7 by 7 pixels observes a patch with drifting stripes, patch A. At random times it is
# replaced by patch B with tilted stripes, or B by A; the drift continues from the same position. The standard
# deviation of the noise equals that of the pixels without noise.

# %%
SIDE = 7


def moving_patch(seed, n_rows=1200):
    """Return pixels (T, 49) without and with noise, position of the stripes (T,), patch (T,; 0 is A)."""
    rng = np.random.default_rng(seed)
    position = np.cumsum(0.3 * rng.standard_normal(n_rows))
    identity = np.cumsum(rng.random(n_rows) < 0.01) % 2
    across, down = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE))
    window = np.exp(-(across**2 + down**2)).ravel()
    stripes = np.stack([4.0 * (np.cos(a) * across + np.sin(a) * down).ravel() for a in (0.0, np.pi / 4)])
    pixels = window * np.cos(stripes[identity] - position[:, None])
    pixels /= pixels.std()
    return pixels, pixels + rng.standard_normal(pixels.shape), position, identity


clean, pixels, position, identity = moving_patch(1)
fig, axes = plt.subplots(2, 10, figsize=(9, 2.1), layout="constrained")
frames = np.flatnonzero(np.diff(identity))[0] + np.arange(-4, 6) * 3
for column, row in zip(axes.T, frames, strict=True):
    column[0].imshow(clean[row].reshape(SIDE, SIDE), cmap="gray", vmin=-3, vmax=3)
    column[1].imshow(pixels[row].reshape(SIDE, SIDE), cmap="gray", vmin=-4, vmax=4)
    column[0].set_title("AB"[identity[row]], fontsize=8)
    for ax in column:
        ax.set_axis_off()
_ = fig.suptitle(
    "every third frame around a change of the patch: without noise (top) and as observed (bottom)",
    fontsize=10,
)

# %%
bilinear = BilinearSFA(2, n_gates=2, random_state=0).fit(pixels)
features = {
    "SFA": SFA(6).fit_transform(pixels),
    "quadratic SFA": make_pipeline(SFA(20), Polynomial(2), SFA(6)).fit_transform(pixels),
    "bilinear, where": bilinear.transform(pixels)[:, :2],
    "bilinear, what": bilinear.transform(pixels)[:, 2:],
}
is_train = np.arange(len(pixels)) < len(pixels) // 2
target = np.column_stack([np.cos(position), np.sin(position)])


def identity_accuracy(values):
    """Return the balanced accuracy of a classifier of the patch, fitted to the first half, in the second."""
    classifier = LogisticRegression(max_iter=1000).fit(values[is_train], identity[is_train])
    return balanced_accuracy_score(identity[~is_train], classifier.predict(values[~is_train]))


def position_transfer(values):
    """Return R2 of the position by regression that is fitted to one patch and tested on the other."""
    scores = []
    for patch in (0, 1):
        train, test = is_train & (identity == patch), ~is_train & (identity != patch)
        regression = LinearRegression().fit(values[train], target[train])
        scores.append(regression.score(values[test], target[test]))
    return np.mean(scores)


accuracy = {name: identity_accuracy(values) for name, values in features.items()}
for name, value in accuracy.items():
    print(f"{name:<16} identity of the patch: balanced accuracy {value:.3f}")
transfer = {name: position_transfer(values) for name, values in features.items() if name != "bilinear, what"}
for name, value in transfer.items():
    print(f"{name:<16} position, fitted to one patch and tested on the other: R2 {value:.2f}")
assert accuracy["bilinear, what"] > 0.99
assert transfer["bilinear, where"] > transfer["quadratic SFA"] + 0.2

# %%
gates, position_factors = features["bilinear, what"], features["bilinear, where"]
shown = slice(0, 500)
fig, axes = plt.subplots(3, 1, figsize=(8.5, 4.6), sharex=True, layout="constrained")
axes[0].fill_between(np.arange(500), identity[shown], step="mid", color="0.8")
axes[0].plot(gates[shown], lw=1)
axes[0].set(ylabel="P(gate = 1)", title="posterior of the gates (lines) and rows of patch B (grey)")
axes[1].plot(position_factors[shown], lw=1)
axes[1].set(ylabel="where factors")
axes[2].plot(features["SFA"][shown, :2], lw=1)
_ = axes[2].set(ylabel="SFA features", xlabel="time (frames)")

# %% [markdown]
# One gate switches with the patch, and the other is always on. The two "where" factors describe the position
# of the stripes in both patches. A regression on them that is fitted to one patch is therefore valid for the
# other. Features of SFA, linear or quadratic, mix identity and position. (An accuracy of 0.5 is chance. A
# lower accuracy means that features and patches are related differently in the two halves of the series.)
#
# ## Products of experts
#
# Quadratic slow feature analysis treats `y` and `y**2` as two unrelated columns. All possible pairs are on a
# parabola, but samples of a linear Gaussian model of both columns are not. `ProductOfExpertsSFA` multiplies
# the density of the linear model by local experts, which restrict each pair to the parabola. In the example
# the magnitude of `y` changes slowly and its sign is random.

# %%
log_magnitude = ProbabilisticSFA.from_parameters([0.95], [[1.0]], 1e-6).sample(400, random_state=0)[1][:, 0]
rng = np.random.default_rng(0)
y = (np.exp(0.35 * log_magnitude) * rng.choice([-1.0, 1.0], 400) + 0.15 * rng.standard_normal(400))[:, None]
pairs = np.hstack([y, y**2])

linear = ProbabilisticSFA(1).fit(pairs)
# The run is short: with this tolerance the fit does not warn that its parameters still change.
experts = ProductOfExpertsSFA(1, expansion=Polynomial(2), random_state=0, tol=1e6).fit(y)
samples = {
    "linear model of the pairs": linear.sample(400, random_state=0)[0],
    "product of experts": experts.sample(400, expanded=True, random_state=0)[2],
}


def distance_from_parabola(pairs):
    """Return the root mean square of `second - first**2`, in standard deviations of `y**2`."""
    return np.sqrt(np.mean((pairs[:, 1] - pairs[:, 0] ** 2) ** 2)) / np.std(y**2)


def share_near_zero(pairs):
    """Return the share of rows with a magnitude below half the 1 % quantile of the data."""
    return np.mean(np.abs(pairs[:, 0]) < 0.5 * np.quantile(np.abs(y), 0.01))


for name, sample in samples.items():
    distance, share = distance_from_parabola(sample), share_near_zero(sample)
    print(
        f"{name:<26} distance from the parabola: {distance:.2f}   rows near zero, without data: {share:.1%}"
    )
assert (
    distance_from_parabola(samples["product of experts"])
    < 1e-6
    < distance_from_parabola(samples["linear model of the pairs"])
)
assert share_near_zero(samples["product of experts"]) < share_near_zero(samples["linear model of the pairs"])

# %%
fig, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharex=True, sharey=True, layout="constrained")
grid = np.linspace(-1.2, 1.2, 100) * np.abs(y).max()
for ax, (name, sample) in zip(axes, {"data": pairs, **samples}.items(), strict=True):
    ax.plot(grid, grid**2, color="0.7", lw=1)
    ax.plot(*sample.T, ".", ms=3)
    ax.set_title(name, fontsize=10)
    ax.set_xlabel("y, or first coordinate")
_ = axes[0].set_ylabel("y**2, or second coordinate")

# %% [markdown]
# Samples of the linear model form an ellipse across the parabola, and nearly all are impossible pairs.
# Samples of the product of experts are on the parabola; this also holds for values that it imputes. Both
# models generate values near zero, where there are no data, but the product of experts generates fewer. Its
# fit requires thousands of passes over the rows.
#
# ## Summary
#
# * `EmissionSFA` is a model of counts, binary and ordinal values, and noise with heavy tails, with the same
#   factors, missing values and intervals. A Gaussian model of small counts recovers the factors less
#   accurately and predicts negative counts.
# * `BilinearSFA` separates *what* and *where* by binary gates and continuous factors.
# * `EmissionSFA` and `BilinearSFA` maximize a lower bound of the likelihood; `history_` never decreases.
# * `ProductOfExpertsSFA` restricts expanded rows to possible values of the expansion.
# * First use the linear model. It is exact and fast, and `diagnose` tests its assumptions.
