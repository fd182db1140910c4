"""What of a fitted model goes into a file, and back."""

import dataclasses
import numbers
import os
from typing import Any

import numpy as np

from probsfa import _storage
from probsfa._times import TimeAxis
from probsfa.statespace.learning.maximum_likelihood import MaximumLikelihood
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.models import FittedModel, LinearGaussianModel
from probsfa.statespace.noise_free import NoiseFreeModel, SquareModel
from probsfa.statespace.parameters import Parameters

__all__ = ["read", "write"]

_KIND = "ProbabilisticSFA"


def write(
    path: str | os.PathLike[str], model: FittedModel, options: dict[str, Any], feature_names: Any = None
) -> None:
    """Write a fitted model to a file.

    Parameters
    ----------
    path : path-like
        File to write; what is there is replaced in one piece.
    model : FittedModel
        The model.
    options : dict
        Parameters of its estimator.
    feature_names : array-like of str, optional
        Names of the features.
    """
    fitted = model.fitted
    if not (options["random_state"] is None or isinstance(options["random_state"], numbers.Integral)):
        options = {**options, "random_state": None}
    scalars = {
        "options": options,
        # A parameter that was set after the fit is the estimator's, not the model's.
        "fitted_with": dataclasses.asdict(fitted.options),
        "time_unit": fitted.time_unit,
        "time_axis": fitted.axis._asdict(),
        "log_likelihood": fitted.log_likelihood,
        "n_iter": fitted.n_iter,
        "n_evaluations": fitted.n_evaluations,
        "converged": fitted.converged,
        "status": fitted.status,
    }
    arrays = {
        **fitted.params._asdict(),
        "history": fitted.history,
        "shift": fitted.shift,
        "scale": fitted.scale,
        **{f"limit_{name}": value for name, value in model.arrays_to_save().items()},
    }
    if feature_names is not None:
        arrays["feature_names"] = np.asarray(feature_names, dtype=str)
    _storage.write(path, _KIND, scalars, arrays)


def read(path: str | os.PathLike[str]) -> tuple[FittedModel, dict[str, Any], Any]:
    """Read what :func:`write` wrote; errors as of :func:`probsfa._storage.read`.

    Returns
    -------
    model : FittedModel
        The model.
    options : dict
        Parameters of its estimator.
    feature_names : ndarray of object, or None
        Names of the features, if they have any.
    """
    scalars, arrays = _storage.read(path, _KIND)
    options = scalars["options"]
    fitted_with = scalars.get("fitted_with", options)
    fitted = MaximumLikelihood(
        params=Parameters(*(arrays[name] for name in Parameters._fields)),
        shift=arrays["shift"],
        scale=arrays["scale"],
        time_unit=scalars["time_unit"],
        log_likelihood=scalars["log_likelihood"],
        history=arrays["history"],
        n_evaluations=scalars["n_evaluations"],
        converged=scalars["converged"],
        status=scalars["status"],
        options=FitOptions(**{name: fitted_with[name] for name in FitOptions.__dataclass_fields__}),
        axis=TimeAxis(**scalars.get("time_axis", {"kind": "unknown"})),
    )
    model: FittedModel = LinearGaussianModel(fitted)
    if "limit_decay" in arrays:
        square = SquareModel(*(arrays[f"limit_{name}"] for name in SquareModel._fields))
        model = NoiseFreeModel(fitted, square)
    names = arrays["feature_names"].astype(object) if "feature_names" in arrays else None
    return model, options, names
