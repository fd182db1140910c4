# %% [markdown]
# # Noise and missing values: classic and probabilistic SFA compared
#
# Classic slow feature analysis (SFA) is an eigenproblem of two covariances. Probabilistic SFA (Turner &
# Sahani 2007) is a statistical model: a few slow factors with loadings on the columns, observed with noise.
# This notebook
#
# 1. shows the geometry of SFA (figure 1 of the paper),
# 2. applies both methods to the same data: almost without noise, with noise, and with missing blocks
#    (figure 2 of the paper),
# 3. decreases the noise and shows that the model converges to classic SFA,
# 4. compares both methods on hourly weather with missing values.

# %%
import matplotlib.pyplot as plt
import numpy as np

from probsfa import SFA, ProbabilisticSFA
from probsfa.datasets import hide_blocks, load_nyc_weather, make_slow_mixture
from probsfa.imputation import ClassicSFA
from probsfa.metrics import coverage, delta_value, principal_angles, rmse
from probsfa.statespace import noise_free_maximum_likelihood

# %% [markdown]
# ## 1. Geometry
#
# Two columns are mixtures of a slow and a fast source; the fast source has the larger variance.

# %%
series = make_slow_mixture(
    1000, decay=[0.95, 0.1], loadings=[[1.0, 1.5], [-0.4, 1.0]], noise_variance=0.0, random_state=0
)
X = series.data - series.data.mean(axis=0)
changes = np.diff(X, axis=0)

B = X.T @ X / len(X)  # covariance of the data
A = changes.T @ changes / len(changes)  # second moment of the changes from row to row

# %% [markdown]
# Principal component analysis (PCA) *spheres* the data: it rotates the ellipse `B` to its principal axes
# and rescales them, so that the ellipse becomes a circle. After sphering, any further rotation leaves the
# covariance unchanged. SFA uses this freedom: the covariance of the *differences* of sphered rows is still
# an ellipse, and SFA rotates to its axes.

# %%
variances, axes_of_B = np.linalg.eigh(B)
P = (axes_of_B / np.sqrt(variances)).T[::-1]  # weights of PCA, one row for each feature
W = SFA().fit(X).components_  # weights of SFA
R = W @ np.linalg.inv(P)  # the rotation after sphering

print("R is a rotation, R R' =\n", (R @ R.T).round(12) + 0.0)
print("W B W' =\n", (W @ B @ W.T).round(12) + 0.0)
print("W A W', the delta values on its diagonal =\n", (W @ A @ W.T).round(12) + 0.0)

assert np.allclose(R @ R.T, np.eye(2), atol=1e-10)
assert np.allclose(W @ B @ W.T, np.eye(2), atol=1e-10)
assert np.allclose(W @ A, np.diag(np.diag(W @ A @ W.T)) @ W @ B, atol=1e-10)  # eq. 3 of the paper


# %% [markdown]
# The figure shows PCA in the upper and SFA in the lower row. Blue are data and their covariance, green are
# differences between rows ("changes") and their covariance. Lines are the directions of PCA (black) and of
# SFA (red).


# %%
def draw_ellipse(ax, covariance, style):
    """Draw the points x with x' covariance^-1 x = 1."""
    angle = np.linspace(0.0, 2.0 * np.pi, 200)
    ax.plot(*np.linalg.cholesky(covariance) @ [np.cos(angle), np.sin(angle)], style)


def draw_directions(ax, vectors, color):
    """Draw a line through the origin for each row."""
    for vector in vectors:
        ax.plot(*np.outer(vector, [-1.0, 1.0]), color=color, lw=2)


fig, panels = plt.subplots(2, 5, figsize=(13, 5.6), layout="constrained")
for row, (name, V, color) in enumerate([("PCA", P, "k"), ("SFA", W, "tab:red")]):
    data, space, sphere, rotated, weights = panels[row]
    data.plot(*X.T, ".", ms=2, color="tab:blue", label="data")
    draw_ellipse(space, B, "b-")
    draw_directions(space, np.linalg.inv(V).T, color)
    draw_ellipse(sphere, np.eye(2), "b-")
    draw_directions(sphere, V @ np.linalg.inv(P), color)
    draw_ellipse(rotated, np.eye(2), "b-")
    draw_directions(rotated, np.eye(2), color)
    draw_ellipse(weights, np.linalg.inv(B), "b-")
    draw_directions(weights, V, color)
    if name == "SFA":
        data.plot(*changes.T, ".", ms=2, color="tab:green", label="changes")
        draw_ellipse(space, A, "g--")
        draw_ellipse(sphere, P @ A @ P.T, "g--")
        draw_ellipse(rotated, W @ A @ W.T, "g--")
    data.legend(loc="upper left", fontsize="x-small", markerscale=4)
    data.set_ylabel(name, fontsize="x-large", rotation=0, labelpad=28)
    for ax in panels[row]:
        ax.set_aspect("equal", "datalim")
        ax.tick_params(labelsize="x-small")
