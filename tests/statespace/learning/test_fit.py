"""Complete fits: maxima, status, and interrupts at any time."""

import re

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from probsfa import ProbabilisticSFA
from probsfa.statespace import progress
from probsfa.statespace.learning import objective
from probsfa.statespace.learning.coordinates import from_vector
from probsfa.statespace.learning.objective import STATUS_SENTENCES, CountedEStep
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import mask_values, to_model, to_panel, to_parameters, uneven_times

QUIET = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def fitted_model(estimator):
    return to_model(estimator.params_)


def draw(rng, noise=0.3, n_rows=100):
    model = oracle.random_model(rng, 5, 2, noise)
    return model, mask_values(rng, oracle.simulate(rng, model, [n_rows]), "scattered")[0]


@QUIET
@parametrize("solver", ["auto", "lbfgs", "em"], quick=["lbfgs"])
@parametrize("noise", ["diagonal", "isotropic", 0.3], quick=["isotropic"])
def test_solvers_agree(rng, solver, noise):
    model, data = draw(rng)
    best = ProbabilisticSFA(2, noise=noise, tol=1e-6).fit(data)
    found = ProbabilisticSFA(2, noise=noise, solver=solver, max_iter=3000, tol=1e-6).fit(data)
    if not found.converged_:  # EM converges slowly, which the status reports
        assert solver == "em"
        assert best.log_likelihood_ - 1.0 < found.log_likelihood_ < best.log_likelihood_
        return
    assert found.log_likelihood_ == pytest.approx(best.log_likelihood_, abs=1e-2)
    np.testing.assert_allclose(found.decay_, best.decay_, atol=0.01)
    if noise == "isotropic":
        assert np.ptp(found.noise_variance_) < 1e-12 * found.noise_variance_[0]
    if noise == 0.3:
        np.testing.assert_allclose(found.noise_variance_, 0.3, rtol=1e-14)


@parametrize("sampling", ["even", "uneven"], quick=["uneven"])
@parametrize("noise", ["diagonal", "isotropic"])
def test_fits_end_at_a_maximum(rng, sampling, noise):
    """All derivatives of the likelihood are zero, by differences of a textbook Kalman filter."""
    model, data = draw(rng)
    times = uneven_times(rng, [100]) if sampling == "uneven" else None
    fitted = ProbabilisticSFA(2, noise=noise, noise_prior=None, tol=1e-8)
    fitted = fitted.fit(data, times=None if times is None else times[0])
    units = None if times is None else [times[0] / fitted.time_unit_]
    found, even = fitted_model(fitted), times is None

    def value(vector):
        loop = oracle.kalman_loop(oracle.unpack(vector, found, noise, even), [data], units)
        return loop.row_log_likelihoods.sum()

    at = oracle.pack(found, noise, even)
    assert fitted.converged_
    gradient = oracle.numerical_gradient(value, at, 1e-4)
    free = np.ones(len(at), dtype=bool)
    if noise == "diagonal":
        relative = fitted.noise_variance_ / np.nanvar(data, axis=0)
        free[12:17] = relative > 1.001e-3
    assert np.max(np.abs(gradient[free])) < 1e-2


@parametrize("noise", [1e-6, 1e-3, 0.3, 3.0], quick=[0.3])
def test_likelihood_exceeds_that_of_the_true_parameters_after_few_evaluations(rng, noise):
    model, data = draw(rng, noise)
    fitted = ProbabilisticSFA(2).fit(data)
    truth = oracle.kalman_loop(model, [data]).row_log_likelihoods.sum()
    assert fitted.log_likelihood_ > truth
    assert fitted.converged_ and fitted.n_evaluations_ < 200


