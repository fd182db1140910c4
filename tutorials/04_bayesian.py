# %% [markdown]
# # Bayesian slow features: uncertainty of time scales
#
# Maximum likelihood returns one value for each time scale, although short series with noise and missing
# values hardly determine it. `BayesianSFA` computes the posterior distribution of all parameters, and
# includes it in imputed values and forecasts.
#
# The series of this notebook is simulated: two factors in four columns, for 110 days, with a fifth of the
# values missing.

# %%
import warnings

# ArviZ announces its next version when it is imported.
warnings.filterwarnings("ignore", message=".*ArviZ is undergoing a major refactor")

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpyro import distributions as dist

from probsfa import BayesianSFA, ProbabilisticSFA, plots
from probsfa.bayes import Priors
from probsfa.datasets import make_slow_mixture

# %%
decay = [0.96, 0.6]
true_timescales = -1.0 / np.log(decay)
series = make_slow_mixture(110, 4, decay=decay, noise_variance=0.3, random_state=8)
days = pd.date_range("2024-01-01", periods=110, freq="D")
whole = pd.DataFrame(series.data, index=days, columns=["north", "east", "south", "west"])

hidden = np.random.default_rng(0).random(whole.shape) < 0.2
hidden[50:62, 0] = True  # and an outage of one column
X = whole.mask(hidden)
print("true time scales in days:", true_timescales.round(1))

# %% [markdown]
# ## Point estimate and posterior
#
# The factors are integrated out exactly, so that the sampler (NUTS, four chains) has few parameters.

# %%
point = ProbabilisticSFA(2).fit(X)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the run is kept short; its status reports what a warning would
    model = BayesianSFA(2, n_warmup=300, n_draws=500, verbose=False, random_state=0).fit(X)
low, high = np.quantile(model.inference_data_["posterior"]["timescale"].to_numpy()[..., 0], [0.05, 0.95])
print("slowest time scale, days")
print(f"  maximum likelihood    {point.timescales_[0]:.0f}")
print(f"  posterior, 90 %       {low:.0f} to {high:.0f}")
print(f"  truth                 {true_timescales[0]:.0f}")

assert low < true_timescales[0] < high
assert high > 2.5 * low

# %%
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
plots.plot_timescales(model, ax=ax)
for k, value in enumerate(true_timescales):
    ax.axvline(value, color="k", ls="--", lw=1, label="truth" if k == 0 else None)
ax.set(xlabel="time scale (days)", title="what 110 days say of two time scales")
_ = ax.legend(fontsize="small")

# %% [markdown]
# In 110 days the slow factor has few excursions, so that its time scale is determined only up to a factor
# of three or more. The prior is grey; the difference between prior and posterior is due to the data.
#
# ## Convergence of the sampler
#
# Two measures are computed for every parameter. **R-hat** compares the chains; it is near 1 if they have
# the same distribution. The **effective sample size** (ESS) is the number of independent draws with the
# same accuracy as the correlated ones.

# %%
rhat = max(np.max(values) for values in model.diagnostics_["rhat"].values())
ess = min(np.min(values) for values in model.diagnostics_["ess"].values())
divergences = model.diagnostics_["divergences"]
print(f"largest R-hat {rhat:.3f}, smallest effective sample size {ess:.0f}, divergences {divergences}")
print(model.status_)

assert rhat < 1.05
assert ess > 100

# %% [markdown]
# A rank plot shows the same: all draws of a parameter are ranked together, and each histogram has the ranks
# of one chain. After convergence the histograms are flat.

# %%
slow = model.inference_data_["posterior"]["timescale"].to_numpy()[..., 0]
ranks = slow.ravel().argsort().argsort().reshape(slow.shape)
fig, axes = plt.subplots(1, len(slow), figsize=(9, 2.2), sharey=True, layout="constrained")
for chain, ax in enumerate(axes):
    ax.hist(ranks[chain], bins=10, range=(0, slow.size), color="C0", edgecolor="white")
    ax.axhline(slow.shape[1] / 10, color="k", ls="--", lw=1)
    ax.set(title=f"chain {chain + 1}", xlabel="rank")
axes[0].set_ylabel("draws")
_ = fig.suptitle("ranks of the slowest time scale (dashed: flat)", fontsize="medium")

# %% [markdown]
# ### Labels
#
# The likelihood does not change if two factors are exchanged or the sign of a factor is changed. Therefore
# draws are relabelled before averages are computed, and the fit reports the changes.

# %%
print(model.relabelling_)

# %% [markdown]
# ## Results in ArviZ
#
# `inference_data_` has the groups of ArviZ, with the names of the columns and the dates of the rows.

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    table = az.summary(model.inference_data_, var_names=["timescale", "noise_std"])
print(table.to_string())

# %%
tree = model.to_datatree()
print("groups:", ", ".join(tree.children))
print("latents of each day, in draws:", dict(tree["posterior_predictive"]["latents"].sizes))

# %%
fig, axes = plt.subplots(1, 2, figsize=(7, 2.8), sharey=True, sharex=True, layout="constrained")
plots.plot_loadings(model, axes=axes)
_ = fig.suptitle("how each latent shows in each column: medians, 50 % and 90 %", fontsize="medium")

