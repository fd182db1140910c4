"""The estimator: its methods, input validation, interrupts and options."""

import itertools
import pickle
import warnings

import jax
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError, UnsetMetadataPassedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import probsfa
from probsfa import BayesianSFA
from probsfa._validation import Sequences
from probsfa.bayes import Priors, estimator
from probsfa.bayes.draws import parameters_of_draw
from probsfa.bayes.sampling import nuts, variational
from probsfa.datasets import make_slow_mixture
from probsfa.statespace.engine.posterior import observation_moments, smooth
from probsfa.statespace.noise import STRUCTURES, NoiseVariances
from probsfa.statespace.panel import make_panel
from tests.sampling import parametrize
from tests.tolerances import mc_tolerance


def quick(n_components=1, **options):
    settings = {
        "inference": "svi",
        "n_draws": 50,
        "n_steps_svi": 50,
        "verbose": False,
        "random_state": 0,
    }
    return BayesianSFA(n_components, **{**settings, **options})


def fit_quietly(model, X, **given):
    """Fit without warnings of convergence, which few draws cause."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, **given)


def test_bayesian_sfa_is_public():
    assert probsfa.BayesianSFA is BayesianSFA
    assert "BayesianSFA" in probsfa.__all__


def test_nuts_converges_and_reports_it(sampled):
    assert sampled.draws_.decay.shape == (4, 150, 1)
    assert sampled.draws_.loadings.shape == (4, 150, 3, 1)
    worst = max(np.max(x) for x in sampled.diagnostics_["rhat"].values())
    assert worst < 1.05
    assert f"R-hat at most {worst:.3f}" in sampled.status_
    assert sampled.sample_stats_["diverging"].shape == (4, 150)
    assert "closest to the maximum a posteriori" in sampled.relabelling_


def test_draws_are_added_by_default_until_chains_converge(frame, monkeypatch):
    monkeypatch.setattr(estimator, "_N_DRAWS", 25)
    monkeypatch.setattr(estimator, "_MAX_DRAWS", 50)
    auto = BayesianSFA(1, n_warmup=50, n_chains=2, verbose=False, random_state=0)
    with pytest.warns(ConvergenceWarning, match="50 draws of 2 chains"):
        model = auto.fit(frame[0])
    fixed = fit_quietly(clone(auto).set_params(n_draws=25), frame[0])
    assert model.draws_.decay.shape == (2, 50, 1) and fixed.draws_.decay.shape == (2, 25, 1)
    np.testing.assert_array_equal(model.raw_draws_.decay[:, :25], fixed.raw_draws_.decay)


def test_nuts_and_svi_agree(sampled, guided):
    for exact, near in zip(sampled.draws_[:4], guided.draws_[:4], strict=True):
        shape = exact.shape[2:]
        one, other = exact.reshape(-1, *shape), near.reshape(-1, *shape)
        assert np.all(np.abs(np.median(one, axis=0) - np.median(other, axis=0)) < 0.35 * one.std(0))


def test_equal_seeds_give_equal_draws(frame):
    one, same, other = (fit_quietly(quick(random_state=s), frame[0]).draws_ for s in (3, 3, 4))
    np.testing.assert_array_equal(one.loadings, same.loadings)
    assert not np.array_equal(one.loadings, other.loadings)


def test_draws_scale_with_the_units_of_the_data(frame):
    X = frame[0].to_numpy()
    plain, scaled = (quick().fit(x) for x in (X, X * 1e3 - 7.0))
    np.testing.assert_allclose(scaled.draws_.decay, plain.draws_.decay, rtol=1e-5)
    np.testing.assert_allclose(scaled.draws_.loadings, 1e3 * plain.draws_.loadings, rtol=1e-4)
    np.testing.assert_allclose(scaled.draws_.offset, 1e3 * plain.draws_.offset - 7.0, rtol=1e-4)


def test_intervals_of_imputed_values_have_nominal_coverage(sampled, frame):
    X, truth = frame
    filled, std, low, high = sampled.impute(X, return_std=True, interval=0.9)
    missing = X.isna()
    assert isinstance(filled, pd.DataFrame) and filled.index.equals(X.index)
    assert filled.where(~missing).equals(X) and (std.where(~missing, 0.0) == 0.0).all(axis=None)
    assert (std.to_numpy()[missing] > 0.0).all()
    inside = ((truth > low) & (truth < high)).to_numpy()[missing.to_numpy()]
    assert abs(inside.mean() - 0.9) < mc_tolerance(0.09, inside.size, 4)


def test_drawn_values_have_the_moments_of_imputed_ones(sampled, frame):
    filled, std = (x.to_numpy() for x in sampled.impute(frame[0], return_std=True))
    drawn = np.asarray(sampled.sample_posterior(frame[0], 400, of="values", random_state=0))
    missing = frame[0].isna().to_numpy()
    np.testing.assert_array_equal(drawn[:, ~missing], np.tile(filled[~missing], (400, 1)))
    standard = (drawn[:, missing] - filled[missing]) / std[missing]
    np.testing.assert_allclose(standard.mean(axis=0), 0.0, atol=0.3)
    np.testing.assert_allclose(np.mean(standard**2), 1.0, atol=0.1)


def test_variances_include_the_uncertainty_of_parameters(sampled, frame):
    """The law of total variance over the draws that predictions average."""
    few = clone(sampled).set_params(n_predictive=8)
    vars(few).update({k: v for k, v in vars(sampled).items() if k.endswith("_") or k.startswith("_")})
    missing = frame[0].isna().to_numpy()
    std = few.impute(frame[0], return_std=True)[1].to_numpy()[missing]
    means, variances = [], []
    for chain, draw in itertools.product(range(4), (0, 149)):
        one = parameters_of_draw(sampled.draws_, chain, draw, 1)[0]
        panel = make_panel(Sequences(frame[0].to_numpy(), (80,)))
        factors = smooth(one, panel)
        mean, variance = observation_moments(one, factors.means, factors.covariances)
        means.append(mean[missing])
        variances.append(variance[missing])
    np.testing.assert_allclose(std**2, np.mean(variances, axis=0) + np.var(means, axis=0), rtol=1e-8)
    assert np.all(std**2 > np.mean(variances, axis=0))


def test_transform_and_posterior_are_the_mean_over_draws_of_factors(sampled, frame):
    drawn = sampled.sample_posterior(frame[0], 600, random_state=1)
    smoothed = sampled.posterior(frame[0])
    std = smoothed.std
    assert drawn.shape == (600, 80, 1)
    assert np.all(np.abs(drawn.mean(0) - smoothed.means) < mc_tolerance(1.0, 600, 5) * std + 0.15 * std)
    np.testing.assert_allclose(np.asarray(sampled.transform(frame[0])), smoothed.means)


def test_forecast_widens_towards_the_stationary_distribution(sampled, frame):
    out = sampled.forecast(frame[0], 500, interval=0.8)
    assert out.means.shape == (500, 3) and out.latent_std.shape == (500, 1)
    assert out.std.iloc[0, 0] < out.std.iloc[-1, 0]
    np.testing.assert_allclose(out.latent_std.iloc[-1], 1.0, atol=0.05)
    assert np.all((out.lower < out.means) & (out.means < out.upper))
    hours = pd.date_range(frame[0].index[-1], periods=501, freq="h")[1:]
    assert all(each.index.equals(hours) for each in out) and list(out.upper.columns) == ["a", "b", "c"]
    sooner = sampled.forecast(frame[0], fh=[0.5, 1.0, 7.0], interval=0.8)
    np.testing.assert_allclose(sooner.lower.iloc[1:], out.lower.iloc[[0, 6]], rtol=1e-10)
    assert np.all(sooner.latent_std.iloc[0] < out.latent_std.iloc[0])


def test_samples_and_scores(sampled, frame):
    X, factors = sampled.sample(30, random_state=0)
    assert X.shape == (30, 3) and factors.shape == (30, 1)
    assert sampled.score(frame[0]) == pytest.approx(sampled.log_likelihood(frame[0]) / 80)
    assert sampled.log_likelihood(frame[0]) > sampled.log_likelihood(frame[0] + 300.0)


def test_lists_give_lists(sampled, frame):
    X = frame[0]
    pieces = [X.iloc[:50], X.iloc[50:]]
    assert [len(z) for z in sampled.transform(pieces)] == [50, 30]
    assert [len(p.lag_one_covariances) for p in sampled.posterior(pieces)] == [49, 29]
    assert [f.shape for f in sampled.impute(pieces)] == [(50, 3), (30, 3)]
    assert len(sampled.forecast(pieces, 2)) == 2
    assert [d.shape for d in sampled.sample_posterior(pieces, 2)] == [(2, 50, 1), (2, 30, 1)]


@parametrize("as_list", [True, False])
def test_fit_transform_passes_lengths_and_times_to_both(frame, as_list):
    X, times = frame[0].to_numpy(), np.arange(80.0) + (np.arange(80) >= 20)
    pieces = [X[:50], X[50:]], {"times": [times[:50], times[50:]]}
    data, given = pieces if as_list else (X, {"lengths": [50, 30], "times": times})
    model = quick()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        at_once = model.fit_transform(data, **given)
    # The gap of two steps and the start of a sequence change the factors of adjacent rows.
    np.testing.assert_array_equal(
        np.concatenate(at_once) if as_list else at_once,
        np.concatenate(model.transform(*pieces[:1], **pieces[1])),
    )
    with pytest.warns(UserWarning, match="X.*times"):
        without = model.transform(X)
    assert np.max(np.abs(model.transform(X, times=times) - without)) > 1e-6
    assert (
        np.max(np.abs(model.transform(X, lengths=[50, 30], times=times) - model.transform(X, times=times)))
        > 1e-6
    )
    model.set_output(transform="pandas")
    frames = model.transform(*pieces[:1], **pieces[1])
    np.testing.assert_array_equal(pd.concat(frames), np.concatenate(at_once) if as_list else at_once)


def test_pipelines_route_lengths_and_times(frame):
    X, times = frame[0].to_numpy(), np.arange(80.0) + (np.arange(80) >= 20)
    given = {"lengths": [50, 30], "times": times}
    with config_context(enable_metadata_routing=True):
        model = (
            quick().set_fit_request(lengths=True, times=True).set_transform_request(lengths=True, times=True)
        )
        pipeline = make_pipeline(FunctionTransformer(), model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            factors = pipeline.fit_transform(X, **given)
        np.testing.assert_array_equal(factors, model.transform(X, **given))
        np.testing.assert_array_equal(pipeline.transform(X, **given), factors)
        with pytest.raises(UnsetMetadataPassedError, match="lengths"):
            make_pipeline(quick()).fit(X, lengths=[50, 30])


@pytest.mark.exhaustive
def test_hierarchical_models_distinguish_the_noise_of_sequences():
    quiet, loud = (
        make_slow_mixture(150, 3, timescales=[20.0], noise_variance=r, random_state=1).data
        for r in (0.05, 2.0)
    )
    model = fit_quietly(quick(hierarchical=True), [quiet, loud])
    noise = model.draws_.noise_variance.mean(axis=(0, 1))
    assert noise.shape == (2, 3) and np.all(noise[1] > 5.0 * noise[0])
    assert [z.shape for z in model.transform([quiet, loud])] == [(150, 1), (150, 1)]
    assert model.to_datatree()["posterior"]["noise_std"].dims == ("chain", "draw", "sequence", "feature")
    with pytest.raises(ValueError, match="1 sequences.*fitted to 2"):
        model.transform([quiet])
    with pytest.raises(ValueError, match="several sequences"):
        quick(hierarchical=True).fit(quiet)


def test_uneven_times():
    rng = np.random.default_rng(0)
    # Compiled programs of the test of lengths and times are reused: rows and distinct gaps are equally many.
    times = np.cumsum(rng.choice([0.5, 3.0], 80))
    z = np.zeros(80)
    for t in range(1, 80):
        a = np.exp(-(times[t] - times[t - 1]) / 20.0)
        z[t] = a * z[t - 1] + np.sqrt(1 - a**2) * rng.standard_normal()
    X = z[:, None] * [1.0, -2.0, 1.5] + 0.3 * rng.standard_normal((80, 3))
    model = fit_quietly(quick(), X, times=times)
    low, high = np.quantile(-model.time_unit_ / np.log(model.draws_.decay), [0.01, 0.99])
    assert low < 20.0 < high
    assert model.transform(X, times=times).shape == (80, 1)


def test_known_noise(frame):
    X = frame[0].to_numpy()
    known = fit_quietly(quick(noise=2500.0), X)
    np.testing.assert_allclose(known.draws_.noise_variance, 2500.0)
    assert np.isnan(known.diagnostics_["ess"]["noise_variance"]).all()


@parametrize("options", [{"robust": True, "inference": "nuts"}, {"hierarchical": True}])
def test_fits_have_a_new_noise_structure_and_given_priors(options, monkeypatch):
    """Two columns share a variance, by a new structure; the prior of the time scale is narrow."""
    tight = Priors(timescale=dist.LogNormal(np.log(500.0), 0.01), noise_variance=dist.InverseGamma(3.0, 1.0))
    monkeypatch.setitem(STRUCTURES, "paired", lambda n_features: NoiseVariances((0, 0, 1)[:n_features]))
    x = make_slow_mixture(60, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    few = {"n_steps_svi": 3, "n_warmup": 10, "n_draws": 20, "n_chains": 1, "standardize": False}
    model = fit_quietly(quick(noise="paired", priors=tight, **few | options), [x[:30], x[30:]])
    noise = model.draws_.noise_variance
    assert noise.shape[-1] == 3 and np.all(np.isfinite(noise))
    assert (np.max(np.abs(noise[..., 0] - noise[..., 1])) == 0.0) == ("hierarchical" not in options)
    assert np.min(np.abs(noise[..., 0] - noise[..., 2])) > 0.0
    assert abs(model.timescales_[0] - 500.0) < 20.0
    model.to_datatree()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("exog", r"'exog'\. .*fit\(X, exog=U\)"),
        ("n_component", "support.*'n_component'"),
    ],
)
def test_arguments_of_other_estimators_raise_with_the_alternative(option, message):
    with pytest.raises(TypeError, match=message):
        BayesianSFA(**{option: 1})


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:.*have similar time scales:UserWarning")
def test_shrinkage_reduces_loadings_of_a_superfluous_factor():
    # The data have one factor and the model two: the second has smaller loadings than by the default prior.
    X = make_slow_mixture(300, 5, timescales=[30.0], noise_variance=0.3, random_state=0).data
    sizes_of_second = []
    for priors in (Priors(), Priors(shrinkage=0.1)):
        draws = fit_quietly(quick(2, priors=priors, n_draws=500), X).draws_.loadings / X.std(axis=0)[:, None]
        size = np.sqrt(np.mean(draws**2, axis=(0, 1, 2)))
        assert size[0] > 0.4
        sizes_of_second.append(size[1])
    assert sizes_of_second[1] < 0.8 * sizes_of_second[0]


@pytest.mark.exhaustive
def test_similar_time_scales_are_a_warning():
    rng = np.random.default_rng(0)
    X = make_slow_mixture(60, 4, decay=[0.8, 0.79], noise_variance=0.3, random_state=rng).data
    with pytest.warns(UserWarning, match="time scales"):
        fit_quietly(quick(2, n_draws=400), X)


class _Interrupt:
    """Raises KeyboardInterrupt in the call after `after` others."""

    def __init__(self, function, after):
        self.function, self.after = function, after
        self.calls = itertools.count()  # several threads may call

    def __call__(self, *args, **kwargs):
        if next(self.calls) == self.after:
            raise KeyboardInterrupt
        return self.function(*args, **kwargs)


def test_an_interrupt_keeps_the_draws_so_far(sampled, frame, monkeypatch):
    # Two parts of the warm-up have two batches of each of four chains. The first chain then has two batches
    # of the third part and two batches of draws.
    monkeypatch.setattr(nuts, "_advance", _Interrupt(nuts._advance, 16 + 4))
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = clone(sampled).set_params(chain_method="sequential").fit(frame[0])
    assert model.draws_.decay.shape == (1, 50, 1)
    np.testing.assert_allclose(model.raw_draws_.decay, sampled.raw_draws_.decay[:1, :50])


def test_an_interrupt_of_chains_in_threads_keeps_draws_that_all_have(sampled, frame, monkeypatch):
    # All batches of all chains except the last one, in any chain.
    monkeypatch.setattr(nuts, "_advance", _Interrupt(nuts._advance, 4 * (2 + 2 + 8) - 1))
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = clone(sampled).fit(frame[0])
    n_chains, n_draws, _ = model.draws_.decay.shape
    assert n_chains == 4 and n_draws == 125
    np.testing.assert_allclose(model.raw_draws_.decay, sampled.raw_draws_.decay[:, :125])


def test_an_interrupt_in_the_warm_up_gives_laplaces_approximation(sampled, frame, monkeypatch):
    monkeypatch.setattr(nuts, "_advance", _Interrupt(nuts._advance, 1))
    with pytest.warns(ConvergenceWarning, match="draws"):
        model = clone(sampled).fit(frame[0])
    assert not model.converged_ and model.draws_.decay.shape == (1, 150, 1)


def test_an_interrupt_of_svi_keeps_the_guide_so_far(frame, monkeypatch):
    counted = _Interrupt(variational._natural_gradient_step, 10)
    monkeypatch.setattr(variational, "_natural_gradient_step", counted)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = quick(n_steps_svi=100).fit(frame[0])
    assert len(model.elbo_) == 10 and not model.converged_


@parametrize("method", ["sequential", "parallel"], quick=0)
def test_chain_methods_have_the_same_mode_and_shapes(sampled, frame, method):
    model = clone(sampled).set_params(chain_method=method, n_draws=25, n_chains=2, n_warmup=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        other = clone(model).set_params(chain_method="vectorized").fit(frame[0])
        model.fit(frame[0])
    # Draws differ: trajectories amplify rounding errors.
    np.testing.assert_allclose(model.map_.decay, other.map_.decay)
    assert model.draws_.decay.shape == other.draws_.decay.shape == (2, 25, 1)


def test_the_configuration_of_jax_is_unchanged(guided):
    assert not jax.config.jax_enable_x64
    assert all(x.dtype == np.float64 and type(x) is np.ndarray for x in guided.draws_)


def test_a_fitted_model_can_be_pickled(guided, frame):
    copy = pickle.loads(pickle.dumps(guided))
    np.testing.assert_array_equal(copy.transform(frame[0]), guided.transform(frame[0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components must be"),
        ({"noise": 0.0}, "noise must be"),
        ({"noise": "pink"}, "noise must be"),
        ({"inference": "gibbs"}, "inference"),
        ({"chain_method": "threads"}, "chain_method must be"),
        ({"n_draws": 1.5}, "n_draws must be"),
        ({"n_draws": "many"}, "n_draws must be 'auto'"),
        ({"target_accept": 1.0}, "target_accept must"),
        ({"priors": {"loadings": 1}}, "priors"),
    ],
)
def test_bad_parameters(frame, options, message):
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(frame[0])


def test_bad_input(sampled, frame):
    X = frame[0].to_numpy()
    with pytest.raises(ValueError, match="no observed value"):
        quick().fit(np.column_stack([X, np.full(80, np.nan)]))
    with pytest.raises(ValueError, match="X.*infinity"):
        quick().fit(np.where(np.isnan(X), np.inf, X))
    with pytest.raises(ValueError, match=r"interval.*got 1\.5"):
        sampled.impute(frame[0], interval=1.5)
    with pytest.raises(NotFittedError):
        BayesianSFA().transform(X)


@pytest.mark.filterwarnings("ignore:Observed values left out")
def test_fits_work_if_the_user_forbids_rank_promotion(rng):
    X = np.cumsum(rng.standard_normal((30, 3)), axis=0)
    X[4, 1] = np.nan
    few = {"n_draws": 5, "n_steps_svi": 3, "n_chains": 2, "n_predictive": 3}
    with jax.numpy_rank_promotion("raise"):
        found = fit_quietly(quick(**few), X)
        filled = found.impute(X)
    wanted = fit_quietly(quick(**few), X)
    for one, other in zip(found.draws_, wanted.draws_, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(filled, wanted.impute(X))


def test_hierarchical_models_give_a_frame_for_each_sequence_of_a_list(rng):
    """All sequences are passed at once, because each has its own noise variances."""
    X = [
        pd.DataFrame(rng.standard_normal((n, 3)).cumsum(axis=0), columns=list("abc"), index=range(5, 5 + n))
        for n in (30, 20)
    ]
    few = {"n_draws": 5, "n_steps_svi": 3, "n_chains": 2, "n_predictive": 3}
    model = fit_quietly(quick(hierarchical=True, **few), X)
    wanted = model.transform(X)
    for frame, values, x in zip(model.set_output(transform="pandas").transform(X), wanted, X, strict=True):
        assert isinstance(frame, pd.DataFrame) and frame.index.equals(x.index)
        np.testing.assert_array_equal(frame, values)
    with pytest.raises(ValueError, match="noise.*hierarchical=True"):  # of one sequence, which is not given
        model.diagnose(X)


@pytest.mark.exhaustive
def test_the_index_of_a_frame_is_its_times(guided, frame):
    """With even hours the fit is that of row numbers; uneven hours are times, as the status reports."""
    X = frame[0]
    assert guided.time_unit_ == 1.0 and guided.time_unit_seconds_ == 3600.0
    assert "index of X is used as times: rows are evenly spaced, 1 h apart" in guided.status_
    kept = np.delete(np.arange(80), [20, 21, 50])
    cut = X.iloc[kept]
    plain = cut.reset_index(drop=True)
    model, other = (quick(inference="svi") for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(cut)
        other.fit(plain, times=cut.index)
    np.testing.assert_array_equal(model.draws_.decay, other.draws_.decay)
    assert model.time_unit_seconds_ == 3600.0 and "rows are unevenly spaced" in model.status_
    np.testing.assert_array_equal(model.impute(cut), other.impute(plain, times=cut.index))
    incomplete = X.copy()
    incomplete.iloc[[20, 21, 50]] = np.nan
    assert guided.log_likelihood(cut) == pytest.approx(guided.log_likelihood(incomplete), rel=1e-9)
    with pytest.raises(ValueError, match="durations"):
        guided.impute(plain, times=np.arange(77.0))
    with pytest.raises(ValueError, match="increase"):
        guided.impute(X.iloc[::-1])
