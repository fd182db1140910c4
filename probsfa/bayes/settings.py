"""Validation of the estimator's parameters."""

from typing import Any

import numpy as np

from probsfa._validation import Sequences, check_count, check_option
from probsfa.bayes.kinds import SITES
from probsfa.bayes.priors import Priors, check_normal_priors
from probsfa.bayes.sampling.nuts import CHAIN_METHODS
from probsfa.statespace.columns import column_moments
from probsfa.statespace.covariates import check_identified
from probsfa.statespace.learning.budget import max_components
from probsfa.statespace.learning.options import (
    ProcessOptions,
    as_noise,
    check_variances,
    is_number,
    named_values,
)
from probsfa.statespace.noise import STRUCTURES

# Maximum cost of a gradient for n_components=None, in multiplications. NUTS computes a hundred thousand
# gradients, variational inference a few thousand.
_MAX_COST_OF_GRADIENT = {"nuts": 1e7, "svi": 1e8}
_COUNTS = (
    "n_components",
    "n_draws",
    "n_chains",
    "n_warmup",
    "max_tree_depth",
    "n_steps_svi",
    "n_predictive",
)


# Advice in errors about arguments that the class does not have.
REPLACEMENTS = {
    "exog": "Covariates are an argument of fit and of all methods: fit(X, exog=U).",
}


def raise_not_supported(where: str, unsupported: dict[str, Any]) -> None:
    """Raise a TypeError with the first unsupported argument and its replacement."""
    for name in unsupported:
        fix = REPLACEMENTS.get(name, "See help(BayesianSFA) for its parameters.")
        raise TypeError(f"{where} does not support the argument {name!r}. {fix}")


def check_settings(model: Any) -> None:
    """Check the parameters of a :class:`probsfa.BayesianSFA`.

    Raises
    ------
    ValueError
        The message names the parameter, its value and the valid values.
    """
    noise = model.noise
    if isinstance(noise, str):
        check_option("noise", noise, (*STRUCTURES, "ar1"))
    elif isinstance(known_names := as_noise(noise), tuple) and known_names:
        check_variances(known_names)
    elif not (is_number(noise) and np.isfinite(noise) and noise > 0.0):
        raise ValueError(
            f"noise must be {', '.join(map(repr, (*STRUCTURES, 'ar1')))}, a positive variance, or one for "
            f"each column; got {noise!r}. For zero noise use ProbabilisticSFA(noise=0.0)."
        )
    check_option("inference", model.inference, ("nuts", "svi"))
    if not isinstance(model.robust, (bool, np.bool_)):
        raise ValueError(
            f"robust must be True or False; got {model.robust!r}. For weights of whole rows use "
            "ProbabilisticSFA(robust='row')."
        )
    if model.robust and model.inference != "nuts":
        raise ValueError(
            "robust=True is not supported with inference='svi', because weights of the values are sampled. "
            "Use inference='nuts', which then is a Gibbs sampler."
        )
    if model.robust and model.hierarchical:
        raise ValueError("robust=True and hierarchical=True cannot be combined. Set one of them to False.")
    structural = [name for name in ("rhythms", "smooth") if _is_positive(name, getattr(model, name))]
    if not isinstance(model.trend, str) and (model.trend != 0 or isinstance(model.trend, bool)):
        valid_names = " or ".join(map(repr, named_values("trend")))
        raise ValueError(
            f"trend must be 0, {valid_names}; got {model.trend!r}. Several random walks are not identified, "
            "because their rotations have no effect on the likelihood; ProbabilisticSFA supports them."
        )
    _check_priors_of(ProcessOptions.of(model))
    structural += ["trend"] if model.trend else []
    if isinstance(noise, str) and noise == "ar1":
        structural.append("noise='ar1'")
    for name in ("robust", "hierarchical"):
        if structural and getattr(model, name):
            raise ValueError(
                f"{name}=True is not supported with {structural[0]}. Set {name}=False, or use only AR(1) "
                "factors and white noise."
            )
    check_option("chain_method", model.chain_method, CHAIN_METHODS)
    for name in _COUNTS:
        value = getattr(model, name)
        if name == "n_draws" and isinstance(value, str):
            if value != "auto":
                raise ValueError(f"n_draws must be 'auto' or an integer of at least 1; got {value!r}.")
        elif name != "n_components" or value is not None:
            check_count(name, value)
    if not 0.0 < model.target_accept < 1.0:
        raise ValueError(f"target_accept must lie between 0 and 1; got {model.target_accept!r}.")
    if model.priors is not None and not isinstance(model.priors, Priors):
        raise ValueError(f"priors must be probsfa.bayes.Priors; got {type(model.priors).__name__}.")
    if model.robust and model.priors is not None:
        check_normal_priors(model.priors)


def check_covariates(model: Any, sequences: Sequences, names: tuple[str, ...]) -> None:
    """Raise a ValueError unless the coefficients of covariates are identified and can be sampled."""
    if model.robust:
        raise ValueError(
            "robust=True is not supported with exog: its Gibbs sampler has no step for coefficients. Set "
            "robust=False, or fit to X - U @ coefficients.T with coefficients from "
            "ProbabilisticSFA(robust=True).fit(X, exog=U).exog_coef_."
        )
    check_identified(sequences, names)


def _is_positive(name: str, count: Any) -> bool:
    """Return whether a number of processes is positive; raise a ValueError if it is not a count."""
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
        raise ValueError(f"{name} must be a number of processes, 0 or more; got {count!r}.")
    return bool(count)


def _check_priors_of(processes: ProcessOptions) -> None:
    """Raise a ValueError if an option of processes is not valid, or requests a kind without priors."""
    processes.check()
    for kind, count in processes.counts.items():
        if count and kind not in SITES:
            name = next(iter(kind.variant), kind.option)
            known = [one.variant.get(name, one.named_value) for one in SITES if one.option == kind.option]
            raise ValueError(
                f"{name}={processes[name]!r} is not supported by BayesianSFA, which has no priors for these "
                f"processes. Use {' or '.join(map(repr, known))}, or ProbabilisticSFA."
            )


def default_n_components(sequences: Sequences, inference: str) -> int:
    """Return the default number of factors for imputation, limited by the data and by computing time."""
    columns = column_moments(sequences)
    return max_components(
        sequences.n_rows, columns.counts, ~columns.constant, _MAX_COST_OF_GRADIENT[inference]
    )
