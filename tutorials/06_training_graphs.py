# %% [markdown]
# # Training graphs: one eigenproblem for many methods
#
# Slow feature analysis, Fisher's discriminant, locality preserving projections, Laplacian eigenmaps,
# time-lagged independent components and diffusion maps solve the same problem: find functions that differ
# little between neighbours. They differ in the graph, which defines the neighbours, and in the class of
# functions.
#
# Part 1 uses such graphs for supervised learning: a **label** defines the neighbours (Escalante-B. & Wiskott
# 2013). Part 2 follows Sprekeler (2011) from slow features to eigenmaps. **Each step is an identity, with a
# number and an assertion that fails if the identity does not hold.**

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
from scipy.ndimage import rotate
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from probsfa import (
    SFA,
    DiffusionMap,
    GraphSFA,
    GraphSFAClassifier,
    GraphSFARegressor,
    KernelSFA,
    LaplacianEigenmaps,
    ProbabilisticSFA,
    graphs,
    plots,
)
from probsfa.datasets import make_half_moons, make_slow_mixture
from probsfa.expansions import Polynomial

# %% [markdown]
# ## Part 1: supervised slow features
#
# ### Three types of graphs
#
# The temporal graph connects consecutive rows. A **clustered** graph connects all rows of one class. A
# **serial** graph is for numbers: rows are sorted by label and divided into groups, and each group is
# connected with the next one.

# %%
fig, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
label = np.repeat([0, 1, 2, 3], 3)
graphs_by_name = {
    "in time": graphs.temporal(12),
    "clustered, 4 classes": graphs.clustered(label),
    "serial, 4 groups": graphs.serial(np.arange(12.0), 4),
}
for ax, (title, graph) in zip(axes, graphs_by_name.items(), strict=True):
    plots.plot_graph(graph, labels=label, ax=ax)
    ax.get_legend().remove()
    ax.set_title(title)

# %% [markdown]
# `GraphSFA` with the temporal graph is slow feature analysis of a series.

# %%
series = np.random.default_rng(0).standard_normal((300, 4)).cumsum(axis=0)
in_time = GraphSFA(graph=graphs.temporal(300)).fit(series)
difference = np.max(np.abs(in_time.transform(series) - SFA().fit(series).transform(series)))
print(f"largest difference: {difference:.1e}")
assert difference < 1e-9

# %% [markdown]
# ### Classification of digits
#
# The data are 1,797 digits of 8 by 8 pixels; half of them are used for training. On the clustered graph,
# linear features are those of Fisher's discriminant, apart from shrinkage. Features may be nonlinear: here an
# **expansion** adds all products of the 20 leading principal components. By default, cross-validation selects
# an expansion.

# %%
X, y = load_digits(return_X_y=True)
train, test, y_train, y_test = train_test_split(X, y, train_size=0.5, stratify=y, random_state=0)
quadratic = make_pipeline(PCA(20, whiten=True), Polynomial(2))

classifiers = {
    "Fisher's discriminant (scikit-learn)": LinearDiscriminantAnalysis(),
    "GraphSFA, linear": GraphSFAClassifier(expansion=None),
    "GraphSFA, quadratic": GraphSFAClassifier(expansion=quadratic),
    "GraphSFA, default": GraphSFAClassifier(),
}
accuracy = {name: model.fit(train, y_train).score(test, y_test) for name, model in classifiers.items()}
for name, share in accuracy.items():
    print(f"{name:<38} {100 * share:.1f} % of the test digits are classified correctly")
assert accuracy["GraphSFA, quadratic"] > accuracy["Fisher's discriminant (scikit-learn)"] + 0.01

# %% [markdown]
# The two slowest of the nine features already separate the digits in the test set.

# %%
features = GraphSFA(2, graph="clustered", expansion=quadratic).fit(train, y_train).transform(test)
few = y_test < 6
fig, ax = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
plots.plot_embedding(features[few], y_test[few], ax=ax)
ax.set(xlabel="slowest feature", ylabel="second", title="test digits 0 to 5")
_ = ax.legend(title="digit", fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))

# %% [markdown]
# ### Regression of an angle
#
# The label is now a number. Each digit "4" or "6" is rotated by an angle between -45 and 45 degrees; the
# angle is to be estimated. One class for each degree would ignore that 10 is close to 11 degrees. The
# serial graph uses the order: its slowest feature increases with the label.

