"""Expansions against their definitions, and the common interface."""

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from probsfa import SFA
from probsfa.expansions import (
    Clip,
    Concatenation,
    FourierFeatures,
    Identity,
    Polynomial,
    Power,
    RadialBasis,
    _fourier,
)
from probsfa.expansions._base import is_stateless
from tests.oracles.xsfa import monomials
from tests.sampling import parametrize_with_checks
from tests.tolerances import EXACT, SPECTRAL, mc_tolerance

ALL = [
    Clip(),
    Clip(limits=2.0),
    Concatenation([Identity(), Power()]),
    Concatenation([Power(), FourierFeatures(3, random_state=0)]),
    FourierFeatures(4, random_state=0),
    Identity(),
    Polynomial(3),
    Polynomial(2, whiten=True),
    Power(),
    Power(0.5, signed=True, include_input=False),
    RadialBasis(4, random_state=0),
    RadialBasis(4, centers="sample", include_input=True, random_state=0),
]


@parametrize_with_checks(ALL)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.parametrize("expansion", ALL, ids=repr)
def test_outputs_have_names_and_rows_are_expanded_independently(expansion, rng):
    X = pd.DataFrame(rng.standard_normal((30, 3)), columns=["a", "b", "c"])
    Z = expansion.set_output(transform="default").fit(X).transform(X)
    assert Z.shape == (30, len(expansion.get_feature_names_out()))
    assert len(set(expansion.get_feature_names_out())) == Z.shape[1]
    assert_allclose(expansion.transform(X.iloc[7:9]), Z[7:9], rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("expansion", ALL, ids=repr)
def test_a_list_of_sequences_gives_a_list(expansion, rng):
    X = rng.standard_normal((12, 2))
    pieces = expansion.fit([X[:5], X[5:]]).transform([X[:5], X[5:]])
    assert isinstance(pieces, list) and [len(p) for p in pieces] == [5, 7]
    assert_allclose(np.concatenate(pieces), expansion.fit(X).transform(X), rtol=EXACT, atol=EXACT)


def test_set_output_returns_frames(rng):
    X = rng.standard_normal((12, 2))
    power = Power().set_output(transform="pandas").fit(X)
    assert list(power.transform(X).columns) == ["x0", "x1", "|x0|^0.8", "|x1|^0.8"]
    assert [len(frame) for frame in power.fit_transform([X[:5], X[5:]])] == [5, 7]


@pytest.mark.parametrize("expansion", [e for e in ALL if is_stateless(e)], ids=repr)
def test_a_stateless_expansion_accepts_any_leading_axes_without_fit(expansion, rng):
    X = rng.standard_normal((4, 5, 3))
    expected = np.stack([expansion.fit(x).transform(x) for x in X])
    assert_allclose(type(expansion)(**expansion.get_params(deep=False)).expand(X), expected, rtol=EXACT)


def test_which_expansions_need_no_data():
    assert [is_stateless(e) for e in ALL] == [
        isinstance(e, (Identity, Power))
        or (isinstance(e, Polynomial) and not e.whiten)
        or repr(e) == repr(ALL[2])
        for e in ALL
    ]
    assert not is_stateless(StandardScaler())


@pytest.mark.parametrize(("n_features", "degree"), [(1, 1), (1, 5), (2, 3), (4, 3), (5, 2)])
def test_polynomial_has_all_monomials_in_order(n_features, degree, rng):
    X = rng.standard_normal((20, n_features))
    assert_allclose(Polynomial(degree).fit_transform(X), monomials(X, degree), rtol=EXACT)
    assert_allclose(Polynomial(degree).expand(X[:0]), monomials(X[:0], degree))


def test_four_inputs_at_degree_three_are_the_34_dimensions_of_the_paper():
    assert Polynomial(3).fit(np.ones((1, 4))).transform(np.ones((1, 4))).shape == (1, 34)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_whitened_polynomials_lack_singular_directions_in_any_units(scale, rng):
    # On a circle x^2 + y^2 is constant: degree 2 spans x, y, xy and x^2 - y^2, four dimensions of five.
    angle = rng.uniform(0, 2 * np.pi, 200)
    X = np.column_stack([scale * np.cos(angle), np.sin(angle)])
    Z = Polynomial(2, whiten=True).fit_transform(X)
    assert Z.shape == (200, 4)
    assert_allclose(Z.mean(axis=0), 0, atol=SPECTRAL)
    assert_allclose(Z.T @ Z / 200, np.eye(4), atol=SPECTRAL)


def test_power_is_its_formula_entry_by_entry(rng):
    X = rng.standard_normal((6, 3))
    X[0, 0] = 0.0
    plain = [[*row, *(abs(x) ** 0.8 for x in row)] for row in X.tolist()]
    signed = [[abs(x) ** 0.5 * (-1 if x < 0 else 1) for x in row] for row in X.tolist()]
    assert_allclose(Power().fit_transform(X), plain, rtol=EXACT)
    assert_allclose(Power(0.5, signed=True, include_input=False).fit_transform(X), signed, rtol=EXACT)


def test_radial_basis_is_the_gaussian_kernel_to_its_centres(rng):
    X = rng.standard_normal((40, 3))
    basis = RadialBasis(7, gamma=0.3, random_state=0).fit(X)
    assert basis.centers_.shape == (7, 3)
    assert_allclose(basis.transform(X), rbf_kernel(X, basis.centers_, gamma=0.3), rtol=EXACT)


def test_radial_basis_on_few_distinct_rows_uses_each_once():
    X = np.repeat([[0.0], [2.0]], 10, axis=0)
    basis = RadialBasis(50).fit(X)
    assert_array_equal(basis.centers_, [[0.0], [2.0]])
    assert basis.gamma_ == 0.5 / 2.0**2


def test_fourier_features_approach_the_gaussian_kernel(rng):
    X = rng.standard_normal((15, 2))
    F = 20_000
    Z = FourierFeatures(F, gamma=0.7, random_state=1).fit_transform(X)
    # Every entry is a mean of F cosines, whose variance is at most 1/2.
    assert_allclose(Z @ Z.T, rbf_kernel(X, gamma=0.7), atol=mc_tolerance(0.5, F))


def test_concatenation_is_hstack_in_order(rng):
    X = rng.standard_normal((10, 2))
    members = [Polynomial(2), StandardScaler(), Power(0.5)]
    expected = np.hstack([m.fit_transform(X) for m in members])
    assert_allclose(Concatenation(members).fit_transform(X), expected, rtol=EXACT)


def test_clip_does_not_change_training_data_and_bounds_other_data(rng):
    X = rng.standard_normal((50, 2))
    clip = Clip().fit(X)
    assert_array_equal(clip.transform(X), X)
    far = clip.transform(10 * X)
    assert_array_equal(far.max(axis=0), X.max(axis=0))
    assert_array_equal(far.min(axis=0), X.min(axis=0))
    narrow = Clip(limits=1.0).fit(X)
    assert_allclose(narrow.high_ - narrow.low_, 2 * X.std(axis=0), rtol=EXACT)


@pytest.mark.parametrize(
    ("expansion", "message"),
    [
        (Power(0.0), "exponent.*0.0"),
        (Power("0.8"), "exponent"),
        (Polynomial(0), "degree.*1.*0"),
        (Polynomial(2.0), "degree"),
        (RadialBasis(0), "n_centers.*1"),
        (RadialBasis(centers="grid"), "centers"),
        (RadialBasis(centers=[[0.0]]), r"\bX\b"),
        (RadialBasis(gamma=-1.0), "gamma"),
        (FourierFeatures(gamma="auto"), "gamma"),
        (FourierFeatures(0), "n_frequencies"),
        (Clip(limits="iqr"), "limits"),
        (Clip(limits=0), "limits"),
        (Concatenation([]), "expansions"),
        (Concatenation([Power(), 3]), "expansions"),
    ],
    ids=lambda value: repr(value) if not isinstance(value, str) else None,
)
def test_bad_parameters_are_named(expansion, message):
    with pytest.raises(ValueError, match=message):
        expansion.fit(np.arange(8.0).reshape(4, 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda X: Polynomial(10**6).fit_transform(X),
            r"degree=1000000 gives 500,001,500,000 monomials of 2 columns",
        ),
        (lambda X: Polynomial(10**6, whiten=True).fit(X), r"degree=1000000 gives 500,001,500,000 monomials"),
        (lambda X: Polynomial(10**9).fit_transform(np.ones((1, 999))), r"degree=1000000000 gives inf"),
        (lambda X: FourierFeatures(10**12).fit(X), r"n_frequencies=10{12} "),
        (
            lambda X: SFA(expansion=Polynomial(10**6)).fit(X),
            r"Polynomial\(degree=1000000\) returns 500,001,500,000",
        ),
        (
            lambda X: SFA(expansion=Polynomial(10**6)).fit(X + 9),
            r"Polynomial\(degree=1000000\) returns 500,001,500,000",
        ),
        (
            lambda X: SFA(expansion=PolynomialFeatures(10**6)).fit(X),
            r"\(degree=1000000\) returns 500,001,500,000",
        ),
        (
            lambda X: SFA(expansion=FourierFeatures(10**9)).fit(X),
            r"\(n_frequencies=10{9}\) returns 2,000,000,000",
        ),
    ],
)
def test_expansions_larger_than_the_memory_are_errors_before_it_is_allocated(make, message, rng):
    # A million times the memory of a machine: nothing is allocated if a check is missing.
    with pytest.raises(ValueError, match=message + ".* GiB.*fewer|" + message + ".* GiB.*lower"):
        make(rng.standard_normal((200, 2)))


