"""The estimator that the commands fit is the one for filling holes, with what the options say."""

import argparse
import inspect

import pytest

from probsfa.cli._model import make_estimator
from probsfa.cli._parser import ENOUGH, THOROUGH, make_parser
from probsfa.imputation import default_estimator


@pytest.mark.parametrize(("asked", "n_features", "n_components"), [(None, 4, 4), (None, 50, 20), (7, 4, 7)])
def test_options_reach_the_estimator(stand_in, asked, n_features, n_components):
    args = argparse.Namespace(n_components=asked, max_iter=9, seed=5)
    model = make_estimator(args, n_features, verbose=True)
    assert (model.n_components, model.random_state, model.max_iter) == (n_components, 5, 9)
    assert model.verbose


def test_defaults_of_the_options_are_those_of_the_package():
    # Written twice, as help must not load what the package needs.
    assert inspect.signature(default_estimator).parameters["max_iter"].default == ENOUGH
    for command in (["compare", "a.csv"], ["demo"], ["impute", "a.csv", "-o", "b.csv"]):
        args = make_parser().parse_args(command)
        assert (args.max_iter, args.seed, args.n_components) == (ENOUGH, 0, None)
    assert make_parser().parse_args(["fit", "a.csv", "-o", "b.npz"]).max_iter == THOROUGH
