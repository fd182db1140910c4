"""Selection of the parameters of the quick tests; ``pytest -m ""`` runs all of them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest


def sparsely(
    names: str | tuple[str, ...], values: Iterable[Any], shown: int | Collection[Any] = 1, **options: Any
) -> pytest.MarkDecorator:
    """Return ``pytest.mark.parametrize`` with all but a few values marked exhaustive.

    Parameters
    ----------
    names, values, **options
        As in ``pytest.mark.parametrize``.
    shown : int or collection, default=1
        The values of the quick tests: the number of first values, or the values themselves.
    """
    several = not isinstance(names, str) or "," in names
    sets = []
    for place, value in enumerate(values):
        quick = place < shown if isinstance(shown, int) else value in shown
        marks = () if quick else pytest.mark.exhaustive
        sets.append(pytest.param(*(value if several else (value,)), marks=marks))
    return pytest.mark.parametrize(names, sets, **options)


def checked(estimators: Sequence[Any], **options: Any) -> pytest.MarkDecorator:
    """Return scikit-learn's ``parametrize_with_checks``; quick tests have the first estimator of each class.

    Checks of other settings of a class validate the same input by the same code, and are marked exhaustive.

    Parameters
    ----------
    estimators, **options
        As in ``parametrize_with_checks``.
    """
    from sklearn.utils.estimator_checks import parametrize_with_checks  # slow to import

    first: dict[type, str] = {}
    for estimator in estimators:
        first.setdefault(type(estimator), repr(estimator))  # checks have clones
    mark = parametrize_with_checks(list(estimators), **options).mark
    names, cases = mark.args
    sets = []
    for case in cases:
        values, marks = getattr(case, "values", case), list(getattr(case, "marks", ()))
        if repr(values[0]) != first[type(values[0])]:
            marks.append(pytest.mark.exhaustive)
        sets.append(pytest.param(*values, marks=marks))
    return pytest.mark.parametrize(names, sets, **mark.kwargs)
