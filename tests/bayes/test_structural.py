"""Models with other processes and AR(1) noise: likelihood, gradients and fits."""

import warnings

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning

import probsfa
from probsfa import BayesianSFA
from probsfa._validation import Sequences
from probsfa.bayes.coordinates.batches import constrain
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.symmetry import log_phase_weight
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.draws import StructuralDraws, thinned_indices
from probsfa.bayes.fitting import ModelSettings
from probsfa.bayes.kinds import SITES
from probsfa.bayes.model import Series, from_panel
from probsfa.bayes.packing import start_values
from probsfa.bayes.priors import DEFAULT_PRIORS, Priors
from probsfa.bayes.relabelling.ordering import aligned_with
from probsfa.bayes.structural import log_likelihood
from probsfa.statespace.engine.posterior import simulate
from probsfa.statespace.learning.options import FitOptions, ProcessOptions
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.processes import trend
from probsfa.statespace.processes.matern import Matern52
from tests.tolerances import EXACT

T, D = 12, 3


def make_draws(rng, ar_noise=False, **counts):
    """Return parameters of a model with an AR(1) factor; `counts` are numbers of other processes, by name."""
    n_ar_noise = D if ar_noise else 0
    arrays = {
        "level_start": rng.uniform(5.0, 20.0, counts.get("level", 0)),
        "rhythm_decay": rng.uniform(0.8, 0.95, counts.get("cycle", 0)),
        "rhythm_frequency": rng.uniform(0.5, 1.5, counts.get("cycle", 0)),
        "smooth_rate": rng.uniform(0.3, 0.8, counts.get("matern32", 0)),
        "line_ratio": rng.uniform(0.5, 2.0, counts.get("line", 0)),
        "smoother_rate": rng.uniform(0.3, 0.8, counts.get("matern52", 0)),
        "noise_decay": rng.uniform(0.3, 0.7, n_ar_noise),
        "noise_scale": rng.uniform(0.4, 0.8, n_ar_noise),
    }
    is_loaded = [True]
    for kind, states in STATES.items():
        is_loaded += counts.get(kind, 0) * states
    loadings = np.where(is_loaded, rng.standard_normal((D, len(is_loaded))), 0.0)
    parts = np.array([0.8]), loadings, rng.uniform(0.2, 0.6, D), rng.standard_normal(D)
    return StructuralDraws(*parts, **arrays)


def kernels(params, times):
    """Yield, for each process, the index of its state in the loadings and its covariance (N, N).

    For a cycle, yield two matrices: the covariance of each state, and of the second state with the first.
    """
    lag, signed, first = np.abs(times[:, None] - times), times[:, None] - times, 1
    elapsed = times - times[0]
    earlier, later = np.minimum.outer(elapsed, elapsed), np.maximum.outer(elapsed, elapsed)
    for start in params.level_start:
        yield first, 1.0 + earlier / start
        first += 1
    for rho, omega in zip(params.rhythm_decay, params.rhythm_frequency, strict=True):
        yield first, tuple(rho**lag * f(omega * signed) for f in (np.cos, np.sin))
        first += 2
    for rate in params.smooth_rate:
        yield first, (1.0 + rate * lag) * np.exp(-rate * lag)
        first += 2
    for ratio in params.line_ratio:
        steps = ratio * earlier + earlier**2 * (3.0 * later - earlier) / 6.0
        slopes = START_OF_SLOPE * np.outer(elapsed, elapsed)
        yield first, (START_OF_LINE + slopes + steps) / START_OF_LINE
        first += 2
    for rate in params.smoother_rate:
        d = rate * lag
        yield first, (1.0 + d + d**2 / 3.0) * np.exp(-d)
        first += 3


def covariance(params, times):
    """Return the covariance (N D, N D) of the observations at times, by the kernels of the processes."""
    lag = np.abs(times[:, None] - times)
    out = np.kron(np.eye(len(times)), np.diag(params.noise_variance))
    c = params.loadings
    out += np.kron(params.decay[0] ** lag, np.outer(c[:, 0], c[:, 0]))
    for at, kernel in kernels(params, times):
        a = c[:, at]
        if not isinstance(kernel, tuple):
            out += np.kron(kernel, np.outer(a, a))
            continue
        b = c[:, at + 1]
        out += np.kron(kernel[0], np.outer(a, a) + np.outer(b, b))
        out += np.kron(kernel[1], np.outer(b, a) - np.outer(a, b))
    for d, (decay, scale) in enumerate(zip(params.noise_decay, params.noise_scale, strict=True)):
        unit = np.zeros((D, D))
        unit[d, d] = scale**2
        out += np.kron(decay**lag, unit)
    return out