def test_parameters_are_recovered(rng):
    """Parameters are within six standard errors of the true ones."""
    model = oracle.Model(
        np.array([0.95, 0.5]), rng.standard_normal((5, 2)), np.full(5, 0.2), rng.standard_normal(5)
    )
    data = oracle.simulate(rng, model, [2000])[0]
    fitted = ProbabilisticSFA(2).fit(data)
    errors = fitted.standard_errors(data)
    signs = np.sign(np.sum(fitted.loadings_ * model.loadings, axis=0))
    assert np.all(np.abs(fitted.decay_ - model.decay) < 6 * errors.decay)
    assert np.all(np.abs(fitted.loadings_ * signs - model.loadings) < 6 * errors.loadings)
    assert np.all(np.abs(fitted.noise_variance_ - model.noise) < 6 * errors.noise_variance)
    assert np.all(np.abs(fitted.mean_ - model.offset) < 6 * errors.offset)


def test_noise_floor_is_kept(rng):
    model, data = draw(rng, 1e-6)
    fitted = ProbabilisticSFA(2, noise_floor=0.05).fit(data)
    relative = fitted.noise_variance_ / np.nanvar(data, axis=0)
    assert np.all(relative >= 0.05 * (1 - 1e-9)) and "lower bound" in fitted.status_


def heywood_data(rng):
    """Data with one column that a factor may reproduce, and columns with noise."""
    slow = oracle.Model(np.array([0.95]), np.ones((1, 1)), np.zeros(1), np.zeros(1))
    z = oracle.simulate(rng, slow, [100])[0]
    data = z @ rng.standard_normal((1, 5)) + rng.standard_normal((100, 5))
    data[:, 2] += 5 * rng.standard_normal(100)
    return data


def test_the_prior_keeps_variances_of_heywood_cases_positive(rng):
    """Near zero noise the likelihood is flat: the prior costs little, and without it the estimate is zero."""
    data = heywood_data(rng)
    fitted = ProbabilisticSFA(3, tol=1e-8).fit(data)
    # Start there: at another, slightly lower maximum another column has no noise.
    without = ProbabilisticSFA(3, noise_prior=None, tol=1e-8, init=fitted).fit(data)
    assert (fitted.noise_variance_ / data.var(axis=0)).min() > 1e-3
    assert (without.noise_variance_ / data.var(axis=0)).min() < 1e-6
    assert without.log_likelihood_ - 0.1 < fitted.log_likelihood_ <= without.log_likelihood_ + 1e-3


@parametrize("solver", ["lbfgs", "em"], quick=["lbfgs"])
@parametrize("noise", ["diagonal", "isotropic"])
def test_fits_end_where_likelihood_and_prior_have_zero_gradient(rng, solver, noise):
    """By differences of a textbook Kalman filter and of the density ``rho / (rho + 1e-4)``."""
    data = heywood_data(rng)[:60]
    fitted = ProbabilisticSFA(2, noise=noise, tol=1e-8, max_iter=3000, solver=solver).fit(data)
    found = fitted_model(fitted)
    scale = data.var(axis=0) if noise == "diagonal" else np.full(5, data.var(axis=0).mean())

    def value(vector):
        model = oracle.unpack(vector, found, noise)
        relative = (model.noise / scale)[: 5 if noise == "diagonal" else 1]
        return oracle.kalman_loop(model, [data]).row_log_likelihoods.sum() + np.sum(
            np.log(relative / (relative + 1e-4))
        )

    gradient = oracle.numerical_gradient(value, oracle.pack(found, noise), 1e-4)
    assert fitted.converged_ and np.max(np.abs(gradient)) < 1e-2


@QUIET
@pytest.mark.parametrize("solver", ["lbfgs", "em"])
def test_the_history_of_a_run_with_a_prior_never_falls_and_ends_at_the_likelihood(rng, solver):
    data = heywood_data(rng)
    fitted = ProbabilisticSFA(3, solver=solver, tol=0.1, max_iter=300).fit(data)
    assert np.all(np.diff(fitted.history_) >= -1e-8)
    assert fitted.history_[-1] == fitted.log_likelihood_
    assert fitted.log_likelihood_ == pytest.approx(fitted.log_likelihood(data), rel=1e-8)


@pytest.mark.parametrize("prior", ["strong", 1.0, True])
def test_invalid_priors_are_refused(rng, prior):
    with pytest.raises(ValueError, match="noise_prior must.*got"):
        ProbabilisticSFA(1, noise_prior=prior).fit(heywood_data(rng))


