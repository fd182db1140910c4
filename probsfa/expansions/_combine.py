"""Identity, and concatenation of several expansions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from probsfa.expansions._base import Expansion, FloatArray, is_stateless

__all__ = ["Concatenation", "Identity"]


class Identity(Expansion):
    """Return the inputs unchanged: no expansion, or the linear part of a :class:`Concatenation`.

    Examples
    --------
    >>> print(Identity().fit_transform([[1.0, 2.0]]))
    [[1. 2.]]
    """

    @property
    def stateless(self) -> bool:
        """True, because nothing is fitted."""
        return True

    def expand(self, values: FloatArray) -> FloatArray:
        """Return a copy of the values."""
        return values.copy()

    def _learn(self, values: FloatArray) -> None:
        pass

    def _names_out(self, names: list[str]) -> list[str]:
        return names


class Concatenation(Expansion):
    """Concatenate the outputs of several expansions.

    Parameters
    ----------
    expansions : sequence of transformers
        At least one transformer; transformers are cloned.

    Attributes
    ----------
    expansions_ : list of transformers
        The fitted clones.

    Examples
    --------
    >>> from probsfa.expansions import Polynomial
    >>> both = Concatenation([Identity(), Polynomial(2)])
    >>> both.fit([[1.0], [2.0]]).get_feature_names_out().tolist()
    ['identity0__x0', 'polynomial1__x0', 'polynomial1__x0^2']
    """

    def __init__(self, expansions: Sequence[Any]) -> None:
        self.expansions = expansions

    @property
    def stateless(self) -> bool:
        """Whether all members are stateless."""
        return all(is_stateless(member) for member in self._members())

    def expand(self, values: FloatArray) -> FloatArray:
        """Expand the last axis: (..., D) to (..., E_1 + E_2 + ...)."""
        if self.stateless:
            return np.concatenate([member.expand(values) for member in self._members()], axis=-1)
        return np.concatenate([np.asarray(member.transform(values)) for member in self.expansions_], axis=-1)

    def _members(self) -> list[Any]:
        members = list(self.expansions) if isinstance(self.expansions, Sequence) else []
        if not members or not all(hasattr(member, "transform") for member in members):
            raise ValueError(
                f"expansions must be a list of at least one transformer; got {self.expansions!r}."
            )
        return members

    def _learn(self, values: FloatArray) -> None:
        self.expansions_ = [clone(member).fit(values) for member in self._members()]

    def _names_out(self, names: list[str]) -> list[str]:
        return [
            f"{type(member).__name__.lower()}{i}__{name}"
            for i, member in enumerate(self.expansions_)
            for name in member.get_feature_names_out(names)
        ]
