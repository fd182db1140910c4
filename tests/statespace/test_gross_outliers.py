"""A Gaussian fit dominated by gross outliers has a warning; a fit to data without them has none."""

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.datasets import load_nyc_weather, make_slow_mixture
from probsfa.statespace.gross_outliers import candidate_rows, gross_outliers
from tests.sampling import parametrize
from tests.statespace.support import MISSING_PATTERNS

MESSAGE = "Outliers dominate the fit of"


@pytest.fixture(scope="module")
def recording():
    return make_slow_mixture(3000, 5, decay=[0.99, 0.8], noise_variance=0.3, random_state=0).data


def test_the_status_names_a_few_artefact_rows(recording, rng):
    X = recording.copy()
    rows = [700, 1501, 1502]
    X[rows] += 1000.0 * rng.standard_normal((3, 5))
    status = ProbabilisticSFA(2).fit(X).status_
    assert MESSAGE in status and "5 of 5 columns" in status
    assert any(f"row {row}, column" in status for row in rows)
    assert MESSAGE not in ProbabilisticSFA(2, robust=True).fit(X).status_


def test_many_outliers_are_reported(recording, rng):
    X = recording + (rng.random(recording.shape) < 0.05) * 15.0 * rng.choice([-1.0, 1.0], recording.shape)
    assert MESSAGE in ProbabilisticSFA(2).fit(X).status_


@pytest.mark.exhaustive
def test_diagnose_suggests_robust_noise(recording, rng):
    X = recording + (rng.random(recording.shape) < 0.02) * 15.0 * rng.choice([-1.0, 1.0], recording.shape)
    gaussian, fitted = (ProbabilisticSFA(2, robust=robust).fit(X) for robust in (False, True))
    assert any("heavy tails" in one and "robust=True" in one for one in gaussian.diagnose(X).advice)
    assert not any("robust=True" in one for one in fitted.diagnose(X).advice)


@parametrize("pattern", ["none", "scattered", "empty rows"], quick=2)
def test_data_without_outliers_cause_no_warning(recording, rng, pattern):
    X = np.where(MISSING_PATTERNS[pattern](rng, recording.shape), np.nan, recording)
    assert MESSAGE not in ProbabilisticSFA(2).fit(X).status_


@pytest.mark.exhaustive
def test_in_weather_data_only_an_impossible_wind_speed_is_reported():
    data = load_nyc_weather().data
    status = ProbabilisticSFA(6).fit(data).status_
    assert MESSAGE in status and "row 1010, column 'u_EWR'" in status
    speed = np.hypot(*data.iloc[1010][["u_EWR", "v_EWR"]])
    assert speed > 1000.0
    data = data.copy()
    data.loc[data.index[1010], ["u_EWR", "v_EWR"]] = np.nan
    assert MESSAGE not in ProbabilisticSFA(6).fit(data).status_


def test_candidate_rows_are_found_in_each_sequence(rng):
    from sklearn.base import BaseEstimator

    from probsfa._validation import check_sequences

    parts = [rng.standard_normal((200, 3)).cumsum(axis=0) + 100.0 * i for i in range(2)]
    parts[0][50, 1] += 40.0
    parts[1][199, 2] += 300.0
    parts[1][7, 0] = np.nan
    sequences = check_sequences(BaseEstimator(), parts, reset=True, allow_nan=True)
    found = candidate_rows(sequences, 10)
    assert {50, 399} <= set(found.tolist()) and np.all(np.diff(found) > 0) and len(found) == 10


def test_columns_with_heavy_tails_have_no_gross_outliers(rng):
    normal, heavy = rng.standard_normal((1000, 1)), rng.standard_t(1.0, (1000, 1))
    errors = np.concatenate([normal, heavy, normal], axis=1)
    errors[17, 2] = 60.0
    outliers = gross_outliers(errors, errors[[17]], np.array([17]), 1000)
    assert outliers.columns.tolist() == [False, False, True]
    assert outliers.positions == [(17, 2)] and outliers.sizes[0] == pytest.approx(60.0, rel=0.1)
