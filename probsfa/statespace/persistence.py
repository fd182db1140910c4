"""What of a fitted estimator goes into a file, and back."""

import numbers
import os
from typing import Any

import numpy as np

from probsfa import _storage
from probsfa.statespace.learning.objective import FitResult
from probsfa.statespace.noise_free import NoiseFree
from probsfa.statespace.parameters import Parameters

_KIND = "ProbabilisticSFA"


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file."""
    options = model.get_params()
    if not (options["random_state"] is None or isinstance(options["random_state"], numbers.Integral)):
        options["random_state"] = None
    scalars = {
        "options": options,
        "time_unit": model.time_unit_,
        "log_likelihood": model.log_likelihood_,
        "n_iter": model.n_iter_,
        "n_evaluations": model.n_evaluations_,
        "converged": model.converged_,
        "status": model.status_,
    }
    arrays = {
        **model.params_._asdict(),
        "history": model.history_,
        "shift": model._shift,
        "scale": model._scale,
    }
    if model._limit is not None:
        arrays |= {f"limit_{name}": value for name, value in model._limit._asdict().items()}
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = np.asarray(model.feature_names_in_, dtype=str)
    _storage.write(path, _KIND, scalars, arrays)


def restore(estimator: type, path: str | os.PathLike[str]) -> Any:
    """Make a fitted `estimator` of a file that :func:`save` wrote; errors as of :func:`_storage.read`."""
    scalars, arrays = _storage.read(path, _KIND)
    model = estimator(**scalars["options"])
    params = Parameters(*(arrays[name] for name in Parameters._fields))
    model.time_unit_ = scalars["time_unit"]
    model._shift, model._scale = arrays["shift"], arrays["scale"]
    names = NoiseFree._fields
    model._limit = NoiseFree(*(arrays[f"limit_{n}"] for n in names)) if "limit_decay" in arrays else None
    history = tuple(arrays["history"].tolist())
    likelihood, n_evaluations = scalars["log_likelihood"], scalars["n_evaluations"]
    model._set_fit(params, FitResult(params, likelihood, history, n_evaluations, "converged"), 0.0)
    model.n_iter_, model.converged_, model.status_ = (
        scalars["n_iter"],
        scalars["converged"],
        scalars["status"],
    )
    model.n_features_in_ = params.n_features
    if "feature_names" in arrays:
        model.feature_names_in_ = arrays["feature_names"].astype(object)
    return model
