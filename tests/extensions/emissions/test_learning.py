"""Maximization of the bound: gradients, nondecreasing bounds, and identities of fits."""

import numpy as np
import pandas as pd
import pytest

from probsfa import EmissionSFA, ProbabilisticSFA
from probsfa.extensions.emissions.families import FAMILIES
from probsfa.extensions.emissions.learning import BoundObjective, Layout, Prior, maximize_bound
from probsfa.extensions.emissions.links import LINKS
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.noise import NoiseVariances
from tests.extensions.emissions.support import draw, observations_of, parameters, shape_of
from tests.sampling import parametrize

NAMES = list(FAMILIES)


def objective_of(name, params, X, times=None):
    shape, d = shape_of(name, X.shape[1]), X.shape[1]
    packed = observations_of(name, X, times=times)
    prior = Prior(np.full(d, not FAMILIES[name].has_scale), np.full(d, 0.1))
    layout = Layout(
        Coordinates(params.state_layout, NoiseVariances.known(d), packed.panel.evenly_sampled), (shape.shape,)
    )
    vector = layout.to_vector(params, (shape,))
    return BoundObjective(packed, layout, params, prior, 10_000, 1e-12), vector


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("uneven", [False, True])
def test_gradient_of_the_bound_agrees_with_finite_differences(name, uneven):
    """Directional derivatives along random directions in all parameters."""
    params = parameters(n_features=4, decay=(0.9, 0.5))
    X, _ = draw(name, params, 40, missing=0.2)
    times = np.cumsum(np.random.default_rng(0).choice([1.0, 2.5], 40)) if uneven else None
    objective, vector = objective_of(name, params, X, times)
    gradient, step = objective(vector).gradient, 1e-4
    for direction in np.random.default_rng(1).standard_normal((4, len(vector))):
        direction /= np.linalg.norm(direction)
        ends = [objective(vector + sign * step * direction).value for sign in (1.0, -1.0)]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert gradient @ direction == pytest.approx(slope, abs=2e-5 * (1.0 + np.max(np.abs(gradient))))


