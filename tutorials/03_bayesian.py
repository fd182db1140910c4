# %% [markdown]
# # How sure are we?
#
# **Question:** a short, noisy series with holes tells us little about its time scales. How little, and what
# does that do to what we fill in and forecast?
#
# Two latents are mixed into four channels, for 110 steps only, and a fifth of the cells is missing. We know
# the truth, so we can see whether the answer is honest.

# %%
import warnings

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import probsfa
from probsfa import plots
from probsfa.bayes import Priors
from probsfa.datasets import make_slow_mixture

series = make_slow_mixture(110, 4, decay=[0.96, 0.6], noise_variance=0.3, random_state=8)
days = pd.date_range("2024-01-01", periods=110, freq="D")
whole = pd.DataFrame(series.data, index=days, columns=["north", "east", "south", "west"])
hidden = np.random.default_rng(0).random(whole.shape) < 0.2
hidden[50:62, 0] = True  # and an outage of one channel
X = whole.mask(hidden)

# %% [markdown]
# ## One number, and a whole distribution
#
# Maximum likelihood gives one time scale for each latent. `BayesianSFA` gives the posterior: the latents are
# integrated out exactly, and the no-U-turn sampler explores the rest.

# %%
point = probsfa.ProbabilisticSFA(2).fit(X)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the run is kept short here; its status says what a warning would
    model = probsfa.BayesianSFA(
        2, n_warmup=200, n_draws=200, n_chains=4, progress_bar=False, random_state=0
    ).fit(X)
print(model.status_)
print(model.relabelling_)
print("maximum likelihood:", point.timescales_.round(1))
print("posterior medians: ", model.timescales_.round(1), " truth:", (-1 / np.log([0.96, 0.6])).round(1))

# %%
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
_ = plots.plot_timescales(model, ax=ax)

# %% [markdown]
# A hundred steps hold few swings of the slow latent: its time scale is known up to a factor of three or so.
# The prior is drawn too, so that one sees what the data have added.
#
# ## Everything is in ArviZ
#
# `inference_data_` has the groups that ArviZ expects, with the names of the channels and the dates. Its
# `log_likelihood` is that of each day given the days before, one step ahead.

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    table = az.summary(model.inference_data_, var_names=["timescale", "noise_std"])
print(table.to_string())

# %%
fig, axes = plt.subplots(1, 2, figsize=(7, 2.8), sharey=True, sharex=True, layout="constrained")
_ = plots.plot_loadings(model, axes=axes)

# %% [markdown]
# ## Holes and forecasts
#
# Every draw of the parameters fills the holes in its own way; the intervals are quantiles over all of them.

# %%
fig, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
_ = plots.plot_imputation_fan(model, X, 0, truth=whole["north"], rows=slice(35, 80), ax=ax)

# %%
filled, low, high = model.impute(X, interval=0.9)
inside = float(np.mean(((whole > low) & (whole < high)).to_numpy()[hidden]))
print(f"the 90 % intervals hold {100 * inside:.1f} % of the {hidden.sum()} hidden cells")
future = model.forecast(X, 20)
print(
    "standard deviation of a forecast for north:",
    future.std["north"].iloc[[0, 4, 19]].round(2).to_numpy(),
    "after 1, 5, 20 days",
)

# %% [markdown]
# ## Priors are yours to change
#
# They speak of standardised columns and of steps. `inference="svi"` fits a Gaussian approximation and weighs
# its draws; it takes seconds, and its status tells how far the weights can be trusted.

# %%
patient = Priors().but(shrinkage=0.3)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a third latent, which is not there, may look like one of the others
    quick = probsfa.BayesianSFA(3, inference="svi", priors=patient, progress_bar=False, random_state=0).fit(X)
size = np.sqrt(np.mean((quick.loadings_ / X.std().to_numpy()[:, None]) ** 2, axis=0))
print("time scales:", quick.timescales_.round(1), " size of their loadings:", size.round(2))

# %% [markdown]
# ## Key takeaways
#
# * A posterior says how much a series knows of its own time scales.
# * Intervals of filled cells and forecasts carry that uncertainty.
# * Signs and order of latents mean nothing; draws are brought to one labelling, and the output says so.
#
# ## Next steps
#
# `probsfa.bayes.FactorialAR1` is a NumPyro distribution: put it into models of your own.

# %%
slow = model.draws_.decay[..., 0].ravel()
assert np.quantile(slow, 0.01) < 0.96 < np.quantile(slow, 0.99)
assert 0.8 < inside < 0.98
assert future.std["north"].iloc[0] < future.std["north"].iloc[-1]
assert np.array_equal(filled.to_numpy()[~hidden], whole.to_numpy()[~hidden])