# %% [markdown]
# ## Priors
#
# `BayesianSFA(2, priors=Priors(timescale=...))` accepts any prior of NumPyro. The effect of another prior
# can be estimated without a new fit: draws from one posterior, weighted by the ratio of the two priors,
# represent the other posterior.
#
# Here two experts disagree: one expects the slowest time scale to be about a week, the other two months.
# Both analyse 110 days, then 1,100 days. (For the long series, `inference="svi"` uses a Gaussian
# approximation with importance weights instead of the sampler, which takes seconds instead of minutes.)

# %%
long = make_slow_mixture(1100, 4, decay=decay, noise_variance=0.3, random_state=8).data
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    quick = BayesianSFA(2, inference="svi", verbose=False, random_state=0).fit(long)
records = {110: slow.ravel(), 1100: quick.to_datatree()["posterior"]["timescale"].to_numpy()[..., 0].ravel()}
people = {
    "expects a week": dist.LogNormal(np.log(7.0), 0.5),
    "expects two months": dist.LogNormal(np.log(60.0), 0.5),
}

# %%
medians, weights = {}, {}
for n_days, draws in records.items():
    for person, prior in people.items():
        log_ratio = np.asarray(prior.log_prob(draws) - Priors().timescale.log_prob(draws))
        weight = np.exp(log_ratio - log_ratio.max())
        weights[n_days, person] = weight = weight / weight.sum()
        order = np.argsort(draws)
        medians[n_days, person] = draws[order][np.searchsorted(np.cumsum(weight[order]), 0.5)]
        print(
            f"{n_days:>5} days, {person:<18} median {medians[n_days, person]:3.0f} days"
            f"   (worth {1 / np.sum(weight**2):.0f} draws)"
        )

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 2.8), sharex=True, layout="constrained")
bins = np.geomspace(2, 200, 30)
for ax, (n_days, draws) in zip(axes, records.items(), strict=True):
    for person, color in zip(people, ("C0", "C1"), strict=True):
        expected = np.diff(np.asarray(people[person].cdf(bins)))
        ax.stairs(expected, bins, color=color, ls="--")
        ax.hist(draws, bins, weights=weights[n_days, person], color=color, alpha=0.5, label=person)
    ax.axvline(true_timescales[0], color="k", lw=1, ls=":")
    ax.set(xscale="log", xlabel="slowest time scale (days)", yticks=[], title=f"after {n_days} days")
_ = axes[0].legend(fontsize="x-small", title="dashed: before the data", title_fontsize="x-small")

# %%
disagreement = {n: medians[n, "expects two months"] / medians[n, "expects a week"] for n in records}
for n_days, factor in disagreement.items():
    print(f"after {n_days:>4} days they differ by a factor of {factor:.1f}")
assert disagreement[110] > 1.5 * disagreement[1100]

# %% [markdown]
# The effect of the prior is large for the short series and small for the long one.
#
# ## Posterior predictive check
#
# Series simulated from the fitted model are compared with the observed series by a statistic that was not
# fitted: the autocorrelation function of a column.

# %%
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
plots.plot_predictive_check(model, 0, lags=25, ax=ax)
_ = ax.set_title("the record beside series drawn from the model")

# %% [markdown]
# Up to a lag of ten days the observed autocorrelation is within the band; at longer lags it is near or
# below the lower limit. Autocorrelations at adjacent lags are correlated, so that a single slow excursion
# in 110 days explains this. Values outside the band at short lags, or oscillations, would indicate that the
# model is wrong.
#
# ## Uncertainty of imputed values and forecasts
#
# Each draw of the parameters has its own predictions; intervals are quantiles over all draws.

# %%
fig, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
plots.plot_imputation_fan(model, X, 0, truth=whole["north"], rows=slice(35, 80), ax=ax)
_ = ax.set_title("an outage of one column, filled", pad=26)

# %%
filled, low, high = model.impute(X, interval=0.9)
inside = float(np.mean(((whole > low) & (whole < high)).to_numpy()[hidden]))
print(f"the 90 % intervals hold {100 * inside:.0f} % of the {hidden.sum()} hidden cells")
assert 0.82 < inside < 0.98

# %%
future = model.forecast(X, 20)
one_number = point.forecast(X, 20)
for ahead in (1, 5, 20):
    bayes, plug_in = (np.asarray(f.std)[ahead - 1, 0] for f in (future, one_number))
    print(f"{ahead:>3} days ahead: deviation {bayes:.2f} (Bayesian), {plug_in:.2f} (one set of parameters)")
    assert bayes > plug_in

# %% [markdown]
# ## Summary
#
# * The posterior shows how well a series determines its time scales. With a hundred rows the uncertainty
#   may be a factor of three.
# * First check R-hat (near 1) and the effective sample size (hundreds); the fit reports both.
# * For short series the prior matters. Change it and compare the results.
# * Signs and order of the factors are arbitrary; draws are relabelled, and the fit reports the changes.
# * `probsfa.bayes.FactorialAR1` is the likelihood as a NumPyro distribution, for other models.