# Whether each state of a kind of process has loadings, in the order of the states.
STATES = {
    "level": [True],
    "cycle": [True, True],
    "matern32": [True, False],
    "line": [True, False],
    "matern52": [True, False, False],
}
# Initial variances of a trend in units of its steps. With those of the package, a dense Gaussian has no
# significant digits.
START_OF_LINE, START_OF_SLOPE = 20.0, 5.0
KINDS = [
    {"cycle": 1, "level": 1},
    {"matern32": 1, "line": 1},
    {"matern52": 1},
    {"ar_noise": True},
    {"ar_noise": True, "cycle": 2, "matern32": 1, "matern52": 1, "level": 1},
]


@pytest.mark.parametrize(
    ("kinds", "uneven"), [*((kinds, True) for kinds in KINDS), *((kinds, False) for kinds in KINDS[-1:])]
)
def test_the_likelihood_is_that_of_the_joint_gaussian_and_its_gradient_is_exact(
    rng, kinds, uneven, monkeypatch
):
    monkeypatch.setattr(trend, "_INITIAL_LINE_VARIANCE", START_OF_LINE)
    monkeypatch.setattr(trend, "_INITIAL_SLOPE_VARIANCE", START_OF_SLOPE)
    params = make_draws(rng, **kinds)
    X = rng.standard_normal((T, D))
    X[rng.random(X.shape) < 0.25] = np.nan
    X[5] = np.nan
    times = np.cumsum(rng.choice([1.0, 1.5, 3.0], T)) if uneven else np.arange(float(T))
    series = from_panel(make_panel(Sequences(X, (T,), times if uneven else None)))
    observed = ~np.isnan(X).ravel()

    def dense(params):
        mean = np.tile(params.offset, T)[observed]
        return multivariate_normal.logpdf(
            X.ravel()[observed], mean, covariance(params, times)[observed][:, observed]
        )

    with jax.enable_x64(True):
        value, gradient = jax.jit(jax.value_and_grad(log_likelihood))(
            StructuralDraws(*map(jax.numpy.asarray, params)), series
        )
    assert float(value) == pytest.approx(dense(params), rel=EXACT)
    for name, array in params._asdict().items():
        for index in np.ndindex(array.shape):
            if name == "loadings" and array[index] == 0.0:
                continue  # a state without loadings, such as the derivative of a smooth factor
            ends = []
            for sign in (1.0, -1.0):
                moved = array.copy()
                moved[index] += sign * 1e-5
                ends.append(dense(params._replace(**{name: moved})))
            slope = (ends[0] - ends[1]) / 2e-5
            assert getattr(gradient, name)[index] == pytest.approx(slope, rel=1e-5, abs=1e-6), (name, index)


def test_alignment_undoes_rotations_of_cycles_and_changes_of_signs(rng):
    params = make_draws(rng, cycle=1, matern32=1, level=1)
    angle = 2.0
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    rotated = params.loadings.copy()
    rotated[:, 2:4] = rotated[:, 2:4] @ rotation
    rotated[:, [1, 4]] *= -1.0
    times = np.arange(float(T))
    other = params._replace(loadings=rotated)
    np.testing.assert_allclose(covariance(other, times), covariance(params, times), atol=1e-12)
    draws = StructuralDraws(*(x[None, None] for x in other))
    back = aligned_with(draws, params.loadings)
    np.testing.assert_allclose(back.loadings[0, 0], params.loadings, atol=1e-12)


def test_the_weight_of_phases_has_an_equal_integral_for_all_loadings(rng):
    reference = rng.standard_normal((D, 2))
    angles = np.linspace(0.0, 2.0 * np.pi, 400, endpoint=False)
    totals = []
    with jax.enable_x64(True):
        for loadings in rng.standard_normal((3, D, 2)):
            phasor = loadings[:, 0] + 1j * loadings[:, 1]
            rotated = phasor * np.exp(1j * angles)[:, None]
            logs = [float(log_phase_weight(reference, np.stack([z.real, z.imag], axis=1))) for z in rotated]
            totals.append(np.mean(np.exp(logs)))
    np.testing.assert_allclose(totals, totals[0], rtol=1e-9)


