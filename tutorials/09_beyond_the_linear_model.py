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
# Twenty neurons fire about one spike in three bins. Their rates follow two slow factors, and a fifth of the
# values is missing. Nearly all counts are 0 or 1, so that their distribution is far from Gaussian.

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
_ = ax.set(xlabel="bin", ylabel="neuron", title="spike counts: 0 is white, 4 and more black")

# %% [markdown]
# `EmissionSFA` replaces the Gaussian noise of the linear model by a Poisson distribution. Factors, missing
# values, intervals and forecasts are the same as in the linear model.

# %%
poisson = EmissionSFA(2, emission="poisson").fit(spikes)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reports that columns contain counts, which is the point here
    gaussian = ProbabilisticSFA(2).fit(spikes)


def recovered(latents):
    """Share of the variance of the true signals that a linear map of latents explains."""
    return LinearRegression().fit(latents, signals).score(latents, signals)


def log_density_of_hidden(expected):
    """Mean log-probability of the hidden counts, as Poisson counts of these means."""
    mean = np.maximum(expected[hidden], 1e-3)
    return scipy.stats.poisson.logpmf(complete[hidden], mean).mean()


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reports negative imputed counts, of which the lowest is printed
    fills = {"Poisson": poisson.impute(spikes), "Gaussian": gaussian.impute(spikes)}
models = {"Poisson": poisson, "Gaussian": gaussian}
result = {}
for name, model in models.items():
    result[name] = recovered(model.transform(spikes)), log_density_of_hidden(fills[name])
    r2, density = result[name]
    print(f"{name:<9} R2 of the true signals {r2:.3f}   hidden counts: {density:.3f} nats each")
lowest = {name: fill.min() for name, fill in fills.items()}
print("lowest mean count that was filled in:", {name: f"{value:.2f}" for name, value in lowest.items()})
assert fills["Gaussian"].min() < 0 <= fills["Poisson"].min()
best = log_density_of_hidden(rates)
print(f"with the true rates {best:.3f} nats")
assert result["Poisson"][0] > result["Gaussian"][0]
assert result["Poisson"][1] > result["Gaussian"][1]

# %%
fig, axes = plt.subplots(2, 1, figsize=(8.5, 3.6), sharex=True, layout="constrained")
for ax, model, name in zip(axes, models.values(), models, strict=True):
    latents = model.transform(spikes)
    ax.plot(signals, color="0.75", lw=3)
    ax.plot(LinearRegression().fit(latents, signals).predict(latents), lw=1)
    ax.set_title(f"{name}: true signals (grey) and what the counts tell of them", fontsize=10)
_ = axes[1].set(xlabel="bin")

# %% [markdown]
# ## What and where
#
# Slow features mix the identity of objects (*what*) and their position (*where*). `BilinearSFA` has two
# kinds of variables: binary chains ("what") gate continuous factors ("where").
#
# A camera with 7 by 7 pixels observes a drifting patch with stripes. At random times it is replaced by
# another patch with tilted stripes, which continues at the same position. The standard deviation of the
# noise of each pixel equals that of the patch.

# %%
SIDE = 7


def moving_patch(seed, n_rows=1200):
    """Return pixels (T, 49), the position of the stripes (T,), and which patch is there (T,)."""
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
starts = np.flatnonzero(np.diff(identity))[0] + np.arange(-4, 6) * 3
for column, row in zip(axes.T, starts, strict=True):
    column[0].imshow(clean[row].reshape(SIDE, SIDE), cmap="gray", vmin=-3, vmax=3)
    column[1].imshow(pixels[row].reshape(SIDE, SIDE), cmap="gray", vmin=-4, vmax=4)
    column[0].set_title("AB"[identity[row]], fontsize=8)
    for ax in column:
        ax.set_axis_off()
_ = fig.suptitle("the patch (above) and what the camera sees (below), around a change", fontsize=10)

# %%
bilinear = BilinearSFA(2, n_gates=2, random_state=0).fit(pixels)
features = {
    "SFA": SFA(6).fit_transform(pixels),
    "quadratic SFA": make_pipeline(SFA(20), Polynomial(2), SFA(6)).fit_transform(pixels),
    "bilinear, where": bilinear.transform(pixels)[:, :2],
    "bilinear, what": bilinear.transform(pixels)[:, 2:],
}
half = np.arange(len(pixels)) < len(pixels) // 2
target = np.column_stack([np.cos(position), np.sin(position)])


def what(values):
    """Balanced accuracy of a linear read-out of the identity, learned from the first half, in the second."""
    reader = LogisticRegression(max_iter=1000).fit(values[half], identity[half])
    return balanced_accuracy_score(identity[~half], reader.predict(values[~half]))


def where_of_the_other(values):
    """R2 of the position of one patch by a linear read-out that was learned from the other."""
    scores = []
    for one in (0, 1):
        reader = LinearRegression().fit(values[half & (identity == one)], target[half & (identity == one)])
        scores.append(reader.score(values[~half & (identity != one)], target[~half & (identity != one)]))
    return np.mean(scores)


