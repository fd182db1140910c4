"""Laplacian eigenmaps: identities, closed forms, extension to new points, input validation."""

import os
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons, make_swiss_roll
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import SpectralEmbedding
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import make_pipeline

from probsfa.graphs import heat_kernel as graph_of_heat
from probsfa.graphs import nearest_neighbors, serial, transition
from probsfa.sfa import SFA
from probsfa.sfa.spectral.eigenmaps import LaplacianEigenmaps
from tests.oracles import sfa
from tests.oracles.eigenmaps import eigenvalues, gsfa, heat_kernel, nystroem, path, ring
from tests.sampling import parametrize_with_checks
from tests.tolerances import EXACT, SPECTRAL

NORMALIZATIONS = ["random_walk", "symmetric", "unnormalized"]


def roll(n, seed=0):
    return make_swiss_roll(n, noise=0.05, random_state=seed)[0]


ISOLATED = "scikit-learn gives a sample without edges, for which a normalized Laplacian is not defined"


def expected_failures(estimator):
    if estimator.affinity != "precomputed":
        return {}
    checks = ("estimator_sparse_tag", "estimator_sparse_array", "estimator_sparse_matrix", "fit2d_1feature")
    return {f"check_{name}": ISOLATED for name in checks}


@parametrize_with_checks(
    [
        LaplacianEigenmaps(),
        LaplacianEigenmaps(affinity="rbf"),
        LaplacianEigenmaps(1, affinity="precomputed"),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore:The graph has:UserWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_eigenvalues_and_constraints_by_definition(rng, normalization):
    X = rng.standard_normal((25, 3))
    found = LaplacianEigenmaps(4, affinity="rbf", gamma=0.5, normalization=normalization).fit(X)
    W = heat_kernel(X, X, 0.5) - np.eye(25)
    d = W.sum(axis=1)
    mass = np.ones(25) if normalization == "unnormalized" else d
    y = found.embedding_
    np.testing.assert_allclose(found.eigenvalues_, eigenvalues(W, mass)[1:5], rtol=SPECTRAL)
    constraint = np.diag(d) if normalization == "random_walk" else np.eye(25)
    np.testing.assert_allclose(y.T @ constraint @ y, np.eye(4), atol=EXACT)


def test_eigenmap_is_gsfa_on_one_hot_features(rng):
    W = np.triu(rng.random((9, 9)), 1)
    W += W.T
    found = LaplacianEigenmaps(4, affinity="precomputed").fit(W)
    one_hot = np.eye(9)[:, :-1]  # the last indicator is one minus the others
    deltas, outputs = gsfa(W, W.sum(axis=1), one_hot, 4)
    np.testing.assert_allclose(2 * found.eigenvalues_, deltas, rtol=SPECTRAL)
    # GSFA scales to unit weighted variance, the eigenmap to y' D y = 1
    outputs /= np.sqrt(W.sum())
    np.testing.assert_allclose(np.abs(found.embedding_), np.abs(outputs), atol=SPECTRAL)


@pytest.mark.parametrize("n", [60, 700])
def test_unnormalized_path_gives_the_free_responses(n):
    found = LaplacianEigenmaps(4, affinity="precomputed", normalization="unnormalized")
    y = found.fit(sp.csr_array(path(n))).embedding_
    free, _ = sfa.free_responses(n, 4)
    np.testing.assert_allclose(np.abs(free.T @ y) / np.sqrt(n), np.eye(4), atol=SPECTRAL)
    np.testing.assert_allclose(found.eigenvalues_, 2 - 2 * np.cos(np.pi * np.arange(1, 5) / n), rtol=SPECTRAL)


def test_random_walk_in_time_approaches_the_free_responses():
    distances = []
    for n in (30, 120, 480):
        y = LaplacianEigenmaps(3, affinity="precomputed").fit(sp.csr_array(path(n))).embedding_
        free, _ = sfa.free_responses(n, 3)
        distances.append(1 - np.abs(np.diag(free.T @ (y / np.linalg.norm(y, axis=0)))) / np.sqrt(n))
    for longer, shorter in zip(distances[1:], distances[:-1], strict=True):
        assert (
            longer < shorter / 8
        ).all()  # the end vertices have weight 1/T, and distances are proportional to its square
    assert (distances[-1] < 1e-4).all()


def test_transition_weights_give_sfa_on_indicators(rng):
    T, n_states = 1500, 6  # a lazy walk on a row of states
    moves = rng.choice([-1, 0, 1], T)
    states = np.zeros(T, dtype=int)
    for t in range(1, T):
        states[t] = np.clip(states[t - 1] + moves[t], 0, n_states - 1)
    indicators = np.eye(n_states)[states]
    linear = SFA(n_components=3).fit(indicators)
    found = LaplacianEigenmaps(3, affinity="precomputed").fit(transition(states).to_sparse())
    # the chain has two ends, whose effect is of order 1/T
    np.testing.assert_allclose(2 * found.eigenvalues_, linear.delta_values_, atol=4 / T)
    y = linear.transform(indicators)
    scaled = found.embedding_ / found.embedding_.std(axis=0)
    np.testing.assert_allclose(np.abs(np.corrcoef(y.T, scaled.T)[:3, 3:]), np.eye(3), atol=60 / T)


def test_circle_closed_form():
    n = 500
    angle = 2 * np.pi * np.arange(n) / n
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    harmonic = np.repeat(np.arange(1, 4), 2)
    chain = LaplacianEigenmaps(6, n_neighbors=3).fit(X)
    np.testing.assert_allclose(chain.eigenvalues_, 1 - np.cos(2 * np.pi * harmonic / n), rtol=SPECTRAL)
    # with the heat kernel the affinity is a circulant matrix: its spectrum is a Fourier transform
    w = np.exp(-50 * np.sum((X - X[0]) ** 2, axis=1))
    w[0] = 0
    kernel = LaplacianEigenmaps(6, affinity="rbf", gamma=50).fit(X)
    expected = [1 - w @ np.cos(k * angle) / w.sum() for k in harmonic]
    np.testing.assert_allclose(kernel.eigenvalues_, expected, rtol=SPECTRAL)


def test_strip_approaches_the_laplace_operator():
    length, width, sigma = 3.0, 0.5, 0.08
    x, y = np.meshgrid(np.arange(0.0125, length, 0.025), np.arange(0.0125, width, 0.025))
    X = np.column_stack([x.ravel(), y.ravel()])
    found = LaplacianEigenmaps(5, affinity="rbf", gamma=1 / (2 * sigma**2)).fit(X)
    # kernel of width s: lambda = s^2/2 (pi k / length)^2, up to the reflecting ends, of relative order
    # s/length
    self_weight = 0.025**2 / (2 * np.pi * sigma**2)
    expected = sigma**2 / 2 * (np.pi * np.arange(1, 6) / length) ** 2 / (1 - self_weight)
    np.testing.assert_allclose(found.eigenvalues_, expected, rtol=2 * sigma / length)
    for k, column in enumerate(found.embedding_.T, start=1):
        wave = np.cos(np.pi * k * X[:, 0] / length)
        assert abs(np.corrcoef(column, wave)[0, 1]) > 0.995  # the kernel is wide, which affects the ends


@pytest.mark.parametrize("n", [200, 1000])
@pytest.mark.parametrize("affinity", ["nearest_neighbors", "rbf"])
def test_agrees_with_scikit_learn(n, affinity):
    X = roll(n)
    options = {"affinity": affinity, "n_neighbors": 10, "gamma": 0.05}
    theirs = SpectralEmbedding(3, random_state=0, **options).fit(X)
    ours = LaplacianEigenmaps(3, **options).fit(X)
    signs = np.sign(np.sum(ours.embedding_ * theirs.embedding_, axis=0))
    atol = SPECTRAL * np.abs(ours.embedding_).max()
    np.testing.assert_allclose(ours.embedding_, theirs.embedding_ * signs, atol=atol)


@pytest.mark.parametrize("solver", ["elimination", "lanczos"])
def test_solvers_give_the_same_embedding(solver):
    X = roll(900)
    dense = LaplacianEigenmaps(4, eigen_solver="dense").fit(X)
    other = LaplacianEigenmaps(4, eigen_solver=solver).fit(X)
    assert other.solver_ == solver
    np.testing.assert_allclose(other.eigenvalues_, dense.eigenvalues_, rtol=SPECTRAL)
    np.testing.assert_allclose(
        other.embedding_, dense.embedding_, atol=SPECTRAL * np.abs(dense.embedding_).max()
    )


def test_the_order_of_the_points_does_not_matter(rng):
    X = roll(400)
    order = rng.permutation(400)
    y = LaplacianEigenmaps(3).fit_transform(X)
    shuffled = LaplacianEigenmaps(3).fit_transform(X[order])
    np.testing.assert_allclose(shuffled, y[order], atol=SPECTRAL * np.abs(y).max())


def test_repeated_fits_are_equal():
    X = roll(800)
    first, second = (LaplacianEigenmaps(3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.embedding_, second.embedding_)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_nystroem_is_exact_on_the_edges_of_training_points(rng, normalization):
    W = np.triu(rng.random((40, 40)), 1)
    W += W.T + np.diag(rng.random(40))
    if normalization == "unnormalized":  # the extension requires eigenvalues below the degrees
        i = np.arange(40)
        W = np.exp(-np.abs(i[:, None] - i) / 2) + np.diag(rng.random(40))
    found = LaplacianEigenmaps(3, affinity="precomputed", normalization=normalization).fit(W)
    if normalization == "unnormalized":  # self-loops have no effect on L
        W = W - np.diag(np.diag(W))
    np.testing.assert_allclose(found.transform(W), found.embedding_, atol=SPECTRAL)
    np.testing.assert_allclose(found.transform(sp.csr_array(W)), found.embedding_, atol=SPECTRAL)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_nystroem_by_definition(rng, normalization):
    X, new = rng.standard_normal((30, 2)), rng.standard_normal((4, 2))
    found = LaplacianEigenmaps(2, affinity="rbf", gamma=0.7, normalization=normalization).fit(X)
    W = heat_kernel(new, X, 0.7)
    degrees = heat_kernel(X, X, 0.7).sum(axis=1) - 1
    usable = W.sum(axis=1) > found.eigenvalues_.max() if normalization == "unnormalized" else np.full(4, True)
    expected = [nystroem(w, found.embedding_, found.eigenvalues_, normalization, degrees) for w in W[usable]]
    if usable.any():
        np.testing.assert_allclose(found.transform(new[usable]), expected, rtol=SPECTRAL, atol=SPECTRAL)
    if not usable.all():
        with pytest.raises(ValueError, match="extended"):
            found.transform(new)


@pytest.mark.parametrize("affinity", ["nearest_neighbors", "rbf"])
def test_new_points_are_mapped_between_their_neighbours(affinity):
    # outputs of held-out points of a smooth curve are close to interpolation along the curve
    angle = np.linspace(0, 1.5 * np.pi, 600)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    held_out = np.arange(600) % 5 == 2
    found = LaplacianEigenmaps(2, affinity=affinity, n_neighbors=7, gamma=300.0).fit(X[~held_out])
    y = found.transform(X[held_out])
    for k in range(2):
        between = np.interp(angle[held_out], angle[~held_out], found.embedding_[:, k])
        assert np.corrcoef(y[:, k], between)[0, 1] > 0.9999


@pytest.mark.parametrize("n_features", [2, 20])
@pytest.mark.parametrize("affinity", ["nearest_neighbors", "rbf"])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_transform_is_continuous_at_training_points(rng, affinity, normalization, n_features):
    X = np.zeros((200, n_features))
    X[:, :2] = make_moons(200, noise=0.15, random_state=0)[0]
    X += 0.01 * rng.standard_normal(X.shape)
    found = LaplacianEigenmaps(3, affinity=affinity, gamma=30.0, normalization=normalization).fit(X)
    y, std = found.embedding_, found.embedding_.std(axis=0)
    np.testing.assert_allclose(found.transform(X[::-1]) / std, y[::-1] / std, atol=SPECTRAL)
    shifted = X + 1e-9 * rng.choice([-1, 1], X.shape)
    np.testing.assert_allclose(found.transform(shifted) / std, y / std, atol=1e-6)


@pytest.mark.parametrize("affinity", ["nearest_neighbors", "rbf"])
def test_output_of_a_point_outside_the_fit_is_close_to_its_embedding(affinity):
    X = roll(150)  # the output of a point that was left out of the fit is close to its embedding
    whole = LaplacianEigenmaps(2, affinity=affinity, gamma=0.1, normalization="symmetric").fit(X)
    for i in (3, 50, 149):
        found = LaplacianEigenmaps(2, affinity=affinity, gamma=0.1, normalization="symmetric")
        found.fit(np.delete(X, i, axis=0))
        signs = np.sign(np.sum(found.embedding_ * np.delete(whole.embedding_, i, axis=0), axis=0))
        gap = np.abs(found.transform(X[[i]])[0] * signs - whole.embedding_[i])
        assert (gap < 0.5 * whole.embedding_.std(axis=0)).all()


def test_ties_among_neighbours_change_outputs_little():
    i, j = np.meshgrid(np.arange(12.0), np.arange(7.0))
    X = np.column_stack([i.ravel(), j.ravel()])  # most points have several farthest neighbours
    found = LaplacianEigenmaps(2).fit(X)
    np.testing.assert_allclose(found.transform(X), found.embedding_, atol=EXACT)
    gap = np.abs(found.transform(X + 1e-9) - found.embedding_)
    assert (gap < 0.5 * found.embedding_.std(axis=0)).all()


def test_far_new_points_have_the_output_of_their_nearest_neighbour():
    X = np.column_stack([np.linspace(0, 1, 50), np.zeros(50)])
    found = LaplacianEigenmaps(1, affinity="rbf", gamma=50.0).fit(X)
    far = found.transform([[1e6, 0.0]])  # the kernel itself is zero there in double precision
    np.testing.assert_allclose(far, found.embedding_[-1:], rtol=SPECTRAL)


def test_training_points_of_small_degree_have_their_unnormalized_coordinates(rng):
    X = rng.standard_normal((60, 2))
    found = LaplacianEigenmaps(6, affinity="rbf", gamma=1.0, normalization="unnormalized").fit(X)
    assert (found.eigenvalues_[-1] > found.degrees_ + 1).any()
    np.testing.assert_allclose(found.transform(X), found.embedding_, atol=SPECTRAL)
    with pytest.raises(ValueError, match="extended"):
        found.transform(X[[found.degrees_.argmin()]] + 0.3)


def test_eigenvalues_beyond_one_are_extended(rng):
    X = rng.standard_normal((12, 2))
    found = LaplacianEigenmaps(11, affinity="rbf", gamma=0.3).fit(X)
    assert found.eigenvalues_.max() > 1.05
    y = found.transform(X + 1e-12)
    np.testing.assert_allclose(y, found.embedding_, atol=SPECTRAL)


def test_disconnected_graphs_are_counted():
    X, y = make_blobs([30, 50, 20], centers=[[0, 0], [100, 0], [0, 100]], random_state=0)
    with pytest.warns(UserWarning, match="3 connected components.*2 of 3"):
        found = LaplacianEigenmaps(3).fit(X)
    assert found.n_connected_components_ == 3
    assert (found.eigenvalues_[:2] == 0).all() and found.eigenvalues_[2] > 0
    for label in range(3):
        assert np.ptp(found.embedding_[y == label, :2], axis=0).max() == 0
    assert len(np.unique(found.embedding_[:, :2], axis=0)) == 3
    with pytest.warns(UserWarning, match="3 connected components"):
        LaplacianEigenmaps(2, affinity="rbf").fit(X)  # connected in name, by weights below rounding


def test_connected_graphs_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LaplacianEigenmaps().fit(roll(100))


def test_lists_of_sequences_give_lists():
    X = roll(90)
    pieces = [X[:40], X[40:]]
    out = LaplacianEigenmaps(2).fit_transform(pieces)
    np.testing.assert_array_equal(np.concatenate(out), LaplacianEigenmaps(2).fit_transform(X))
    assert [len(part) for part in out] == [40, 50]


def test_output_as_frames():
    found = LaplacianEigenmaps(2).set_output(transform="pandas").fit(roll(50))
    assert list(found.transform(roll(50)).columns) == ["laplacianeigenmaps0", "laplacianeigenmaps1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components.*1"),
        ({"n_components": 40}, "n_components=40.*40.*39"),
        ({"affinity": "cosine"}, "affinity.*'nearest_neighbors', 'rbf', 'precomputed'"),
        ({"normalization": "none"}, "normalization"),
        ({"eigen_solver": "amg"}, "eigen_solver"),
        ({"n_neighbors": 1}, "n_neighbors.*2"),
        ({"n_neighbors": 41}, "n_neighbors=41.*40"),
        ({"affinity": "rbf", "gamma": -1.0}, "gamma.*-1.0"),
        ({"affinity": "precomputed"}, r"\(40, 3\)"),
    ],
)
def test_errors_name_the_argument(options, message):
    with pytest.raises(ValueError, match=message):
        LaplacianEigenmaps(**options).fit(roll(40))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_affinities_are_checked(make):
    W = ring(8)
    embed = LaplacianEigenmaps(2, affinity="precomputed")
    negative, lopsided, lonely = W.copy(), W.copy(), W.copy()
    negative[2, 3] = negative[3, 2] = -0.5
    lopsided[5, 6] = 2
    lonely[4] = lonely[:, 4] = 0
    with pytest.raises(ValueError, match=r"X\[2, 3\].*-0.5.*0"):
        embed.fit(make(negative))
    with pytest.raises(ValueError, match=r"X\[5, 6\].*2.*X\[6, 5\].*1"):
        embed.fit(make(lopsided))
    with pytest.raises(ValueError, match=r"X\[4\].*random_walk"):
        embed.fit(make(lonely))
    with pytest.warns(UserWarning, match="2 connected components"):
        embed.set_params(normalization="unnormalized").fit(make(lonely))


def test_new_points_without_affinity_are_refused():
    found = LaplacianEigenmaps(1, affinity="precomputed").fit(path(6))
    with pytest.raises(ValueError, match=r"X\[1\]"):
        found.transform(np.vstack([path(6)[0], np.zeros(6)]))


def test_new_points_are_refused_for_an_eigenvalue_of_one():
    found = LaplacianEigenmaps(2, affinity="precomputed").fit(ring(4))  # eigenvalues 1, 1, 2
    with pytest.raises(ValueError, match="[01].*1"):
        found.transform(ring(4))


def test_masked_affinities_are_missing(rng):
    W = rng.random((12, 12))
    W += W.T
    masked = np.ma.masked_array(W, mask=np.zeros(W.shape, dtype=bool))
    expected = LaplacianEigenmaps(2, affinity="precomputed").fit(W)
    fitted = LaplacianEigenmaps(2, affinity="precomputed").fit(masked)
    np.testing.assert_array_equal(fitted.embedding_, expected.embedding_)
    masked[3, 4] = masked[4, 3] = np.ma.masked
    with pytest.raises(ValueError, match="X contains NaN"):
        LaplacianEigenmaps(2, affinity="precomputed").fit(masked)
    with pytest.raises(ValueError, match="X contains NaN"):
        expected.transform(masked)


@pytest.mark.parametrize("n_features", [2, 20])
@pytest.mark.parametrize("offset", [1e6, 1e8, -3e8])
def test_a_large_offset_does_not_increase_rounding_errors(offset, n_features):
    X = np.zeros((120, n_features))
    # Multiples of 2^-10, to which the offset can be added exactly.
    X[:, :2] = np.round(roll(120)[:, ::2] * 2.0**10) / 2.0**10
    moved = X + np.round(offset)
    for options in (
        {"n_neighbors": 9},
        {"affinity": "rbf", "gamma": 0.05},
        {"affinity": "rbf", "gamma": "median"},
    ):
        expected = LaplacianEigenmaps(3, **options).fit(X)
        found = LaplacianEigenmaps(3, **options).fit(moved)
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=SPECTRAL)
        np.testing.assert_allclose(found.transform(moved + 0.25), expected.transform(X + 0.25), atol=SPECTRAL)
    np.testing.assert_allclose(
        graph_of_heat(moved, 2.0).to_sparse().toarray(),
        graph_of_heat(X, 2.0).to_sparse().toarray(),
        atol=EXACT,
    )
    np.testing.assert_array_equal(
        nearest_neighbors(moved, 5).to_sparse().toarray(), nearest_neighbors(X, 5).to_sparse().toarray()
    )


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("factor", [1e200, 1e-200, 1e300])
def test_scaling_the_weights_scales_the_results(make, normalization, factor):
    W = path(30) + 0.3 * ring(30)
    options = {"affinity": "precomputed", "normalization": normalization}
    usual = LaplacianEigenmaps(3, **options).fit(make(W))
    scaled = LaplacianEigenmaps(3, **options).fit(make(W * factor))
    unit = factor if normalization == "unnormalized" else 1.0
    length = factor**0.5 if normalization == "random_walk" else 1.0
    np.testing.assert_allclose(scaled.eigenvalues_ / unit, usual.eigenvalues_, rtol=SPECTRAL)
    np.testing.assert_allclose(scaled.embedding_ * length, usual.embedding_, atol=SPECTRAL)
    np.testing.assert_allclose(scaled.transform(make(W * factor)) * length, usual.embedding_, atol=SPECTRAL)


