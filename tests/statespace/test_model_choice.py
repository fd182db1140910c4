"""Model selection: held-out values, scores, rounds, time budget, and recovery of known models."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from probsfa import ProbabilisticSFA, select_model, select_n_components
from probsfa._validation import check_sequences
from probsfa.datasets import make_slow_mixture
from probsfa.statespace.calibration import HeldOutPredictions, small_sample_factors
from probsfa.statespace.choice import candidates, clock, proposals
from probsfa.statespace.choice.search import Search
from probsfa.statespace.comparison import Candidate, Comparison
from probsfa.statespace.engine.posterior import log_likelihood, simulate
from probsfa.statespace.growth import enlarged, reduced
from probsfa.statespace.held_out_values import (
    HeldOutValues,
    _groups,
    compare_scores,
    compare_scores_of_draws,
    crps,
    hide_for_comparison,
    isolated_values,
    near_best_models,
    standard_errors,
    units_of,
)
from probsfa.statespace.learning.starts import likelihood_gain_of_cycle
from probsfa.statespace.leave_one_out import interpolate_linearly
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.parameters import StateLayout, StateSpace, rescale
from probsfa.statespace.processes.rhythm import Rhythm
from probsfa.statespace.residual_structure import ResidualStructure as Structure
from probsfa.statespace.residual_structure import residual_structure
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import to_model, to_panel

ONE_AND_TWO = [{"n_components": 1}, {"n_components": 2}]


def mixture(seed=0, n_rows=200, decay=(0.98, 0.7), n_features=4):
    drawn = make_slow_mixture(n_rows, n_features, decay=decay, noise_variance=0.2, random_state=seed)
    return drawn.data


def noisy(seed, n_rows=500):
    """Two latent factors, the second fast and weak, with much noise: the likelihood detects both."""
    rng = np.random.default_rng([seed, 0])
    timescales = np.array([60.0, 12.0]) * rng.uniform(0.7, 1.4, 2) * [1.0, 0.4]
    loadings = rng.standard_normal((6, 2)) * [1.0, 0.6]
    noise = rng.uniform(0.6, 3.0, 6)
    params = StateSpace(np.exp(-1.0 / timescales), loadings, noise, rng.standard_normal(6))
    return simulate(params, n_rows, rng)[0]


# ------------------------------------------------------------------------------------- scores and evidence


def test_the_score_is_the_integral_of_the_squared_distance_of_distributions(rng):
    for error, std in [(0.0, 1.0), (0.7, 0.3), (-4.0, 1.5), (30.0, 0.5)]:
        expected = 0.0
        for low, high, step in [(-np.inf, 0.0, 0.0), (0.0, np.inf, 1.0)]:
            ends = np.clip([low, high], min(0.0, error) - 12 * std, max(0.0, error) + 12 * std)
            middle = float(np.clip(error, *ends))
            for a, b in [(ends[0], middle), (middle, ends[1])]:
                expected += quad(lambda y, e=error, s=std, t=step: (norm.cdf(y, e, s) - t) ** 2, a, b)[0]
        assert crps(np.array(error), np.array(std)) == pytest.approx(expected, rel=1e-6)
    assert crps(np.array(-2.0), np.array(0.0)) == 2.0


def test_standard_errors_are_those_of_means_of_groups(rng):
    differences, groups = rng.standard_normal((2, 300)), np.repeat(np.arange(50), 6)
    for row, error in zip(differences, standard_errors(differences, groups), strict=True):
        means = [row[groups == g].mean() for g in range(50)]
        assert error == pytest.approx(np.std(means, ddof=1) / np.sqrt(50), rel=1e-12)


def test_scores_reject_models_and_bic_selects_among_the_others(rng):
    groups = np.arange(400)
    common = rng.random(400)
    slightly = np.array([common, common + 0.01 * rng.standard_normal(400), common + 0.5])
    evidence = compare_scores(slightly, groups, np.array([30.0, 20.0, 0.0]))
    assert evidence.chosen == 1 and evidence.equal.tolist() == [True, True, False]
    assert evidence.behind[2] == pytest.approx(0.5, abs=0.01)
    assert near_best_models(evidence, np.array([30.0, 20.0, 0.0])).tolist() == [1, 0]
    assert near_best_models(evidence, np.array([30.1, 20.0, 0.0])).tolist() == [1]


def test_significant_differences_below_one_percent_are_ignored(rng):
    common = 1.0 + rng.random(400)
    scores = np.array([common, common + 0.01, common + 0.02])
    evidence = compare_scores(scores, np.arange(400), np.array([2.0, 1.0, 0.0]))
    assert evidence.equal.tolist() == [True, True, False] and evidence.chosen == 1


def test_an_outlier_does_not_dominate_scores(rng):
    """At an outlier, log densities of two models differ by more than 1e6 nats, scores by less than 0.1."""
    errors = np.tile(rng.standard_normal(300), (2, 1))
    errors[:, 0] = 1e4
    std = np.stack([np.full(300, 1.0), np.full(300, 1.1)])
    scores = crps(errors, std)
    assert abs(scores[0, 0] - scores[1, 0]) < 0.1
    densities = norm.logpdf(errors, scale=std)
    assert abs(densities[0, 0] - densities[1, 0]) > 1e6
    assert compare_scores(scores, np.arange(300), np.array([0.0, 1.0])).chosen == 0


def test_a_model_is_rejected_only_if_all_draws_reject_it(rng):
    common, groups, bic = rng.random(300), np.arange(300), np.array([0.0, 20.0])
    better = np.array([common + 0.1 + 0.1 * rng.standard_normal(300), common])
    same = np.array([common, common + 0.01 * rng.standard_normal(300)])
    assert compare_scores(better, groups, bic).chosen == 1
    assert compare_scores_of_draws([better, better], [groups, groups], bic).chosen == 1
    evidence = compare_scores_of_draws([better, same], [groups, groups], bic)
    assert evidence.chosen == 0 and evidence.equal.all()
    together = np.concatenate([better, same], axis=1)
    np.testing.assert_allclose(evidence.behind, together.mean(axis=1) - together.mean(axis=1).min())
    expected = standard_errors(together - together[1], np.arange(600))
    np.testing.assert_allclose(evidence.standard_error, expected)


def test_units_are_robust_to_outliers(rng):
    values = rng.standard_normal((2000, 2))
    values[:2, 0] = 1e3
    assert units_of(values) == pytest.approx([1.0, 1.0], rel=2.0)
    assert values.std(axis=0)[0] > 20.0
    assert units_of(np.ones((5, 1)))[0] == 1.0


# ---------------------------------------------------------------------------------------- held-out values


def test_values_are_hidden_in_the_pattern_of_the_missing_values(rng):
    """Six consecutive rows are missing at a time; values are held out in such blocks of complete rows."""
    values = rng.standard_normal((600, 3))
    for first in (10, 57, 133, 190, 271, 305, 402, 433, 480, 555):
        values[first : first + 6] = np.nan
    hidden = hide_for_comparison(values, fraction=0.1, n_masks=2, block=24, rng=rng)
    assert set(hidden.kinds) == {"pattern of missing values, moved in time"}
    assert not np.any(hidden.all & np.isnan(values))
    assert 0.07 < hidden.all.sum() / np.isfinite(values).sum() < 0.13
    rows = hidden.all.any(axis=1)
    is_complete = np.isfinite(values).all(axis=1)
    np.testing.assert_array_equal(hidden.all[rows & is_complete].all(axis=1), True)
    for part in (1, 2):  # held-out blocks are shorter next to missing rows, and at the end of a part
        runs = np.diff(np.flatnonzero(np.diff(np.r_[0, (hidden.part[:, 0] == part).astype(int), 0])))[::2]
        assert np.mean(runs == 6) >= 0.5


def test_a_complete_series_hides_single_values_and_blocks(rng):
    values = rng.standard_normal((400, 5))
    hidden = hide_for_comparison(values, fraction=0.2, n_masks=4, block=24, rng=rng)
    assert hidden.kinds == ("single values",) * 2 + ("blocks of 24 rows",) * 2
    assert 0.15 < hidden.all.mean() < 0.25
    # A group consists of consecutive rows of one column that are held out in the same part.
    for group in np.unique(hidden.group[hidden.all])[:50]:
        rows, columns = np.nonzero(hidden.group == group)
        assert len(set(columns)) == 1 and np.all(np.diff(rows) == 1)
        assert len(set(hidden.part[rows, columns])) == 1


def test_at_most_three_tenths_of_a_column_are_hidden(rng):
    values = rng.standard_normal((300, 3))
    values[rng.random(300) < 0.9, 2] = np.nan
    hidden = hide_for_comparison(values, fraction=0.5, n_masks=4, block=10, rng=rng)
    assert np.all(hidden.all.sum(axis=0) <= 0.3 * np.isfinite(values).sum(axis=0))
    with pytest.raises(ValueError, match="too few"):
        hide_for_comparison(values[:3], fraction=0.1, n_masks=2, block=1, rng=rng)


def test_predictions_of_held_out_values_are_those_given_all_others(rng):
    """Predictions equal the conditional means and variances of the joint Gaussian of all values."""
    params = StateSpace(np.array([0.9, 0.5]), rng.standard_normal((3, 2)), np.full(3, 0.3), np.ones(3))
    values = simulate(params, 30, rng)[0]
    values[4, 1] = np.nan
    part = np.zeros(values.shape, dtype=int)
    part[5:9, 0], part[12, 2], part[20:22, 1], part[5:7, 2] = 1, 1, 2, 2
    hidden = HeldOutValues(part, _groups(part), ("", ""))
    estimator = ProbabilisticSFA.from_parameters(**params.to_arrays())
    comparison = Comparison(check_sequences(estimator, values, reset=True, allow_nan=True), [hidden])
    units = units_of(values)
    found = comparison.predict(LinearGaussianModel(estimator._model.fitted), hidden)
    means, std = oracle.complete_entries(to_model(params), [hidden.with_nan(values)])
    widths = small_sample_factors(np.isfinite(hidden.with_nan(values)).sum(axis=0), 3)
    expected = [
        (t, d, (means[t, d] - values[t, d]) / units[d], std[t, d] * widths[d] / units[d])
        for t in range(30)
        for d in range(3)
        if part[t, d] > 0
    ]
    np.testing.assert_allclose(found.errors, [each[2] for each in expected], atol=1e-9)
    np.testing.assert_allclose(found.std, [each[3] for each in expected], atol=1e-9)
    # Blocks that begin in one row share a number.
    first = {(t, d): t for t, d, *_ in expected}
    first |= {(t, 0): 5 for t in range(5, 9)} | {(6, 2): 5, (21, 1): 20}
    np.testing.assert_array_equal(found.groups, [first[t, d] for t, d, *_ in expected])


def test_linear_interpolation_uses_times():
    frame = pd.DataFrame({"a": [1.0, np.nan, 4.0, np.nan], "b": [np.nan, 2.0, 2.0, np.nan]})
    sequences = check_sequences(
        ProbabilisticSFA(1), frame, reset=True, allow_nan=True, times=[0.0, 2.0, 3.0, 9.0]
    )
    np.testing.assert_allclose(interpolate_linearly(sequences), [[1, 2], [3, 2], [4, 2], [4, 2]])


def test_isolated_values_are_far_from_four_adjacent_observations(rng):
    values = np.cumsum(rng.standard_normal((200, 3)), axis=0)
    values[::7, 1] = np.nan
    values[[40, 41, 120], [0, 0, 1]] += [90.0, -80.0, 70.0]
    values[150:170, 2] += 500.0  # a longer excursion is not isolated
    values[60:, 0] += 300.0
    found = isolated_values(values, (60, 140))
    for d in range(3):
        errors = {}
        for first, stop in ((0, 60), (60, 200)):
            rows = [t for t in range(first, stop) if not np.isnan(values[t, d])]
            for i, t in enumerate(rows):
                low = min(max(i - 2, 0), len(rows) - 5)
                nearest = [values[rows[j], d] for j in range(low, low + 5) if j != i]
                errors[t] = abs(values[t, d] - np.median(nearest))
        limit = 6.0 * np.median(list(errors.values())) / norm.ppf(0.75)
        assert np.flatnonzero(found[:, d]).tolist() == [t for t, error in errors.items() if error > limit]
    assert found[40, 0] and found[41, 0] and found[120, 1] and not found[155:165, 2].any()
    assert not isolated_values(np.repeat([[0.0], [5.0]], [90, 1], axis=0), (91,)).any()


# ------------------------------------------------------------------------------------------------- growth


def test_a_cycle_is_found_in_the_residuals_of_a_smaller_model(rng):
    params = StateSpace(
        np.array([0.95]),
        rng.standard_normal((3, 3)),
        np.full(3, 0.3),
        np.zeros(3),
        rhythm_decay=np.array([0.99]),
        rhythm_frequency=np.array([2.0 * np.pi / 12.0]),
    )
    panel = to_panel([simulate(params, 600, rng)[0]])
    alone = params.ar1_factors_only
    larger = enlarged(
        alone, panel, StateLayout(1, {Rhythm: 1}), Noise(NoiseVariances.diagonal(3), np.full(3, 1e-9))
    )
    assert larger.state_layout == StateLayout(1, {Rhythm: 1})
    assert larger.rhythm_periods[0] == pytest.approx(12.0, rel=0.02)
    assert log_likelihood(larger, panel) > log_likelihood(alone, panel) + 50.0


def test_a_smaller_model_keeps_the_factors_that_explain_most():
    params = StateSpace(
        np.array([0.9, 0.8, 0.7]),
        np.array([[1.0, 0.1, 3.0, 0.2, 0.0, 2.0, 2.0], [1.0, 0.0, 3.0, 0.0, 0.1, 2.0, 1.0]]),
        np.ones(2),
        np.zeros(2),
        rhythm_decay=np.array([0.5, 0.6]),
        rhythm_frequency=np.array([0.1, 0.2]),
    )
    less = reduced(params, StateLayout(2, {Rhythm: 1}))
    np.testing.assert_array_equal(less.decay, [0.9, 0.7])
    np.testing.assert_array_equal(less.rhythm_frequency, [0.2])
    np.testing.assert_array_equal(less.loadings, params.loadings[:, [0, 2, 5, 6]])
    np.testing.assert_allclose(less.noise_variance, [1.0 + 0.5 * (0.01 + 0.04), 1.0 + 0.5 * 0.01])


def test_the_gain_of_a_cycle_is_computed_from_the_whitened_periodogram(rng):
    """The spectral matrix is inverted at each frequency around the peak."""
    params = StateSpace(np.array([0.8]), rng.standard_normal((3, 1)), np.full(3, 0.5), np.zeros(3))
    values = simulate(params, 240, rng)[0]
    values += 0.8 * np.cos(2.0 * np.pi * np.arange(240)[:, None] / 12.0 + np.arange(3))
    power = np.zeros(121)
    for j in range(121):
        w = 2.0 * np.pi * j / 240
        transform = np.sum(values * np.exp(-1j * w * np.arange(240))[:, None], axis=0) / np.sqrt(240)
        of_latent = (1.0 - 0.8**2) / np.abs(1.0 - 0.8 * np.exp(-1j * w)) ** 2
        spectrum = of_latent * params.loadings @ params.loadings.T + np.diag(params.noise_variance)
        power[j] = (transform.conj() @ np.linalg.solve(spectrum, transform)).real
    near = slice(20 - 2, 20 + 3)
    # The background is the median of adjacent ordinates, ten on each side.
    level = [np.median(power[max(c - 10, 1) : c + 11]) for c in range(18, 23)]
    expected = 3.0 * np.sum(np.maximum(power[near] / level - 1.0, 0.0))
    assert likelihood_gain_of_cycle(params, [values]) == pytest.approx(expected, rel=0.02)
    assert expected > 100.0


def test_only_the_true_model_has_little_residual_structure(rng):
    params = StateSpace(
        np.array([0.95]),
        rng.standard_normal((4, 3)),
        np.full(4, 0.3),
        np.zeros(4),
        rhythm_decay=np.array([0.99]),
        rhythm_frequency=np.array([2.0 * np.pi / 9.0]),
    )
    values = simulate(params, 600, rng)[0]
    sequences = check_sequences(ProbabilisticSFA(1), values, reset=True, allow_nan=True)
    right, wrong = (
        residual_structure(ProbabilisticSFA(init=each, **sizes).fit(values)._model, sequences)
        for each, sizes in (
            (params, {"n_components": 1, "rhythms": 1}),
            (params.ar1_factors_only, {"n_components": 1}),
        )
    )
    assert right.cycle < 30.0 < 100.0 < wrong.cycle
    assert right.autocorrelation < 15.0 < 100.0 < wrong.autocorrelation


def test_the_gain_of_autocorrelation_is_half_the_box_pierce_statistic(rng):
    """One-step prediction errors of a model with zero loadings are the standardized data."""
    params = StateSpace(np.array([0.5]), np.zeros((2, 1)), np.array([4.0, 0.25]), np.array([1.0, -1.0]))
    values = params.offset + np.sqrt(params.noise_variance) * rng.standard_normal((300, 2))
    values[1:] += 0.3 * (values[:-1] - params.offset)
    model = LinearGaussianModel(ProbabilisticSFA.from_parameters(**params.to_arrays())._model.fitted)
    sequences = check_sequences(ProbabilisticSFA(1), values, reset=True, allow_nan=True)
    expected = 0.0
    for column in values.T:
        x = column - column.mean()
        for lag in range(1, 6):
            r = np.mean(x[lag:] * x[:-lag]) / np.mean(x**2)
            expected += 0.5 * ((300 - lag) * r**2 - 1.0)
    assert residual_structure(model, sequences).autocorrelation == pytest.approx(expected, rel=1e-9)


# ------------------------------------------------------------------------------------ candidates and rounds


class FakeSearch:
    """A search in which models have a given value (smaller is better) and a given residual structure."""

    n_features, n_observed, default_candidates = 3, 100, ()

    def __init__(self, value, max_factors, groups, structure=Structure(np.inf, np.inf), slow=()):  # noqa: B008
        self.value, self.fitted_options, self.structure, self.slow = value, [], structure, slow
        self.clock = clock.Clock(None)
        for options in proposals.propose_by_search(max_factors, groups)(self):
            assert options not in self.fitted_options
            self.fitted_options.append(options)

    def residual_structure_of(self, options):
        assert options in self.fitted_options
        return self.structure

    def has_fast_fits(self, options):
        return options not in self.slow

    def bic_of(self, options):
        return 100.0 * self.value(options)

    @property
    def best(self):
        chosen = min(self.fitted_options, key=self.value)
        return type("Candidate", (), {"options": chosen})


@pytest.mark.parametrize("true", [0, 1, 2, 3, 5, 7, 8])
def test_the_search_finds_a_single_minimum_of_the_number_of_factors(true):
    search = FakeSearch(lambda options: abs(options["n_components"] - true), 8, [])
    assert search.best.options == {"n_components": true}
    assert len(search.fitted_options) <= 9


GROUPS = [[{"rhythms": 1}, {"rhythms": 2}, {"rhythms": 3}], [{"smooth": 1}], [{"noise": "ar1"}]]


@pytest.mark.parametrize(
    "truth",
    [
        {"n_components": 3, "rhythms": 2},
        {"n_components": 0, "smooth": 1},
        {"n_components": 1, "noise": "ar1"},
        {"n_components": 0, "noise": "ar1"},
        {"n_components": 2, "rhythms": 1, "noise": "ar1"},
    ],
)
def test_the_search_finds_the_structure(truth):
    """Two factors can replace a cycle; one factor can replace a smooth process or AR(1) noise."""
    cost = {"n_components": 1.0, "rhythms": 2.1, "smooth": 1.1, "noise": 1.1}

    def size(options, name):
        value = options.get(name, 0)
        return int(value == "ar1") if name == "noise" else value

    def value(options):
        missing = sum(max(size(truth, name) - size(options, name), 0) * cost[name] for name in cost)
        spare = {name: max(size(options, name) - size(truth, name), 0) for name in cost}
        by_factors = min(spare["n_components"], missing)
        return 3.0 * (missing - by_factors) + 1.2 * by_factors + sum(spare.values()) - by_factors

    search = FakeSearch(value, 8, GROUPS)
    assert search.best.options == truth
    assert len(search.fitted_options) < 40


def test_cycles_are_fitted_only_if_the_residuals_have_a_peak():
    search = FakeSearch(lambda options: abs(options["n_components"] - 2), 8, GROUPS, Structure(0.0, 0.0))
    assert not any("rhythms" in options for options in search.fitted_options)
    assert {"n_components": 2, "smooth": 1} in search.fitted_options


def test_ar1_noise_is_omitted_if_its_fit_takes_long():
    ar1 = {"noise": "ar1"}
    search = FakeSearch(lambda options: abs(options["n_components"] - 2), 8, GROUPS, slow=(ar1,))
    assert not any("noise" in options for options in search.fitted_options)


# ----------------------------------------------------------------------------------------- select_model


@pytest.fixture(scope="module")
def selection():
    return select_model(mixture(), ONE_AND_TWO)


def test_the_selected_model_is_fitted_and_explained(selection):
    assert selection.options == {"n_components": 2}
    model = selection.best_estimator_
    assert model.get_params()["n_components"] == 2 and model.decay_.shape == (2,)
    # The model is fitted to all values, with the likelihood of a separate fit.
    assert model.log_likelihood_ > ProbabilisticSFA(2).fit(mixture()).log_likelihood_ - 0.5
    assert not np.isnan(model.impute(mixture())).any()
    assert (
        selection.reason.startswith("Selected 2 factors among 2 models by BIC")
        and "\n" not in selection.reason
    )
    assert selection.reason in repr(selection)
    assert not selection.interrupted and selection.seconds > 0.0
    table = selection.table
    assert list(table["model"]) == ["1 factor", "2 factors", "2 factors", "1 factor"]
    assert list(table["round"]) == [0, 0, 1, 1] and list(table["verdict"]).count("selected") == 1
    assert (
        table["rmse"][2:].min() > 0.0 and table["rmse"][:2].isna().all() and np.isfinite(table["bic"]).all()
    )


def test_the_selection_is_plotted(selection):
    left, right = selection.plot()
    assert [text.get_text() for text in left.get_yticklabels()] == ["2 factors", "1 factor"]
    drawn = sorted(line.get_xdata()[0] for line in right.lines)
    np.testing.assert_allclose(drawn, sorted(selection.table["rmse"][2:]))
    with pytest.raises(ValueError, match="axes.*2"):
        selection.plot(axes=[left])


def test_ten_seeds_select_the_same_model():
    X = mixture()
    for seed in range(10):
        assert select_model(X, ONE_AND_TWO, random_state=seed).options == {"n_components": 2}


def test_the_same_seed_gives_the_same_numbers(selection):
    again = select_model(mixture(), ONE_AND_TWO)
    for one, two in zip(selection.records, again.records, strict=True):
        assert {k: v for k, v in one.items() if k != "seconds"} == {
            k: v for k, v in two.items() if k != "seconds"
        }


def test_the_seed_affects_only_the_held_out_values(selection):
    """Scores depend on the seed; the search by BIC and the final fit do not."""
    other = select_model(mixture(), ONE_AND_TWO, random_state=1)
    for one, two in zip(selection.records, other.records, strict=True):
        same = ("model", "round", "rows", "bic") + (("n_evaluations",) if one["round"] == 0 else ())
        assert {name: one[name] for name in same} == {name: two[name] for name in same}
    assert selection.table["score"][2] != other.table["score"][2]
    np.testing.assert_array_equal(selection.best_estimator_.decay_, other.best_estimator_.decay_)


def test_isolated_values_are_used_only_in_the_last_fit():
    """Models are compared as if these values were missing; the selected model is fitted to all values."""
    X = mixture()
    X[[60, 67, 110], [0, 0, 2]] += [60.0, -70.0, 80.0]
    without = X.copy()
    without[[60, 67, 110], [0, 0, 2]] = np.nan
    chosen, other = select_model(X, ONE_AND_TWO), select_model(without, ONE_AND_TWO)
    for one, two in zip(chosen.records[:2], other.records[:2], strict=True):
        assert one["model"] == two["model"] and one["bic"] == pytest.approx(two["bic"], abs=1e-9)
    assert chosen.options == {"n_components": 2}
    model = chosen.best_estimator_
    assert model.log_likelihood_ == pytest.approx(model.log_likelihood(X), rel=1e-9)
    assert model.noise_variance_[0] > 5.0 * other.best_estimator_.noise_variance_[0]


def test_cycles_without_a_spectral_peak_are_detected():
    """The spectrum, a sum of two Lorentz curves, is highest at frequency zero."""
    for decay, frequency in [(0.95, 2.0 * np.pi / 1900.0), (0.95, 0.03), (0.95, 0.0295), (0.9, 0.2)]:
        g = -np.log(decay)
        at = np.linspace(0.0, 0.5, 50_001)
        spectrum = g / (g**2 + (at - frequency) ** 2) + g / (g**2 + (at + frequency) ** 2)
        params = StateSpace(
            np.zeros(0),
            np.ones((1, 2)),
            np.ones(1),
            np.zeros(1),
            rhythm_decay=np.array([decay]),
            rhythm_frequency=np.array([frequency]),
        )
        model = type("Model", (), {"fitted": type("Fitted", (), {"params": params})})
        requested = Candidate({"rhythms": 1}, model)
        assert candidates.has_no_peak(requested) == (np.argmax(spectrum) == 0)
        assert not candidates.has_no_peak(replace(requested, options={"rhythms": [200.0]}))


@pytest.mark.filterwarnings("ignore:Held-out values")  # due to artificial scores or short fits
def test_held_out_values_are_drawn_again_if_they_reject_the_lowest_bic(monkeypatch):
    """With artificial scores: the first draw prefers one factor; the second does so, or scores are equal."""
    for second, expected in [(1.0, 1), (0.0, 2)]:
        worse, drawn = iter([1.0, second]), {}

        def artificial(comparison, model, hidden, worse=worse, drawn=drawn):
            n = int(np.count_nonzero(hidden.part))
            key = hidden.part.tobytes()
            if key not in drawn:
                drawn[key] = next(worse)
            errors = 1.0 + drawn[key] * (model.fitted.params.n_components == 2) + 0.01 * np.arange(n) / n
            return HeldOutPredictions(errors, np.zeros(n), np.ones(n), np.arange(n))

        monkeypatch.setattr(Comparison, "predict", artificial)
        chosen = select_model(mixture(), ONE_AND_TWO)
        assert chosen.options == {"n_components": expected}


def test_gaussian_and_robust_candidates_are_both_scored():
    X = mixture(n_rows=150)
    robust = {"n_components": 1, "robust": True}
    table = select_model(X, [*ONE_AND_TWO, {"n_components": 3}, robust]).table
    assert "1 factor, robust=True" in set(table["model"][table["round"] == 1])


def test_columns_have_names_and_rows_dates():
    frame = pd.DataFrame(mixture(), columns=list("abcd"), index=pd.date_range("2024", periods=200, freq="h"))
    frame.iloc[20:30, 0] = np.nan
    model = select_model(
        frame, [{"n_components": 1}, {"n_components": 1, "rhythms": ["24h"]}]
    ).best_estimator_
    assert list(model.feature_names_in_) == list("abcd") and model.time_unit_seconds_ == 3600.0
    assert list(model.impute(frame).columns) == list("abcd")


class FakeClock:
    """A clock that advances by one second at each call."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.mark.filterwarnings("ignore:Held-out values")  # due to artificial scores or short fits
