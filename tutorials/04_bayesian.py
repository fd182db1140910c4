# %% [markdown]
# # Bayesian slow features: uncertainty of time scales
#
# Maximum likelihood returns one value for each time scale, even if a short series with noise and missing
# values contains little information about it. `BayesianSFA` computes the posterior distribution of all
# parameters. Intervals of imputed values and forecasts include the uncertainty of the parameters.
#
# The series of this notebook is simulated: two factors in four columns, 110 days, about a fifth of the
# values missing. It has no units.

# %%
import warnings

# ArviZ warns about its next version at import.
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
complete = pd.DataFrame(series.data, index=days, columns=["north", "east", "south", "west"])

hidden = np.random.default_rng(0).random(complete.shape) < 0.2
hidden[50:62, 0] = True  # an outage of the sensor "north"
X = complete.mask(hidden)
print("true time scales in days:", true_timescales.round(1))

# %% [markdown]
# ## Point estimate and posterior
#
# The factors are integrated out analytically; the sampler (NUTS, four chains) draws the parameters only.

# %%
maximum_likelihood = ProbabilisticSFA(2).fit(X)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the run is short; `status_` is printed below
    model = BayesianSFA(2, n_warmup=300, n_draws=500, verbose=False, random_state=0).fit(X)
low, high = np.quantile(model.inference_data_["posterior"]["timescale"].to_numpy()[..., 0], [0.05, 0.95])
print("slowest time scale, days")
print(f"  maximum likelihood    {maximum_likelihood.timescales_[0]:.0f}")
print(f"  posterior, 90 %       {low:.0f} to {high:.0f}")
print(f"  truth                 {true_timescales[0]:.0f}")

assert low < true_timescales[0] < high
assert high > 2.5 * low

# %%
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
plots.plot_timescales(model, ax=ax)
for k, value in enumerate(true_timescales):
    ax.axvline(value, color="k", ls="--", lw=1, label="truth" if k == 0 else None)
ax.set(xlabel="time scale (days)", title="posterior of two time scales, 110 days")
_ = ax.legend(fontsize="small")

# %% [markdown]
# The limits of the 90 % interval of the slower time scale differ by a factor of about five. The reason is
# that 110 days are only about five such time scales. The prior is grey; the difference between prior and
# posterior is due to the data.
#
# ## Convergence of the sampler
#
# Two measures are computed for every parameter. **R-hat** compares the chains; it is near 1 if they have
# the same distribution. The **effective sample size** (ESS) is the number of independent draws with the
# same accuracy as the correlated ones. `diagnostics_["ess"]` contains the ESS of the mean ("bulk"). `status_`
# reports the smallest ESS of all parameters, for the mean and for the tails.

# %%
rhat = max(np.max(values) for values in model.diagnostics_["rhat"].values())
ess = min(np.min(values) for values in model.diagnostics_["ess"].values())
divergences = model.diagnostics_["divergences"]
print(f"largest R-hat {rhat:.3f}, smallest bulk effective sample size {ess:.0f}, divergences {divergences}")
print(model.status_)

assert rhat < 1.05
assert ess > 100

# %% [markdown]
# A rank plot compares the chains: all draws of a parameter are ranked together, and each histogram shows the
# ranks of one chain. After convergence the histograms are flat, up to random variation.

# %%
slow = model.inference_data_["posterior"]["timescale"].to_numpy()[..., 0]
ranks = slow.ravel().argsort().argsort().reshape(slow.shape)
fig, axes = plt.subplots(1, len(slow), figsize=(9, 2.2), sharey=True, layout="constrained")
for chain, ax in enumerate(axes):
    ax.hist(ranks[chain], bins=10, range=(0, slow.size), color="C0", edgecolor="white")
    ax.axhline(slow.shape[1] / 10, color="k", ls="--", lw=1)
    ax.set(title=f"chain {chain + 1}", xlabel="rank")
axes[0].set_ylabel("number of draws")
_ = fig.suptitle("ranks of the slowest time scale (dashed: expected after convergence)", fontsize="medium")

# %% [markdown]
# ### Label switching
#
# The likelihood does not change if two factors are exchanged or the sign of a factor is changed. Therefore
# draws are relabelled before averages are computed. `relabelling_` reports how many draws were changed.

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
print("sizes of the draws of the factors:", dict(tree["posterior_predictive"]["latents"].sizes))

# %%
fig, axes = plt.subplots(1, 2, figsize=(7, 2.8), sharey=True, sharex=True, layout="constrained")
plots.plot_loadings(model, axes=axes)
_ = fig.suptitle("loadings of each factor: medians, 50 % and 90 % credible intervals", fontsize="medium")

# %% [markdown]
# ## Priors
#
# `BayesianSFA(2, priors=Priors(timescale=...))` accepts any prior of NumPyro. The effect of another prior
# can be estimated without a new fit: draws from one posterior, weighted by the ratio of the two priors,
# represent the other posterior.
#
# Here two experts disagree: one expects the slowest time scale to be about a week, the other two months.
# Both analyze 110 days, then 1,100 days. For the long series, `inference="svi"` replaces the sampler by a
# Gaussian approximation with importance weights. This takes seconds instead of minutes.

