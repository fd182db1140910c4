"""Linear and nonlinear autoencoders."""

import numbers
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from probsfa._frames import lists_in_lists_out
from probsfa._random import generator
from probsfa._threads import one_blas_thread
from probsfa._typing import FloatArray, Seed
from probsfa._validation import check_count, check_option
from probsfa.expansions._base import check_positive
from probsfa.extensions._ordering import eigenmap_coordinates, principal_coordinates, ranks
from probsfa.extensions._reconstruction import Reconstruction, mean_squared_distance
from probsfa.extensions._status import status_sentence
from probsfa.linalg import canonical_signs

__all__ = ["Autoencoder", "LinearAutoencoder"]


@lists_in_lists_out
class LinearAutoencoder(Reconstruction):
    """Linear autoencoder: a linear encoder and decoder of the principal subspace.

    ``E |x - M W x|^2`` is minimized alternately over the decoder ``M`` and the encoder ``W``, each in closed
    form, from a random start. The iteration converges to the subspace of principal component analysis; the
    estimator is for comparison with nonlinear autoencoders.

    Parameters
    ----------
    n_components : int, default=2
        Number of coordinates.
    max_iter : int, default=10000
        Maximum number of iterations.
    tol : float, default=1e-12
        Relative change of the projection ``M W`` in an iteration below which the fit stops.
    random_state : int, Generator or None, default=None
        Seed of the random start.

    Attributes
    ----------
    encoder_ : ndarray (K, D)
        ``W``; ``(x - mean_) @ encoder_.T`` are the coordinates.
    decoder_ : ndarray (D, K)
        ``M``, with orthonormal columns.
    mean_ : ndarray (D,)
        Mean of the training rows.
    history_ : ndarray (n_iter_,)
        Mean squared distance of the training rows from their reconstructions, after each iteration; never
        increases.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the projection converged.
    status_ : str
        How the fit ended.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    sklearn.decomposition.PCA : The same subspace and its principal axes, without iteration.
    Autoencoder : Nonlinear encoder and decoder.

    Notes
    -----
    The coordinates are determined up to a rotation. An iteration is a step of subspace iteration (the block
    power method), so that convergence is slow if the K-th eigenvalue is close to the next one.

    References
    ----------
    Ravikumar, P. Representation Learning, lecture notes of 10716: Advanced Machine Learning, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from probsfa.extensions import LinearAutoencoder
    >>> X = np.random.default_rng(0).standard_normal((300, 4)) * [3.0, 2.0, 1.0, 0.5]
    >>> linear = LinearAutoencoder(2, random_state=0).fit(X)
    >>> pca = PCA(2).fit(X)
    >>> bool(np.allclose(linear.reconstruct(X), pca.inverse_transform(pca.transform(X)), rtol=1e-4))
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        max_iter: int = 10_000,
        tol: float = 1e-12,
        random_state: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_count("n_components", self.n_components)
        check_count("max_iter", self.max_iter)
        check_positive("tol", self.tol)

    def _learn(self, values: FloatArray, mean: FloatArray) -> None:
        """Fit the encoder and the decoder."""
        n_components = self.n_components
        n_features = values.shape[1]
        if n_components > n_features:
            raise ValueError(f"n_components={n_components} is more than the {n_features} columns of X.")
        self.mean_ = mean
        centred = values - self.mean_
        covariance = centred.T @ centred / len(centred)
        total = float(np.trace(covariance))
        normals = generator(self.random_state).standard_normal((n_features, n_components))
        decoder = np.linalg.qr(normals)[0]
        history: list[float] = []
        status = "max_iter"
        try:
            for _ in range(self.max_iter):
                # With covariance S and encoder W = M', M orthonormal, the optimal decoder S W' (W S W')^-1
                # has the column space of S M. All bases of this space give the same reconstructions.
                proposal = _orthonormal(covariance @ decoder, decoder)
                history.append(max(total - float(np.sum(proposal * (covariance @ proposal))), 0.0))
                change = np.linalg.norm(proposal - decoder @ (decoder.T @ proposal))
                decoder = proposal
                if change <= self.tol * np.sqrt(n_components):
                    status = "converged"
                    break
        except KeyboardInterrupt:
            status = "interrupted"
        decoder = decoder * canonical_signs(decoder, np.ones(n_features))
        self.decoder_, self.encoder_ = decoder, np.ascontiguousarray(decoder.T)
        self.history_ = np.array(history)
        self.n_iter_ = len(history)
        self.converged_ = status == "converged"
        self.status_ = _status(status, self.n_iter_, self.max_iter)

    def _outputs(self, values: FloatArray) -> FloatArray:
        return np.asarray((values - self.mean_) @ self.encoder_.T)

    def _inputs(self, codes: FloatArray) -> FloatArray:
        return np.asarray(self.mean_ + codes @ self.decoder_.T)

    @property
    def _n_features_out(self) -> int:
        return len(self.encoder_)


def _orthonormal(updated: FloatArray, previous: FloatArray) -> FloatArray:
    """Return an orthonormal basis (D, K) of updated columns; previous columns replace lost dimensions."""
    directions, sizes, _ = np.linalg.svd(updated, full_matrices=False)
    retained = sizes > 1e-15 * sizes[0]
    if retained.all():
        return directions
    directions = directions[:, retained]
    remainder = previous - directions @ (directions.T @ previous)
    additional = np.linalg.svd(remainder, full_matrices=False)[0][
        :, : previous.shape[1] - directions.shape[1]
    ]
    return np.linalg.qr(np.hstack([directions, additional]))[0]


@lists_in_lists_out
class Autoencoder(Reconstruction):
    """Nonlinear autoencoder with a bottleneck of few coordinates, optionally denoising.

    The estimator is a neural network with three hidden layers; the K outputs of the middle layer are the
    coordinates. With encoder ``g`` and decoder ``f`` it minimizes ``E |x - f(g(x + noise))|^2``. It is a
    :class:`sklearn.neural_network.MLPRegressor` on standardized columns.

    Parameters
    ----------
    n_components : int, default=2
        Number of coordinates, ``K``.
    hidden : int, default=32
        Number of units in each of the layers before and after the middle layer.
    corruption : float, default=0.0
        Standard deviation of the noise that is added to the inputs in training, in standard deviations of the
        columns.
    n_noisy : int, default=10
        Number of noisy copies of each row; used only if `corruption` is positive.
    activation : {"tanh", "relu", "logistic"}, default="tanh"
        Activation function of all layers except the last.
    penalty : float, default=1e-5
        L2 penalty of the weights, the parameter `alpha` of scikit-learn.
    solver : {"lbfgs", "adam"}, default="lbfgs"
        Solver of scikit-learn; "lbfgs" is suited to at most about ten thousand rows, "adam" to more.
    n_init : int, default=2
        Number of starts; the network with the smallest training error is used. The first start uses a
        Laplacian eigenmap, which unfolds curves: the encoder is trained to predict the coordinates of the
        eigenmap, and the decoder to predict the rows from these coordinates. If the graph of the eigenmap is
        not connected, principal components are used. Other starts have random weights.
    max_iter : int, default=4000
        Maximum number of iterations of the solver. A thousand are too few for tightly wound curves.
    random_state : int, Generator or None, default=None
        Seed of the starting weights and of the noise.

    Attributes
    ----------
    weights_ : list of ndarray
        Weights of the four layers.
    intercepts_ : list of ndarray
        Intercepts of the four layers.
    mean_, scale_ : ndarray (D,)
        Mean and standard deviation of the training rows.
    loss_ : float
        Mean squared distance of the training rows from their reconstructions, in squared units of the data.
    n_iter_ : int
        Number of iterations of the solver for the selected network.
    converged_ : bool
        Whether the solver converged.
    status_ : str
        How the fit ended.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    LinearAutoencoder : Linear: the principal subspace.
    PrincipalCurve : A nonlinear decoder, with projection as encoder.

    Notes
    -----
    The coordinates are determined up to an invertible map, so that coordinates of two fits are not
    comparable.

    References
    ----------
    Ravikumar, P. Representation Learning, lecture notes of 10716: Advanced Machine Learning, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa.extensions import Autoencoder, LinearAutoencoder
    >>> angle = np.random.default_rng(0).uniform(0.0, np.pi, 300)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> curved = Autoencoder(1, hidden=8, penalty=0.01, random_state=0).fit(X)
    >>> bool(curved.score(X) > 0.3 * LinearAutoencoder(1, random_state=0).fit(X).score(X))
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        hidden: int = 32,
        corruption: float = 0.0,
        n_noisy: int = 10,
        activation: str = "tanh",
        penalty: float = 1e-5,
        solver: str = "lbfgs",
        n_init: int = 2,
        max_iter: int = 4000,
        random_state: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.hidden = hidden
        self.corruption = corruption
        self.n_noisy = n_noisy
        self.activation = activation
        self.penalty = penalty
        self.solver = solver
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def _learn(self, values: FloatArray, mean: FloatArray) -> None:
        """Train the network."""
        self.mean_ = mean
        std = (values - self.mean_).std(axis=0)
        self.scale_ = np.where(std > 0.0, std, 1.0)
        standard = (values - self.mean_) / self.scale_
        rng = generator(self.random_state)
        best: tuple[float, MLPRegressor, str] | None = None
        for i in range(self.n_init):
            network, status = self._train(standard, rng, self._starting_codes(standard) if i == 0 else None)
            self.weights_, self.intercepts_ = network.coefs_, network.intercepts_
            loss = mean_squared_distance(values, self._inputs(self._outputs(values)))
            if best is None or loss < best[0]:
                best = loss, network, status
            if status == "interrupted":
                best = (*best[:2], status)
                break
        assert best is not None
        self.loss_, network, status = best
        self.weights_, self.intercepts_ = network.coefs_, network.intercepts_
        self.activation_ = self.activation
        self.n_iter_ = int(getattr(network, "n_iter_", 0))
        self.converged_ = status == "converged"
        self.status_ = _status(status, self.n_iter_, self.max_iter)

    def _check_parameters(self) -> None:
        for name in ("n_components", "hidden", "n_noisy", "n_init", "max_iter"):
            check_count(name, getattr(self, name))
        for name in ("corruption", "penalty"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, numbers.Real)
                or not 0 <= float(value) < np.inf
            ):
                raise ValueError(f"{name} must be a number of at least 0; got {value!r}.")
        check_option("activation", self.activation, tuple(_ACTIVATIONS))
        check_option("solver", self.solver, ("lbfgs", "adam"))

    def _starting_codes(self, standard: FloatArray) -> FloatArray:
        """Return starting codes (N, K) within the range of the activation function."""
        k = int(self.n_components)
        coordinates = eigenmap_coordinates(standard, k)
        if coordinates is None:
            coordinates = principal_coordinates(standard, k)
        scaled_ranks = _START_RANGE * (2.0 * ranks(coordinates) - 1.0)
        return scaled_ranks if self.activation == "tanh" else 0.5 * (1.0 + scaled_ranks)

    @one_blas_thread()
    def _train(
        self, standard: FloatArray, rng: np.random.Generator, codes: FloatArray | None = None
    ) -> tuple[MLPRegressor, str]:
        """Train a network on standardized rows; return it and the status of the optimization."""
        inputs = targets = standard
        if self.corruption:
            targets = np.tile(standard, (self.n_noisy, 1))
            inputs = targets + float(self.corruption) * rng.standard_normal(targets.shape)
        network = MLPRegressor(
            hidden_layer_sizes=(self.hidden, self.n_components, self.hidden),
            activation=self.activation,
            alpha=float(self.penalty),
            solver=self.solver,
            max_iter=self.max_iter,
            max_fun=2 * self.max_iter,
            random_state=int(rng.integers(2**31)),
        )
        if targets.shape[1] == 1:
            targets = targets[:, 0]
        status = "converged"
        with warnings.catch_warnings(record=True) as caught_warnings:
            warnings.simplefilter("always")
            try:
                if codes is not None:
                    _initialize(network, inputs, np.tile(codes, (len(inputs) // len(codes), 1)), targets)
                network.fit(inputs, targets)
            except KeyboardInterrupt:
                if not hasattr(network, "coefs_"):  # before the first training step
                    raise
                status = "interrupted"
        for warning in caught_warnings:
            if issubclass(warning.category, ConvergenceWarning):
                status = "max_iter"
            elif "interrupted" in str(warning.message):  # scikit-learn warns of an interrupt in training
                status = "interrupted"
        return network, status

    def _layer(self, rows: FloatArray, index: int) -> FloatArray:
        sums = rows @ self.weights_[index] + self.intercepts_[index]
        activation = getattr(self, "activation_", self.activation)
        return sums if index == len(self.weights_) - 1 else _ACTIVATIONS[activation](sums)

    def _outputs(self, values: FloatArray) -> FloatArray:
        rows = (values - self.mean_) / self.scale_
        return self._layer(self._layer(rows, 0), 1)

    def _inputs(self, codes: FloatArray) -> FloatArray:
        return np.asarray(self.mean_ + self.scale_ * self._layer(self._layer(codes, 2), 3))

    @property
    def _n_features_out(self) -> int:
        return int(self.weights_[1].shape[1])


def _initialize(network: MLPRegressor, inputs: FloatArray, codes: FloatArray, targets: FloatArray) -> None:
    """Train encoder and decoder separately, and copy their weights to the network."""
    options, n_iterations = network.get_params(), network.max_iter
    hidden, k, _ = options["hidden_layer_sizes"]
    options.update(hidden_layer_sizes=(hidden,), solver="lbfgs", max_iter=_MAX_START_ITERATIONS)
    halves = MLPRegressor(**options), MLPRegressor(**options)
    encoder_targets = _INVERSES[options["activation"]](codes)  # the last layer of a regressor is linear
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # scikit-learn creates the weights of a network in its first iteration.
        network.set_params(max_iter=1).fit(inputs, targets)
        halves[0].fit(inputs, encoder_targets[:, 0] if k == 1 else encoder_targets)
        halves[1].fit(codes, targets)
    network.n_iter_ = 0
    network.set_params(max_iter=n_iterations, warm_start=True)
    network.coefs_ = [weights.copy() for part in halves for weights in part.coefs_]
    network.intercepts_ = [intercept.copy() for part in halves for intercept in part.intercepts_]


_ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "tanh": np.tanh,
    "relu": lambda sums: np.maximum(sums, 0.0),
    "logistic": lambda sums: 0.5 * (1.0 + np.tanh(0.5 * sums)),
}

# Inverses of the activation functions, for the starting codes.
_INVERSES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "tanh": np.arctanh,
    "relu": lambda activities: activities,
    "logistic": lambda activities: np.log(activities / (1.0 - activities)),
}
_START_RANGE = 0.9  # range of the starting codes, relative to the range of the activation function
_MAX_START_ITERATIONS = 200  # of the separate training of encoder and decoder


def _status(status: str, n_iter: int, max_iter: int) -> str:
    return status_sentence(
        status,
        n_iter,
        max_iter,
        unfinished=", before convergence",
        remedy="a larger max_iter",
        best="this is the best",
    )