def test_the_budget_is_kept(monkeypatch):
    """Each likelihood evaluation calls the clock, so that an evaluation takes a second of this clock."""
    fake_clock = FakeClock()
    monkeypatch.setattr(clock, "_now", fake_clock)
    X = mixture()
    requested = [{"n_components": k} for k in (1, 2, 1, 2, 1, 2)]
    unlimited = select_model(X, requested, budget=10_000.0)
    assert "the budget" not in unlimited.reason and len(unlimited.table) > 6
    fake_clock.now = 0.0
    part = select_model(X, requested, budget=60.0)
    assert fake_clock.now <= 60.0 + 5.0  # calls of the clock after the deadline
    assert "the budget ended the search" in part.reason
    assert len(part.table) < len(unlimited.table)
    fake_clock.now = 0.0
    with pytest.warns(ConvergenceWarning, match="budget"):
        least = select_model(X, requested, budget=3.0)
    assert len(least.table) == 1 and np.isfinite(least.best_estimator_.log_likelihood_)
    assert "Stopped at the end of the budget" in least.best_estimator_.status_


def test_an_interrupt_keeps_the_best_so_far(monkeypatch):
    fit, calls = Search._fit, []

    def interrupted(self, *arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fit(self, *arguments)

    monkeypatch.setattr(Search, "_fit", interrupted)
    found = select_model(mixture(), ONE_AND_TWO)
    assert found.interrupted and found.options == {"n_components": 2} and len(found.table) == 2
    assert "interrupted" in found.reason and not np.isnan(found.best_estimator_.impute(mixture())).any()
    calls[:] = [None, None]
    with pytest.raises(KeyboardInterrupt):  # before the first candidate is fitted
        select_model(mixture(), ONE_AND_TWO)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": []}, "candidates"),
        ({"candidates": [3]}, "candidates"),
        ({"candidates": [{"n_latents": 3}]}, r"unsupported options: \['n_latents'\]"),
        ({"candidates": [{"n_components": 1, "noise": 0.0}]}, "noise"),
        (
            {"candidates": ONE_AND_TWO, "alternatives": [[{"smooth": 1}]]},
            "alternatives",
        ),
        ({"budget": 0.0}, "budget.*0.0"),
        ({"budget": "60"}, "budget"),
        ({"n_masks": 1}, "n_masks.*2"),
        ({"block": 0}, "block.*1"),
        ({"fraction": 0.0}, "fraction"),
        ({"candidates": [{"n_components": 1, "transforms": "sqrt"}]}, "must not have transforms"),
        ({"alternatives": [[{"transforms": "auto"}]]}, "must not have transforms"),
        ({"X": np.arange(6.0).reshape(3, 2)}, "too few"),
    ],
)
def test_bad_input_is_named(options, message):
    arguments = {"X": mixture(), **options}
    with pytest.raises(ValueError, match=message):
        select_model(arguments.pop("X"), **arguments)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
