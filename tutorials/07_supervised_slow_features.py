# %% [markdown]
# # Supervised slow features
#
# Slow feature analysis asks that rows which are neighbours *in time* look alike. Nothing forces the
# neighbours to be neighbours in time. Let a **label** define which samples belong together, and the slowest
# features become the ones that tell labels apart (Escalante-B. & Wiskott 2013). The recipe is always the
# same: labels make a graph, the graph makes the features.
#
# This notebook reads handwritten digits, says how far a digit has been turned, and uses pictures that have no
# label.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from probsfa import SFA, GraphSFA, GraphSFAClassifier, GraphSFARegressor, graphs, plots
from probsfa.expansions import Polynomial

# %% [markdown]
# ## Three ways to join rows
#
# Time joins each row to the next. A **clustered** graph joins all rows of one class. A **serial** graph is
# for numbers: rows are put in the order of their label, cut into groups, and each group is joined to the
# next.

# %%
fig, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
label = np.repeat([0, 1, 2, 3], 3)
drawn = {
    "in time": graphs.temporal(12),
    "clustered, 4 classes": graphs.clustered(label),
    "serial, 4 groups": graphs.serial(np.arange(12.0), 4),
}
for ax, (title, graph) in zip(axes, drawn.items(), strict=True):
    plots.plot_graph(graph, labels=label, ax=ax)
    ax.get_legend().remove()
    ax.set_title(title)

# %% [markdown]
# Slow feature analysis of a series *is* `GraphSFA` on the first of them.

# %%
series = np.random.default_rng(0).standard_normal((300, 4)).cumsum(axis=0)
in_time = GraphSFA(graph=graphs.temporal(300)).fit(series)
difference = np.max(np.abs(in_time.transform(series) - SFA().fit(series).transform(series)))
print(f"largest difference: {difference:.1e}")
assert difference < 1e-9

# %% [markdown]
# ## Classes: which digit is it?
#
# 1,797 digits of 8 by 8 pixels; half of them to learn from. On the clustered graph, linear features are those
# of Fisher's discriminant. The graph does not care what the columns are, so we can give it products of pixels
# as well: an **expansion** of the 20 leading principal components to all their products.

# %%
X, y = load_digits(return_X_y=True)
seen, unseen, y_seen, y_unseen = train_test_split(X, y, train_size=0.5, stratify=y, random_state=0)
quadratic = make_pipeline(PCA(20, whiten=True), Polynomial(2))

classifiers = {
    "Fisher's discriminant (scikit-learn)": LinearDiscriminantAnalysis(),
    "GraphSFA, linear": GraphSFAClassifier(),
    "GraphSFA, quadratic": GraphSFAClassifier(expansion=quadratic),
}
accuracy = {name: model.fit(seen, y_seen).score(unseen, y_unseen) for name, model in classifiers.items()}
for name, share in accuracy.items():
    print(f"{name:<38} {100 * share:.1f} % of the unseen digits are right")
assert accuracy["GraphSFA, quadratic"] > accuracy["Fisher's discriminant (scikit-learn)"] + 0.01

# %% [markdown]
# The two slowest of the nine features already pull the digits apart, on digits that were not used to find
# them.

# %%
features = GraphSFA(2, graph="clustered", expansion=quadratic).fit(seen, y_seen).transform(unseen)
few = y_unseen < 6
fig, ax = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
plots.plot_embedding(features[few], y_unseen[few], ax=ax)
ax.set(xlabel="slowest feature", ylabel="second", title="unseen digits 0 to 5")
_ = ax.legend(title="digit", fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))

# %% [markdown]
# ## Numbers: how far has it been turned?
#
# Now the label is a number. Each digit "4" or "6" is turned by an angle between -45 and 45 degrees; the task
# is to say the angle. A class per degree would throw away that 10 is close to 11. The serial graph keeps the
# order: its slowest feature rises along the label.

