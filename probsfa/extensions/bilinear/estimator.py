"""Bilinear slow feature analysis as a scikit-learn estimator."""

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from probsfa._random import generator
from probsfa._saving import Saveable
from probsfa._times import timescales_from_decay
from probsfa._typing import FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.expansions._base import check_positive
from probsfa.extensions._status import status_sentence
from probsfa.extensions.bilinear.learning import Optimization, learn
from probsfa.extensions.bilinear.model import BilinearModel
from probsfa.extensions.bilinear.parameters import canonical, rescale
from probsfa.statespace.methods import StateSpaceMethods
from probsfa.statespace.panel import make_panel
from probsfa.statespace.progress import Progress
from probsfa.statespace.quantities import Quantity

__all__ = ["BilinearSFA"]


class BilinearSFA(Saveable, StateSpaceMethods):
    """Bilinear SFA: binary "what" chains gate continuous "where" factors.

    Slow feature analysis mixes the identity and the position of objects in the same features. In this model,
    binary Markov chains describe which objects are present, AR(1) factors of unit variance their position,
    and each active chain has its own loadings of the factors (Turner & Sahani 2007, section 5.1)::

        x_t = mu + sum_mk g_mk s_m,t y_k,t + n_t

    The state ``s_m,t`` of a chain, 0 or 1, is called a gate; a chain is active where its gate is 1.

    Parameters
    ----------
    n_components : int, default=2
        Number of continuous factors, ``K``.
    n_gates : int, default=1
        Number of binary chains, ``M``.
    noise : {"diagonal", "isotropic"}, default="diagonal"
        "diagonal": a noise variance for each column. "isotropic": one noise variance for all columns, as in
        the paper.
    n_init : int, default=9
        Number of starting points. From each, at most 40 iterations are run; then the best run is continued.
    max_iter : int, default=500
        Maximum number of variational EM iterations.
    tol : float, default=0.1
        The fit stops if the bound increases by less than `tol` nats in ten iterations.
    noise_floor : float, default=1e-6
        Smallest noise variance, relative to the variance of the columns.
    random_state : int, Generator or None, default=None
        Seed of the starting points, and default seed of `sample`.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    params_ : BilinearParameters
        All parameters, in data units.
    decay_ : ndarray (K,)
        Lag-one autocorrelation of each factor, slowest first.
    timescales_ : ndarray (K,)
        ``-1 / log(decay_)`` in rows; NaN if the decay is not positive.
    switching_ : ndarray (M, 2)
        Probabilities that an inactive chain becomes active, and that an active chain becomes inactive.
    loadings_ : ndarray (D, M, K)
        Effect of each factor on each column while a chain is active.
    noise_variance_ : ndarray (D,)
        Noise variance of each column.
    mean_ : ndarray (D,)
        Mean of each column if all factors are zero.
    lower_bound_ : float
        Bound on the log-likelihood of the training data, in nats.
    history_ : ndarray (n_iter_,)
        The bound after each iteration; never decreases.
    restart_bounds_ : ndarray (n_init,)
        The last bound of each run, before the best run was selected and continued.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged, by `tol`.
    status_ : str
        How the fit ended.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    probsfa.ProbabilisticSFA : The linear model, without gates.
    probsfa.SFA : Slow feature analysis without noise.

    Notes
    -----
    The posterior is approximated by a product of one distribution of all factors and one distribution of each
    chain (structured variational inference). Likelihoods are lower bounds. The approximation is
    overconfident: gate probabilities of 0.06 to 0.08 in the exact posterior can be reported as 0.00. Rows
    must be evenly spaced. Chains are ordered by explained variance, and the largest loading of each factor is
    positive. Different sets of chains can describe the same data. For example, two alternating objects may be
    two chains, or one chain that is always active and one for the difference. Therefore compare the joint
    states of all chains.

    References
    ----------
    Turner & Sahani (2007), Neural Computation 19:1022, doi:10.1162/neco.2007.19.4.1022, section 5.1,
    equations 25 to 27.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa.extensions import BilinearSFA
    >>> from probsfa.extensions.bilinear import BilinearParameters
    >>> from probsfa.extensions.bilinear.parameters import simulate
    >>> rng = np.random.default_rng(0)
    >>> truth = BilinearParameters(
    ...     np.array([0.95]), np.array([0.03]), np.array([0.03]), rng.standard_normal((6, 1, 1)),
    ...     np.full(6, 0.01), np.zeros(6)
    ... )
    >>> X, where, what = simulate(truth, 200, rng)
    >>> model = BilinearSFA(1, n_gates=1, n_init=3, random_state=0).fit(X)
    >>> features = model.transform(X)
    >>> features.shape, bool(np.mean((features[:, 1] > 0.5) == what[:, 0]) > 0.95)
    ((200, 2), True)
    """

    _quantities = (Quantity("switching_", "switching", "", ("gate", "direction")),)
    _unsupported: ClassVar[Mapping[str, str]] = {
        "factor_interval": "uncertainty of its parameters is not estimated. Use posterior(X).std, which "
        "treats the fitted parameters as known.",
        "filter": "its approximate posterior requires all rows. Use ProbabilisticSFA.filter, or "
        "posterior(X) of the rows so far.",
        "sample_posterior": "its approximate posterior has no joint distribution over rows. Use "
        "ProbabilisticSFA.",
        "contributions": "values are products of factors and gates. Use posterior(X) and loadings_.",
        "news": "predictions are not linear in new observations. Use ProbabilisticSFA.",
        "diagnose": "it has no one-step predictions. Use outlier_scores, or ProbabilisticSFA.diagnose.",
        "standard_errors": "the curvature of the lower bound is not that of the likelihood. Use a parametric "
        "bootstrap: fit to series of sample().",
        "profile_timescale": "the lower bound is not the likelihood. Use ProbabilisticSFA or BayesianSFA.",
    }
    _unsupported_arguments: ClassVar[Mapping[str, str]] = {
        "times": "Rows must be evenly spaced. Use ProbabilisticSFA for uneven times.",
        "exog": "Use ProbabilisticSFA, which has covariates.",
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_gates: int = 1,
        noise: str = "diagonal",
        n_init: int = 9,
        max_iter: int = 500,
        tol: float = 0.1,
        noise_floor: float = 1e-6,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.n_gates = n_gates
        self.noise = noise
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.noise_floor = noise_floor
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Self:
        """Fit the parameters by variational EM.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing; a list is several independent sequences.
        y : ignored
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.
        times, exog : None
            Not supported; use :class:`probsfa.ProbabilisticSFA`.

        Returns
        -------
        BilinearSFA
            The fitted estimator. After a keyboard interrupt it has the best parameters so far.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid; see the message.

        Warns
        -----
        ConvergenceWarning
            If the fit was interrupted or reached `max_iter`.
        """
        self._refuse_arguments(times=times, exog=exog)
        for name in ("n_components", "n_gates", "n_init", "max_iter"):
            check_count(name, getattr(self, name))
        check_option("noise", self.noise, ("diagonal", "isotropic"))
        check_positive("tol", self.tol)
        check_positive("noise_floor", self.noise_floor)
        sequences = check_sequences(
            self, X, reset=True, allow_nan=True, lengths=lengths, min_rows=2, index="warn"
        )
        shift = np.nanmean(sequences.values, axis=0)
        std = np.nanstd(sequences.values, axis=0)
        if not np.any(std > 0.0):
            raise ValueError("Every column of X is constant. Use rows that vary.")
        if self.noise == "isotropic":
            std = np.full_like(std, np.sqrt(np.mean(std**2)))
        scale = np.where(std > 0.0, std, 1.0)
        panel = make_panel(sequences.standardized(shift, scale))
        with Progress(self.max_iter) if self.verbose else nullcontext() as report:
            result = learn(
                panel,
                self.n_components,
                self.n_gates,
                n_init=self.n_init,
                noise=self.noise,
                floor=float(self.noise_floor),
                max_iter=self.max_iter,
                tol=float(self.tol),
                rng=generator(self.random_state),
                report=report,
            )
        self._set_fitted(result, sequences, shift, scale)
        if not self.converged_:
            warnings.warn(self.status_, ConvergenceWarning, stacklevel=2)
        return self

    def _set_fitted(
        self, result: Optimization, sequences: Sequences, shift: FloatArray, scale: FloatArray
    ) -> None:
        log_scale_sum = float(sequences.mask.sum(axis=0) @ np.log(scale))
        self.params_ = canonical(rescale(result.params, shift, scale), scale)
        self.decay_ = self.params_.decay
        self.timescales_ = timescales_from_decay(self.decay_)
        self.switching_ = np.stack([self.params_.switch_on, self.params_.switch_off], axis=1)
        self.loadings_ = self.params_.loadings
        self.noise_variance_ = self.params_.noise_variance
        self.mean_ = self.params_.offset
        self.scale_ = scale
        self.history_ = np.array(result.history) - log_scale_sum
        self.restart_bounds_ = result.bounds - log_scale_sum
        self.lower_bound_ = float(self.history_[-1]) if len(self.history_) else -np.inf
        self.n_iter_ = len(self.history_)
        self.converged_ = result.status == "converged"
        self.status_ = status_sentence(
            result.status,
            self.n_iter_,
            self.max_iter,
            criterion=f": ten iterations gained less than tol={self.tol:g} nats",
            unfinished="; the bound was still increasing",
            best="these are the best parameters",
        )

    @property
    def _model(self) -> BilinearModel:
        return BilinearModel(self.params_, self.scale_, self.noise == "isotropic")

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the outputs of `transform`: ``where0``, ..., ``what0``, ..."""
        check_is_fitted(self)
        _, n_gates, n_components = self.loadings_.shape
        names = [f"where{k}" for k in range(n_components)] + [f"what{m}" for m in range(n_gates)]
        return np.asarray(names, dtype=object)