@parametrize("name", NAMES, quick=["negative_binomial"])
@parametrize(
    "n_rows, n_features, decay", [(2, 1, (0.9,)), (40, 4, (0.9, 0.5)), (20, 1, (0.95, 0.6, 0.1))], quick=2
)
def test_objective_never_decreases(name, n_rows, n_features, decay):
    params = parameters(n_features, decay)
    for seed in range(3):
        X, _ = draw(name, params, n_rows, seed, missing=0.2)
        X[n_rows // 2] = np.nan
        objective, _ = objective_of(name, params, X)
        start = params.replace(loadings=(0.3 + seed) * params.loadings)
        fit = maximize_bound(
            objective.observations,
            start,
            (shape_of(name, n_features),),
            objective.prior,
            max_iter=15,
            tol=1e-3,
        )
        assert len(fit.history) >= 1 and np.all(np.diff(fit.history) >= 0.0)
        assert np.all(np.isfinite(fit.params.loadings)) and np.all(np.abs(fit.params.decay) < 1.0)


def test_model_of_gaussian_columns_is_probabilistic_sfa():
    """Likelihoods and posteriors at the same parameters are equal, and so are the maxima."""
    X = ProbabilisticSFA.from_parameters([0.95, 0.6], [[1, 0.5], [0.5, -1], [2, 0], [0, 1]], 0.3).sample(
        200, random_state=0
    )[0]
    X = 50.0 + 3.0 * X
    X[30:50, 0] = np.nan
    model = EmissionSFA(2, emission="gaussian", tol=1e-5).fit(X)
    gaussian = ProbabilisticSFA.from_parameters(
        model.decay_, model.loadings_, model.noise_variance_, model.mean_
    )
    assert model.lower_bound_ == pytest.approx(gaussian.log_likelihood(X), abs=1e-8)
    np.testing.assert_allclose(model.transform(X), gaussian.transform(X), atol=1e-8)
    np.testing.assert_allclose(model.posterior(X).covariances, gaussian.posterior(X).covariances, atol=1e-8)
    assert model.posterior(X).log_likelihood == pytest.approx(gaussian.log_likelihood(X), abs=1e-8)
    filled, std = model.impute(X, return_std=True)
    expected, expected_std = gaussian.impute(X, return_std=True)
    np.testing.assert_allclose(filled, expected, rtol=1e-8)
    np.testing.assert_allclose(std, expected_std, rtol=1e-8)
    assert model.lower_bound_ == pytest.approx(ProbabilisticSFA(2, tol=1e-5).fit(X).log_likelihood_, abs=1e-3)


@pytest.fixture(scope="module")
def mixed():
    params = parameters(6, (0.95, 0.6))
    kinds = [*(name for name in NAMES if name not in LINKS), "gaussian"]
    columns = [draw(name, params, 200, seed=3)[0][:, j] for j, name in enumerate(kinds)]
    X = np.stack(columns, axis=1)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X, tuple(kinds)


@pytest.mark.parametrize("seed", [19, 24, 45, 55, 58, 59])
def test_signs_with_missing_values_agree_with_probabilistic_sfa(seed):
    """Columns with many missing values must not count as noisier in the rule that fixes the signs."""
    rng = np.random.default_rng(seed)
    model = ProbabilisticSFA.from_parameters([0.95, 0.7], rng.standard_normal((4, 2)), 0.5)
    X = model.sample(120, random_state=seed)[0]
    X[rng.random(X.shape) < np.array([0.05, 0.6, 0.3, 0.5])] = np.nan
    ours = EmissionSFA(2, emission="gaussian").fit(X).transform(X)
    theirs = ProbabilisticSFA(2).fit(X).transform(X)
    assert all(np.corrcoef(ours[:, k], theirs[:, k])[0, 1] > 0.9 for k in range(2))


def test_units_of_columns_do_not_matter(mixed):
    X, emission = mixed
    scale = np.array([1e6, 1e-6, 1.0, 1.0, 1.0, 10.0])
    shift = np.array([1e4, 1e-3, 0.0, 0.0, 0.0, 7.0])
    model = EmissionSFA(2, emission=emission).fit(X)
    other = EmissionSFA(2, emission=emission).fit(shift + scale * X)
    np.testing.assert_allclose(other.decay_, model.decay_, rtol=1e-6)
    np.testing.assert_allclose(
        other.loadings_, model.loadings_ * scale[:, None], rtol=1e-5, atol=1e-8 * scale.max()
    )
    counts = np.sum(~np.isnan(X), axis=0)
    assert other.lower_bound_ == pytest.approx(model.lower_bound_ - counts @ np.log(scale), abs=1e-4)


def test_order_of_columns_does_not_matter(mixed):
    X, emission = mixed
    order = [4, 2, 0, 5, 1, 3]
    model = EmissionSFA(2, emission=emission, tol=1e-6).fit(X)
    other = EmissionSFA(2, emission=[emission[j] for j in order], tol=1e-6).fit(X[:, order])
    assert other.lower_bound_ == pytest.approx(model.lower_bound_, abs=1e-4)
    np.testing.assert_allclose(other.loadings_, model.loadings_[order], atol=5e-3)


def test_factors_are_in_canonical_form():
    loadings = np.array([[-0.5, 0.1], [1.0, 0.3], [0.2, -1.0], [-0.4, 0.4]])
    X, _ = draw("poisson", parameters(4, (0.97, 0.7)).replace(loadings=-loadings), 600)
    model = EmissionSFA(2, emission="poisson").fit(X)
    assert np.all(np.diff(model.decay_) < 0.0)
    # The correlation of largest magnitude between a latent and a column is positive.
    correlation = np.corrcoef(model.transform(X).T, np.sqrt(X).T)[:2, 2:]
    assert np.argmax(np.abs(correlation), axis=1).tolist() == [1, 2]
    assert np.all(correlation[[0, 1], [1, 2]] > 0.5)


def test_parameters_are_recovered():
    rng = np.random.default_rng(0)
    loadings = rng.choice([-1.0, 1.0], (8, 1)) * rng.uniform(0.5, 1.0, (8, 1))
    params = parameters(8, (0.95,)).replace(loadings=loadings)
    X, factors = draw("negative_binomial", params, 2000)
    model = EmissionSFA(1, emission="negative_binomial").fit(X)
    assert model.converged_ and model.decay_[0] == pytest.approx(0.95, abs=0.02)
    sign = np.sign(model.loadings_[0, 0] * loadings[0, 0])
    np.testing.assert_allclose(sign * model.loadings_, loadings, atol=0.15)
    np.testing.assert_allclose(model.size_, 2.5, rtol=0.3)
    assert abs(np.corrcoef(model.transform(X)[:, 0], factors[:, 0])[0, 1]) > 0.95


@pytest.mark.parametrize("name, value", [("bernoulli", 1.0), ("bernoulli", 0.0), ("poisson", 0.0)])
def test_fit_of_a_constant_column_converges(name, value):
    """The likelihood of a constant column has no maximum; with the priors it has one."""
    X, _ = draw(name, parameters(4), 100)
    X[:, 2] = value
    model = EmissionSFA(1, emission=name).fit(X)
    assert model.converged_ and np.all(np.isfinite(model.loadings_))
    assert np.abs(model.loadings_[2]).max() < 2.0 and np.abs(model.mean_[2]) < 20.0


def test_outliers_hardly_change_factors_with_student_t_noise():
    params = parameters(5, (0.95,)).replace(loadings=np.ones((5, 1)))
    X, factors = draw("gaussian", params, 400)
    rng = np.random.default_rng(1)
    X[rng.random(X.shape) < 0.03] += 40.0
    robust = EmissionSFA(1, emission="student_t").fit(X)
    plain = ProbabilisticSFA(1).fit(X)
    quality = [abs(np.corrcoef(m.transform(X)[:, 0], factors[:, 0])[0, 1]) for m in (robust, plain)]
    assert quality[0] > 0.95 and quality[0] > quality[1] + 0.05
    assert np.all(robust.degrees_of_freedom_ < 5.0)


def test_cycles_are_found_in_counts():
    rng = np.random.default_rng(0)
    t = np.arange(600)
    phase = 2 * np.pi * t / 24
    X = rng.poisson(np.exp(1.0 + np.stack([np.sin(phase), np.cos(phase), -np.sin(phase)], axis=1)))
    model = EmissionSFA(0, emission="poisson", rhythms=1).fit(X)
    assert model.rhythm_periods_[0] == pytest.approx(24.0, rel=0.01)
    assert list(model.get_feature_names_out()) == ["rhythm0_cos", "rhythm0_sin"]


@pytest.mark.exhaustive
def test_levels_follow_the_factor():
    """Probabilities of levels (sequential logits) agree with the frequencies of draws."""
    params = parameters(4, (0.95,)).replace(loadings=np.ones((4, 1)))
    X, factors = draw("gaussian", params, 400)
    levels = np.digitize(X, [-0.8, 0.3, 1.4]).astype(float) * 5.0
    model = EmissionSFA(1, emission="categorical").fit(levels)
    assert abs(np.corrcoef(model.transform(levels)[:, 0], factors[:, 0])[0, 1]) > 0.9
    hidden = levels.copy()
    hidden[::7, 0] = np.nan
    p = model.level_probabilities(hidden)[0]
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.levels_[0], [0.0, 5.0, 10.0, 15.0])
    truth = np.searchsorted(model.levels_[0], levels[::7, 0])
    frequent = np.max(np.mean(levels[:, :1] == model.levels_[0], axis=0))
    chosen = np.take_along_axis(p[::7], truth[:, None], axis=1)
    assert np.mean(chosen) > frequent
    # Frequencies in draws agree within six standard errors.
    draws = model.sample_posterior(hidden, 4000, of="values", random_state=0)[:, 0, 0]
    shares = [np.mean(draws == level) for level in model.levels_[0]]
    np.testing.assert_allclose(shares, p[0], atol=6 * 0.5 / np.sqrt(4000))


