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
# Two photographs of scikit-learn are used. A window of 16 by 16 pixels moves, rotates and zooms over them,
# as in Berkes & Wiskott (2005). Each sequence is a short film; there are no differences between films.

# %%
SIDE, FRAMES, FILMS = 16, 60, 500
photographs = [image.mean(axis=2) for image in load_sample_images().images]
rows, columns = np.meshgrid(np.arange(SIDE) - 7.5, np.arange(SIDE) - 7.5, indexing="ij")


def film(photograph, rng):
    """Return a film (FRAMES, SIDE * SIDE) of a window that glides, turns and zooms."""
    height, width = photograph.shape
    speed, turn, zoom = rng.normal(0, 0.9, 2), rng.normal(0, 0.03), rng.normal(0, 0.004)
    t = np.arange(FRAMES) - FRAMES / 2
    angle, scale = rng.uniform(0, 2 * np.pi) + turn * t, np.exp(zoom * t)
    middle = rng.uniform([100, 100], [height - 100, width - 100])
    cos, sin = (scale * np.cos(angle))[:, None, None], (scale * np.sin(angle))[:, None, None]
    down = middle[0] + (speed[0] * t)[:, None, None] + cos * rows - sin * columns
    across = middle[1] + (speed[1] * t)[:, None, None] + sin * rows + cos * columns
    return map_coordinates(photograph, [down, across], order=1, mode="reflect").reshape(FRAMES, -1)


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
# The frames are reduced to 32 principal components, without the mean brightness, and expanded to all their
# products. Linear SFA of the expanded components gives the slowest *quadratic* functions of the images.

# %%
films = [shown - shown.mean(axis=1, keepdims=True) for shown in films]
compress = PCA(32, whiten=True).fit(np.concatenate(films)[::5])
reduced = [compress.transform(shown) for shown in films]
train, test = reduced[:400], reduced[400:]
linear = SFA(20).fit(train)
units = SFA(20, expansion=Polynomial(2)).fit(train)

slowness = {"pixels": delta_value(films[400:]).mean()}
slowness["linear units"] = delta_value(linear.transform(test))[:5].mean()
slowness["quadratic units"] = delta_value(units.transform(test))[:5].mean()
for name, value in slowness.items():
    print(f"{name:<16} mean delta value in films that were not used: {value:.3f}")

# %% [markdown]
# ## Optimal stimuli
#
# A quadratic unit is `y = x'Hx + f'x + c`. Its **optimal stimulus** is the image of given contrast with the
# largest output; Berkes & Wiskott compute it from `H` and `f`. The outputs of `Polynomial` are the inputs,
# then their products row by row, so that `H` and `f` can be computed from the weights of a unit.

# %%
D = compress.n_components_
spread = np.sqrt(compress.explained_variance_)
above = np.triu_indices(D)


def quadratic_form(unit):
    """Return H and f of a unit for pictures in the basis of the principal components."""
    weights = units.components_[unit]
    H = np.zeros((D, D))
    H[above] = weights[D:]
    H = (H + H.T) / 2.0
    return H / np.outer(spread, spread), weights[:D] / spread


def optimal_stimulus(unit, contrast, sign=1.0):
    """Return the picture of given norm at which a unit is largest, or smallest."""
    H, f = (sign * part for part in quadratic_form(unit))
    power, axes = np.linalg.eigh(H)
    along = axes.T @ f
    low, high = 2.0 * power[-1] + 1e-12, 2.0 * power[-1] + 10.0 * (np.linalg.norm(f) + 1.0) / contrast
    for _ in range(200):  # |x| falls as the multiplier rises
        middle = (low + high) / 2.0
        x = along / (middle - 2.0 * power)
        low, high = (middle, high) if np.linalg.norm(x) > contrast else (low, middle)
    return (axes @ x) @ compress.components_


contrast = np.median(np.linalg.norm(np.concatenate(films), axis=1))
fig, axes = plt.subplots(2, 10, figsize=(9, 2.2), layout="constrained")
for unit, column in enumerate(axes.T):
    for ax, sign in zip(column, (1.0, -1.0), strict=True):
        ax.imshow(optimal_stimulus(unit, contrast, sign).reshape(SIDE, SIDE), cmap="gray")
        ax.set_axis_off()
    column[0].set_title(f"unit {unit + 1}", fontsize=8)
_ = fig.suptitle("what excites each unit most (above) and least (below)", fontsize=10)

# %% [markdown]
# ## Phase invariance
#
# The response of a simple cell to a grating depends on its **phase**: it is zero after a shift by half a
# period. The response of a complex cell does not depend on the phase. Therefore each unit is tested with
# gratings of all orientations and frequencies, and its preferred grating is shifted by one period.

# %%
phases = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
waves = [
    (direction, cycles)
    for direction in np.linspace(0.0, np.pi, 16, endpoint=False)
    for cycles in (1.5, 2.0, 3.0, 4.0)
]


def grating(direction, cycles):
    """Return a grating at all phases (24, SIDE * SIDE), of the contrast of the films."""
    along = 2.0 * np.pi * cycles / SIDE * (np.cos(direction) * rows + np.sin(direction) * columns).ravel()
    pictures = np.cos(along - phases[:, None])
    pictures -= pictures.mean(axis=1, keepdims=True)
    return contrast * pictures / np.linalg.norm(pictures, axis=1, keepdims=True)