for ax, title in zip(
    panels[0],
    ["A  data and changes", "B  covariances", "C  after sphering", "D  after the rotation", "E  weights"],
    strict=True,
):
    _ = ax.set_title(title)

# %% [markdown]
# In panel D the ellipse of the differences is aligned with the axes: its short axis is the slowest feature.
#
# A consequence is that the **units of the columns do not change** the features, because sphering removes
# them. Principal components depend on the units.

# %%
scaling = np.array([0.1, 1.0])
slow_before, slow_after = SFA(1).fit_transform(X), SFA(1).fit_transform(X * scaling)
axes_after = np.linalg.eigh((X * scaling).T @ (X * scaling))[1]
pca_before, pca_after = X @ axes_of_B[:, -1], X * scaling @ axes_after[:, -1]
correlations = [
    abs(np.corrcoef(a.ravel(), b.ravel())[0, 1])
    for a, b in [(slow_before, slow_after), (pca_before, pca_after)]
]
print(f"correlation of the first feature before and after a change of the units: {correlations[0]:.6f} (SFA)")
print(f"                                                                         {correlations[1]:.6f} (PCA)")
assert correlations[0] > 1 - 1e-12
assert correlations[1] < 0.9

# %% [markdown]
# ### Delta value and frequency
#
# According to footnote 2 of the paper, the delta value is the mean squared frequency of the feature,
# weighted by its power spectrum. For differences of rows, "squared frequency" is `4 sin(w / 2)^2`, about
# `w^2` for low frequencies. The discrete Fourier transform assumes a periodic series, so that the
# difference between the first and the last row must be included. The identity is then exact.

# %%
y = X @ W[0]
power = np.abs(np.fft.fft(y)) ** 2
w = 2.0 * np.pi * np.fft.fftfreq(len(y))
by_frequency = np.sum(4.0 * np.sin(w / 2.0) ** 2 * power) / power.sum()
by_changes = (np.sum(np.diff(y) ** 2) + (y[0] - y[-1]) ** 2) / np.sum(y**2)
print(f"mean squared frequency {by_frequency:.10f}, mean squared change {by_changes:.10f}")
assert np.isclose(by_frequency, by_changes, rtol=1e-10)

# %% [markdown]
# ## 2. Three data sets
#
# Three sources with time scales of 1000, 100 and 1.4 rows are mixed into three columns. The slowest
# source has the smallest variance. The data sets have
#
# * **A** almost no noise,
# * **B** noise,
# * **C** the same noise, and missing blocks of 20 rows.

# %%
decay, strength = [0.999, 0.99, 0.5], [1.0, 8.0, 8.0]
mixing = np.linalg.qr(np.random.default_rng([0, 1]).standard_normal((3, 3)))[0] * strength


def observe(noise_variance, missing):
    """Return the three columns with missing rows, and the centred slowest source."""
    series = make_slow_mixture(
        20_000, decay=decay, loadings=mixing, noise_variance=noise_variance, random_state=0
    )
    X = np.where(missing[:, None], np.nan, series.data)
    return X, series.latents[:, 0] - series.latents[:, 0].mean()


missing = np.zeros(20_000, dtype=bool)
for start in range(250, 20_000, 500):
    missing[start : start + 20] = True
none_missing = np.zeros_like(missing)
data_sets = {
    "A  little noise": observe(1e-4, none_missing),
    "B  noise": observe(0.25, none_missing),
    "C  noise and missing blocks": observe(0.25, missing),
}


# %% [markdown]
# Both methods are applied to the same rows. Classic SFA skips incomplete rows; as in the paper, its
# features are then interpolated linearly. The probabilistic model does not require interpolation. (The sign
# and the level of a slow feature are arbitrary; both are set to those of the true source.)


