"""How many latents: found again in simulated data, with warm starts that pay and scores by definition."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from probsfa import ProbabilisticSFA, select_n_components
from probsfa.datasets import make_slow_mixture
from probsfa.statespace import selection
from probsfa.statespace.engine.posterior import log_likelihood
from probsfa.statespace.growth import enlarged
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.parameters import Latents
from tests.sampling import sparsely
from tests.statespace.support import to_panel


def mixture(seed, decay=(0.98, 0.9, 0.6), n_rows=500, n_features=8):
    return make_slow_mixture(n_rows, n_features, decay=decay, noise_variance=0.3, random_state=seed).data


# Data and hidden cells are drawn: one draw in some tens rightly takes one latent too many.
@sparsely("decay", [(0.95,), (0.98, 0.8), (0.98, 0.9, 0.6)], shown=0)
def test_the_number_of_factors_is_found_again(decay):
    found = select_n_components(mixture(0, decay), [5, 1, 2, 3, 4], random_state=0)
    assert found.n_components == len(decay)
    np.testing.assert_array_equal(found.candidates, [1, 2, 3, 4, 5])
    # Latents that are missing cost much, latents too many little.
    best = found.log_density.max()
    assert np.all(best - found.log_density[len(decay) - 1 :] < 0.05)
    assert np.all(best - found.log_density[: len(decay) - 1] > 0.05)


@sparsely("seed", [0, 1], shown=0)
def test_warm_starts_need_fewer_evaluations_than_cold_ones(seed):
    X = mixture(seed)
    warm = select_n_components(X, range(1, 6), random_state=seed)
    cold = [select_n_components(X, [k], random_state=seed) for k in range(1, 6)]
    assert warm.n_evaluations.sum() < 0.9 * sum(each.n_evaluations[0] for each in cold)
    # And find as much: the hidden cells are the same.
    differences = warm.log_density - np.array([each.log_density[0] for each in cold])
    assert np.all(differences > -0.02)


def test_scores_are_those_of_the_hidden_values(monkeypatch, seed):
    """By SciPy's normal law and the estimator's own imputation, of a fit to what was left to see."""
    X = mixture(seed, n_rows=200) * 7.0 + 100.0
    X[20:40, 1] = np.nan
    kept, hide = {}, selection._hide
    monkeypatch.setattr(selection, "_hide", lambda *a: kept.setdefault("hidden", hide(*a)))
    found = select_n_components(X, [2], random_state=seed, tol=1e-6)
    cells, blocks, _ = kept["hidden"]
    hidden = cells | blocks
    assert not np.any(cells & blocks) and not np.any(hidden & np.isnan(X))
    assert 0.05 < hidden.sum() / np.isfinite(X).sum() < 0.15
    seen = np.where(hidden, np.nan, X)
    filled, std = ProbabilisticSFA(2, tol=1e-6).fit(seen).impute(seen, return_std=True)
    units = np.broadcast_to(np.nanstd(X, axis=0), X.shape)
    for name, where in (("cells", cells), ("blocks", blocks)):
        wanted = norm.logpdf(X[where], filled[where], std[where]) + np.log(units[where])
        assert getattr(found, f"log_density_{name}")[0] == pytest.approx(wanted.mean(), abs=1e-3)
        error = ((X - filled) / units)[where]
        assert getattr(found, f"rmse_{name}")[0] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-3)


def test_the_standard_error_is_that_of_a_mean_of_blocks(rng):
    """Against means over blocks of equal size, which are independent."""
    blocks, size = 40, 6
    densities = rng.standard_normal((3, blocks))[:, :, None] + np.zeros(size)
    chosen, error = selection._choose(densities.reshape(3, -1), np.repeat(np.arange(blocks), size), "best")
    means = densities[:, :, 0]
    assert chosen == np.argmax(means.mean(axis=1))
    wanted = (means[chosen] - means).std(axis=1, ddof=1) / np.sqrt(blocks)
    np.testing.assert_allclose(error, wanted, rtol=1e-12, atol=1e-15)


def test_the_rule_prefers_few(rng):
    noise = rng.standard_normal(400)
    densities = np.array([noise - 1.0, noise - 0.001 * rng.random(400), noise, noise - 0.5])
    densities[2] += 0.1 * rng.standard_normal(400) ** 2 * 0.01
    own = np.arange(400)
    assert selection._choose(densities, own, "best")[0] == 2
    chosen, error = selection._choose(densities, own, "two_standard_errors")
    assert chosen in (1, 2) and error[2] == 0.0


def test_new_factors_raise_the_likelihood(rng):
    """The start with one more latent is better than the fit without it, where there is one more to find."""
    X = mixture(3)
    panel = to_panel([(X - X.mean(axis=0)) / X.std(axis=0)])
    params = ProbabilisticSFA(2).fit(X).params_
    shift, scale = X.mean(axis=0), X.std(axis=0)
    inner = params.replace(
        loadings=params.loadings / scale[:, None],
        noise_variance=params.noise_variance / scale**2,
        offset=(params.offset - shift) / scale,
    )
    noise = Noise(NoiseVariances.diagonal(8), np.full(8, 1e-9))
    larger = enlarged(inner, panel, Latents(3), noise)
    np.testing.assert_array_equal(larger.loadings[:, :2], inner.loadings)
    assert log_likelihood(larger, panel) > log_likelihood(inner, panel) + 50.0
    assert enlarged(inner, panel, Latents(11), noise).n_components == 11


@sparsely("noise", ["isotropic", 0.3], shown=0)
def test_other_noise_and_other_input(noise):
    X = mixture(0, (0.95,), 300, 4)
    frames = [pd.DataFrame(X[:120]), pd.DataFrame(X[120:])]
    found = select_n_components(frames, [1, 2], noise=noise, random_state=1)
    assert found.n_components == 1
    times = np.cumsum(np.random.default_rng(0).choice([1.0, 2.0], 300))
    assert select_n_components(X, [1], noise=noise, times=times, random_state=1).n_components == 1


def test_the_same_seedhides_the_same_values():
    X = mixture(0, (0.95,), 200, 4)
    one, two = (select_n_components(X, [1], random_state=5) for _ in range(2))
    assert one.log_density[0] == two.log_density[0]


def test_the_curve_is_drawn():
    found = select_n_components(mixture(0, (0.95,), 200, 4), [1, 2], random_state=0)
    left, right = found.plot()
    np.testing.assert_array_equal(left.lines[0].get_ydata(), found.log_density_cells)
    np.testing.assert_array_equal(right.lines[1].get_ydata(), found.rmse_blocks)
    with pytest.raises(ValueError, match="axes.*2"):
        found.plot(axes=[left])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": []}, "candidates"),
        ({"candidates": [0]}, "candidates.*1.*0"),
        ({"candidates": [1.5]}, "candidates"),
        ({"rule": "other"}, "rule"),
        ({"noise": 0.0}, "noise"),
        ({"noise": "none"}, "noise must be 'auto', 'diagonal'"),
        ({"fraction": 1.0}, "fraction"),
        ({"block": 0}, "block.*1"),
        ({"X": np.arange(6.0).reshape(3, 2)}, "too few"),
    ],
)
def test_bad_input_is_named(options, message):
    arguments = {"X": mixture(0, (0.95,), 100, 3), "candidates": [1], "random_state": 0, **options}
    with pytest.raises(ValueError, match=message):
        select_n_components(arguments.pop("X"), arguments.pop("candidates"), **arguments)