def test_weights_whose_sums_overflow_are_refused():
    with pytest.raises(ValueError, match="too large"):
        LaplacianEigenmaps(2, affinity="precomputed").fit((path(6) + np.eye(6)) * 1.7e308)


def test_a_training_graph_equals_its_matrix(rng):
    X = rng.standard_normal((30, 3))
    graph = serial(X[:, 0], 5)
    matrix = LaplacianEigenmaps(3, affinity="precomputed").fit(graph.to_sparse())
    for found in (
        LaplacianEigenmaps(3, affinity="precomputed").fit(graph),
        LaplacianEigenmaps(3, affinity=graph).fit(X),
    ):
        np.testing.assert_allclose(found.eigenvalues_, matrix.eigenvalues_, rtol=EXACT)
        np.testing.assert_allclose(found.embedding_, matrix.embedding_, atol=EXACT)
    with pytest.raises(ValueError, match=r"\bX\b.*graph.*affinity='precomputed'"):
        LaplacianEigenmaps(3).fit(graph)


def test_an_affinity_may_be_a_function(rng):
    X, new = rng.random((30, 4)), rng.random((5, 4))
    found = LaplacianEigenmaps(3, affinity=cosine_similarity).fit(X)
    precomputed = LaplacianEigenmaps(3, affinity="precomputed").fit(cosine_similarity(X))
    np.testing.assert_allclose(found.embedding_, precomputed.embedding_, atol=EXACT)
    np.testing.assert_allclose(
        found.transform(new), precomputed.transform(cosine_similarity(new, X)), atol=EXACT
    )
    for function, message in (
        (lambda a, b: np.ones((2, 2)), r"\bX\b"),
        (lambda a, b: -np.ones((len(a), len(b))), "finite weights"),
        (lambda a, b: np.tile(np.arange(len(b)), (len(a), 1)), "symmetric"),
    ):
        with pytest.raises(ValueError, match=message):
            LaplacianEigenmaps(affinity=function).fit(X)