# %%
rng = np.random.default_rng(0)
images = X[(y == 4) | (y == 6)].reshape(-1, 8, 8)
images = np.repeat(images, 4, axis=0)
angle = rng.uniform(-45.0, 45.0, len(images))
rotated = np.array([rotate(image, a, reshape=False, order=1) for image, a in zip(images, angle, strict=True)])
which = np.repeat(np.arange(len(images) // 4), 4)
held_out = which >= 0.6 * which.max()  # all rotated copies of a digit are held out together

fig, axes = plt.subplots(2, 8, figsize=(8, 2.3), layout="constrained")
for ax, i in zip(axes.T.ravel(), range(16), strict=True):
    ax.imshow(rotated[i], cmap="gray_r")
    ax.set_title(f"{angle[i]:.0f}", fontsize=8, pad=2)
    ax.set_axis_off()

# %%
pixels = rotated.reshape(len(rotated), -1)
slowest = GraphSFA(1, graph="serial", expansion=quadratic).fit(pixels[~held_out], angle[~held_out])
feature = slowest.transform(pixels[held_out])[:, 0]
correlation = abs(np.corrcoef(feature, angle[held_out])[0, 1])
print(f"correlation of the slowest feature with the angle, held-out digits: {correlation:.2f}")

regressors = {
    "ridge regression on pixels": RidgeCV(np.logspace(-3, 5, 17)),
    "ridge regression on the expansion": make_pipeline(quadratic, RidgeCV(np.logspace(-3, 5, 17))),
    "GraphSFARegressor": GraphSFARegressor(expansion=quadratic),
}
error = {}
for name, model in regressors.items():
    estimate = model.fit(pixels[~held_out], angle[~held_out]).predict(pixels[held_out])
    error[name] = np.sqrt(np.mean((estimate - angle[held_out]) ** 2))
    print(f"{name:<36} error {error[name]:.1f} degrees")
assert error["GraphSFARegressor"] < 0.6 * min(list(error.values())[:2])
assert correlation > 0.9
chance = angle[held_out].std()
print(f"{'mean angle of all digits':<36} error {chance:.1f} degrees")

# %%
fig, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
axes[0].plot(angle[held_out], feature, ".", ms=3)
axes[0].set(xlabel="true angle", ylabel="slowest feature", title="slowest feature, before regression")
axes[1].plot(angle[held_out], estimate, ".", ms=3)
axes[1].plot([-45, 45], [-45, 45], "k--", lw=1)
_ = axes[1].set(
    xlabel="true angle",
    ylabel="estimate",
    title=f"regression on slow features: {error['GraphSFARegressor']:.1f} degrees",
)

# %% [markdown]
# ### Semi-supervised learning
#
# Suppose that only 40 digits have a label. Digits without a label still contain information about the
# distribution of the pixels: `semi_supervised` connects the labelled digits by their labels, and *all*
# digits with their nearest neighbours.

# %%
shares = {"labels alone": [], "labels and neighbours": []}
for seed in range(5):
    rng = np.random.default_rng(seed)
    known = np.concatenate(
        [rng.choice(np.flatnonzero(y_train == digit), 4, replace=False) for digit in range(10)]
    )
    labels = np.full(len(train), -1)
    labels[known] = y_train[known]
    compressed = PCA(30).fit(train)
    Z, Z_test = compressed.transform(train), compressed.transform(test)
    for name in shares:
        if name == "labels alone":
            sfa = GraphSFA(9, graph="clustered", shrinkage=0.3).fit(Z[known], y_train[known])
        else:
            joined = graphs.semi_supervised(Z, labels, missing=-1)
            sfa = GraphSFA(9, graph=joined).fit(Z)
        at, new = sfa.transform(Z[known]), sfa.transform(Z_test)
        centres = np.array([at[y_train[known] == digit].mean(axis=0) for digit in range(10)])
        nearest = np.argmin(((new[:, None] - centres) ** 2).sum(axis=2), axis=1)
        shares[name].append(np.mean(nearest == y_test))
for name, values in shares.items():
    print(
        f"40 labels, {name:<24} {100 * np.mean(values):.1f} % classified correctly"
        " (mean of five draws of the labels)"
    )
assert np.mean(shares["labels and neighbours"]) > np.mean(shares["labels alone"]) + 0.01

# %% [markdown]
# Digits without a label improve the result slightly. The method is unchanged: the graph is the union of two
# graphs.

# %% [markdown]
# ## Part 2: identities
#
# The function below prints the largest difference of two arrays that should be equal.

# %%
identities = {}  # name and largest difference of each identity


def check(name, one, other):
    """Record the largest difference of two arrays; fail if it is larger than rounding errors."""
    identities[name] = np.max(np.abs(np.asarray(one) - np.asarray(other)))
    print(f"{name}: largest difference {identities[name]:.1e}")
    assert identities[name] < 1e-7, name


# %% [markdown]
# ### The problem
#
# The vertices of a **training graph** are the rows of the data. An edge weight `gamma` is the weight of the
# difference between two rows, a vertex weight `v` the weight of a row. Graph-based SFA (GSFA) minimizes
#
# $$ \min_w \; \frac{\sum \gamma_{nn'} \, (w^\top x_{n'} - w^\top x_n)^2}{\sum \gamma_{nn'}}
#    \quad \text{with mean 0 and variance 1, rows weighted by } v. $$
#
# The solutions are those of `A w = delta B w`, with the second moments `A` of differences and the
# covariance `B`. Each of the following methods is this problem for one graph and one set of columns.
#
# ### 1. Neighbours in time: slow feature analysis
#
# Each row is connected to the next one.

# %%
X = make_slow_mixture(500, 5, decay=[0.98, 0.9, 0.5], noise_variance=0.3, random_state=0).data
sfa = SFA().fit(X)
in_time = graphs.temporal(len(X))
gsfa = GraphSFA(graph=in_time).fit(X)
check("GSFA on the graph of time = SFA", gsfa.transform(X), sfa.transform(X))

# %% [markdown]
# ### 2. Time-lagged independent components (TICA)
#
# Molecular dynamics uses the combinations with the largest *autocorrelation*. The reversible estimator uses
# each pair of successive rows in both directions: `C_lag w = rho C_0 w`. A small difference is a large
# correlation, `delta = 2 (1 - rho)`. Each pair contributes both of its rows, so that the first and the last
# row have half the weight of the others. This is the temporal graph with vertex weights equal to degrees.

# %%
before, after = X[:-1], X[1:]
mean = (before.mean(axis=0) + after.mean(axis=0)) / 2
before, after = before - mean, after - mean
C_0 = (before.T @ before + after.T @ after) / 2
C_lag = (before.T @ after + after.T @ before) / 2
rho = scipy.linalg.eigh(C_lag, C_0, eigvals_only=True)[::-1]

by_pairs = GraphSFA(graph=graphs.from_sparse(in_time.to_sparse(), "degree")).fit(X)
check("delta = 2 (1 - autocorrelation): TICA", by_pairs.delta_values_, 2 * (1 - rho))
print(
    "with equal weights of all rows, delta values differ by",
    f"{np.max(np.abs(sfa.delta_values_ - 2 * (1 - rho))):.1e}",
)

# %% [markdown]
# ### 3. Neighbours in a class: Fisher's discriminant
#
# All rows of one class are connected. The function of unit variance that differs least *within* classes is
# the one that separates the classes. With the ratio `mu` of the variances between and within classes,
# `delta = 2 / (1 + mu)`.

# %%
iris, species = load_iris(return_X_y=True)
discriminant = GraphSFA(2, graph="clustered").fit(iris, species)

centres = np.array([iris[species == s].mean(axis=0) for s in range(3)])
within = (iris - centres[species]).T @ (iris - centres[species])
between = 50 * (centres - iris.mean(axis=0)).T @ (centres - iris.mean(axis=0))
mu = scipy.linalg.eigh(between, within, eigvals_only=True)[::-1][:2]
check("delta = 2 / (1 + mu): Fisher's discriminant", discriminant.delta_values_, 2 / (1 + mu))


# %%
def unit(Y):
    """Centre columns, give them unit variance, and make the largest entry of each positive."""
    Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    return Y * np.sign(Y[np.argmax(np.abs(Y), axis=0), np.arange(Y.shape[1])])


lda = LinearDiscriminantAnalysis(solver="eigen").fit(iris, species)
features = unit(discriminant.transform(iris))
check("features of the clustered graph = scikit-learn's LDA", features, unit(lda.transform(iris)))

# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for ax, Y, title in [
    (axes[0], discriminant.transform(iris), "GSFA, clustered graph of species"),
    (axes[1], lda.transform(iris), "linear discriminant analysis"),
]:
    for s, name in enumerate(load_iris().target_names):
        ax.plot(*unit(Y)[species == s].T, ".", label=name)
    ax.set(title=title, xlabel="first feature", ylabel="second feature")
_ = axes[0].legend(fontsize="small")

# %% [markdown]
# ### 4. Neighbours in space: locality preserving projections
#
# Near rows are connected, and *linear* functions with small differences between neighbours are computed (He
# & Niyogi 2003): `X' L X w = lambda X' D X w`, with the graph Laplacian `L = D - W`. Vertex weights are the
# degrees.

# %%
moons = make_half_moons(300, random_state=0)
near = graphs.heat_kernel(moons.data, 0.15)
W = near.to_sparse().toarray()
D = W.sum(axis=1)
L = np.diag(D) - W

centred = moons.data - D @ moons.data / D.sum()
smooth = scipy.linalg.eigh(centred.T @ L @ centred, centred.T @ (D[:, None] * centred), eigvals_only=True)
projections = GraphSFA(graph=near).fit(moons.data)
check("delta = 2 lambda: locality preserving projections", projections.delta_values_, 2 * smooth)

# %% [markdown]
# ### 5. All functions: Laplacian eigenmaps
#
# If *every* function of the points is allowed, each point has its own column (one-hot). The problem depends
# only on the graph, `L y = lambda D y`: the Laplacian eigenmap.

# %%
one_hot = np.eye(len(moons.data))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warning: functions of one-hot columns can take any values
    free = GraphSFA(2, graph=near).fit(one_hot)
eigenmap = LaplacianEigenmaps(2, affinity=near).fit(moons.data)
check("delta = 2 lambda: Laplacian eigenmaps", free.delta_values_, 2 * eigenmap.eigenvalues_)
check("one-hot GSFA is the eigenmap itself", unit(free.transform(one_hot)), unit(eigenmap.embedding_))

# %%
linear, bent = projections.transform(moons.data)[:, 0], free.transform(one_hot)[:, 0]
fig, axes = plt.subplots(1, 2, figsize=(8.5, 3), layout="constrained")
for ax, y, title in [(axes[0], linear, "linear functions: LPP"), (axes[1], bent, "all functions: eigenmap")]:
    ax.scatter(*moons.data.T, c=y, cmap="coolwarm", s=12)
    ax.set(title=title, aspect="equal", xlabel="x", ylabel="y")

# %% [markdown]
# The colour is the slowest function. The linear function divides the plane by a line; the unrestricted
# function separates the moons.
#
# ### 6. A random walk: diffusion maps
#
# A random walk on the graph has the transition probabilities `P = W / D`, whose eigenvalues are `mu = 1 -
# lambda`. A diffusion map multiplies each coordinate by `mu^t`, its decay after `t` steps.

# %%
steps = 5
walk = DiffusionMap(2, affinity="precomputed", alpha=0.0, time=steps).fit(W)
check("mu = 1 - lambda: diffusion maps", walk.eigenvalues_, 1 - eigenmap.eigenvalues_)
check(
    "coordinates of the diffusion map = those of the eigenmap",
    unit(walk.embedding_),
    unit(eigenmap.embedding_),
)
ends = np.linalg.matrix_power(W / D[:, None], steps) @ free.transform(one_hot)
check(
    "after t steps each function is multiplied by mu^t",
    ends,
    free.transform(one_hot) * walk.eigenvalues_**steps,
)

# %% [markdown]
# ### 7. From time to space
#
# Sprekeler (2011) derives a graph from time. If the data are a sequence of states, let
#
# $$ W(s, s') = \frac{p(s, s')}{p(s)\,p(s')} $$
#
# (his equation 4.3), with the probability `p(s, s')` that `s'` follows `s` or `s` follows `s'`. On this
# graph the smoothness of an eigenmap is the slowness of SFA. The example is a random walk through two rooms
# that are connected by a door.

# %%
plan = np.ones((9, 16), dtype=bool)
plan[:, 7] = False
plan[0, 8:] = False  # rooms of two sizes, so that no two functions are equally slow
plan[4, 7] = True  # the door
places = np.argwhere(plan)
number = -np.ones(plan.shape, dtype=int)
number[plan] = np.arange(len(places))

rng = np.random.default_rng(0)
moves = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])
here, path = np.array([4, 3]), []
for move in moves[rng.integers(4, size=50_000)]:
    there = here + move
    if np.all(there >= 0) and np.all(there < plan.shape) and plan[tuple(there)]:
        here = there
    path.append(number[tuple(here)])
