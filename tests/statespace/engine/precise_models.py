"""Models of many latents, and such as are as precise as the information form is chosen for."""

import numpy as np

from probsfa.statespace.engine import information_form
from tests.oracles import statespace as oracle
from tests.statespace.support import punch, to_parameters


def many_latents(rng, n_features=4, n_components=11, slowest=0.99, noise=0.3):
    decay = np.linspace(slowest, -0.5, n_components)
    loadings = rng.standard_normal((n_features, n_components))
    spread = noise * rng.uniform(0.5, 1.5, n_features)
    return oracle.Model(decay, loadings, spread, rng.standard_normal(n_features))


def at_the_limit(model, panel, limit):
    """The model with the least noise, or the slowest latent, for which it is chosen."""
    if limit == "noise":
        precision = information_form.largest_precision(to_parameters(model), panel)
        return model._replace(noise=1.01 * model.noise * precision / information_form.MOST_PRECISION)
    slowest = 1.0 - 0.6 / information_form.MOST_PRECISION
    return model._replace(decay=np.concatenate([[slowest], model.decay[1:]]))


def as_precise(model, precision):
    """The model with so much noise that a row and its slowest latent tell no more than that of a state."""
    scaled = model.loadings / np.sqrt(model.noise)[:, None]
    of_rows = precision - 1.0 / (1.0 - model.decay[0] ** 2)
    return model._replace(noise=1.01 * model.noise * np.linalg.norm(scaled, 2) ** 2 / of_rows)


def precise(seed, precision):
    """Nine latents, quick and slow, in twelve columns of unlike noise, with rows that see a part of them."""
    rng = np.random.default_rng(seed)
    model = many_latents(rng, 12, 9, 0.99)
    model = as_precise(model._replace(noise=model.noise * 10.0 ** rng.uniform(-2.0, 0.0, 12)), precision)
    return model, punch(rng, oracle.simulate(rng, model, [1000]), "scattered")
