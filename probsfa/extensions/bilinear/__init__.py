"""Bilinear slow feature analysis: binary "what" chains that gate continuous "where" factors.

The model of Turner & Sahani (2007, section 5.1, eqs. 25-27), with stationary AR(1) factors of unit variance,
an offset, and separate or equal noise variances of the columns::

    y_k,1 ~ N(0, 1),   y_k,t = a_k y_k,t-1 + sqrt(1 - a_k^2) e_k,t
    P(s_m,t = 1 | s_m,t-1 = 0) = on_m,   P(s_m,t = 0 | s_m,t-1 = 1) = off_m,   s_m,1 stationary
    x_t = mu + sum_mk g_mk s_m,t y_k,t + n_t,   n_t ~ N(0, diag(r))

The state ``s_m,t`` of chain ``m`` is called its gate in row ``t``; a chain is active where its gate is 1.
Modules from the top down: ``estimator`` (BilinearSFA), ``model`` (methods of a fitted model), ``learning``
(starts, M-step, restarts), ``inference`` (the variational posterior and its bound), ``parameters``.
"""

from probsfa.extensions.bilinear.estimator import BilinearSFA as BilinearSFA
from probsfa.extensions.bilinear.inference import BilinearPosterior as BilinearPosterior
from probsfa.extensions.bilinear.parameters import BilinearParameters as BilinearParameters

__all__ = ["BilinearParameters", "BilinearPosterior", "BilinearSFA"]
