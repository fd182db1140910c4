# %% [markdown]
# # Hierarchies and natural images
#
# Slow quadratic functions of natural image sequences behave like complex cells of visual cortex (Berkes &
# Wiskott 2005). A hierarchy of slow functions of small patches approximates slow functions of many inputs
# at a fraction of the cost. This notebook shows both.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import map_coordinates
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_images
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from probsfa import SFA, HierarchicalSFA, LaplacianEigenmaps, graphs
from probsfa.datasets import make_half_moons
from probsfa.expansions import Polynomial
from probsfa.metrics import delta_value
from probsfa.sfa import cascade_layers

# %% [markdown]
# ## Image sequences
#
# The images are the two sample photographs of scikit-learn. A window of 16 by 16 pixels moves over them,
# rotates and zooms, as in Berkes & Wiskott (2005). Each sequence is a short film. The films are passed as a
# list of sequences, so that SFA uses differences within films only.

# %%
SIDE, FRAMES, FILMS = 16, 60, 500
photographs = [image.mean(axis=2) for image in load_sample_images().images]
rows, columns = np.meshgrid(np.arange(SIDE) - 7.5, np.arange(SIDE) - 7.5, indexing="ij")


def film(photograph, rng):
    """Return a film (FRAMES, SIDE * SIDE) of a window that moves, rotates and zooms."""
    height, width = photograph.shape
    speed, rotation, zoom = rng.normal(0, 0.9, 2), rng.normal(0, 0.03), rng.normal(0, 0.004)
    t = np.arange(FRAMES) - FRAMES / 2
    angle, scale = rng.uniform(0, 2 * np.pi) + rotation * t, np.exp(zoom * t)
    centre = rng.uniform([100, 100], [height - 100, width - 100])
    cos, sin = (scale * np.cos(angle))[:, None, None], (scale * np.sin(angle))[:, None, None]
    y = centre[0] + (speed[0] * t)[:, None, None] + cos * rows - sin * columns
    x = centre[1] + (speed[1] * t)[:, None, None] + sin * rows + cos * columns
    return map_coordinates(photograph, [y, x], order=1, mode="reflect").reshape(FRAMES, -1)


rng = np.random.default_rng(0)
films = [film(photographs[i % 2], rng) for i in range(FILMS)]
fig, axes = plt.subplots(2, 10, figsize=(9, 2), layout="constrained")
for row, shown in zip(axes, (films[0], films[3]), strict=True):
    for ax, frame in zip(row, shown[::6], strict=True):
        ax.imshow(frame.reshape(SIDE, SIDE), cmap="gray")
        ax.set_axis_off()
_ = fig.suptitle("every sixth frame of two films", fontsize=10)

# %% [markdown]
# ## Slow quadratic functions of the films
#
# The mean brightness of each frame is subtracted. The frames are reduced to 32 principal components, and
# squares and products of the components are added as columns. SFA of these columns gives the slowest
# *quadratic* functions of the images ("units"). A hundred films are held out for the evaluation.

# %%
films = [frames - frames.mean(axis=1, keepdims=True) for frames in films]
pca = PCA(32, whiten=True).fit(np.concatenate(films)[::5])
reduced = [pca.transform(frames) for frames in films]
train, test = reduced[:400], reduced[400:]
linear = SFA(20).fit(train)
quadratic = SFA(20, expansion=Polynomial(2)).fit(train)

slowness = {"pixels": delta_value(films[400:]).mean()}
slowness["linear units"] = delta_value(linear.transform(test))[:5].mean()
slowness["quadratic units"] = delta_value(quadratic.transform(test))[:5].mean()
for name, value in slowness.items():
    print(f"{name:<16} mean delta value in held-out films: {value:.3f}")

# %% [markdown]
# ## Optimal stimuli
#
# The output of a quadratic unit is `y = x'Hx + f'x + c`. Its **optimal stimulus** is the image of given
# contrast (Euclidean norm) with the largest output; Berkes & Wiskott compute it from `H` and `f`. The outputs
# of `Polynomial` are the inputs, then their products `x_i x_j` for `i <= j`, row by row. Therefore `H` and
# `f` can be computed from the weights of a unit.

# %%
D = pca.n_components_
std = np.sqrt(pca.explained_variance_)
upper_triangle = np.triu_indices(D)


