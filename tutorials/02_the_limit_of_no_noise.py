# %% [markdown]
# # The limit of no noise
#
# **Question:** in what sense is the probabilistic model slow feature analysis (SFA)?
#
# Turner & Sahani (2007) showed that with as many latents as channels, and without observation noise, the
# directions of largest likelihood are those of SFA, up to terms that vanish with the length of the series.
# We watch it happen.

# %%
import matplotlib.pyplot as plt
import numpy as np

import probsfa
from probsfa.datasets import make_slow_mixture

X = make_slow_mixture(4000, 3, decay=[0.99, 0.9, 0.6], noise_variance=0.0, random_state=1).data
sfa = probsfa.SFA().fit(X)

# %% [markdown]
# ## The limit itself
#
# `noise=0.0` is the closed form: same directions, same order, and decays that are `1 - delta / 2`.

# %%
limit = probsfa.ProbabilisticSFA(3, noise=0.0).fit(X)
difference = np.abs(limit.transform(X) - sfa.transform(X)).max()
print(limit.status_)
print("largest difference of the features:", difference)
print("decay:", limit.decay_.round(4), " 1 - delta / 2:", (1 - sfa.delta_values_ / 2).round(4))

# %% [markdown]
# ## The way there
#
# For a fixed, small noise variance the general solver is used. The angle between its recognition weights
# and SFA's, in the space where the data are white, falls with the noise until the ends of the series
# matter, which are of order 1/T.

# %%
noises = [1e-2, 1e-3, 1e-4, 1e-5, 1e-6]
angles = []
for noise in noises:
    model = probsfa.ProbabilisticSFA(3, noise=noise).fit(X)
    weights = np.linalg.pinv(model.loadings_) @ sfa.loadings_
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    off_axis = np.sqrt(np.sum(weights**2, axis=1) - np.max(weights**2, axis=1))
    angles.append(np.degrees(np.arcsin(off_axis)).max())
    print(f"r = {noise:.0e}: largest angle {angles[-1]:.4f} degrees")

# %%
fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.loglog(noises, angles, "o-")
_ = ax.set(xlabel="noise variance", ylabel="largest angle (degrees)")

# %% [markdown]
# ## Key takeaways
#
# * SFA is maximum likelihood for a model that believes its data to be free of noise.
# * With a little noise the answers differ a little; with much noise the belief matters (tutorial 1).
#
# ## Next steps
#
# Fill the holes of your own record: `probsfa impute DATA.csv -o FILLED.csv`.

# %%
assert difference < 1e-10
assert np.allclose(limit.decay_, 1 - sfa.delta_values_ / 2, atol=1e-12)
assert angles[-1] < 0.05 * angles[0]
