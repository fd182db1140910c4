"""Which parameters of a test the quick set shows; all of them run with ``pytest -m ""``."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest


def sparsely(
    names: str | tuple[str, ...], values: Iterable[Any], shown: int | Collection[Any] = 1, **options: Any
) -> pytest.MarkDecorator:
    """``pytest.mark.parametrize``, with all values but a few marked exhaustive.

    Parameters
    ----------
    names, values, **options
        As ``pytest.mark.parametrize`` takes them.
    shown : int or collection, default=1
        The values of the quick set: the first so many, or these.
    """
    several = not isinstance(names, str) or "," in names
    sets = []
    for place, value in enumerate(values):
        quick = place < shown if isinstance(shown, int) else value in shown
        marks = () if quick else pytest.mark.exhaustive
        sets.append(pytest.param(*(value if several else (value,)), marks=marks))
    return pytest.mark.parametrize(names, sets, **options)


def checked(estimators: Sequence[Any], **options: Any) -> pytest.MarkDecorator:
    """scikit-learn's ``parametrize_with_checks``: all checks of the first estimator of each class.

    Checks of the other settings of a class read and refuse the same input by the same code, and are marked
    exhaustive.

    Parameters
    ----------
    estimators, **options
        As ``parametrize_with_checks`` takes them.
    """
    from sklearn.utils.estimator_checks import parametrize_with_checks  # takes long to load

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