def quadratic_form(unit):
    """Return H and f of a unit, in coordinates of the principal components without whitening."""
    weights = quadratic.components_[unit]
    H = np.zeros((D, D))
    H[upper_triangle] = weights[D:]
    H = (H + H.T) / 2.0
    return H / np.outer(std, std), weights[:D] / std


def optimal_stimulus(unit, contrast, sign=1.0):
    """Return the image of given norm with the largest (sign=1) or smallest (sign=-1) output of a unit."""
    H, f = (sign * part for part in quadratic_form(unit))
    eigenvalues, eigenvectors = np.linalg.eigh(H)
    f_rotated = eigenvectors.T @ f
    # Bisection for the Lagrange multiplier: the norm of x decreases as the multiplier increases.
    low = 2.0 * eigenvalues[-1] + 1e-12
    high = 2.0 * eigenvalues[-1] + 10.0 * (np.linalg.norm(f) + 1.0) / contrast
    for _ in range(200):
        multiplier = (low + high) / 2.0
        x = f_rotated / (multiplier - 2.0 * eigenvalues)
        low, high = (multiplier, high) if np.linalg.norm(x) > contrast else (low, multiplier)
    return (eigenvectors @ x) @ pca.components_


contrast = np.median(np.linalg.norm(np.concatenate(films), axis=1))
fig, axes = plt.subplots(2, 10, figsize=(9, 2.2), layout="constrained")
for unit, column in enumerate(axes.T):
    for ax, sign in zip(column, (1.0, -1.0), strict=True):
        ax.imshow(optimal_stimulus(unit, contrast, sign).reshape(SIDE, SIDE), cmap="gray")
        ax.set_axis_off()
    column[0].set_title(f"unit {unit + 1}", fontsize=8)
_ = fig.suptitle("stimuli with the largest (top) and smallest (bottom) output", fontsize=10)

# %% [markdown]
# ## Phase invariance
#
# The response of a simple cell to a grating depends on the **phase** of the grating: a shift by half a period
# suppresses it. The response of a complex cell does not depend on the phase. Therefore each unit is tested
# with gratings of 16 orientations, 4 spatial frequencies and 24 phases. The grating with the largest response
# of a unit is its *preferred* grating.

# %%
phases = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
gratings = [
    (direction, cycles)
    for direction in np.linspace(0.0, np.pi, 16, endpoint=False)
    for cycles in (1.5, 2.0, 3.0, 4.0)
]


def grating(direction, cycles):
    """Return a grating at all phases (24, SIDE * SIDE), of the contrast of the films."""
    position = 2.0 * np.pi * cycles / SIDE * (np.cos(direction) * rows + np.sin(direction) * columns).ravel()
    images = np.cos(position - phases[:, None])
    images -= images.mean(axis=1, keepdims=True)
    return contrast * images / np.linalg.norm(images, axis=1, keepdims=True)


stimuli = np.array([grating(*parameters) for parameters in gratings])  # (64, 24, SIDE * SIDE)


def grating_responses(model):
    """Return the responses (units, gratings, phases) of the units of a model."""
    responses = model.transform(pca.transform(stimuli.reshape(-1, SIDE * SIDE)))
    return np.moveaxis(responses.reshape(len(gratings), len(phases), -1), -1, 0)


def preferred_response(response):
    """Return the response of a unit to its preferred grating, less its mean over all gratings."""
    centred = response - response.mean()
    return centred[np.argmax(np.abs(centred).max(axis=1))]


def phase_modulation(response):
    """Return amplitude / (amplitude + |mean|) of the response to the preferred grating, between 0 and 1."""
    curve = preferred_response(response)
    amplitude = 2.0 * np.abs(np.mean(curve * np.exp(1j * phases)))
    return amplitude / (amplitude + np.abs(curve.mean()))


responses = {"linear": grating_responses(linear), "quadratic": grating_responses(quadratic)}
modulation = {name: [phase_modulation(unit) for unit in values[:10]] for name, values in responses.items()}
for name, values in modulation.items():
    print(f"{name:<10} units: phase modulation, median of ten units: {np.median(values):.2f}")