def test_distances_give_the_graph_of_nearest_neighbours():
    """As `docs/spectral.md` describes."""
    X = roll(80)
    points = LaplacianEigenmaps(3, n_neighbors=7).fit(X)
    W = kneighbors_graph(pairwise_distances(X), 6, metric="precomputed")
    found = LaplacianEigenmaps(3, affinity="precomputed").fit((W + W.T) / 2)
    np.testing.assert_allclose(found.embedding_, points.embedding_, atol=SPECTRAL)


def test_numbers_of_landmarks_are_ignored_with_a_warning():
    X = roll(60)
    with pytest.warns(FutureWarning, match="n_landmarks is ignored.*version 2.0"):
        found = LaplacianEigenmaps(1, affinity="rbf", gamma="median", n_landmarks=5).fit(X)
    expected = LaplacianEigenmaps(1, affinity="rbf", gamma="median", n_landmarks="auto").fit(X)
    np.testing.assert_array_equal(found.embedding_, expected.embedding_)


def test_a_heat_kernel_too_large_for_memory_is_refused(monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: 1)
    with pytest.raises(ValueError, match="kernel of 60 points.*GiB.*nearest_neighbors"):
        LaplacianEigenmaps(1, affinity="rbf").fit(roll(60))


@pytest.mark.filterwarnings("ignore:The graph has")
def test_rules_for_the_width_by_definition():
    X = roll(60)
    d2 = np.array([[np.sum((x - y) ** 2) for y in X] for x in X])
    median = LaplacianEigenmaps(1, affinity="rbf", gamma="median").fit(X)
    np.testing.assert_allclose(median.gamma_, 0.5 / np.median(d2[np.triu_indices(60, 1)]), rtol=EXACT)
    neighbors = LaplacianEigenmaps(1, affinity="rbf", gamma="neighbors").fit(X)
    np.testing.assert_allclose(neighbors.gamma_, 0.5 / np.sort(d2, axis=1)[:, 6].mean(), rtol=EXACT)
    tuned = LaplacianEigenmaps(1, affinity="rbf", gamma="self_tuning").fit(X)
    scale = np.sqrt(np.sort(d2, axis=1)[:, 7])  # the first is the point itself
    W = np.exp(-d2 / np.outer(scale, scale)) - np.eye(60)
    np.testing.assert_allclose(tuned.affinity_matrix_, W, atol=EXACT)
    assert tuned.gamma_ is None and LaplacianEigenmaps(1, affinity="rbf").fit(X).gamma_ == 1 / 3
    for rule in ("median", "neighbors", "self_tuning"):
        copies = np.repeat(X[:9], 9, axis=0)
        found = LaplacianEigenmaps(2, affinity="rbf", gamma=rule).fit(copies)
        assert np.isfinite(found.transform(X)).all()


