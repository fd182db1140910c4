"""Reading a saved model, whichever estimator it is of."""

import os
from typing import Any

from probsfa import _storage

__all__ = ["load"]


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator that was saved by its ``save``, or by :func:`probsfa.save`.

    Parameters
    ----------
    path : path-like
        File to read.

    Returns
    -------
    estimator
        The fitted estimator, of the class that was saved.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a model of this package, is broken, or of a later version of the format. Sizes are
        checked before anything is unpacked.

    Examples
    --------
    >>> import os, tempfile
    >>> import probsfa
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.npz")
    ...     probsfa.ProbabilisticSFA(1).fit(X).save(path)
    ...     type(probsfa.load(path)).__name__
    'ProbabilisticSFA'
    """
    # The samplers' libraries take seconds to import; only their models need them.
    kind = _storage.kind_of(path)
    if kind == "estimator":
        from probsfa._saving import load as load_estimator

        return load_estimator(path)
    if kind == "BayesianSFA":
        from probsfa.bayes.estimator import load as load_bayesian

        return load_bayesian(path)
    from probsfa.statespace.estimator import load as load_probabilistic

    return load_probabilistic(path)
