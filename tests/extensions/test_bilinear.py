"""Bilinear model: enumeration of gates, dense Gaussians, monotone bounds, recovery, input validation."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import probsfa
from probsfa._validation import Sequences
from probsfa.extensions import BilinearSFA
from probsfa.extensions.bilinear import BilinearParameters, learning
from probsfa.extensions.bilinear.inference import infer, sweeps, white_factor_posterior
from probsfa.extensions.bilinear.learning import switching
from probsfa.extensions.bilinear.parameters import canonical, rescale, simulate
from probsfa.statespace.panel import make_panel
from tests.oracles import bilinear as oracle
from tests.sampling import parametrize
from tests.tolerances import EXACT

# All rows of a series are inferred jointly; reordered or selected rows are a different series.
EXPECTED_FAILURES = ("check_methods_sample_order_invariance", "check_methods_subset_invariance")
QUICK = BilinearSFA(1, n_init=1, max_iter=3, random_state=0)


@pytest.mark.exhaustive
@parametrize_with_checks(
    [QUICK],
    expected_failed_checks=lambda estimator: dict.fromkeys(EXPECTED_FAILURES, "rows are a time series"),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def random_parameters(rng, D=2, M=2, K=2, noise=0.3):
    return BilinearParameters(
        decay=rng.uniform(0.3, 0.95, K),
        switch_on=rng.uniform(0.05, 0.5, M),
        switch_off=rng.uniform(0.05, 0.5, M),
        loadings=rng.standard_normal((D, M, K)),
        noise_variance=noise * rng.uniform(0.5, 2.0, D),
        offset=rng.standard_normal(D),
    )


def with_missing(rng, X, fraction=0.2):
    X = X.copy()
    X[rng.uniform(size=X.shape) < fraction] = np.nan
    X[1] = np.nan  # a row in which nothing is observed
    return X


def panel_of(X, lengths=None):
    return make_panel(Sequences(X, (len(X),) if lengths is None else lengths))


def batch_of(params):
    return BilinearParameters(*(part[None] for part in params))


def padded(gates, panel):
    out = np.full((1, len(panel.gap_index), gates.shape[1]), 0.5)
    out[0, : len(gates)] = gates
    return out


# ------------------------------------------------------------------ inference


def test_updates_and_bound_agree_with_the_definition(rng):
    params = random_parameters(rng)
    X = with_missing(rng, simulate(params, 5, rng)[0])
    gates = rng.uniform(size=(5, 2))
    panel = panel_of(X)
    updated = sweeps(batch_of(params), panel, padded(gates, panel))
    means, covariance, expected_gates, bound = oracle.coordinate_updates(params, X, gates)
    np.testing.assert_allclose(updated.means[0, :5], means, atol=EXACT)
    blocks = [covariance[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] for t in range(5)]
    np.testing.assert_allclose(updated.covariances[0, :5], blocks, atol=EXACT)
    np.testing.assert_allclose(updated.gates[0, :5], expected_gates, atol=EXACT)
    np.testing.assert_allclose(updated.bounds[0], bound, rtol=EXACT)


def test_factors_at_known_gates_agree_with_the_dense_gaussian(rng):
    params = random_parameters(rng)
    X, _, gates = simulate(params, 5, rng)
    X = with_missing(rng, X)
    panel = panel_of(X)
    means, covariance = oracle.posterior_at_gates(params, X, gates)
    updated = sweeps(batch_of(params), panel, padded(gates, panel))
    np.testing.assert_allclose(updated.means[0, :5], means, atol=EXACT)
    np.testing.assert_allclose(updated.covariances[0, 4], covariance[8:10, 8:10], atol=EXACT)


def test_bound_is_below_the_exact_log_likelihood():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        params = random_parameters(rng, noise=10.0 ** rng.uniform(-1, 1))
        X = with_missing(rng, simulate(params, 5, rng)[0])
        exact = oracle.log_likelihood(params, X)
        bound = infer(params, panel_of(X)).lower_bound
        assert exact - 5.0 < bound <= exact + EXACT


def test_bound_is_exact_where_the_posterior_factorizes(rng):
    params = random_parameters(rng)
    X = with_missing(rng, simulate(params, 5, rng)[0])
    unloaded = params._replace(loadings=np.zeros((2, 2, 2)))
    np.testing.assert_allclose(
        infer(unloaded, panel_of(X)).lower_bound, oracle.log_likelihood(unloaded, X), rtol=EXACT
    )
    # With chains that are always active the model is linear.
    always_active = params._replace(switch_on=np.full(2, 1 - 1e-14), switch_off=np.full(2, 1e-14))
    linear = oracle.log_likelihood_at_gates(always_active, X, np.ones((5, 2)))
    np.testing.assert_allclose(infer(always_active, panel_of(X)).lower_bound, linear, rtol=EXACT)


def test_likelihood_without_dynamics_is_exact(rng):
    params = random_parameters(rng)
    X = with_missing(rng, simulate(params, 5, rng)[0])
    independent = params._replace(decay=np.zeros(2))
    inferred = white_factor_posterior(batch_of(params), panel_of(X))
    np.testing.assert_allclose(inferred.bounds[0], oracle.log_likelihood(independent, X), rtol=EXACT)
    prior = [
        oracle.chain_log_probability(p[:, 0], params.switch_on[0], params.switch_off[0])
        for p in oracle.paths(5)
    ]
    assert abs(np.exp(prior).sum() - 1.0) < EXACT
    weights, on = [], []
    for path in oracle.paths(5, 2):
        chains = zip(path.T, params.switch_on, params.switch_off, strict=True)
        weights.append(
            oracle.log_likelihood_at_gates(independent, X, path)
            + sum(oracle.chain_log_probability(*chain) for chain in chains)
        )
        on.append(path)
    weights = np.exp(np.array(weights) - np.logaddexp.reduce(weights))
    np.testing.assert_allclose(inferred.gates[0, :5], np.einsum("p,ptm->tm", weights, on), atol=EXACT)


def test_bilinear_sequences_are_independent(rng):
    params = random_parameters(rng)
    X, gates = simulate(params, 12, rng)[0], rng.uniform(size=(12, 2))
    parts = slice(0, 5), slice(5, 12)
    panel = panel_of(X, (5, 7))
    both = sweeps(batch_of(params), panel, padded(gates, panel))
    bound = 0.0
    for part in parts:
        panel = panel_of(X[part])
        alone = sweeps(batch_of(params), panel, padded(gates[part], panel))
        n = part.stop - part.start
        np.testing.assert_allclose(both.means[0, part], alone.means[0, :n], atol=EXACT)
        np.testing.assert_allclose(both.gates[0, part], alone.gates[0, :n], atol=EXACT)
        bound += alone.bounds[0]
    np.testing.assert_allclose(both.bounds[0], bound, rtol=EXACT)


# ------------------------------------------------------------------ learning


def test_switching_probabilities_maximize_their_expected_log_probability(rng):
    for _ in range(20):
        initial, pairs = rng.uniform(0, 2, 2), rng.uniform(0, 20, (2, 2))

        def loss(free, initial=initial, pairs=pairs):
            on, off = 1 / (1 + np.exp(-free))
            stationary = np.array([off, on]) / (on + off)
            steps = np.array([[1 - on, on], [off, 1 - off]])
            return -np.sum(initial * np.log(stationary)) - np.sum(pairs * np.log(steps))

        best = minimize(loss, np.zeros(2), tol=1e-12)
        on, off = switching(initial, pairs, 0.3, 0.3)
        assert loss(np.log([on / (1 - on), off / (1 - off)])) <= best.fun + 1e-9
        np.testing.assert_allclose([on, off], 1 / (1 + np.exp(-best.x)), atol=1e-3)


SHAPES = [  # rows, columns, factors, chains, fraction of missing values
    (2, 1, 1, 1, 0.0),
    (12, 3, 2, 2, 0.3),
    (9, 1, 3, 2, 0.2),
    (16, 2, 4, 1, 0.5),
    (5, 8, 1, 3, 0.0),
    (16, 4, 2, 2, 0.0),
    (30, 2, 1, 6, 0.1),
]


@parametrize(("n_rows", "D", "K", "M", "missing"), SHAPES, quick=[SHAPES[1]])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_bound_never_decreases(rng, n_rows, D, K, M, missing):
    for noise in ("diagonal", "isotropic"):
        X = rng.standard_normal((n_rows, D)) * rng.uniform(0.1, 10.0, D)
        X[rng.uniform(size=X.shape) < missing] = np.nan
        if missing:
            X[n_rows // 2] = np.nan
            X[0] = rng.standard_normal(D)
        lengths = None if n_rows < 9 else [4, 5, n_rows - 9][: 3 if n_rows > 9 else 2]
        model = BilinearSFA(K, n_gates=M, noise=noise, n_init=2, max_iter=45, random_state=1)
        model.fit(X, lengths=lengths)
        assert np.all(np.isfinite(model.history_)) and np.all(np.diff(model.history_) >= 0.0)
        assert np.all(np.isfinite(model.impute(X, lengths=lengths)))


def test_iterations_increase_the_bound_without_rejected_steps(rng):
    # The optimizer rejects steps that lower the bound; up to rounding, coordinate steps never do.
    params = random_parameters(rng, D=4)
    X = with_missing(rng, simulate(params, 60, rng)[0])
    panel = panel_of(X)
    current, gates = learning.random_starts(panel, 2, 2, 3, rng)
    previous_bounds = -np.inf
    for _ in range(15):
        inferred = sweeps(current, panel, gates)
        assert np.all(inferred.bounds >= previous_bounds - 1e-9 * np.abs(inferred.bounds))
        previous_bounds, gates = inferred.bounds, inferred.gates
        current = learning.maximize(current, inferred.statistics, panel, "diagonal", 1e-6)


def states(gates):
    return (gates > 0.5) @ (2 ** np.arange(gates.shape[1]))


def clear_parameters(rng, D=10, M=2, K=2):
    return BilinearParameters(
        np.array([0.98, 0.9])[:K], np.full(M, 0.02), np.full(M, 0.02), rng.standard_normal((D, M, K)),
        np.full(D, 0.1), rng.standard_normal(D),
    )  # fmt: skip


@pytest.mark.exhaustive  # nine runs on 600 rows; the docstring example of the class also recovers gates
@pytest.mark.parametrize("which", [1, 0, 2, 3])
def test_gates_and_bound_are_recovered(which):
    rng = np.random.default_rng(which)
    params = clear_parameters(rng)
    X, _, what = simulate(params, 600, rng)
    model = BilinearSFA(2, n_gates=2, random_state=0).fit(X)
    posterior = model.posterior(X)
    assert adjusted_rand_score(states(what), states(posterior.gate_probabilities)) >= 0.9
    # With two chains the bound has several maxima. The best of nine runs may end at one whose bound is some
    # hundredths of a nat per row smaller than that of the true parameters.
    truth = infer(params, panel_of(X))
    assert model.lower_bound_ > truth.lower_bound - 0.1 * len(X)
    assert len(model.restart_bounds_) == 9
    complete = X.copy()
    X[100:130, 3] = np.nan
    filled, std = model.impute(X, return_std=True)
    errors = (filled - complete)[100:130, 3]
    known = infer(params, panel_of(X))
    signal = np.einsum("tm,mk,tk->t", known.gate_probabilities, params.loadings[3], known.means)
    errors_of_truth = (params.offset[3] + signal - complete[:, 3])[100:130]
    assert np.all(std[:100] == 0.0)
    assert np.sqrt(np.mean(errors**2)) < 1.1 * np.sqrt(np.mean(errors_of_truth**2))
    assert np.mean(np.abs(errors) < 3 * std[100:130, 3]) > 0.9


def test_canonical_parameters_have_the_same_bound(rng):
    params = random_parameters(rng)
    X = simulate(params, 12, rng)[0]
    shift, scale = rng.standard_normal(2), rng.uniform(0.5, 3.0, 2)
    flipped = params._replace(loadings=-params.loadings[:, ::-1], switch_on=params.switch_on[::-1])
    flipped = flipped._replace(switch_off=params.switch_off[::-1])
    for other in (canonical(params, np.ones(2)), canonical(flipped, np.ones(2))):
        assert abs(infer(other, panel_of(X)).lower_bound - infer(params, panel_of(X)).lower_bound) < 0.1
        np.testing.assert_allclose(other.loadings, canonical(params, np.ones(2)).loadings)
    moved = infer(rescale(params, shift, scale), panel_of(shift + scale * X)).lower_bound
    np.testing.assert_allclose(
        moved + 12 * np.log(scale).sum(), infer(params, panel_of(X)).lower_bound, atol=1e-6
    )


def test_simulated_moments(rng):
    params = random_parameters(rng, D=2, M=1, K=1)
    X, where, what = simulate(params, 100_000, rng)
    assert abs(what.mean() - params.probability[0]) < 0.03
    assert (
        abs(np.mean((what[1:] == 1) & (what[:-1] == 0)) / np.mean(what[:-1] == 0) - params.switch_on[0])
        < 0.02
    )
    assert abs(where.var() - 1.0) < 0.1
    residual = X - params.offset - params.loadings[:, 0, 0] * what * where
    np.testing.assert_allclose(residual.var(axis=0), params.noise_variance, rtol=0.03)


# ------------------------------------------------------------------ methods and input validation


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(3)
    X = simulate(random_parameters(rng, D=3, M=1, K=1), 60, rng)[0]
    return BilinearSFA(1, n_init=2, max_iter=60, random_state=0, tol=1.0).fit(X), X


def test_methods(fitted, tmp_path):
    model, X = fitted
    features = model.transform(X)
    assert features.shape == (60, 2)
    assert list(model.get_feature_names_out()) == ["where0", "what0"]
    np.testing.assert_allclose(model.score(X), model.lower_bound(X) / 60)
    assert abs(model.lower_bound(X) - model.lower_bound_) < 5.0
    drawn, where, what = model.sample(20, random_state=0)
    assert drawn.shape == (20, 3) and where.shape == (20, 1) and set(np.unique(what)) <= {0.0, 1.0}
    model.save(tmp_path / "model.npz")
    again = probsfa.load(tmp_path / "model.npz")
    np.testing.assert_allclose(again.transform(X), features, atol=EXACT)
    assert isinstance(again.params_, BilinearParameters)


def test_lists_and_frames(fitted):
    model, X = fitted
    parts = model.transform([X[:25], X[25:]])
    assert [len(part) for part in parts] == [25, 35]
    np.testing.assert_allclose(np.vstack(parts), model.transform(X, lengths=[25, 35]), atol=EXACT)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.iloc[3, 1] = np.nan
    filled = clone(model).fit(frame).impute(frame)
    assert list(filled.columns) == ["a", "b", "c"] and not filled.isna().any().any()
    assert filled.iloc[0, 0] == X[0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components.*1"),
        ({"n_gates": 0}, "n_gates.*1"),
        ({"noise": "ar1"}, "noise"),
        ({"tol": -1.0}, "tol"),
        ({"n_init": 2.5}, "n_init"),
        ({"noise_floor": 0}, "noise_floor"),
    ],
)
def test_errors_name_invalid_parameters(rng, options, message):
    with pytest.raises(ValueError, match=message):
        BilinearSFA(**options).fit(rng.standard_normal((20, 2)))


def test_errors_name_invalid_rows(rng):
    X = rng.standard_normal((20, 3))
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match="[Cc]olumn"):
        clone(QUICK).fit(X)
    with pytest.raises(ValueError, match="constant"):
        clone(QUICK).fit(np.ones((20, 2)))


@pytest.mark.parametrize("stage", ["white_factor_posterior", "sweeps"])
@pytest.mark.parametrize("calls", [2, 4])
def test_an_interrupted_fit_is_usable(rng, monkeypatch, stage, calls):
    X = rng.standard_normal((60, 3))
    function, count = getattr(learning, stage), [0]

    def interrupted(*args):
        count[0] += 1
        if count[0] == calls:
            raise KeyboardInterrupt
        return function(*args)

    monkeypatch.setattr(learning, stage, interrupted)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = BilinearSFA(1, n_init=2, random_state=0).fit(X)
    assert not model.converged_ and np.isfinite(model.lower_bound_)
    assert np.all(np.isfinite(model.transform(X)))


def test_progress_is_shown(rng, capsys):
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        BilinearSFA(1, n_init=2, max_iter=3, random_state=0, verbose=True).fit(rng.standard_normal((60, 3)))
    assert "log-likelihood" in capsys.readouterr().err