def test_factors_and_a_cycle_are_recovered(seed):
    rng = np.random.default_rng(seed)
    params = StateSpace(
        np.exp(-1.0 / np.array([60.0, 12.0, 4.0])),
        rng.standard_normal((8, 5)),
        np.full(8, 1.0),
        np.zeros(8),
        rhythm_decay=np.array([0.997]),
        rhythm_frequency=np.array([2.0 * np.pi / 15.0]),
    )
    found = select_model(simulate(params, 500, rng)[0])
    assert (found.options["n_components"], found.options["rhythms"]) == (3, 1)


# --------------------------------------------------------------------------------- number of factors alone


@parametrize("decay", [(0.95,), (0.98, 0.8), (0.98, 0.9, 0.6)], quick=0)
def test_the_number_of_factors_is_recovered(decay):
    """The model of `select_model` with these numbers, fitted to all values."""
    X = make_slow_mixture(500, 8, decay=decay, noise_variance=0.3, random_state=0).data
    found = select_n_components(X, [5, 1, 2, 3, 4])
    assert found.n_components == found.options["n_components"] == len(decay)
    assert set(found.table.n_components) == {1, 2, 3, 4, 5}
    same = select_model(X, [{"n_components": k} for k in range(1, 6)])
    np.testing.assert_array_equal(found.table.bic, same.table.bic)
    fit = ProbabilisticSFA(len(decay)).fit(X)
    assert found.best_estimator_.log_likelihood_ == pytest.approx(fit.log_likelihood_, abs=0.5)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_weak_second_factor_is_found(seed):
    assert [select_n_components(noisy(seed), [1, 2], random_state=s).n_components for s in range(3)] == [
        2
    ] * 3


