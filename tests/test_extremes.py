"""Values whose squares overflow or underflow in double precision raise an error; results are never NaN."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from probsfa import (
    SFA,
    BayesianSFA,
    DiffusionMap,
    GraphSFA,
    KernelSFA,
    LaplacianEigenmaps,
    ProbabilisticSFA,
    SpectralClustering,
)
from probsfa.datasets import hide_values, make_slow_mixture
from probsfa.graphs import heat_kernel, nearest_neighbors
from probsfa.graphs.moments import temporal_moments
from tests.sampling import parametrize


def series(n_rows=60, n_features=3):
    X = make_slow_mixture(n_rows, n_features, decay=[0.95], noise_variance=0.3, random_state=0).data
    return np.asarray(X)


def with_value(value):
    X = series()
    X[3, 1] = value
    return X


ESTIMATORS = {
    "ProbabilisticSFA": lambda: ProbabilisticSFA(1),
    "isotropic": lambda: ProbabilisticSFA(1, noise="isotropic"),
    "no noise": lambda: ProbabilisticSFA(1, noise=0.0),
    "BayesianSFA": lambda: BayesianSFA(1, inference="svi", verbose=False),
    "SFA": lambda: SFA(1),
    "GraphSFA": lambda: GraphSFA(1, graph="temporal"),
    "KernelSFA": lambda: KernelSFA(1),
    "LaplacianEigenmaps": lambda: LaplacianEigenmaps(1),
    "DiffusionMap": lambda: DiffusionMap(1),
    "SpectralClustering": lambda: SpectralClustering(2),
}


@pytest.mark.parametrize("value", [1e151, -1e155, 1e200, 1e308])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_value_whose_square_overflows_is_named(name, value):
    frame = pd.DataFrame(with_value(value), columns=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"\bX\b.*row 3, column 1 \('b'\)"):
        ESTIMATORS[name]().fit(frame)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_data_times_1e200_are_not_called_constant(name):
    with pytest.raises(ValueError, match="X.*overflow"):
        ESTIMATORS[name]().fit(series() * 1e200)


@pytest.mark.parametrize("factor", [1e-145, 1e-160, 1e-200, 1e-310])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_column_whose_squares_underflow_is_named(name, factor):
    with pytest.raises(ValueError, match="column 1"):
        ESTIMATORS[name]().fit(series() * [1.0, factor, 1.0])


def test_a_column_that_varies_only_in_the_last_rows_is_valid():
    X = series(5000) * [1.0, 1e-30, 1.0]
    X[:4500, 0] = 7.0  # a long constant part of a column has no information
    assert np.isfinite(SFA().fit(X).delta_values_).all()


@parametrize("factor", [1e145, 1e-135, 1e100, 1e-100], quick=2)
def test_scales_within_the_limits_give_the_same_imputation(factor):
    X = np.where(hide_values(series(), 0.1, random_state=0), np.nan, series())
    usual, scaled = (ProbabilisticSFA(1).fit(Y).impute(Y, return_std=True) for Y in (X, X * factor))
    for one, other in zip(usual, scaled, strict=True):
        np.testing.assert_allclose(other / factor, one, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("call", [nearest_neighbors, heat_kernel, temporal_moments])
def test_functions_of_rows_raise_an_error_for_values_that_overflow(call):
    arguments = (1.0,) if call is heat_kernel else ()
    with pytest.raises(ValueError, match="row 3, column 1"):
        call(with_value(1e200), *arguments)


@parametrize("estimator", ["LaplacianEigenmaps()", "SpectralClustering(3)"])
def test_one_value_of_1e155_does_not_abort_the_interpreter(estimator):
    program = (
        f"import numpy as np; from probsfa import *; X = np.random.default_rng(0).standard_normal((80, 3))\n"
        f"X[3, 1] = 1e155\n"
        f"try: {estimator}.fit(X)\n"
        f"except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "in row 3, column 1" in done.stdout


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:StateLayout")
@pytest.mark.filterwarnings("ignore:Factors 0 and 1 have similar time scales")
def test_identical_columns_in_other_units_are_imputed_without_nan(rng):
    celsius = 15 + 8 * np.sin(np.arange(100) / 9) + rng.standard_normal(100)
    whole = np.column_stack([celsius, 1.8 * celsius + 32])
    X = whole.copy()
    X.flat[rng.choice(X.size, 21, replace=False)] = np.nan
    model = BayesianSFA(2, inference="svi", n_steps_svi=20, verbose=False, random_state=0).fit(X)
    filled = model.impute(X)
    assert np.isfinite(filled).all() and np.isfinite(model.elbo_).all()
    alone = np.isnan(X) & ~np.isnan(X[:, ::-1])  # its copy determines it exactly
    assert alone.sum() > 10
    np.testing.assert_allclose(filled[alone], whole[alone], atol=1e-3)


def test_a_value_out_of_range_is_named():
    X = series() * 1e-130
    model = ProbabilisticSFA(1).fit(X)
    new = X.copy()
    new[4, 2] = 1e149
    methods = (model.impute, model.transform, model.posterior, model.log_likelihood, model.filter)
    for method in methods:
        with pytest.raises(ValueError, match="row 4, column 2.*1e.149"):
            method(new)
