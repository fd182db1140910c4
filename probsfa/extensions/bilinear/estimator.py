"""Bilinear slow feature analysis as a scikit-learn estimator."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from probsfa._frames import lists_in_lists_out
from probsfa._like_input import like_input
from probsfa._random import generator
from probsfa._saving import Saved
from probsfa._timescales import timescales_from_decay
from probsfa._typing import FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.expansions._base import check_positive
from probsfa.extensions._status import status_sentence
from probsfa.extensions.bilinear.inference import BilinearPosterior, infer
from probsfa.extensions.bilinear.learning import Climb, learn
from probsfa.extensions.bilinear.parameters import BilinearParameters, canonical, rescale, simulate
from probsfa.statespace.panel import make_panel
from probsfa.statespace.progress import Progress

__all__ = ["BilinearSFA"]


@lists_in_lists_out
class BilinearSFA(Saved, TransformerMixin, BaseEstimator):
    """Slow features of two kinds: binary "what" chains that gate continuous "where" latents.

    Slow feature analysis puts what is seen and where it is into one kind of feature, and so mixes them.
    Here a
    few binary Markov chains say what is there, a few AR(1) latents of unit variance where it is, and each
    chain that is on shows the latents in its own way (Turner & Sahani 2007, section 5.1)::

        x_t = mu + sum_mk g_mk s_m,t y_k,t + n_t

    Parameters
    ----------
    n_components : int, default=2
        Number of continuous latents, ``K``.
    n_gates : int, default=1
        Number of binary chains, ``M``.
    noise : {"diagonal", "isotropic"}, default="diagonal"
        A noise variance for each feature, or one for all, as in the paper.
    n_init : int, default=9
        Number of places from which the bound is climbed side by side; the best goes on to the end.
    max_iter : int, default=500
        Most rounds of variational expectation maximisation.
    tol : float, default=0.1
        Gain of the bound over ten rounds, in nats, at which to stop.
    noise_floor : float, default=1e-6
        Smallest noise variance, as a fraction of the features' variance.
    random_state : int, Generator or None, default=None
        Where to start, and the default source of randomness of `sample`.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    params_ : BilinearParameters
        All parameters, in data units.
    decay_ : ndarray (K,)
        Correlation of each latent with itself one row later, slowest first.
    timescales_ : ndarray (K,)
        ``-1 / log(decay_)`` in rows; NaN where the decay is not positive.
    switching_ : ndarray (M, 2)
        Probabilities that a chain turns on where it is off, and off where it is on.
    loadings_ : ndarray (D, M, K)
        How a latent shows in each feature while a chain is on.
    noise_variance_, mean_ : ndarray (D,)
        Noise variance, and mean of the features without latents.
    lower_bound_ : float
        Bound on the log-likelihood of the training data, in nats.
    history_ : ndarray (n_iter_,)
        The bound after each round; never falls.
    restart_bounds_ : ndarray (n_init,)
        The bound to which each start had climbed when the best was chosen.
    n_iter_ : int
        Number of rounds.
    converged_ : bool
        Whether the fit ended by `tol`.
    status_ : str
        How the fit ended, in a sentence.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    probsfa.ProbabilisticSFA : The linear model, without gates.
    probsfa.SFA : Without noise.

    Notes
    -----
    The posterior is approximated by one distribution of all latents and one of each chain, each exact
    given the others, so the likelihood is known by a lower bound alone. It is too sure of itself:
    probabilities of gates that are 0.06 to 0.08 can come out as 0.00. Missing cells count for nothing. Rows
    are evenly spaced in time. Chains come in the order of what they explain, and of the two signs of a
    latent that is taken for which its largest loading is positive. Several sets of chains can say the
    same, for example two objects as one chain that is always on and one that switches to the difference:
    compare the states of all chains together. Up to five chains are first found together, without the
    latents' dynamics, which avoids most poor maxima; more begin at random.

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

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> Self:
        """Find the parameters by variational expectation maximisation.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing; a list is several independent sequences.
        y : ignored
        lengths : array-like of int, optional
            Cuts one array into consecutive sequences.

        Returns
        -------
        BilinearSFA
            The fitted estimator. Interrupted, it has the best parameters so far.

        Raises
        ------
        ValueError
            If the data or a parameter is not valid; see the message.

        Warns
        -----
        ConvergenceWarning
            If the fit was interrupted or took `max_iter` rounds.
        """
        for name in ("n_components", "n_gates", "n_init", "max_iter"):
            check_count(name, getattr(self, name))
        check_option("noise", self.noise, ("diagonal", "isotropic"))
        check_positive("tol", self.tol)
        check_positive("noise_floor", self.noise_floor)
        sequences = self._check(X, lengths, reset=True)
        shift = np.nanmean(sequences.values, axis=0)
        spread = np.nanstd(sequences.values, axis=0)
        if not np.any(spread > 0.0):
            raise ValueError("Every column of X is constant, so there is nothing to learn.")
        if self.noise == "isotropic":
            spread = np.full_like(spread, np.sqrt(np.mean(spread**2)))
        scale = np.where(spread > 0.0, spread, 1.0)
        panel = make_panel(sequences.standardised(shift, scale))
        with Progress(self.verbose, self.max_iter) as report:
            climb = learn(
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
        self._set_fitted(climb, sequences, shift, scale)
        if not self.converged_:
            warnings.warn(self.status_, ConvergenceWarning, stacklevel=2)
        return self

    def _set_fitted(self, climb: Climb, sequences: Sequences, shift: FloatArray, scale: FloatArray) -> None:
        in_data_units = float(sequences.mask.sum(axis=0) @ np.log(scale))
        self.params_ = canonical(rescale(climb.params, shift, scale), scale)
        self.decay_ = self.params_.decay
        self.timescales_ = timescales_from_decay(self.decay_)
        self.switching_ = np.stack([self.params_.switch_on, self.params_.switch_off], axis=1)
        self.loadings_ = self.params_.loadings
        self.noise_variance_ = self.params_.noise_variance
        self.mean_ = self.params_.offset
        self.scale_ = scale
        self.history_ = np.array(climb.history) - in_data_units
        self.restart_bounds_ = climb.bounds - in_data_units
        self.lower_bound_ = float(self.history_[-1]) if len(self.history_) else -np.inf
        self.n_iter_ = len(self.history_)
        self.converged_ = climb.status == "converged"
        self.status_ = status_sentence(
            climb.status,
            self.n_iter_,
            self.max_iter,
            criterion=f": ten gained less than tol={self.tol:g} nats",
            unfinished="; the bound was still rising",
            best="these are the best parameters",
        )

    # ---------------------------------------------------------------- inference

    def transform(self, X: Any, *, lengths: Any = None) -> Any:
        """Return posterior means of latents and probabilities of gates, given all rows of each sequence.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        lengths : array-like of int, optional
            As in `fit`.

        Returns
        -------
        ndarray (T, K + M), or list of ndarrays (T_i, K + M)
            First "where", means of the continuous latents, then "what", probabilities of the chains to be on.
        """
        check_is_fitted(self)
        sequences = self._check(X, lengths)
        posterior = self._infer(sequences)
        return sequences.restore(np.hstack([posterior.means, posterior.gate_probabilities]))

    def posterior(self, X: Any, *, lengths: Any = None) -> BilinearPosterior:
        """Return the approximate distribution of latents and gates, given all rows of each sequence.

        Parameters
        ----------
        X, lengths
            As in `transform`.

        Returns
        -------
        BilinearPosterior
            Of all rows, one sequence after the other.
        """
        check_is_fitted(self)
        return self._infer(self._check(X, lengths))

    def lower_bound(self, X: Any, *, lengths: Any = None) -> float:
        """Return a lower bound on the log-likelihood of data, in nats.

        Parameters
        ----------
        X, lengths
            As in `transform`.

        Returns
        -------
        float
        """
        return self.posterior(X, lengths=lengths).lower_bound

    def score(self, X: Any, y: Any = None, *, lengths: Any = None) -> float:
        """Return the lower bound on the log-likelihood per row.

        Parameters
        ----------
        X, lengths
            As in `transform`.
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        sequences = self._check(X, lengths)
        return self._infer(sequences).lower_bound / sequences.n_rows

    def impute(self, X: Any, return_std: bool = False, *, lengths: Any = None) -> Any:
        """Fill missing cells with their posterior means.

        Parameters
        ----------
        X : array-like or DataFrame (T, D), or list of them
            Rows in order of time, NaN where missing.
        return_std : bool, default=False
            Whether to return standard deviations too.
        lengths : array-like of int, optional
            As in `fit`.

        Returns
        -------
        filled : like X
            Observed cells as they were, missing ones filled.
        std : like X
            With `return_std`: standard deviation of each filled cell, noise included; zero for observed ones.
        """
        check_is_fitted(self)
        sequences = self._check(X, lengths)
        posterior = self._infer(sequences)
        means, variances = _cells(self.params_, posterior)
        filled = like_input(X, sequences, np.where(sequences.mask, sequences.values, means))
        if not return_std:
            return filled
        return filled, like_input(X, sequences, np.where(sequences.mask, 0.0, np.sqrt(variances)))

    def sample(
        self, n_steps: int = 1, *, random_state: Seed = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Draw a series from the model.

        Parameters
        ----------
        n_steps : int, default=1
            Number of rows.
        random_state : int, Generator or None
            Source of randomness; the estimator's by default.

        Returns
        -------
        X : ndarray (n_steps, D)
            Observations.
        where : ndarray (n_steps, K)
            Continuous latents.
        what : ndarray (n_steps, M)
            Gates, 0.0 and 1.0.
        """
        check_is_fitted(self)
        check_count("n_steps", n_steps)
        rng = generator(self.random_state if random_state is None else random_state)
        return simulate(self.params_, n_steps, rng)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of what `transform` gives: ``where0``, ..., ``what0``, ..."""
        check_is_fitted(self)
        _, n_gates, n_components = self.loadings_.shape
        names = [f"where{k}" for k in range(n_components)] + [f"what{m}" for m in range(n_gates)]
        return np.asarray(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check(self, X: Any, lengths: Any, *, reset: bool = False) -> Sequences:
        return check_sequences(
            self, X, reset=reset, allow_nan=True, lengths=lengths, min_rows=2 if reset else 1, index="warn"
        )

    def _infer(self, sequences: Sequences) -> BilinearPosterior:
        shift, scale = self.mean_, self.scale_
        params = rescale(self.params_, -shift / scale, 1.0 / scale)
        posterior = infer(params, make_panel(sequences.standardised(shift, scale)))
        in_data_units = float(sequences.mask.sum(axis=0) @ np.log(scale))
        return posterior._replace(lower_bound=posterior.lower_bound - in_data_units)


def _cells(params: BilinearParameters, posterior: BilinearPosterior) -> tuple[FloatArray, FloatArray]:
    """Means and variances (T, D) of all cells, noise included."""
    gates, means = posterior.gate_probabilities, posterior.means
    n_features = len(params.offset)
    second = posterior.covariances + means[:, :, None] * means[:, None, :]
    both = gates[:, :, None] * gates[:, None, :]
    both += (gates * (1.0 - gates))[:, :, None] * np.eye(gates.shape[1])
    products = np.einsum("tm,tk->tmk", gates, means).reshape(len(means), -1)
    raw = np.einsum("tmn,tkl->tmknl", both, second).reshape(len(means), products.shape[1], -1)
    spread = raw - products[:, :, None] * products[:, None, :]
    loadings = params.loadings.reshape(n_features, -1)
    variances = np.einsum("di,tij,dj->td", loadings, spread, loadings, optimize=True)
    return params.offset + products @ loadings.T, np.maximum(variances, 0.0) + params.noise_variance
