"""The interface of heavy-tailed noise supports contaminated normal noise, which the package does not have."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import multivariate_normal

from probsfa import ProbabilisticSFA, load
from probsfa.statespace.noise import TAILS
from probsfa.statespace.noise.tails import HeavyTails
from probsfa.statespace.parameters import QUANTITIES
from probsfa.statespace.quantities import Quantity

WEIGHTS = np.array([1.0, 0.01])


@dataclass(frozen=True)
class ContaminatedNoise(HeavyTails):
    """Noise whose standard deviation is ten times larger in one of `odds + 1` values."""

    odds: float = 20.0
    by_row: bool = False
    shapes = (3.0, 1e5)
    quantities = (Quantity("odds_", "odds", "", ("column",)),)

    @property
    def shape(self):
        return self.odds

    def with_shape(self, shape):
        return replace(self, odds=shape)

    @property
    def sentence(self):
        return f" One of {self.odds + 1.0:.0f} values is an outlier."

    @property
    def shares(self):
        return np.array([self.odds, 1.0]) / (1.0 + self.odds)

    @property
    def variance(self):
        return float(self.shares @ (1.0 / WEIGHTS))

    @property
    def location_variance(self):
        return float(1.0 / (self.shares @ WEIGHTS))

    def logs(self, s, n):
        return np.log(self.shares) + 0.5 * n[..., None] * np.log(WEIGHTS) - 0.5 * s[..., None] * WEIGHTS

    def expected(self, of_weights, s, n):
        logs = self.logs(s, n)
        return np.exp(logs - logsumexp(logs, axis=-1, keepdims=True)) @ of_weights

    def expected_weights(self, squared_residuals, mask):
        return self.expected(WEIGHTS, squared_residuals, mask)

    def expected_variances(self, squared_residuals, mask):
        return self.expected(1.0 / WEIGHTS, squared_residuals, mask)

    def log_density(self, squared_residuals, mask):
        return logsumexp(self.logs(squared_residuals, mask), axis=-1).sum(axis=1)

    def at_best_shape(self, squared_residuals, mask):
        tried = [self.with_shape(odds) for odds in np.geomspace(*self.shapes, 200)]
        return max(tried, key=lambda noise: noise.log_density(squared_residuals, mask).sum())

    def density(self, left_out, squared_scales):
        variances = left_out.explained[:, None] + squared_scales[left_out.columns][:, None] / WEIGHTS
        terms = -0.5 * (np.log(2.0 * np.pi * variances) + left_out.errors[:, None] ** 2 / variances)
        return float(logsumexp(np.log(self.shares) + terms, axis=1).sum())

    def left_out_density(self, left_out, squared_scales):
        step = np.exp(1e-5)
        sides = np.where(np.eye(squared_scales.size, dtype=bool), step, 1.0)
        by_scales = [
            (self.density(left_out, squared_scales * e) - self.density(left_out, squared_scales / e)) / 2e-5
            for e in sides
        ]
        up, down = self.with_shape(self.odds * step), self.with_shape(self.odds / step)
        by_shape = (up.density(left_out, squared_scales) - down.density(left_out, squared_scales)) / 2e-5
        return self.density(left_out, squared_scales), np.array(by_scales), by_shape

    def scores(self, errors, explained, squared_scale):
        std = [np.sqrt(np.maximum(explained, 0.0) + squared_scale / w) for w in WEIGHTS]
        tail = sum(p * ndtr(-np.abs(errors) / s) for p, s in zip(self.shares, std, strict=True))
        return -np.sign(errors) * ndtri(np.maximum(tail, 1e-300))

    def scores_in_rows(self, errors, explained, squared_scale, squared_residuals, mask):
        return self.scores(errors, explained, squared_scale)

    def draw(self, shape, squared_scale, rng, squared_residuals=None, mask=None):
        weights = WEIGHTS[(rng.random(shape) < self.shares[1]).astype(int)]
        return rng.standard_normal(shape) * np.sqrt(squared_scale / weights)


def register(monkeypatch):
    """Add the noise to the table of noise, and its quantity to those computed from the table at import."""
    monkeypatch.setitem(TAILS, "contaminated", ContaminatedNoise())
    monkeypatch.setitem(QUANTITIES, "odds_", *ContaminatedNoise.quantities)


@pytest.fixture
def series(rng):
    """Rows with 5 % outliers and 10 % missing values, and the rows without noise."""
    z = np.zeros(300)
    for t in range(1, 300):
        z[t] = 0.95 * z[t - 1] + np.sqrt(1.0 - 0.95**2) * rng.standard_normal()
    signal = np.outer(z, [1.0, -0.7, 0.5])
    x = signal + ContaminatedNoise(19.0).draw(signal.shape, np.full(3, 0.09), rng)
    x[rng.random(x.shape) < 0.1] = np.nan
    return x, signal


def test_another_noise_requires_only_an_entry_in_the_table(series, monkeypatch, tmp_path):
    register(monkeypatch)
    x, signal = series
    model = ProbabilisticSFA(1, robust="contaminated").fit(x)
    assert 1.0 / (1.0 + model.odds_) == pytest.approx(0.05, abs=0.02)
    np.testing.assert_allclose(model.noise_variance_, 0.09, rtol=0.3)
    assert "values is an outlier" in model.status_
    hidden = np.isnan(x)
    errors = [
        np.sqrt(np.mean((one.impute(x) - signal)[hidden] ** 2)) for one in (model, ProbabilisticSFA(1).fit(x))
    ]
    assert errors[0] < 0.8 * errors[1]
    assert np.isfinite(model.diagnose(x).predictions).all()
    so_far = model.filter(x[:200])
    rest = model.filter(x[200:], so_far.state)
    np.testing.assert_allclose(rest.means, model.filter(x).means[200:], atol=1e-12)
    assert model.sample(20, random_state=0)[0].shape == (20, 3)
    model.save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    assert back.odds_ == model.odds_
    np.testing.assert_array_equal(back.impute(x), model.impute(x))
    again = model.set_params(robust=False).fit(x)
    assert not hasattr(again, "odds_")


def test_the_log_likelihood_is_a_lower_bound(rng, monkeypatch):
    """The exact likelihood is a sum over all weights of eight values; each term is a dense Gaussian."""
    register(monkeypatch)
    decay, loadings, variances = 0.9, np.array([1.0, -0.7]), np.array([0.2, 0.3])
    noise = ContaminatedNoise(9.0)
    x = rng.standard_normal((4, 2))
    x[1, 0] += 6.0
    model = ProbabilisticSFA.from_parameters(
        [decay], loadings[:, None], variances, robust="contaminated", degrees_of_freedom=noise.odds
    )
    times = np.arange(4)
    signal = np.kron(decay ** np.abs(times[:, None] - times), np.outer(loadings, loadings))
    terms = []
    for which in itertools.product([0, 1], repeat=8):
        noise_variances = np.tile(variances, 4) / WEIGHTS[list(which)]
        density = multivariate_normal.logpdf(x.ravel(), np.zeros(8), signal + np.diag(noise_variances))
        terms.append(density + np.log(noise.shares[list(which)]).sum())
    exact = logsumexp(terms)
    assert exact - 1.0 < model.log_likelihood(x) < exact