@QUIET
@pytest.mark.parametrize("solver", ["lbfgs", "em"])
@parametrize("max_iter", [1, 2, 5, 10, 15, 25, 50], quick=[10])
def test_a_heywood_case_is_prevented_or_reported_after_few_evaluations(rng, solver, max_iter):
    data = heywood_data(rng)
    fitted = ProbabilisticSFA(3, solver=solver, max_iter=max_iter).fit(data)
    relative = fitted.noise_variance_ / data.var(axis=0)
    assert fitted.n_evaluations_ <= max_iter
    assert relative.min() >= 1e-4 * (1 - 1e-6) or "Heywood" in fitted.status_


@QUIET
def test_all_evaluations_are_used(rng):
    model, data = draw(rng)
    fitted = ProbabilisticSFA(2, solver="em", max_iter=20, tol=1e-8).fit(data)
    assert fitted.n_evaluations_ == 20
    assert np.all(np.diff(fitted.history_) >= -1e-9)


@QUIET
def test_variances_of_data_without_noise_are_not_fixed_at_the_floor(rng):
    model, data = draw(rng, 1e-8)
    fitted = ProbabilisticSFA(2).fit(data)
    assert np.median(fitted.noise_variance_ / np.nanvar(data, axis=0)) < 1e-6


# ---------------------------------------------------------------- how fits end


def test_every_status_states_a_remedy():
    assert set(STATUS_SENTENCES) >= {"converged", "flat", "max_iter", "stalled", "interrupted", "closed_form"}
    for sentence in STATUS_SENTENCES.values():
        assert sentence.endswith(".") and len(sentence) > 30


@pytest.mark.parametrize("solver", ["lbfgs", "em"])
@parametrize("max_iter", [1, 2, 5], quick=[2])
def test_max_iter_is_respected_and_reported(rng, solver, max_iter):
    model, data = draw(rng)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        fitted = ProbabilisticSFA(2, solver=solver, max_iter=max_iter).fit(data)
    assert not fitted.converged_ and "max_iter" in fitted.status_
    assert fitted.n_evaluations_ <= max_iter
    assert fitted.log_likelihood_ == pytest.approx(fitted.log_likelihood(data), rel=1e-10)


@pytest.mark.parametrize("solver", ["lbfgs", "em"])
@parametrize("at", [1, 2, 4, 8], quick=[4])
def test_an_interrupt_keeps_the_best_parameters(rng, solver, at, monkeypatch):
    model, data = draw(rng)
    whole = objective.expected_statistics
    log_likelihoods = []

    def interrupted(params, panel, **options):
        if len(log_likelihoods) == at:
            raise KeyboardInterrupt
        log_likelihoods.append(whole(params, panel, **options).log_likelihood)
        return whole(params, panel, **options)

    monkeypatch.setattr(objective, "expected_statistics", interrupted)
    with pytest.warns(ConvergenceWarning, match="[Ii]nterrupted"):
        fitted = ProbabilisticSFA(2, solver=solver).fit(data)
    assert not fitted.converged_ and "nterrupted" in fitted.status_
    monkeypatch.undo()
    assert fitted.log_likelihood_ == pytest.approx(fitted.log_likelihood(data), rel=1e-9)
    log_jacobian = (~np.isnan(data)).sum(axis=0) @ np.log(np.nanstd(data, axis=0))
    assert fitted.log_likelihood_ == pytest.approx(max(log_likelihoods) - log_jacobian, rel=1e-9)
    assert np.all(np.isfinite(fitted.impute(data)))