@pytest.mark.parametrize("gamma", ["self_tuning", "median"])
def test_local_scales_of_new_points_are_those_of_old_ones(rng, gamma):
    X = roll(100)
    found = LaplacianEigenmaps(2, affinity="rbf", gamma=gamma).fit(X)
    y = found.transform(X + 1e-9 * rng.choice([-1, 1], X.shape))
    np.testing.assert_allclose(y, found.embedding_, atol=1e-6 * np.abs(found.embedding_).max())


def test_parameters_can_be_searched_in_a_pipeline():
    X, y = make_moons(150, noise=0.1, random_state=0)
    pipeline = make_pipeline(LaplacianEigenmaps(3, affinity="rbf"), LogisticRegression(C=1e6))
    grid = {"laplacianeigenmaps__gamma": [0.01, 20.0, "median"]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_["laplacianeigenmaps__gamma"] == 20.0 and search.best_score_ > 0.9


@pytest.mark.parametrize("n_features", [6, 40])
@pytest.mark.parametrize("options", [{}, {"gamma": 0.3}, {"gamma": "self_tuning"}])
def test_sparse_points_equal_dense_points(rng, n_features, options):
    X = rng.random((80, n_features)) * (rng.random((80, n_features)) < 0.4)
    new = X[:9] + 0.01 * (rng.random((9, n_features)) < 0.2)
    estimator = LaplacianEigenmaps(2, affinity="rbf" if options else "nearest_neighbors", **options)
    expected = clone(estimator).fit(X)
    for make in (sp.csr_array, sp.coo_matrix):
        found = clone(estimator).fit(make(X))
        np.testing.assert_allclose(found.embedding_, expected.embedding_, atol=SPECTRAL)
        for rows in (make(new), new):
            np.testing.assert_allclose(found.transform(rows), expected.transform(new), atol=SPECTRAL)
            np.testing.assert_allclose(expected.transform(rows), expected.transform(new), atol=SPECTRAL)
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(sp.csr_array(X * np.nan))