scores = {name: what(values) for name, values in features.items()}
for name, score in scores.items():
    print(f"{name:<16} separates the patches: balanced accuracy {score:.3f}")
carried = {name: where_of_the_other(values) for name, values in features.items() if name != "bilinear, what"}
for name, score in carried.items():
    print(f"{name:<16} position, read by what the other patch taught: R2 {score:.2f}")
assert scores["bilinear, what"] > 0.99
assert carried["bilinear, where"] > carried["quadratic SFA"] + 0.2

# %%
gates, position_latents = features["bilinear, what"], features["bilinear, where"]
shown = slice(0, 500)
fig, axes = plt.subplots(3, 1, figsize=(8.5, 4.6), sharex=True, layout="constrained")
axes[0].fill_between(np.arange(500), identity[shown], step="mid", color="0.8", label="patch B is there")
axes[0].plot(gates[shown], lw=1)
axes[0].set(ylabel="what", title="gates (lines), and which patch it is (grey)")
axes[1].plot(position_latents[shown], lw=1)
axes[1].set(ylabel="where")
axes[2].plot(features["SFA"][shown, :2], lw=1)
_ = axes[2].set(ylabel="two features of SFA", xlabel="picture")

# %% [markdown]
# The gates switch with the patch, and the two "where" factors describe the position of both patches. A
# relation between position and a target, learned with one patch, is therefore valid for the other. Features
# of SFA, linear or quadratic, mix identity and position.
#
# ## Products of experts
#
# Quadratic slow feature analysis treats `y` and `y**2` as two unrelated columns. Most of the probability
# mass of a linear Gaussian model of both is outside the parabola of possible pairs. `ProductOfExpertsSFA`
# multiplies the linear model with local experts, which restrict each pair to the parabola. In the example
# the magnitude of a column is slow and its sign is not.

# %%
slow = ProbabilisticSFA.from_parameters([0.95], [[1.0]], 1e-6).sample(400, random_state=0)[1][:, 0]
rng = np.random.default_rng(0)
y = (np.exp(0.35 * slow) * rng.choice([-1.0, 1.0], 400) + 0.15 * rng.standard_normal(400))[:, None]
pairs = np.hstack([y, y**2])

linear = ProbabilisticSFA(1).fit(pairs)
experts = ProductOfExpertsSFA(1, expansion=Polynomial(2), random_state=0, tol=1e6).fit(y)
drawn = {
    "linear model of the pairs": linear.sample(400, random_state=0)[0],
    "product of experts": experts.sample(400, expanded=True, random_state=0)[2],
}


def off_the_parabola(pairs):
    """Root mean square distance of second coordinates from squares, in standard deviations of the data's."""
    return np.sqrt(np.mean((pairs[:, 1] - pairs[:, 0] ** 2) ** 2)) / np.std(y**2)


def in_the_middle(pairs):
    """Share of rows with a size below half of what nearly all data are above."""
    return np.mean(np.abs(pairs[:, 0]) < 0.5 * np.quantile(np.abs(y), 0.01))


for name, cloud in drawn.items():
    off, middle = off_the_parabola(cloud), in_the_middle(cloud)
    print(f"{name:<26} off the parabola: {off:.2f}   rows where there are no data: {middle:.1%}")
assert (
    off_the_parabola(drawn["product of experts"])
    < 1e-6
    < off_the_parabola(drawn["linear model of the pairs"])
)
assert in_the_middle(drawn["product of experts"]) < in_the_middle(drawn["linear model of the pairs"])

# %%
fig, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharex=True, sharey=True, layout="constrained")
reach = np.linspace(-1.2, 1.2, 100) * np.abs(y).max()
for ax, (name, cloud) in zip(axes, {"data": pairs, **drawn}.items(), strict=True):
    ax.plot(reach, reach**2, color="0.7", lw=1)
    ax.plot(*cloud.T, ".", ms=3)
    ax.set_title(name, fontsize=10)
    ax.set_xlabel("first coordinate")
_ = axes[0].set_ylabel("second coordinate")

# %% [markdown]
# Samples of the linear model form an ellipse across the parabola, and most of them are impossible pairs.
# Samples of the product of experts are on the parabola. Both models generate values near zero, where there
# are no data, but the product of experts fewer. It can impute missing values by possible values, and
# simulate series of `y`. The fit requires thousands of passes over the rows.
#
# ## Summary
#
# * `EmissionSFA` is a model of counts, binary values, levels and heavy-tailed values, with the same
#   factors, missing values and intervals. A Gaussian model of small counts recovers the factors less
#   accurately and predicts negative rates.
# * `BilinearSFA` separates *what* and *where* by binary gates and continuous factors.
# * Both maximize a lower bound of the likelihood, and `history_` never decreases.
# * `ProductOfExpertsSFA` restricts expanded rows to possible values of the expansion.
# * First use the linear model. It is exact and fast, and `diagnose` tests its assumptions.