@parametrize("at", [0, 3, 10], quick=[3])
def test_an_interrupt_while_starting_returns_a_start(rng, at, monkeypatch):
    """After Ctrl-C before the first exact evaluation, the result has parameters and their likelihood."""
    model, data = draw(rng)
    call, count = objective.WhittleObjective.__call__, []

    def interrupted(self, vector):
        if len(count) == at:
            count.append(1)
            raise KeyboardInterrupt
        count.append(1)
        return call(self, vector)

    monkeypatch.setattr(objective.WhittleObjective, "__call__", interrupted)
    with pytest.warns(ConvergenceWarning, match="[Ii]nterrupted"):
        fitted = ProbabilisticSFA(2).fit(data)
    assert not fitted.converged_
    assert np.all(np.isfinite(fitted.impute(data)))
    assert fitted.log_likelihood_ == pytest.approx(fitted.log_likelihood(data), rel=1e-9)


def test_progress_is_shown_with_verbose(rng, capsys):
    model, data = draw(rng)
    ProbabilisticSFA(2).fit(data)
    assert capsys.readouterr().err == ""
    # With isotropic noise no variance is at its lower bound, where the likelihood might be lower.
    fitted = ProbabilisticSFA(2, noise="isotropic", verbose=True).fit(1000.0 * data)
    shown = re.findall(r"log-likelihood (\S+)\]", capsys.readouterr().err)
    assert float(shown[-1]) == pytest.approx(fitted.log_likelihood_, rel=1e-5), "in data units"


def test_the_bar_moves_while_starts_are_refined(rng, capsys, monkeypatch):
    model, data = draw(rng)
    monkeypatch.setattr(progress, "_REPORT_INTERVAL", 0.0)
    fitted = ProbabilisticSFA(2, noise="isotropic", verbose=True).fit(data)
    shown = capsys.readouterr().err
    steps = [int(n) for n in re.findall(r"initial parameters: (\d+)step", shown)]
    assert steps == sorted(steps) and len(set(steps)) > 10
    # Each run has its own maximum number of evaluations.
    counts = [int(n) for n in re.findall(r"fit: +\d+%\|[^|]*\| (\d+)/200", shown.partition("step ")[2])]
    assert counts == sorted(counts) and counts[-1] == fitted.n_evaluations_
    assert shown.index("initial parameters") < shown.index("log-likelihood")


def test_the_bar_moves_while_gaps_are_imputed_for_a_start(capsys):
    with progress.Progress(10) as report:
        report(2, -5.0)
        report.on_whittle_step()
    assert "log-likelihood -5, step 1 of initial parameters" in capsys.readouterr().err


@parametrize("at", [5, 15], quick=[15])
def test_an_interrupt_while_starting_keeps_the_best_start(rng, at, monkeypatch):
    """The fit returns the start with the highest Whittle likelihood so far."""
    model, data = draw(rng)
    call, evaluations = objective.WhittleObjective.__call__, []

    def interrupted(self, vector):
        if len(evaluations) == at:
            raise KeyboardInterrupt
        evaluation = call(self, vector)
        evaluations.append((evaluation.value, self.coordinates, vector, self.template))
        return evaluation

    monkeypatch.setattr(objective.WhittleObjective, "__call__", interrupted)
    with pytest.warns(ConvergenceWarning, match="[Ii]nterrupted"):
        fitted = ProbabilisticSFA(2).fit(data)
    _, coordinates, vector, template = max(evaluations, key=lambda one: one[0])
    best = from_vector(coordinates, vector, template)
    np.testing.assert_allclose(np.sort(fitted.decay_), np.sort(best.decay), rtol=1e-12)
    relative = fitted.noise_variance_ / np.nanvar(data, axis=0)
    np.testing.assert_allclose(relative, best.noise_variance, rtol=1e-9)


def test_evaluations_before_the_prior_of_the_noise_are_not_compared_with_later_ones(rng):
    model = oracle.random_model(rng, 3, 1)
    params = to_parameters(model)
    evaluate = CountedEStep(to_panel(oracle.simulate(rng, model, [30])), 9)
    evaluate(params)
    evaluate.set_prior(Noise(NoiseVariances.diagonal(3), np.full(3, 1e-6), 0.5))
    worse = params.replace(noise_variance=3.0 * params.noise_variance)
    stats = evaluate(worse)
    assert evaluate.best is worse and evaluate.best_log_likelihood == stats.log_likelihood
