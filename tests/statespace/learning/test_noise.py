"""The weak prior of relative noise variances, by its density."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import WEAK_PRIOR, Noise, is_heywood

FLOOR = np.full(3, 1e-9)


def log_density(rho):
    return np.log(rho / (rho + WEAK_PRIOR))


@pytest.mark.parametrize(("kind", "n"), [("diagonal", 3), ("isotropic", 1), ("known", 0)])
def test_the_density_falls_with_the_variance_below_a_ten_thousandth(kind, n):
    rho = np.array([1e-7, 1e-4, 0.3])
    noise = Noise(getattr(NoiseVariances, kind)(FLOOR.size), FLOOR, WEAK_PRIOR)
    assert noise.log_prior(rho) == pytest.approx(log_density(rho)[:n].sum(), rel=1e-12)
    step = 1e-5
    derivatives = (log_density(rho * np.exp(step)) - log_density(rho * np.exp(-step))) / (2.0 * step)
    np.testing.assert_allclose(noise.prior_gradient(rho), derivatives[:n], rtol=1e-6)
    assert np.all(noise.prior_gradient(rho) < 1.0)  # nats for each factor of e


def test_a_fixed_variance_has_no_prior():
    rho = np.array([1e-7, 1e-4, 0.3])
    noise = Noise(
        NoiseVariances.diagonal(FLOOR.size), FLOOR, WEAK_PRIOR, fixed=np.array([np.nan, 1e-4, np.nan])
    )
    assert noise.log_prior(rho) == pytest.approx(log_density(rho[[0, 2]]).sum(), rel=1e-12)
    np.testing.assert_array_equal(noise.prior_gradient(rho) > 0.0, [True, False, True])


@pytest.mark.parametrize("counts", [1.0, 50.0, 1e5])
@pytest.mark.parametrize("mean_square", [0.0, 1e-12, 1e-7, 1e-4, 0.3])
def test_the_best_variance_is_the_numerical_optimum(counts, mean_square):
    power = counts * mean_square
    [best] = Noise(NoiseVariances.diagonal(FLOOR.size), FLOOR, WEAK_PRIOR).best_variance(
        np.array([counts]), np.array([power])
    )

    def loss(log_rho):
        rho = np.exp(log_rho)
        return 0.5 * (counts * log_rho + power / rho) - log_density(rho)

    if power == 0.0:  # only the floor bounds it, unless one value has less information than the prior
        assert best == pytest.approx(max(WEAK_PRIOR * (2.0 - counts) / counts, 0.0))
        return
    wanted = minimize_scalar(loss, bounds=(-40.0, 5.0), method="bounded", options={"xatol": 1e-11})
    assert np.log(best) == pytest.approx(wanted.x, abs=1e-6)


def test_without_a_prior_it_is_the_mean_square():
    noise = Noise(NoiseVariances.diagonal(FLOOR.size), FLOOR)
    np.testing.assert_array_equal(noise.best_variance(np.array([4.0]), np.array([2.0])), [0.5])
    assert noise.log_prior(np.ones(3)) == 0.0 and not noise.prior_gradient(np.ones(3)).any()


def test_a_heywood_case_is_one_zero_variance_among_positive_ones():
    assert is_heywood(np.array([1e-5, 0.1, 0.2]))
    assert not is_heywood(np.array([1e-5, 1e-5, 0.2])) and not is_heywood(np.array([1e-3, 0.1, 0.2]))