path = np.array(path)

# %% [markdown]
# SFA of the path has a column for each place, but no information about the floor plan. GSFA on Sprekeler's
# graph has the frequencies of transitions, but no other information about time. The moments of both methods
# are equal.

# %%
visits = np.eye(len(places))[path]
wandering = SFA(4).fit(visits)
bridge = GraphSFA(4, graph=graphs.transition(path)).fit(visits)
check("eigenmap of transition probabilities = SFA", bridge.delta_values_, wandering.delta_values_)

# %% [markdown]
# SFA and GSFA approximate the eigenmap of the floor plan, in which each place is connected to its
# neighbours; the longer the walk, the smaller the error. (A step into a wall leaves the place unchanged, so
# that all places have four edges.)

# %%
distances = np.abs(places[:, None] - places[None]).sum(axis=2)
doors = (distances == 1).astype(float)
doors += np.diag(4 - doors.sum(axis=1))
map_of_plan = LaplacianEigenmaps(4, affinity="precomputed").fit(doors)
by_time = wandering.transform(np.eye(len(places)))
close = [abs(np.corrcoef(by_time[:, k], map_of_plan.embedding_[:, k])[0, 1]) for k in range(4)]
print("correlations of slow features with eigenmaps:", np.round(close, 3))
assert close[0] > 0.99
assert min(close) > 0.9