shown = np.array([grating(*wave) for wave in waves])  # (64, 24, SIDE * SIDE)


def tuning(model):
    """Return the answers (units, waves, phases) of a model to all gratings."""
    answers = model.transform(compress.transform(shown.reshape(-1, SIDE * SIDE)))
    return np.moveaxis(answers.reshape(len(waves), len(phases), -1), -1, 0)


def modulation(answers):
    """Return how much of the answer to the best grating swings with its phase, from 0 to 1."""
    rest = answers.mean(axis=(1, 2))
    swing, level = np.zeros(len(answers)), np.zeros(len(answers))
    for unit, answer in enumerate(answers):
        best = np.argmax(np.abs(answer - rest[unit]).max(axis=1))
        wave = answer[best] - rest[unit]
        swing[unit] = 2.0 * np.abs(np.mean(wave * np.exp(1j * phases)))
        level[unit] = np.abs(wave.mean())
    return swing / (swing + level)


answers = {"linear": tuning(linear), "quadratic": tuning(units)}
phase_dependence = {name: modulation(each)[:10] for name, each in answers.items()}
for name, each in phase_dependence.items():
    print(
        f"{name:<10} units: share of the answer that depends on phase, median of ten: {np.median(each):.2f}"
    )

# %%
fig, axes = plt.subplots(1, 3, figsize=(9.5, 3), layout="constrained")
for ax, (name, each) in zip(axes, answers.items(), strict=False):
    for unit in range(5):
        best = np.argmax(np.abs(each[unit] - each[unit].mean()).max(axis=1))
        ax.plot(phases / np.pi, each[unit, best], label=f"unit {unit + 1}")
    ax.set(xlabel="phase of the best grating (pi)", title=f"{name} units", ylabel="answer")
axes[1].set_ylim(-2.0, 2.9)
axes[1].legend(fontsize=7, ncols=2, loc="upper right")
axes[2].plot(np.sort(phase_dependence["linear"]), "o-", label="linear")
axes[2].plot(np.sort(phase_dependence["quadratic"]), "o-", label="quadratic")
axes[2].set(xlabel="unit, in order", ylabel="share that depends on phase", ylim=(-0.05, 1.05))
_ = axes[2].legend(fontsize=8)

# %% [markdown]
# The response of a linear unit to its preferred grating is a sine of the phase. The responses of quadratic
# units are nearly constant: like complex cells, they depend on the orientation and frequency of the
# grating, but not on its position. This follows from slowness alone.

# %%
assert np.median(phase_dependence["linear"]) > 0.95
assert np.median(phase_dependence["quadratic"]) < 0.15
assert slowness["quadratic units"] < 0.8 * slowness["linear units"]

# %% [markdown]
# ## Hierarchies of slow functions
#
# The products of 32 components are 560 columns. The products of 256 pixels would be 33,000, and cubic terms
# would not be feasible. A **hierarchy** computes a few slow functions, then slow functions of *these*, and
# so on. Each level is a small eigenproblem, and the result is a function of high degree.
#
# The example is that of two half-moons. The aim is a function that is constant on each moon, estimated from
# a graph of near points. A Laplacian eigenmap computes the value at each point. The hierarchy uses
# polynomials of degree 3 of four outputs at each level (Sprekeler 2011, algorithm 1).

# %%
moons, new = (make_half_moons(1000, random_state=seed) for seed in (0, 1))
near = graphs.heat_kernel(moons.data, 0.08)
hierarchy = HierarchicalSFA(cascade_layers(4, 4), graph=near).fit(moons.data)
eigenmap = LaplacianEigenmaps(2, affinity="rbf", gamma=0.5 / 0.08**2).fit(moons.data)


def agreement(learned, unseen):
    """Agreement of two clusters of the first coordinate with the moons, on new points: 1 at most."""
    clusters = KMeans(2, n_init=10, random_state=0).fit(learned[:, :1]).predict(unseen[:, :1])
    return adjusted_rand_score(new.target, clusters)


by_level = [
    agreement(hierarchy.transform_layer(moons.data, k), hierarchy.transform_layer(new.data, k))
    for k in range(4)
]
of_eigenmap = agreement(eigenmap.embedding_, eigenmap.transform(new.data))
print("agreement with the moons on new points, level by level:", np.round(by_level, 3))
print("eigenmap:", round(of_eigenmap, 3))
assert by_level[0] < 0.9 < by_level[-1]
assert of_eigenmap > 0.95

# %%
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
for ax, k in zip(axes, (0, 1, 3), strict=True):
    value = hierarchy.transform_layer(new.data, k)[:, 0]
    points = ax.scatter(*new.data.T, c=value, s=8, cmap="coolwarm")
    ax.set(title=f"level {k + 1}: slowest function", aspect="equal", xticks=[], yticks=[])
_ = fig.colorbar(points, ax=axes, shrink=0.8)

# %% [markdown]
# The first level separates the plane by a smooth transition; the output of the fourth level is constant on
# each moon. For images, `escalante_wiskott_layers` makes such networks, whose nodes have small patches as
# inputs and a few outputs.
#
# ## Summary
#
# * The slowest quadratic functions of natural image sequences are invariant to phase, like complex cells.
# * The optimal stimulus of a quadratic unit can be computed from its weights.
# * Test units with stimuli that were not used in the fit, and compare them with a control: here linear
#   units of the same films.
# * A hierarchy represents functions of high degree by small eigenproblems, and can be evaluated at new
#   points.