def test_fourier_features_check_the_memory_that_they_allocate(rng, monkeypatch):
    X = rng.standard_normal((1000, 3))
    expansion = FourierFeatures(200, random_state=0).fit(X)
    required = []
    monkeypatch.setattr(_fourier, "check_memory", lambda n_bytes, *_: required.append(n_bytes))
    tracemalloc.start()
    try:
        expansion.expand(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert required == [pytest.approx(peak, rel=0.01)]


@pytest.mark.filterwarnings("ignore:.*held-out rows")
def test_a_high_degree_does_not_overflow_the_check_of_conditioning(rng):
    X = rng.uniform(1.0, 1.1, (40, 1))
    assert SFA(1, expansion=Polynomial(400), rank_tol=1e-6).fit(X).rank_ >= 1


def test_whitening_constant_data_reports_why_it_cannot():
    with pytest.raises(ValueError, match="X is constant"):
        Polynomial(2, whiten=True).fit(np.ones((5, 2)))


def test_incomplete_rows_are_refused_with_their_place():
    X = np.ones((4, 2))
    X[2, 1] = np.nan
    with pytest.raises(ValueError, match="row 2, column 1"):
        Power().fit(X)


def test_monomials_are_ordered_by_degree_then_lexical():
    names = Polynomial(3).fit(np.ones((1, 2))).get_feature_names_out(["a", "b"]).tolist()
    literal = [
        "*".join(chosen)
        for degree in (1, 2, 3)
        for chosen in itertools.combinations_with_replacement("ab", degree)
    ]
    values = Polynomial(3).fit_transform([[2.0, 3.0]])[0]
    assert_allclose(values, [eval(term, {"a": 2.0, "b": 3.0}) for term in literal], rtol=EXACT)
    assert names[:4] == ["a", "b", "a^2", "a b"]


def test_fourier_frequencies_have_the_variance_of_the_kernel():
    found = FourierFeatures(500_000, gamma=0.7, random_state=0).fit(np.zeros((2, 4))).frequencies_
    assert abs(np.mean(found**2) - 2 * 0.7) < mc_tolerance(2 * 1.4**2, found.size)