# %%
def aligned(truth, feature):
    """Centre a feature and give it the sign of the truth."""
    feature = feature - np.nanmean(feature)
    return feature * np.sign(np.nansum(feature * truth))


results = {}
for name, (X, truth) in data_sets.items():
    classic = SFA(1, missing="skip").fit_transform(X)[:, 0]
    known_rows = ~np.isnan(classic)
    classic = np.interp(np.arange(len(X)), np.flatnonzero(known_rows), classic[known_rows])
    model = ProbabilisticSFA(3).fit(X)
    posterior = model.posterior(X)
    results[name] = aligned(truth, classic), aligned(truth, posterior.means[:, 0]), posterior.std[:, 0]

# %%
fig, axes = plt.subplots(3, 2, figsize=(11, 7), sharex=True, layout="constrained")
shown = slice(0, 900)
rows = np.arange(20_000)[shown]
for (left, right), (name, (X, truth)) in zip(axes, data_sets.items(), strict=True):
    classic, mean, std = results[name]
    left.plot(rows, X[shown], lw=0.6)
    left.set_title(f"{name}: data")
    right.plot(rows, classic[shown], color="0.65", lw=1, label="classic SFA")
    low, high = (mean - 1.645 * std)[shown], (mean + 1.645 * std)[shown]
    right.fill_between(rows, low, high, alpha=0.3, lw=0, label="90 % credible interval")
    right.plot(rows, mean[shown], lw=1.5, label="probabilistic SFA")
    right.plot(rows, truth[shown], "k--", lw=1, label="truth")
    right.set_title("the slowest source")
axes[0, 1].legend(fontsize="x-small", ncols=2, loc="upper right")
for ax in axes[-1]:
    ax.set_xlabel("row")

# %% [markdown]
# The paper measures the difference between the methods by `D`: the error of classic SFA minus that of the
# probabilistic model, divided by the root mean square of the source. The paper reports 0.03, 1.10 and 1.4
# (the last value inside a missing block), for single series whose parameters are not given.

# %%
D_by_data_set = {}
print(f"{'error, root mean square':<28}{'classic':>10}{'probabilistic':>16}{'D':>8}")
for name, (X, truth) in data_sets.items():
    where = np.isnan(X[:, 0]) if "missing" in name else slice(None)
    classic, mean, std = results[name]
    errors = rmse(truth[where], classic[where]), rmse(truth[where], mean[where])
    D_by_data_set[name[0]] = (errors[0] - errors[1]) / np.sqrt(np.mean(truth**2))
    print(f"{name:<28}{errors[0]:>10.3f}{errors[1]:>16.3f}{D_by_data_set[name[0]]:>8.2f}")

# %% [markdown]
# With little noise the two methods agree. With noise, the error of classic SFA is larger than the source
# itself: white noise increases the delta value of the weak slow source, so that another source is the
# slowest feature. The probabilistic model estimates the noise and still finds the source.

# %%
assert abs(D_by_data_set["A"]) < 0.05
assert D_by_data_set["B"] > 0.7
assert D_by_data_set["C"] > 0.7
for name in ("B  noise", "C  noise and missing blocks"):
    truth = data_sets[name][1]
    assert rmse(truth, results[name][0]) > np.sqrt(np.mean(truth**2))

# %% [markdown]
# ### Imputed values and their uncertainty
#
# The last model was fitted to data set C. It imputes the missing values of the columns with standard
# deviations. Because the true values are known, the coverage of the 90 % intervals can be measured. Linear
# interpolation is shown for comparison.

# %%
X, _ = data_sets["C  noise and missing blocks"]
hidden = data_sets["B  noise"][0][missing]  # true values: data set B has the same noise
filled, std = model.impute(X, return_std=True)
known_rows = np.flatnonzero(~missing)
interpolated_values = np.column_stack(
    [np.interp(np.arange(len(X)), known_rows, column[known_rows]) for column in X.T]
)
covered_share = coverage(hidden, filled[missing], std[missing], 0.9)
errors = rmse(hidden, filled[missing]), rmse(hidden, interpolated_values[missing])
print(f"error at missing values: model {errors[0]:.2f}, linear interpolation {errors[1]:.2f}")
print(f"the 90 % intervals cover {100 * covered_share:.1f} % of the {hidden.size} hidden values")
assert errors[0] < 0.9 * errors[1]
assert 0.87 < covered_share < 0.93