# %%
fig, axes = plt.subplots(2, 4, figsize=(10, 3.6), layout="constrained")
for k in range(4):
    for ax, Y, name in [(axes[0, k], map_of_plan.embedding_, "eigenmap"), (axes[1, k], by_time, "SFA")]:
        picture = np.full(plan.shape, np.nan)
        picture[plan] = Y[:, k] * np.sign(Y[:, k] @ map_of_plan.embedding_[:, k])
        ax.imshow(picture, cmap="coolwarm")
        ax.set(xticks=[], yticks=[])
        if k == 0:
            ax.set_ylabel(name)
    axes[0, k].set_title(f"function {k + 1}")
_ = fig.suptitle(
    "functions on two rooms: eigenmap of the floor plan, and SFA of a random walk", fontsize="medium"
)

# %% [markdown]
# The slowest function separates the rooms, because the walk rarely passes the door.
#
# ### 8. Two further methods
#
# With a *kernel*, functions are linear combinations of kernels at the data; with the linear kernel they are
# linear functions. The *probabilistic* model without noise has the same directions, with decays `1 - delta
# / 2`.

# %%
few = make_slow_mixture(150, 3, decay=[0.98, 0.9, 0.5], noise_variance=0.0, random_state=1).data
slow = SFA().fit(few)
kernel = KernelSFA(3, kernel="linear", n_support=None, regularization=0.0).fit(few)
check("kernel SFA with the linear kernel = SFA", kernel.delta_values_, slow.delta_values_)
limit = ProbabilisticSFA(3, noise=0.0).fit(few)
check("decay = 1 - delta / 2: maximum likelihood without noise", limit.decay_, 1 - slow.delta_values_ / 2)