def test_auto_selects_the_emission_of_each_column(mixed):
    X = np.stack([mixed[0][:, 2], mixed[0][:, 3], mixed[0][:, 0]], axis=1)
    frame = pd.DataFrame(X, columns=["event", "count", "level"])
    assert EmissionSFA(1).fit(frame).emissions_ == ("bernoulli", "negative_binomial", "gaussian")
    mixture = EmissionSFA(1, emission={"count": "poisson", 2: "student_t"}).fit(frame)
    assert mixture.emissions_ == ("bernoulli", "poisson", "student_t")


# ---------------------------------------------------------------- links


def linked_series(function, seed=0, n_rows=300, n_features=6):
    """Draw columns that are functions of predictors of two factors, with noise of a tenth of the variance."""
    params = parameters(n_features, (0.97, 0.8), seed)
    X, factors = draw("gaussian", params, n_rows, seed)
    rng = np.random.default_rng(seed)
    signal = function(factors @ params.loadings.T)
    noise = np.sqrt(0.1) * signal.std(axis=0) * rng.standard_normal(signal.shape)
    return 20.0 + 3.0 * (signal + noise), factors, params


FUNCTIONS = {"monotone": lambda eta: np.tanh(1.5 * eta), "quadratic": lambda eta: eta + 0.5 * eta**2}