# %% [markdown]
# ## 3. The limit of zero noise
#
# According to a theorem of the paper, maximum likelihood with as many sources as columns and **zero noise**
# is SFA. `noise=0.0` selects this limit, in closed form. The features are those of SFA, and the decay of each
# source is `1 - delta / 2`.

# %%
X = make_slow_mixture(4000, 3, decay=[0.99, 0.9, 0.6], noise_variance=0.0, random_state=1).data
sfa = SFA().fit(X)
limit = ProbabilisticSFA(3, noise=0.0).fit(X)
difference = np.abs(limit.transform(X) - sfa.transform(X)).max()
print(f"largest difference of the features {difference:.1e}")
print("decays", limit.decay_.round(4), "  1 - delta / 2", (1 - sfa.delta_values_ / 2).round(4))
assert difference < 1e-10
assert np.allclose(limit.decay_, 1 - sfa.delta_values_ / 2, atol=1e-12)


# %% [markdown]
# For a small positive noise variance `r` the general algorithm is used. The following figure compares its
# recognition weights with the directions of SFA, by the largest angle between weights and directions.


# %%
def largest_angle(weights, sfa):
    """Return the largest angle between weights and directions of SFA, in degrees, for sphered data."""
    directions = weights @ sfa.loadings_
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    off_axis = np.sqrt(np.sum(directions**2, axis=1) - np.max(directions**2, axis=1))
    return float(np.degrees(np.arcsin(off_axis)).max())


noises = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7]
angles = []
for r in noises:
    model = ProbabilisticSFA(3, noise=r, tol=1e-6).fit(X)
    angles.append(largest_angle(np.linalg.pinv(model.loadings_), sfa))
    print(f"noise variance {r:.0e}: {angles[-1]:.4f} degrees")

# %% [markdown]
# The angle decreases with the noise to a positive limit. This limit is due to the ends of the series: the
# likelihood has terms of the first and the last row that the objective of SFA does not have. The limit is
# inversely proportional to the length of the series.

# %%
lengths = [300, 1000, 3000, 10_000, 30_000, 100_000]
floors = []
for n in lengths:
    angles_of_seeds = []
    for seed in range(9):
        Y = make_slow_mixture(n, 3, decay=[0.99, 0.9, 0.6], noise_variance=0.0, random_state=seed).data
        exact = noise_free_maximum_likelihood(Y, edge_terms=True)
        angles_of_seeds.append(largest_angle(exact.weights, SFA().fit(Y)))
    floors.append(np.median(angles_of_seeds))
slope = np.polyfit(np.log(lengths), np.log(floors), 1)[0]
print(f"the limit of the angle is proportional to the length to the power {slope:.2f}")

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
floor = largest_angle(noise_free_maximum_likelihood(X, edge_terms=True).weights, sfa)
left.loglog(noises, angles, "o-", label="fitted with noise variance r")
left.axhline(floor, color="k", ls="--", lw=1, label="no noise, with edge terms")
left.set(xlabel="noise variance r", ylabel="largest angle to SFA (degrees)", title="4000 rows")
left.legend(fontsize="small")
right.loglog(lengths, floors, "o-", label="no noise, with edge terms")
right.loglog(lengths, floors[0] * lengths[0] / np.array(lengths), "k:", label="proportional to 1 / length")
right.set(xlabel="length of the series", title="limit of the angle (median of nine series)")
_ = right.legend(fontsize="small")

# %%
assert angles[-1] < 0.01 * angles[0]
assert angles[-1] < 3.0 * floor
assert -1.2 < slope < -0.8

# %% [markdown]
# ## 4. Hourly weather
#
# The data are two months of hourly weather at three airports: 18 standardized columns. Blocks of 24 hours
# are hidden, 5 % of the values, so that few rows are complete. Slow features are computed in three ways:
#
# * classic SFA after linear interpolation of the missing values,
# * classic SFA of the complete rows,
# * the probabilistic model, with the filtered means of its factors.

# %%
weather = load_nyc_weather(drop_impossible=True).data["2013-03":"2013-05"]
weather = (weather - weather.mean()) / weather.std()
hidden = hide_blocks(weather, 24, 0.05, random_state=0)
blocks = weather.mask(hidden)
train, test = blocks["2013-03":"2013-04"], blocks.loc["2013-05"]
print(f"{len(train)} training rows, of which {100 * train.notna().all(axis=1).mean():.0f} % are complete")


