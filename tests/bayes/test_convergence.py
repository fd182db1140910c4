"""R-hat and effective sample sizes are equal to those of ArviZ."""

import warnings

import numpy as np
import pytest
from scipy.signal import lfilter

from probsfa.bayes.convergence import bulk_ess, rank_normalized_rhat, tail_ess
from tests.tolerances import EXACT

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz


def by_arviz(draws):
    """Return R-hat, bulk and tail effective sample size of draws (C, N, E), by ArviZ."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = [draws[..., i] for i in range(draws.shape[-1])]
        return (
            [float(arviz.rhat(x)) for x in each],
            [float(arviz.ess(x, method="bulk")) for x in each],
            [float(arviz.ess(x, method="tail", prob=(0.05, 0.95))) for x in each],
        )


def chains(rng, kind, shape):
    shocks = rng.standard_normal(shape)
    if kind == "independent":
        return shocks
    if kind == "correlated":
        return lfilter([1.0], [1.0, -0.95], shocks, axis=1)
    if kind == "alternating":
        return lfilter([1.0], [1.0, 0.9], shocks, axis=1)
    if kind == "different means":
        return shocks + 0.3 * np.arange(shape[0])[:, None, None]
    if kind == "different widths":
        return shocks * np.linspace(1.0, 2.0, shape[0])[:, None, None]
    if kind == "heavy tails":
        return lfilter([1.0], [1.0, -0.7], rng.standard_cauchy(shape), axis=1)
    assert kind == "ties"
    return np.round(lfilter([1.0], [1.0, -0.8], shocks, axis=1))


@pytest.mark.parametrize(
    "kind",
    [
        "independent",
        "correlated",
        "alternating",
        "different means",
        "different widths",
        "heavy tails",
        "ties",
    ],
)
@pytest.mark.parametrize("shape", [(4, 500, 3), (2, 37, 3), (3, 8, 2), (2, 5, 2)])
def test_measures_are_those_of_arviz(rng, kind, shape):
    draws = chains(rng, kind, shape)
    for measure, wanted in zip((rank_normalized_rhat, bulk_ess, tail_ess), by_arviz(draws), strict=True):
        np.testing.assert_allclose(measure(draws), wanted, rtol=EXACT)


def test_the_halves_of_a_single_chain_are_compared(rng):
    draws = rng.standard_normal((1, 400, 1))
    assert rank_normalized_rhat(draws) < 1.02
    assert rank_normalized_rhat(draws + np.linspace(0.0, 3.0, 400)[:, None]) > 1.2
    np.testing.assert_allclose(bulk_ess(draws), by_arviz(draws)[1], rtol=EXACT)
