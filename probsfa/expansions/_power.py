"""Expansion of each input by a power of its absolute value (Escalante-B. & Wiskott)."""

import numpy as np

from probsfa.expansions._base import Expansion, FloatArray, check_positive

__all__ = ["Power"]


class Power(Expansion):
    """Append to every input a power of its absolute value, ``x -> (x, |x|^0.8)``.

    The number of columns is only doubled, and the power grows more slowly than the input, so that outliers
    have little effect. The inputs should be centred, because the power is nonlinear mainly near zero. The
    scale of an input has no effect before a linear map, because ``|c x|^p = |c|^p |x|^p``.

    Parameters
    ----------
    exponent : float, default=0.8
        The power ``p``, positive.
    signed : bool, default=False
        Use ``sign(x) |x|^p`` instead, which keeps the sign and has no even part.
    include_input : bool, default=True
        Whether the inputs themselves come first.

    See Also
    --------
    Polynomial : All products of the inputs.

    References
    ----------
    Escalante-B., A. N. & Wiskott, L. (2013). How to solve classification and regression problems on
    high-dimensional data with a supervised extension of slow feature analysis. Journal of Machine Learning
    Research 14, 3683-3719, section 6.1 ("0.8Exp").

    Examples
    --------
    >>> print(Power().fit_transform([[1.0, -32.0]]))
    [[  1. -32.   1.  16.]]
    >>> Power(signed=True).fit([[1.0]]).get_feature_names_out(["a"]).tolist()
    ['a', 'sign(a)|a|^0.8']
    """

    def __init__(self, exponent: float = 0.8, *, signed: bool = False, include_input: bool = True) -> None:
        self.exponent = exponent
        self.signed = signed
        self.include_input = include_input

    @property
    def stateless(self) -> bool:
        """True, because nothing is fitted."""
        return True

    def expand(self, values: FloatArray) -> FloatArray:
        """Expand the last axis: (..., D) to (..., 2 D), or (..., D) without the inputs."""
        check_positive("exponent", self.exponent)
        n = values.shape[-1] if self.include_input else 0
        out = np.empty((*values.shape[:-1], n + values.shape[-1]), dtype=np.float64)
        out[..., :n] = values[..., :n]
        powers = out[..., n:]
        np.abs(values, out=powers)
        np.power(powers, self.exponent, out=powers)
        if self.signed:
            np.copysign(powers, values, out=powers)
        return out

    def _learn(self, values: FloatArray) -> None:
        check_positive("exponent", self.exponent)

    def _names_out(self, names: list[str]) -> list[str]:
        pattern = "sign({0})|{0}|^{1:g}" if self.signed else "|{0}|^{1:g}"
        powers = [pattern.format(name, self.exponent) for name in names]
        return [*names, *powers] if self.include_input else powers
