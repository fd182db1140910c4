"""Models with cycles, smooth factors and AR(1) noise: their likelihood, their gradients, and fits."""

import warnings

import jax
import numpy as np
import pytest
from scipy.special import gammainc
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning

import probsfa
from probsfa import BayesianSFA
from probsfa._validation import Sequences
from probsfa.bayes.coordinates.symmetry import log_phase_weight
from probsfa.bayes.draws import StructuralDraws, thinned
from probsfa.bayes.model import from_panel
from probsfa.bayes.relabelling.ordering import aligned_with
from probsfa.bayes.structural import _gammainc_3, log_likelihood
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import simulate
from tests.tolerances import EXACT

T, D = 12, 3


def make_draws(rng, cycles, smooth, ar_noise):
    """Parameters of a model with one AR(1) factor and so many other processes."""
    own = D if ar_noise else 0
    loadings = rng.standard_normal((D, 1 + 2 * cycles + 2 * smooth))
    loadings[:, 2 + 2 * cycles :: 2] = 0.0
    return StructuralDraws(
        np.array([0.8]),
        loadings,
        rng.uniform(0.2, 0.6, D),
        rng.standard_normal(D),
        rng.uniform(0.8, 0.95, cycles),
        rng.uniform(0.5, 1.5, cycles),
        rng.uniform(0.3, 0.8, smooth),
        rng.uniform(0.3, 0.7, own),
        rng.uniform(0.4, 0.8, own),
    )


def covariance(params, times):
    """Covariance (N D, N D) of the rows at times, by the kernels of the processes."""
    lag = np.abs(times[:, None] - times)
    signed = times[:, None] - times
    out = np.kron(np.eye(len(times)), np.diag(params.noise_variance))
    c = params.loadings
    out += np.kron(params.decay[0] ** lag, np.outer(c[:, 0], c[:, 0]))
    first = 1
    for rho, omega in zip(params.rhythm_decay, params.rhythm_frequency, strict=True):
        a, b = c[:, first], c[:, first + 1]
        cos, sin = (rho**lag * f(omega * signed) for f in (np.cos, np.sin))
        out += np.kron(cos, np.outer(a, a) + np.outer(b, b))
        out += np.kron(sin, np.outer(b, a) - np.outer(a, b))
        first += 2
    for rate in params.smooth_rate:
        out += np.kron((1.0 + rate * lag) * np.exp(-rate * lag), np.outer(c[:, first], c[:, first]))
        first += 2
    for d, (decay, scale) in enumerate(zip(params.memory_decay, params.memory_scale, strict=True)):
        unit = np.zeros((D, D))
        unit[d, d] = scale**2
        out += np.kron(decay**lag, unit)
    return out


KINDS = [(1, 0, False), (0, 1, False), (0, 0, True), (2, 1, True)]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("uneven", [False, True])
def test_the_likelihood_is_that_of_the_joint_gaussian_and_its_gradient_is_exact(rng, kinds, uneven):
    params = make_draws(rng, *kinds)
    X = rng.standard_normal((T, D))
    X[rng.random(X.shape) < 0.25] = np.nan
    X[5] = np.nan
    times = np.cumsum(rng.choice([1.0, 1.5, 3.0], T)) if uneven else np.arange(float(T))
    series = from_panel(make_panel(Sequences(X, (T,), times if uneven else None)))
    seen = ~np.isnan(X).ravel()

    def dense(params):
        mean = np.tile(params.offset, T)[seen]
        return multivariate_normal.logpdf(X.ravel()[seen], mean, covariance(params, times)[seen][:, seen])

    with jax.enable_x64(True):
        value, gradient = jax.jit(jax.value_and_grad(log_likelihood))(
            StructuralDraws(*map(jax.numpy.asarray, params)), series
        )
    assert float(value) == pytest.approx(dense(params), rel=EXACT)
    for name, array in params._asdict().items():
        for index in np.ndindex(array.shape):
            if name == "loadings" and index[1] > 2 * kinds[0] and (index[1] - 2 * kinds[0]) % 2 == 0:
                continue  # the second state of a smooth factor, which no column sees
            ends = []
            for sign in (1.0, -1.0):
                moved = array.copy()
                moved[index] += sign * 1e-5
                ends.append(dense(params._replace(**{name: moved})))
            slope = (ends[0] - ends[1]) / 2e-5
            assert getattr(gradient, name)[index] == pytest.approx(slope, rel=1e-5, abs=1e-6), (name, index)


def test_the_incomplete_gamma_function_has_all_digits():
    x = np.geomspace(1e-6, 30.0, 50)
    with jax.enable_x64(True):
        np.testing.assert_allclose(_gammainc_3(jax.numpy.asarray(x)), gammainc(3.0, x), rtol=1e-12)


def test_turning_a_cycle_or_a_smooth_factor_changes_nothing_and_is_undone(rng):
    params = make_draws(rng, 1, 1, False)
    angle = 2.0
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned = params.loadings.copy()
    turned[:, 1:3] = turned[:, 1:3] @ turn
    turned[:, 3] *= -1.0
    times = np.arange(float(T))
    other = params._replace(loadings=turned)
    np.testing.assert_allclose(covariance(other, times), covariance(params, times), atol=1e-12)
    draws = StructuralDraws(*(x[None, None] for x in other))
    back = aligned_with(draws, params.loadings)
    np.testing.assert_allclose(back.loadings[0, 0], params.loadings, atol=1e-12)