def interpolated(table):
    """Interpolate each column linearly; at the ends repeat the nearest value."""
    return table.interpolate(limit_direction="both").to_numpy()


def after_interpolation(train_rows, rows):
    """Return slow features of interpolated rows; the fit uses `train_rows`."""
    return SFA(3).fit(interpolated(train_rows)).transform(interpolated(rows))


def of_complete_rows(train_rows, rows):
    """Return slow features of complete rows; the fit uses `train_rows`; NaN for incomplete rows."""
    return SFA(3, missing="skip").fit(train_rows.to_numpy()).transform(rows.to_numpy())


def of_the_model(train_rows, rows):
    """Return filtered means of the factors of rows; the fit uses `train_rows`."""
    return ProbabilisticSFA(3).fit(train_rows.to_numpy()).filter(rows.to_numpy()).means


# %% [markdown]
# *Recovery* compares the three features of a method with and without missing blocks. It is the cosine of
# the largest angle between the spaces of both (1 if missing blocks change nothing). *Held-out slowness* is
# the delta value of the slowest feature in the next month (0 for a constant, 2 for white noise).

# %%
complete = weather["2013-03":"2013-04"]
recovery, slowness = {}, {}
print(f"{'':<24}{'recovery':>10}{'rows with features':>22}{'held-out delta value':>24}")
for method in (after_interpolation, of_complete_rows, of_the_model):
    with_blocks, without = method(train, train), method(complete, complete)
    common = ~np.isnan(with_blocks + without).any(axis=1)
    centred = [part[common] - part[common].mean(axis=0) for part in (with_blocks, without)]
    recovery[method.__name__] = np.cos(principal_angles(*centred)[-1])
    slowness[method.__name__] = delta_value(method(train, test)).min()
    known = 1.0 - np.isnan(with_blocks).any(axis=1).mean()
    name = method.__name__.replace("_", " ")
    print(f"{name:<24}{recovery[method.__name__]:>10.3f}{known:>22.0%}{slowness[method.__name__]:>24.4f}")

# %% [markdown]
# *Imputation* is the error of the hidden values. The model for imputation has as many factors as columns,
# because fast factors also contribute to the values. Classic SFA reconstructs the columns from the slower
# half of its features.

# %%
truth, hidden_train = complete.to_numpy(), hidden[: len(train)]
model = ProbabilisticSFA(18).fit(train.to_numpy())
filled, std = model.impute(train.to_numpy(), return_std=True)
imputed = {
    "linear interpolation": interpolated(train),
    "classic SFA": ClassicSFA().fill(train.to_numpy()).values,
    "probabilistic SFA": filled,
}
error = {name: rmse(truth[hidden_train], values[hidden_train]) for name, values in imputed.items()}
for name, value in error.items():
    print(f"{name:<24} error {value:.2f} standard deviations")
covered_share = coverage(truth[hidden_train], filled[hidden_train], std[hidden_train], 0.9)
print(f"90 % prediction intervals of the model cover {100 * covered_share:.0f} % of the hidden values")
assert recovery["of_the_model"] > recovery["after_interpolation"]
assert slowness["of_the_model"] < slowness["after_interpolation"]
assert error["probabilistic SFA"] < error["classic SFA"] < error["linear interpolation"]
assert 0.85 < covered_share < 0.95

# %% [markdown]
# Missing blocks hardly change the factors of the probabilistic model. Linear interpolation changes the
# features of classic SFA, because interpolated blocks are slow. The complete rows alone are a sufficient
# sample for the fit, but two thirds of the rows have no features. The model also has the smallest
# imputation errors, and the coverage of its 90 % intervals is close to nominal.

# %% [markdown]
# ## Summary
#
# * SFA spheres the data and rotates to the axes of the differences. Features do not depend on the units of
#   the columns.
# * For complete data with little noise the classic and the probabilistic form agree; the classic form is
#   faster.
# * Noise increases the delta value of slow signals of small variance. The probabilistic model still finds
#   them, imputes missing values, and quantifies their uncertainty.
# * Without noise the model *is* SFA, up to effects of the ends of the series: the same directions, with
#   decays `1 - delta / 2`.