# %% [markdown]
# ### All methods

# %%
width = max(map(len, identities))
for name, difference in identities.items():
    print(f"{name:<{width}}   {difference:.0e}")
assert len(identities) == 13

# %% [markdown]
# | name | neighbours | functions | eigenvalue of the method |
# |---|---|---|---|
# | SFA | the next row | linear, or on an expansion | `delta` |
# | TICA | the next row, in both directions | linear | `1 - delta / 2` |
# | Fisher's discriminant | the same class | linear | `2 / delta - 1` |
# | LPP | near rows | linear | `delta / 2` |
# | Laplacian eigenmap | near rows | all | `delta / 2` |
# | diffusion map | near rows, `t` steps | all | `(1 - delta / 2)^t` |
# | eigenmap of the transitions | successive states | all | `delta / 2`, except for the two ends |
# | probabilistic SFA, no noise | the next row | linear | `1 - delta / 2` |
#
# ## Summary
#
# * Slow features, discriminants, eigenmaps and diffusion maps minimize differences between neighbours at
#   unit variance. They differ in the graph and in the class of functions.
# * `GraphSFA` with a graph of `probsfa.graphs` includes all of them.
# * Time defines a graph: slow features of a random walk are a map of the rooms.
# * Functions without restrictions are defined only at the training points; restricted functions can be
#   evaluated at new points.
# * A clustered graph gives Fisher's discriminants; with an expansion, nonlinear ones. For numbers use a
#   serial graph, whose slowest feature is a function of the label.
# * Evaluate on rows, and on *objects*, that were not used for training: all rotated copies of one digit
#   must be in the same part of a split.