@parametrize("name", list(FUNCTIONS), quick=["quadratic"])
def test_a_link_is_learned(name):
    X, factors, params = linked_series(FUNCTIONS[name])
    X[50:60, 0] = np.nan
    X[100] = np.nan
    linear = EmissionSFA(2, emission="gaussian").fit(X)
    model = EmissionSFA(2, link=name).fit(X)
    assert model.links_ == (name,) * 6 and model.emissions_ == ("gaussian",) * 6
    assert np.all(np.diff(model.history_) >= 0.0)
    assert model.lower_bound_ > linear.lower_bound_ + 50.0
    signal = 20.0 + 3.0 * FUNCTIONS[name](factors @ params.loadings[2])
    errors = []
    for each in (model, linear):
        eta = each.mean_[2] + each.transform(X) @ each.loadings_[2]
        errors.append(np.sqrt(np.mean((each.column_mean(2, eta) - signal) ** 2)))
    assert errors[0] < 0.9 * errors[1]
    rising = np.diff(model.column_mean(2, np.linspace(-300.0, 300.0, 50))) > 0.0
    assert rising.all() == (name == "monotone")
    filled, low, high = model.impute(X, interval=0.9)
    assert np.all(np.isfinite(filled)) and np.all(low <= high)


def test_a_link_can_be_set_for_some_columns():
    X, _, _ = linked_series(FUNCTIONS["monotone"], n_rows=80, n_features=4)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["d"] = (frame["d"] > 20.0).astype(float)
    model = EmissionSFA(1, link={"b": "quadratic"}).fit(frame)
    assert model.links_ == ("identity", "quadratic", "identity", "identity")
    one = EmissionSFA(1, link="monotone").fit(frame)
    assert one.links_ == ("monotone",) * 3 + ("identity",)
    np.testing.assert_allclose(model.column_mean("a", np.array([19.0, 21.0])), [19.0, 21.0])
    with pytest.raises(ValueError, match="column 3 has 'bernoulli'"):
        EmissionSFA(1, link={"d": "monotone"}).fit(frame)
    with pytest.raises(ValueError, match="no column"):
        EmissionSFA(1, link="monotone").fit(frame[["d"]])
    with pytest.raises(ValueError, match="link.*got 'cubic'"):
        EmissionSFA(1, link="cubic").fit(frame)
    with pytest.raises(ValueError, match="link has 2 entries"):
        EmissionSFA(1, link=["monotone", "monotone"]).fit(frame)
