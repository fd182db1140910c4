# %% [markdown]
# # Graphs and hierarchies
#
# **Question:** what is slow feature analysis good for when there is no time?
#
# "Slow" means "similar where neighbours are similar", and who is whose neighbour can be said by a graph:
# labels, distances, or the order of a series. Four examples: digits by their labels, half-moons by a
# hierarchy and by an eigenmap, and a kernel that has to be held back.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from probsfa import GraphSFA, graphs, plots
from probsfa.datasets import make_half_moons
from probsfa.expansions import Polynomial
from probsfa.metrics import delta_value
from probsfa.sfa import GraphSFAClassifier, HierarchicalSFA, KernelSFA, LaplacianEigenmaps, cascade_layers

# %% [markdown]
# ## Labels as a graph
#
# All pictures of one digit are joined to each other. The slowest functions on this "clustered" graph are
# as constant as they can be within a digit: Fisher's discriminants, and with an expansion in front,
# nonlinear ones. `GraphSFAClassifier` puts a Gaussian classifier on top.

# %%
X, y = load_digits(return_X_y=True)
seen, unseen, y_seen, y_unseen = train_test_split(X, y, train_size=0.5, stratify=y, random_state=0)
quadratic = make_pipeline(PCA(20, whiten=True), Polynomial(2))
accuracy = {
    "LDA": LinearDiscriminantAnalysis().fit(seen, y_seen).score(unseen, y_unseen),
    "GraphSFA": GraphSFAClassifier().fit(seen, y_seen).score(unseen, y_unseen),
    "GraphSFA, quadratic": GraphSFAClassifier(expansion=quadratic).fit(seen, y_seen).score(unseen, y_unseen),
}
print({name: round(value, 3) for name, value in accuracy.items()})

features = GraphSFA(2, graph="clustered", expansion=quadratic).fit(seen, y_seen).transform(unseen)
few = y_unseen < 6
fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
plots.plot_graph(graphs.clustered(np.repeat([0, 1, 2], 6)), labels=np.repeat([0, 1, 2], 6), ax=axes[0])
axes[0].set_title("three classes, joined inside")
plots.plot_embedding(features[few], y_unseen[few], ax=axes[1])
_ = axes[1].set_title("unseen digits 0 to 5")

# %% [markdown]
# ## Distances as a graph: an eigenmap, and a hierarchy that comes close to it
#
# The smoothest function on a graph of near points tells two half-moons apart. `LaplacianEigenmaps` solves
# for it point by point. A hierarchy of small polynomials on the same graph (Sprekeler 2011, algorithm 1)
# approaches it level by level, and is a function of the input, so new points cost nothing.

# %%
moons, new = (make_half_moons(1000, random_state=seed) for seed in (0, 1))
graph = graphs.heat_kernel(moons.data, 0.08)
levels = 4
hierarchy = HierarchicalSFA(cascade_layers(levels, 4), graph=graph).fit(moons.data)
eigenmap = LaplacianEigenmaps(2, affinity="rbf", gamma=0.5 / 0.08**2).fit(moons.data)


def rand_index(train, test):
    """Agreement of two means on the first coordinate with the half-moons, on new points."""
    clusters = KMeans(2, n_init=10, random_state=0).fit(train[:, :1]).predict(test[:, :1])
    return adjusted_rand_score(new.target, clusters)


index = [
    rand_index(hierarchy.transform_layer(moons.data, k), hierarchy.transform_layer(new.data, k))
    for k in range(levels)
]
index_eigenmap = rand_index(eigenmap.embedding_, eigenmap.transform(new.data))
print("Rand index by level:", np.round(index, 3), " eigenmap:", round(index_eigenmap, 3))

fig, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
plots.plot_graph(graphs.nearest_neighbors(moons.data, 5), moons.data, labels=moons.target, ax=axes[0])
plots.plot_embedding(hierarchy.transform_layer(new.data, levels - 1)[:, :2], new.target, ax=axes[1])
plots.plot_embedding(eigenmap.transform(new.data), new.target, ax=axes[2])
for ax, title in zip(
    axes, ["neighbours", "top of the hierarchy, new points", "eigenmap, new points"], strict=True
):
    ax.set_title(title)

# %% [markdown]
# ## A kernel that has to be held back
#
# In the space of a kernel nearly every training series can be made slow. A narrow kernel with every row as a
# support vector does that, and means nothing on new rows; the penalty `regularization` keeps functions
# smooth (Boehmer et al. 2011).


# %%
def products(n, seed):
    """Return a slow angle, hidden in two fast products, with noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    X = np.sin(0.02 * t)[:, None] * np.column_stack([np.cos(0.9 * t), np.sin(0.9 * t)])
    return X + 0.1 * rng.standard_normal(X.shape)


train, test = products(500, seed=0), products(500, seed=1)
penalties = [0.0, 1e-6, 1e-4, 1e-2, "auto"]  # the last is the default: chosen on rows left out
print("gamma   delta of new rows, by regularization", penalties)
slowness = {}
for gamma in (0.5, 20.0, 500.0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they say that outputs may follow any course, which is to be seen
        models = [KernelSFA(1, gamma=gamma, regularization=value).fit(train) for value in penalties]
    slowness[gamma] = [float(delta_value(model.transform(test))[0]) for model in models]
    print(
        f"{gamma:5g}  ", np.round(slowness[gamma], 4), " in training:", np.round(models[0].delta_values_, 4)
    )

# %% [markdown]
# ## Key takeaways
#
# * A training graph replaces time: labels give discriminants, distances give eigenmaps, order gives SFA.
# * A hierarchy of small problems comes close to one large one, and maps new points for free.
# * The more flexible the functions, the more a penalty is worth; judge it on rows that were not used.
#
# ## Next steps
#
# `GraphSFARegressor` for numbers instead of classes, `escalante_wiskott_layers` for images,
# `graphs.union(..., samples=...)` where only some rows have labels.

# %%
assert accuracy["GraphSFA, quadratic"] > accuracy["LDA"] + 0.01
assert accuracy["GraphSFA, quadratic"] > 0.97
assert index[-1] > 0.9 > index[0]
assert index_eigenmap > 0.95
assert slowness[20.0][2] < 0.5 * slowness[20.0][0]
