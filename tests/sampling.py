"""Which parameters of a test the quick set shows; all of them run with ``pytest -m ""``."""

from collections.abc import Collection, Iterable
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