# %%
rng = np.random.default_rng(0)
images = X[(y == 4) | (y == 6)].reshape(-1, 8, 8)
images = np.repeat(images, 4, axis=0)
angle = rng.uniform(-45.0, 45.0, len(images))
turned = np.array([rotate(image, a, reshape=False, order=1) for image, a in zip(images, angle, strict=True)])
which = np.repeat(np.arange(len(images) // 4), 4)
held_out = which >= 0.6 * which.max()  # digits of which no turned copy has been seen

fig, axes = plt.subplots(2, 8, figsize=(8, 2.3), layout="constrained")
for ax, i in zip(axes.T.ravel(), range(16), strict=True):
    ax.imshow(turned[i], cmap="gray_r")
    ax.set_title(f"{angle[i]:.0f}", fontsize=8, pad=2)
    ax.set_axis_off()

# %%
pixels = turned.reshape(len(turned), -1)
slowest = GraphSFA(1, graph="serial", expansion=quadratic).fit(pixels[~held_out], angle[~held_out])
feature = slowest.transform(pixels[held_out])[:, 0]
correlation = abs(np.corrcoef(feature, angle[held_out])[0, 1])
print(f"correlation of the slowest feature with the angle, unseen digits: {correlation:.2f}")

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
print(f"{'the mean angle for all':<36} error {chance:.1f} degrees")

# %%
fig, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
axes[0].plot(angle[held_out], feature, ".", ms=3)
axes[0].set(xlabel="true angle", ylabel="slowest feature", title="one feature, no regression yet")
axes[1].plot(angle[held_out], estimate, ".", ms=3)
axes[1].plot([-45, 45], [-45, 45], "k--", lw=1)
_ = axes[1].set(
    xlabel="true angle",
    ylabel="estimate",
    title=f"regression on slow features: {error['GraphSFARegressor']:.1f} degrees",
)

# %% [markdown]
# ## Few labels, many pictures
#
# Suppose only 40 digits have a label. Pictures without a label still show which shapes exist:
# `semi_supervised` joins the labelled ones by their label and *all* of them to their nearest neighbours.

# %%
shares = {"labels alone": [], "labels and neighbours": []}
for seed in range(5):
    rng = np.random.default_rng(seed)
    known = np.concatenate(
        [rng.choice(np.flatnonzero(y_seen == digit), 4, replace=False) for digit in range(10)]
    )
    labels = np.full(len(seen), -1)
    labels[known] = y_seen[known]
    compressed = PCA(30).fit(seen)
    Z, Z_unseen = compressed.transform(seen), compressed.transform(unseen)
    for name in shares:
        if name == "labels alone":
            sfa = GraphSFA(9, graph="clustered", shrinkage=0.3).fit(Z[known], y_seen[known])
        else:
            joined = graphs.semi_supervised(Z, labels, missing=-1)
            sfa = GraphSFA(9, graph=joined).fit(Z)
        at, new = sfa.transform(Z[known]), sfa.transform(Z_unseen)
        centres = np.array([at[y_seen[known] == digit].mean(axis=0) for digit in range(10)])
        nearest = np.argmin(((new[:, None] - centres) ** 2).sum(axis=2), axis=1)
        shares[name].append(np.mean(nearest == y_unseen))
for name, values in shares.items():
    print(f"40 labels, {name:<24} {100 * np.mean(values):.1f} % right (five draws of the labels)")
assert np.mean(shares["labels and neighbours"]) > np.mean(shares["labels alone"]) + 0.01

# %% [markdown]
# Pictures without a label help, if not by much. What counts for more is that nothing else in the recipe had
# to change: one more graph, united with the other.
#
# ## What to remember
#
# * "Slow" means "alike where neighbours are alike". A training graph defines the neighbours: time,
#   classes, the order of a number, distances, or a union of these.
# * A clustered graph gives Fisher's discriminants; with an expansion in front, nonlinear ones.
# * For numbers take a serial graph: its slowest feature already is a curve of the label.
# * Judge on rows that were not used, and on *things* that were not used: turned copies of one digit belong on
#   one side.