# %%
long_series = make_slow_mixture(1100, 4, decay=decay, noise_variance=0.3, random_state=8).data
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    approximate = BayesianSFA(2, inference="svi", verbose=False, random_state=0).fit(long_series)
slow_long = approximate.to_datatree()["posterior"]["timescale"].to_numpy()[..., 0]
draws_by_length = {110: slow.ravel(), 1100: slow_long.ravel()}
expert_priors = {
    "expects a week": dist.LogNormal(np.log(7.0), 0.5),
    "expects two months": dist.LogNormal(np.log(60.0), 0.5),
}

# %%
medians, weights = {}, {}
for n_days, draws in draws_by_length.items():
    for expert, prior in expert_priors.items():
        log_ratio = np.asarray(prior.log_prob(draws) - Priors().timescale.log_prob(draws))
        weight = np.exp(log_ratio - log_ratio.max())
        weights[n_days, expert] = weight = weight / weight.sum()
        order = np.argsort(draws)
        medians[n_days, expert] = draws[order][np.searchsorted(np.cumsum(weight[order]), 0.5)]
        print(
            f"{n_days:>5} days, {expert:<18} median {medians[n_days, expert]:3.0f} days"
            f"   (effective number of draws {1 / np.sum(weight**2):.0f})"
        )

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 2.8), sharex=True, layout="constrained")
bins = np.geomspace(2, 200, 30)
for ax, (n_days, draws) in zip(axes, draws_by_length.items(), strict=True):
    for expert, color in zip(expert_priors, ("C0", "C1"), strict=True):
        prior_probability = np.diff(np.asarray(expert_priors[expert].cdf(bins)))
        ax.stairs(prior_probability, bins, color=color, ls="--")
        ax.hist(draws, bins, weights=weights[n_days, expert], color=color, alpha=0.5, label=expert)
    ax.axvline(true_timescales[0], color="k", lw=1, ls=":", label="truth")
    ax.set(xscale="log", xlabel="slowest time scale (days)", yticks=[], title=f"{n_days} days")
axes[0].set_ylabel("probability")
_ = axes[1].legend(
    loc="upper left", fontsize="x-small", title="dashed: prior, filled: posterior", title_fontsize="x-small"
)

# %%
ratio_of_medians = {
    n: medians[n, "expects two months"] / medians[n, "expects a week"] for n in draws_by_length
}
for n_days, factor in ratio_of_medians.items():
    print(f"{n_days:>4} days: the medians of the experts differ by a factor of {factor:.1f}")
assert ratio_of_medians[110] > 1.5 * ratio_of_medians[1100]

# %% [markdown]
# The effect of the prior is large for the short series and smaller for the long one.
#
# ## Posterior predictive check
#
# Series simulated from the fitted model are compared with the observed series by a statistic that was not
# fitted: the autocorrelation function of a column.

# %%
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
plots.plot_predictive_check(model, 0, lags=25, ax=ax)
_ = ax.set_title("observed series and series simulated from the fitted model")

# %% [markdown]
# Up to a lag of ten days the observed autocorrelation is within the band; at longer lags it is near or
# below the lower limit. These deviations are not independent, because estimates at adjacent lags are strongly
# correlated. Values outside the band at short lags, or oscillations, would indicate a misspecified model.
#
# ## Uncertainty of imputed values and forecasts
#
# Each draw of the parameters has its own predictions; intervals are quantiles over all draws. The plug-in
# forecast uses the maximum likelihood estimate as if it were the true value.

# %%
fig, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
plots.plot_imputation_fan(model, X, 0, truth=complete["north"], rows=slice(35, 80), ax=ax)
ax.set_title("imputed values and prediction intervals in an outage", pad=26)
_ = ax.set_ylabel("north (no units)")

# %%
imputed, low, high = model.impute(X, interval=0.9)
inside = float(np.mean(((complete > low) & (complete < high)).to_numpy()[hidden]))
print(f"the 90 % intervals contain {100 * inside:.0f} % of the {hidden.sum()} hidden values")
assert 0.82 < inside < 0.98

# %%
forecast = model.forecast(X, 20)
plug_in_forecast = maximum_likelihood.forecast(X, 20)
for horizon in (1, 5, 20):
    bayes, plug_in = (np.asarray(f.std)[horizon - 1, 0] for f in (forecast, plug_in_forecast))
    print(f"{horizon:>3} days ahead: standard deviation {bayes:.2f} (Bayesian), {plug_in:.2f} (plug-in)")
    assert bayes > plug_in

# %% [markdown]
# ## Summary
#
# * The posterior shows how much information a series contains about its time scales. With a hundred rows the
#   limits of a 90 % interval may differ by a factor of five.
# * First check R-hat (near 1) and the effective sample size (at least some hundreds); `status_` reports both.
# * For short series the prior matters. Change it and compare the results.
# * Signs and order of the factors are arbitrary; therefore draws are relabelled.
# * `probsfa.bayes.FactorialAR1` is the likelihood as a NumPyro distribution, for other models.
