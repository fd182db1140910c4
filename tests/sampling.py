"""Parametrization in which quick tests have few values; ``pytest -m ""`` runs the tests of all values."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest


def parametrize(
    names: str | tuple[str, ...], values: Iterable[Any], quick: int | Collection[Any] = 1, **options: Any
) -> pytest.MarkDecorator:
    """Return ``pytest.mark.parametrize`` in which all but a few values are marked exhaustive.

    Parameters
    ----------
    names, values, **options
        As in ``pytest.mark.parametrize``.
    quick : int or collection, default=1
        The values of the quick tests: the number of first values, or the values themselves.
    """
    has_several_names = not isinstance(names, str) or "," in names
    sets = []
    for i, value in enumerate(values):
        is_quick = i < quick if isinstance(quick, int) else value in quick
        marks = () if is_quick else pytest.mark.exhaustive
        sets.append(pytest.param(*(value if has_several_names else (value,)), marks=marks))
    return pytest.mark.parametrize(names, sets, **options)


def parametrize_with_checks(estimators: Sequence[Any], **options: Any) -> pytest.MarkDecorator:
    """Return scikit-learn's ``parametrize_with_checks``; quick tests have the first estimator of each class.

    Checks of other settings of a class validate the same input by the same code, and are marked exhaustive.

    Parameters
    ----------
    estimators, **options
        As in ``parametrize_with_checks``.
    """
    from sklearn.utils import estimator_checks  # slow to import

    first: dict[type, str] = {}
    for estimator in estimators:
        first.setdefault(type(estimator), repr(estimator))  # checks have clones
    mark = estimator_checks.parametrize_with_checks(list(estimators), **options).mark
    names, cases = mark.args
    sets = []
    for case in cases:
        values, marks = getattr(case, "values", case), list(getattr(case, "marks", ()))
        if repr(values[0]) != first[type(values[0])]:
            marks.append(pytest.mark.exhaustive)
        sets.append(pytest.param(*values, marks=marks))
    return pytest.mark.parametrize(names, sets, **mark.kwargs)
