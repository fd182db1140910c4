# %% [markdown]
# # Noise and holes
#
# **Question:** what does slow feature analysis (SFA) lose when a series is noisy and has holes, and how
# much of it does the probabilistic model get back?
#
# Three latents of different time scales are mixed into six noisy channels. We know the truth, so we can
# measure.

# %%
import matplotlib.pyplot as plt
import numpy as np

import probsfa
from probsfa.datasets import make_slow_mixture
from probsfa.metrics import coverage, rmse

series = make_slow_mixture(3000, 6, decay=[0.995, 0.9, 0.5], noise_variance=2.0, random_state=3)
X, slowest = series.data.copy(), series.latents[:, 0] - series.latents[:, 0].mean()
hidden = np.zeros(X.shape, dtype=bool)
hidden[1200:1260, :] = True  # a whole outage
hidden[2000:2200, 0] = True  # one channel fails
truth = X.copy()
X[hidden] = np.nan

# %% [markdown]
# ## Both on the same rows
#
# SFA works row by row: an incomplete row gives nothing, and the noise of each row goes straight into its
# output. The probabilistic model uses every observed cell and its neighbours in time.

# %%
sfa = probsfa.SFA(1, missing="skip").fit(X)
model = probsfa.ProbabilisticSFA(3).fit(X)
print(model.status_)
print("time scales in steps:", model.timescales_.round(1), "true:", (-1 / np.log([0.995, 0.9, 0.5])).round(1))

posterior = model.posterior(X)


def centred(feature):
    """Centre a feature and give it the sign of the truth: neither can be known from the data."""
    feature = feature - np.nanmean(feature)
    return feature * np.sign(np.nansum(feature * slowest))


classic, probabilistic = centred(sfa.transform(X)[:, 0]), centred(posterior.means[:, 0])
rows = ~np.isnan(classic)
error_classic = rmse(slowest[rows], classic[rows])
error_probabilistic = rmse(slowest[rows], probabilistic[rows])
print(f"error of the slowest feature: SFA {error_classic:.2f}, probabilistic {error_probabilistic:.2f}")

# %%
fig, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
window = slice(1000, 1500)
steps = np.arange(len(X))[window]
ax.plot(steps, classic[window], color="0.7", lw=0.8, label="SFA")
ax.fill_between(
    steps,
    probabilistic[window] - 1.645 * posterior.std[window, 0],
    probabilistic[window] + 1.645 * posterior.std[window, 0],
    alpha=0.3,
    label="90 % of the posterior",
)
ax.plot(steps, probabilistic[window], label="posterior mean")
ax.plot(steps, slowest[window], "k--", lw=1, label="truth")
ax.set(xlabel="step", ylabel="slowest feature")
_ = ax.legend(ncols=4, fontsize="small", loc="upper center")

# %% [markdown]
# ## The holes, filled
#
# `impute` returns a mean and a standard deviation for each missing cell; observed cells stay as they are.
# The standard deviation is honest: it grows inside an outage and is smaller where the other channels still
# see.

# %%
filled, std = model.impute(X, return_std=True)
inside = coverage(truth[hidden], filled[hidden], std[hidden], 0.9)
print(f"the 90 % intervals hold {100 * inside:.1f} % of the {hidden.sum()} hidden cells")
print(f"std of channel 0: {std[1230, 0]:.2f} amid the outage, {std[2100, 0]:.2f} when alone")

# %% [markdown]
# ## Key takeaways
#
# * Noise costs SFA far more than it costs the model that knows of noise.
# * Rows with holes are lost to SFA, and worth what they still show to the model.
# * Uncertainty comes with the answer, and it can be checked.
#
# ## Next steps
#
# The next tutorial takes the noise away and shows that the two are the same.

# %%
assert error_probabilistic < 0.7 * error_classic
assert 0.84 < inside < 0.96
assert std[1230, 0] > std[2100, 0] > np.sqrt(model.noise_variance_[0])
assert np.array_equal(filled[~hidden], X[~hidden])