def test_the_weight_of_phases_has_the_same_integral_for_all_loadings(rng):
    reference = rng.standard_normal((D, 2))
    angles = np.linspace(0.0, 2.0 * np.pi, 400, endpoint=False)
    totals = []
    with jax.enable_x64(True):
        for loadings in rng.standard_normal((3, D, 2)):
            phasor = loadings[:, 0] + 1j * loadings[:, 1]
            turned = phasor * np.exp(1j * angles)[:, None]
            logs = [float(log_phase_weight(reference, np.stack([z.real, z.imag], axis=1))) for z in turned]
            totals.append(np.mean(np.exp(logs)))
    np.testing.assert_allclose(totals, totals[0], rtol=1e-9)


@pytest.fixture(scope="module")
def cycle():
    """A series of an AR(1) factor, a cycle and AR(1) noise with missing values, and what was there."""
    rng = np.random.default_rng(3)
    params = Parameters(
        np.array([0.9]),
        np.array([[1.0, 0.8, 0.0], [0.8, 0.0, 0.9], [-0.6, 0.7, 0.5]]),
        np.full(3, 0.1),
        np.zeros(3),
        rhythm_decay=np.array([0.98]),
        rhythm_frequency=np.array([2.0 * np.pi / 9.0]),
        memory_decay=np.full(3, 0.6),
        memory_scale=np.full(3, 0.4),
    )
    X = simulate(params.state_space, 100, rng)[0]
    hidden = rng.random(X.shape) < 0.1
    return np.where(hidden, np.nan, X), X, hidden


@pytest.fixture(scope="module")
def fitted(cycle):
    """A model fitted to it by NUTS."""
    model = BayesianSFA(
        1,
        noise="ar1",
        rhythms=1,
        n_warmup=60,
        n_draws=60,
        n_chains=2,
        n_predictive=20,
        verbose=False,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer draws than are wanted of a user
        return model.fit(cycle[0])


def test_a_cycle_with_ar_noise_is_found_with_its_uncertainty(fitted, cycle):
    X, whole, hidden = cycle
    draws = fitted.draws_
    period = 2.0 * np.pi / draws.rhythm_frequency[..., 0]
    assert abs(np.mean(period) - 9.0) < 4.0 * np.std(period) and np.std(period) < 0.5
    assert draws.memory_decay.shape == (2, 60, 3) and draws.loadings.shape == (2, 60, 3, 3)
    # Without alignment of the phases the loadings of a cycle would average to zero.
    sizes = np.sqrt(np.sum(draws.loadings[..., 1:] ** 2, axis=-1))
    of_mean = np.sqrt(np.sum(fitted.loadings_[:, 1:] ** 2, axis=-1))
    assert np.all(of_mean > 0.6 * np.mean(sizes, axis=(0, 1)))
    filled, lower, upper = fitted.impute(X, interval=0.9)
    inside = (whole > lower) & (whole < upper)
    assert np.mean(inside[hidden]) > 0.75
    np.testing.assert_array_equal(filled[~hidden], X[~hidden])


def test_the_methods_give_the_states_of_the_processes_that_columns_share(fitted, cycle, tmp_path):
    X = cycle[0]
    assert fitted.transform(X).shape == (100, 3)
    assert fitted.posterior(X).covariances.shape == (100, 3, 3)
    assert fitted.sample_posterior(X, 2).shape == (2, 100, 3)
    assert fitted.filter(X).means.shape == (100, 3)
    ahead = fitted.forecast(X, 5)
    assert ahead.means.shape == (5, 3) and ahead.latent_means.shape == (5, 3)
    assert fitted.sample(7)[1].shape == (7, 3)
    assert fitted.outlier_scores(X).shape == X.shape
    assert np.isfinite(fitted.log_likelihood(X))
    np.testing.assert_allclose(fitted.filter(X).means[-1], fitted.transform(X)[-1], atol=0.3)
    tree = fitted.to_datatree()
    assert tree["posterior"]["period"].dims == ("chain", "draw", "cycle")
    assert tree["posterior"]["ar_noise_std"].shape == (2, 60, 3)
    assert len(fitted.get_feature_names_out()) == 3
    fitted.save(tmp_path / "model")
    loaded = probsfa.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    assert loaded.status_ == fitted.status_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rhythms": -1}, "rhythms must"),
        ({"smooth": 0.5}, "smooth must"),
        ({"rhythms": 1, "robust": True}, "robust=True is not supported with rhythms"),
        ({"noise": "ar1", "hierarchical": True}, "hierarchical=True is not supported with noise='ar1'"),
    ],
)
def test_bad_combinations(cycle, options, message):
    with pytest.raises(ValueError, match=message):
        BayesianSFA(1, **options).fit(cycle[0])


def test_contributions_of_factors_and_noise_add_up_to_the_imputed_values(cycle, fitted):
    X = cycle[0]
    parts = fitted.contributions(X)
    assert parts.shape == (*X.shape, 4)  # a factor, two states of the cycle, AR(1) noise
    draws = fitted.draws_
    offset = draws.offset[:, thinned(draws, 20)].mean(axis=(0, 1))  # of the draws that predictions average
    hidden = np.isnan(X)
    np.testing.assert_allclose((parts.sum(axis=2) + offset)[hidden], fitted.impute(X)[hidden], atol=1e-9)
