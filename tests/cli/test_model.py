"""The estimator of the commands has the options of the command line."""

import argparse
import inspect
import subprocess
import sys

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.cli._model import make_estimator, timescales
from probsfa.cli._parser import DEFAULT_MAX_ITER, make_parser


def test_time_scales_of_a_model_in_seconds_are_reported_in_steps():
    model = argparse.Namespace(timescales_=np.array([120.0, 30.0]), time_unit_=60.0)
    assert timescales(model).tolist() == [2.0, 0.5]


@pytest.mark.parametrize("n_components", [None, 7])
def test_options_are_passed_to_the_estimator(stand_in, n_components):
    args = argparse.Namespace(n_components=n_components, max_iter=9, seed=5)
    model = make_estimator(args)
    assert (model.n_components, model.random_state, model.max_iter) == (n_components, 5, 9)
    assert not model.verbose  # its progress bar is that of the engine


def test_a_fit_for_imputation_of_many_values_ends_early(stand_in):
    args = argparse.Namespace(n_components=2, max_iter=9, seed=5)
    assert [make_estimator(args, n_observed=n).tol for n in (0, 50_000)] == ["auto", "auto"]
    assert make_estimator(args, n_observed=100_000).tol == pytest.approx(10.0)


def test_impute_imports_no_plots_unless_requested():
    program = (
        "import sys, probsfa.cli.impute; print(*(n for n in sys.modules if n.startswith('probsfa.plots')))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def test_defaults_of_options_equal_those_of_the_package():
    # Defined twice, because help must not import the dependencies of the package.
    assert inspect.signature(ProbabilisticSFA).parameters["max_iter"].default == DEFAULT_MAX_ITER
    commands = (["compare", "a.csv"], ["demo"], ["impute", "a.csv", "-o", "b"], ["fit", "a.csv", "-o", "b"])
    for command in commands:
        args = make_parser().parse_args(command)
        assert (args.max_iter, args.seed, args.n_components) == (DEFAULT_MAX_ITER, 0, None)