@pytest.fixture(scope="module")
def cycle():
    """Return data of a factor, a cycle and AR(1) noise with missing values, complete data, and mask."""
    rng = np.random.default_rng(3)
    params = StateSpace(
        np.array([0.9]),
        np.array([[1.0, 0.8, 0.0], [0.8, 0.0, 0.9], [-0.6, 0.7, 0.5]]),
        np.full(3, 0.1),
        np.zeros(3),
        rhythm_decay=np.array([0.98]),
        rhythm_frequency=np.array([2.0 * np.pi / 9.0]),
        noise_decay=np.full(3, 0.6),
        noise_scale=np.full(3, 0.4),
    )
    X = simulate(params.state_space, 100, rng)[0]
    missing = rng.random(X.shape) < 0.1
    return np.where(missing, np.nan, X), X, missing


@pytest.fixture(scope="module", params=["svi", pytest.param("nuts", marks=pytest.mark.exhaustive)])
def fitted(cycle, request):
    """A model fitted to it; by NUTS in the exhaustive set, as its programs take long to compile."""
    model = BayesianSFA(
        1,
        noise="ar1",
        rhythms=1,
        inference=request.param,
        n_steps_svi=30,
        n_warmup=60,
        n_draws=60,
        n_chains=2,
        n_predictive=20,
        verbose=False,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer draws than recommended
        return model.fit(cycle[0])


def test_posterior_of_a_cycle_with_ar_noise_contains_its_parameters(fitted, cycle):
    X, whole, missing = cycle
    draws = fitted.draws_
    period = 2.0 * np.pi / draws.rhythm_frequency[..., 0]
    assert abs(np.mean(period) - 9.0) < 4.0 * np.std(period) and np.std(period) < 0.5
    assert draws.noise_decay.shape[2:] == (3,) and draws.loadings.shape[2:] == (3, 3)
    # Without alignment of the phases the loadings of a cycle would average to zero.
    sizes = np.sqrt(np.sum(draws.loadings[..., 1:] ** 2, axis=-1))
    of_mean = np.sqrt(np.sum(fitted.loadings_[:, 1:] ** 2, axis=-1))
    assert np.all(of_mean > 0.6 * np.mean(sizes, axis=(0, 1)))
    filled, lower, upper = fitted.impute(X, interval=0.9)
    inside = (whole > lower) & (whole < upper)
    assert np.mean(inside[missing]) > 0.75
    np.testing.assert_array_equal(filled[~missing], X[~missing])


def test_methods_return_all_states_except_those_of_ar_noise(fitted, cycle, tmp_path):
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
    assert tree["posterior"]["ar_noise_std"].shape[2:] == (3,)
    assert len(fitted.get_feature_names_out()) == 3
    fitted.save(tmp_path / "model")
    loaded = probsfa.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    assert loaded.status_ == fitted.status_


def test_old_names_of_ar1_noise(fitted, cycle):
    """Attributes of the draws warn; files of earlier versions are read."""
    draws = fitted.draws_
    for name in ("decay", "scale"):
        with pytest.warns(FutureWarning, match=f"memory_{name} is now noise_{name}"):
            assert getattr(draws, f"memory_{name}") is getattr(draws, f"noise_{name}")
    state = fitted._to_arrays()
    new_names = [name for name in state if name.split("_", 1)[-1] in ("noise_decay", "noise_scale")]
    assert len(new_names) == 6 and not any("memory" in name for name in state)
    for name in new_names:
        state[name.replace("noise", "memory")] = state.pop(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = BayesianSFA._from_arrays(state)
    np.testing.assert_array_equal(loaded.draws_.noise_scale, draws.noise_scale)
    np.testing.assert_array_equal(loaded.transform(cycle[0]), fitted.transform(cycle[0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rhythms": -1}, "rhythms must"),
        ({"smooth": 0.5}, "smooth must"),
        ({"smoothness": 2}, "smoothness must"),
        ({"trend": "cubic"}, "trend must"),
        ({"trend": 2}, "trend.*0, 'level'.*'linear'"),
        ({"trend": "level", "robust": True}, "robust=True.*trend"),
        ({"rhythms": 1, "robust": True}, "robust=True.*rhythms"),
        ({"noise": "ar1", "hierarchical": True}, "hierarchical=True.*noise='ar1'"),
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
    offset = draws.offset[:, thinned_indices(draws, 20)].mean(
        axis=(0, 1)
    )  # over the draws that predictions average
    missing = np.isnan(X)
    np.testing.assert_allclose((parts.sum(axis=2) + offset)[missing], fitted.impute(X)[missing], atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (trend.LocalLinearTrend, {"trend": "linear"}, "trend='linear'.*no priors.*Use 'level'"),
        (Matern52, {"smooth": 1, "smoothness": 2.5}, "smoothness=2.5.*no priors.*Use 1.5"),
    ],
)
def test_processes_without_priors_raise_before_the_fit(rng, monkeypatch, kind, options, message):
    monkeypatch.delitem(SITES, kind)
    X = rng.standard_normal((20, 2))
    with pytest.raises(ValueError, match=message):
        BayesianSFA(1, **options).fit(X)


@pytest.mark.parametrize("options", [{"trend": "linear"}, {"trend": "level", "smooth": 1, "smoothness": 2.5}])
def test_site_values_of_a_start_give_its_parameters(rng, options):
    """All sites have a value, and the model at these values has the parameters of the start."""
    model = ModelSettings(1, "diagonal", None, False, False, **options)
    target = Target(1, NoiseVariances.diagonal(2), DEFAULT_PRIORS, kinds=model.kinds)
    params = FitOptions(1, processes=ProcessOptions(**options)).state_layout
    processes = [kind.arbitrary(count) for kind, count in params.counts.items()]
    loadings = np.zeros((2, params.n_states))
    loadings[:, params.loaded_states] = rng.standard_normal((2, len(params.loaded_states)))
    start = StateSpace(np.array([0.8]), loadings, np.full(2, 0.3), rng.standard_normal(2), processes)
    vector = target.to_vector(start_values(start, target))
    series = Series(np.zeros((1, 2)), np.zeros((1, 2), bool), np.ones(1, np.int32), np.ones(1))
    found = constrain(target, TargetData(series), vector[None])
    for name, array in start.to_arrays().items():
        np.testing.assert_allclose(getattr(found, name)[0], array, rtol=1e-9, err_msg=name)
    assert found.other_processes == model.kinds.others


@pytest.mark.parametrize(("name", "n_times"), [("level", 1), ("linear", 2)])
def test_the_start_of_a_trend_has_a_flat_prior_in_units_of_the_data(name, n_times):
    """If only the initial state of a trend is observed, the posterior of its loadings is their prior."""
    model = ModelSettings(1, 1.0, None, False, False, trend=name)
    target = Target(1, NoiseVariances.known(1), DEFAULT_PRIORS, kinds=model.kinds)
    X = np.array([[0.7], [-0.4]])[:n_times]
    data = TargetData(from_panel(make_panel(Sequences(X, (n_times,)), pad=False)), np.ones(1))
    values = {"timescale": 0.1, "loadings": 0.0, "level_ratio": 1e-3, "offset": 0.0}
    site = "level_steps" if name == "level" else "slope_steps"
    vectors = [target.to_vector({**values, site: scale}) for scale in (0.3, 0.6)]
    with jax.enable_x64(True):
        potential = jax.jit(target.potential)
        found = [float(potential(vector, data)) for vector in vectors]
        prior = getattr(DEFAULT_PRIORS, site).log_prob(np.array([0.3, 0.6]))
    assert found[0] - found[1] == pytest.approx(float(prior[1] - prior[0]), abs=1e-4)


@pytest.mark.exhaustive
def test_posterior_of_a_trend_contains_its_parameters(rng, tmp_path):
    level = np.cumsum(0.3 * rng.standard_normal(60))
    X = level[:, None] * [1.0, -0.5] + 0.3 * rng.standard_normal((60, 2))
    missing = rng.random(X.shape) < 0.1
    model = BayesianSFA(
        1,
        trend="level",
        priors=Priors(timescale=dist.LogNormal(0.0, 0.3)),
        standardize=False,
        inference="svi",
        n_draws=100,
        n_steps_svi=15,
        verbose=False,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(np.where(missing, np.nan, X))
    steps = model.to_datatree()["posterior"]["level_steps"].to_numpy()[0, :, :, 0]
    low, high = np.quantile(np.abs(steps), [0.02, 0.98], axis=0)
    assert np.all(low < [0.3, 0.15]) and np.all(high > [0.3, 0.15]) and np.all(low > 0.02)
    lower, upper = model.impute(np.where(missing, np.nan, X), interval=0.9)[1:]
    assert np.mean(((X > lower) & (X < upper))[missing]) > 0.7
    assert model.get_feature_names_out().tolist() == ["bayesiansfa0", "level0"]
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(probsfa.load(tmp_path / "model").transform(X), model.transform(X))