def test_a_new_factor_raises_the_likelihood():
    """Initial parameters with the third of three factors have a higher likelihood than a fit of two."""
    X = make_slow_mixture(500, 8, decay=(0.98, 0.9, 0.6), noise_variance=0.3, random_state=3).data
    panel = to_panel([(X - X.mean(axis=0)) / X.std(axis=0)])
    shift, scale = X.mean(axis=0), X.std(axis=0)
    params = rescale(ProbabilisticSFA(2).fit(X).params_, -shift / scale, 1.0 / scale)
    noise = Noise(NoiseVariances.diagonal(8), np.full(8, 1e-9))
    larger = enlarged(params, panel, StateLayout(3), noise)
    np.testing.assert_array_equal(larger.loadings[:, :2], params.loadings)
    assert log_likelihood(larger, panel) > log_likelihood(params, panel) + 50.0
    assert enlarged(params, panel, StateLayout(11), noise).n_components == 11


@pytest.mark.parametrize(
    ("candidates", "options", "message"),
    [([], {}, "candidates"), ([-1], {}, "candidates.*-1"), ([1.5], {}, "candidates"), ([1], {"x": 2}, "x")],
)
def test_bad_numbers_of_factors_are_named(candidates, options, message):
    with pytest.raises(ValueError, match=message):
        select_n_components(np.zeros((100, 3)), candidates, **options)


def test_columns_that_interpolation_predicts_better_are_reported(rng):
    """One factor does not explain three random walks, which linear interpolation imputes better."""
    X = np.cumsum(rng.standard_normal((300, 3)), axis=0)
    with pytest.warns(UserWarning, match=r"\d columns? \("):
        chosen = select_model(X, [{"n_components": 1}])
    assert "worse_than_interpolation" in chosen.best_estimator_.status_.codes


def test_trends_and_smoother_processes_are_candidates(rng):
    """An integrated random walk: its values are predicted by a trend or a smooth process, not by a factor."""
    path = np.cumsum(np.cumsum(rng.standard_normal(200)))
    x = np.outer(path / path.std(), [1.0, -0.5, 0.8]) + 0.1 * rng.standard_normal((200, 3))
    x[rng.random(x.shape) < 0.1] = np.nan
    candidates = [
        {"n_components": 1},
        {"n_components": 0, "trend": "linear"},
        {"n_components": 0, "smooth": 1, "smoothness": 2.5},
    ]
    found = select_model(x, candidates, n_masks=2, block=10)
    assert found.options["n_components"] == 0