# %%
fig, axes = plt.subplots(1, 3, figsize=(9.5, 3), layout="constrained")
for ax, (name, values) in zip(axes, responses.items(), strict=False):
    for unit in range(5):
        ax.plot(phases / np.pi, preferred_response(values[unit]), label=f"unit {unit + 1}")
    ax.set(xlabel="phase of the preferred grating / pi", title=f"{name} units")
    ax.set_ylabel("response - mean (sd)")
axes[1].set_ylim(-2.0, 2.9)
axes[1].legend(fontsize=7, ncols=2, loc="upper right")
for name, values in modulation.items():
    axes[2].plot(np.arange(1, 11), np.sort(values), "o-", label=name)
axes[2].set(xlabel="rank of the unit", ylabel="phase modulation", ylim=(-0.05, 1.05))
_ = axes[2].legend(fontsize=8)

# %% [markdown]
# The response of a linear unit to its preferred grating is a sine function of the phase. The responses of
# quadratic units are nearly constant. Like those of complex cells, they depend on the orientation and the
# frequency of the grating, but not on its position. The only objective of the fit was slowness.

# %%
assert np.median(modulation["linear"]) > 0.95
assert np.median(modulation["quadratic"]) < 0.15
assert slowness["quadratic units"] < 0.8 * slowness["linear units"]

# %% [markdown]
# ## Hierarchies of slow functions
#
# The quadratic expansion of 32 components has 560 columns. The expansion of 256 pixels would have 33,000, and
# a cubic expansion would not be feasible. A **hierarchy** computes a few slow functions, then slow functions
# of *these*, and so on. Each level is a small eigenproblem, and the result is a polynomial of high degree.
#
# The example has points on two half-moons. The aim is a function that is constant on each moon, estimated
# from a graph of nearby points. A Laplacian eigenmap computes the value of this function at each training
# point, and interpolates at new points. Each level of the hierarchy computes four polynomials of degree 3 of
# the outputs of the previous level (Sprekeler 2011, algorithm 1).

# %%
moons, new = (make_half_moons(1000, random_state=seed) for seed in (0, 1))
graph = graphs.heat_kernel(moons.data, 0.08)
hierarchy = HierarchicalSFA(cascade_layers(4, 4), graph=graph).fit(moons.data)
eigenmap = LaplacianEigenmaps(2, affinity="rbf", gamma=0.5 / 0.08**2).fit(moons.data)


def rand_index(train_output, new_output):
    """Adjusted Rand index of the moons and two clusters of the first output, on new points (at most 1)."""
    clusters = KMeans(2, n_init=10, random_state=0).fit(train_output[:, :1]).predict(new_output[:, :1])
    return adjusted_rand_score(new.target, clusters)


by_level = [
    rand_index(hierarchy.transform_layer(moons.data, k), hierarchy.transform_layer(new.data, k))
    for k in range(4)
]
of_eigenmap = rand_index(eigenmap.embedding_, eigenmap.transform(new.data))
print("adjusted Rand index on new points, levels 1 to 4:", np.round(by_level, 3))
print("Laplacian eigenmap:", round(of_eigenmap, 3))
assert by_level[0] < 0.9 < by_level[-1]
assert of_eigenmap > 0.95

# %%
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
for ax, k in zip(axes, (0, 1, 3), strict=True):
    output = hierarchy.transform_layer(new.data, k)[:, 0]
    points = ax.scatter(*new.data.T, c=output, s=8, cmap="coolwarm")
    ax.set(title=f"level {k + 1}", xlabel="coordinate 1", aspect="equal")
axes[0].set_ylabel("coordinate 2")
_ = fig.colorbar(points, ax=axes, shrink=0.8, label="slowest output")

# %% [markdown]
# The output of the first level changes smoothly across both moons; that of the fourth level is nearly
# constant on each moon. For images, `escalante_wiskott_layers` returns the layers of a network whose nodes
# have small patches as inputs and a few outputs.
#
# ## Summary
#
# * The slowest quadratic functions of natural image sequences are nearly invariant to phase, like complex
#   cells.
# * The optimal stimulus of a quadratic unit can be computed from its weights.
# * Test units with stimuli that were not used in the fit, and compare them with a control: here linear
#   units of the same films.
# * A hierarchy represents functions of high degree by small eigenproblems, and can be evaluated at new
#   points.
