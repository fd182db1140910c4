"""Delta values on held-out rows, compared with separate fits; warnings of overfitting."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from probsfa import graphs
from probsfa._validation import Sequences
from probsfa.expansions import Polynomial
from probsfa.sfa import IGSFA, SFA, XSFA, GraphSFA, GraphSFARegressor, HierarchicalSFA, Layer, _expand
from probsfa.sfa._expand import (
    Expander,
    check_overfitting,
    held_out_delta,
    noise_delta,
    split_into_folds,
    warn_of_overfitting,
)


def test_folds_are_consecutive_and_begin_with_sequences_where_these_are_near():
    assert split_into_folds((10,), 2) == [slice(0, 5), slice(5, 10)]
    assert split_into_folds((9, 11), 2) == [slice(0, 9), slice(9, 20)]
    # Folds of 20 rows: the start of a sequence replaces a boundary within a quarter of a fold (5 rows).
    assert split_into_folds((24, 76))[0] == slice(0, 24)
    assert split_into_folds((30, 70))[0] == slice(0, 20)
    assert split_into_folds((3,)) == [slice(0, 1), slice(1, 2), slice(2, 3)]


def test_a_delta_value_is_the_mean_over_folds_and_lacking_variance_counts_as_noise():
    assert held_out_delta([[0.1], [0.3]], [[1.0], [3.0]]) == pytest.approx([0.1])
    assert held_out_delta([[0.0]], [[0.0]]) == pytest.approx([2.0])
    assert held_out_delta([[0.0]], [[0.05]]) == pytest.approx([1.0])


def test_the_delta_value_of_noise_depends_on_the_number_of_rows(rng):
    assert noise_delta(4) == 1.0 and noise_delta(10**6) == 1.8
    for n in (50, 200):
        x = rng.standard_normal((2000, n))
        deltas = np.mean(np.diff(x, axis=1) ** 2, axis=1) / x.var(axis=1)
        assert np.mean(deltas < noise_delta(n)) < 0.05


@pytest.mark.parametrize("lengths", [(60,), (25, 35)])
def test_held_out_delta_values_are_those_of_separate_fits(rng, monkeypatch, lengths):
    X = rng.standard_normal((60, 4))
    found = {}
    monkeypatch.setattr(
        _expand, "warn_of_overfitting", lambda training, held_out, *_, **__: found.update(d=held_out)
    )
    expander = Expander.fit(Polynomial(2), X)
    check_overfitting(
        Sequences(X, lengths), expander, np.zeros(2), 14, lag=1, rank_tol=None, remedy="", stacklevel=1
    )
    ours = found["d"]
    changes, squares = [], []
    start = np.cumsum([0, *lengths])
    for fold in split_into_folds(lengths):
        pieces = [X[a:b] for a, b in zip(start[:-1], start[1:], strict=True)]
        train_pieces, held_out_pieces = [], []
        for fold_of_piece in split_into_folds(lengths):
            for a, piece in zip(start[:-1], pieces, strict=True):
                first, last = max(a, fold_of_piece.start), min(a + len(piece), fold_of_piece.stop)
                if first < last:
                    (held_out_pieces if fold_of_piece == fold else train_pieces).append(X[first:last])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = SFA(2, expansion=Polynomial(2)).fit(train_pieces).transform(held_out_pieces)
        changes.append(np.concatenate([np.diff(y, axis=0) for y in outputs]).__pow__(2).mean(axis=0))
        squares.append(np.mean(np.concatenate(outputs) ** 2, axis=0))
    np.testing.assert_allclose(ours, held_out_delta(changes, squares), rtol=1e-6)


def test_the_warning_names_the_output_both_delta_values_and_the_remedy():
    with pytest.warns(UserWarning, match="Output 1"):
        warn_of_overfitting(np.array([0.1, 0.1]), np.array([0.1, 0.9]), 1000, "Use less.", stacklevel=1)
    with pytest.warns(UserWarning, match="Output 0.*noise.*1.95.*1.5"):
        warn_of_overfitting(np.array([1.5]), np.array([1.95]), 1000, "Use less.", stacklevel=1)
    warn_of_overfitting(np.array([0.01, 0.4]), np.array([0.3, 0.9]), 1000, "Use less.", stacklevel=1)


def test_cubic_sfa_of_noise_is_reported_to_overfit():
    X = np.random.default_rng(0).standard_normal((60, 4))
    with pytest.warns(UserWarning, match="held-out rows.*expansion"):
        SFA(2, expansion=Polynomial(3)).fit(X)
    with pytest.warns(UserWarning, match="held-out rows"):
        SFA(2, expansion=Polynomial(3), missing="skip").fit(np.insert(X, 30, np.nan, axis=0))


def test_xsfa_of_noise_is_reported_to_overfit():
    X = np.random.default_rng(0).standard_normal((300, 3))
    with pytest.warns(UserWarning, match="held-out rows.*expansion"):
        XSFA(1).fit(X)


@pytest.mark.parametrize("n", [60, 150])
def test_good_fits_cause_no_warning(n):
    t = np.linspace(0, 2 * np.pi, n)
    X = np.column_stack([np.sin(t) + np.cos(11 * t) ** 2, np.cos(11 * t)])
    model = SFA(1, expansion=Polynomial(3)).fit(X)  # at most 20 rows for each direction
    assert n <= 20 * model.rank_
    assert abs(np.corrcoef(model.transform(X)[:, 0], np.sin(t))[0, 1]) > 0.99


@pytest.mark.parametrize("graph", ["temporal", graphs.Temporal(lag=2)])
@pytest.mark.parametrize("make", [GraphSFA, IGSFA])
def test_estimators_on_the_graph_of_time_warn_as_sfa_does(rng, make, graph):
    noise = rng.standard_normal((60, 4))
    with pytest.warns(UserWarning, match="held-out rows") as caught:
        make(2, graph=graph, expansion=Polynomial(3)).fit(noise)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(2, graph=graph, expansion=Polynomial(3), shrinkage=0.5).fit(noise)
        make(2, graph=graph).fit(noise)
        make(2, graph=graphs.Serial(n_groups=5), expansion=Polynomial(3)).fit(noise, noise[:, 0])
        t = np.arange(200)
        waves = np.column_stack([np.sin(t / 20) + np.cos(t) ** 2, np.cos(t)])
        make(2, graph=graph, expansion=Polynomial(2)).fit(waves)


CUBIC = Polynomial(3)


@pytest.mark.parametrize("method", ["sfa", "igsfa"])
@pytest.mark.parametrize("graph", [None, graphs.Temporal(lag=2)])
def test_hierarchies_of_noise_are_reported_to_overfit(rng, method, graph):
    noise = rng.standard_normal((60, 4))
    bottom = Layer(2, field=2, expansion=CUBIC, method=method)
    for layers in (
        [Layer(2, expansion=CUBIC, method=method)],
        [bottom, Layer(2, expansion=CUBIC, method=method)],
        [bottom, Layer(2, field=1, expansion=CUBIC, method=method)],  # two top nodes
        [replace(bottom, share_weights=True), Layer(1)],
        [replace(bottom, share_weights=True), Layer(2, field=1, expansion=CUBIC, share_weights=True)],
    ):
        with pytest.warns(UserWarning, match="held-out rows.*expansions") as caught:
            HierarchicalSFA(layers, graph=graph).fit([noise[:25], noise[25:]])
        assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize("method", ["sfa", "igsfa"])
def test_hierarchies_that_are_slow_on_held_out_rows_or_not_tested_cause_no_warning(rng, method):
    t = np.linspace(0, 2 * np.pi, 300)
    fast = np.cos(np.outer(t, [11, 7]))
    X = np.column_stack([np.sin(t) + fast[:, 0] ** 2, fast[:, 0], np.cos(t) + fast[:, 1] ** 2, fast[:, 1]])
    noise = rng.standard_normal((60, 4))
    quadratic = Layer(2, field=2, expansion=Polynomial(2), method=method)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HierarchicalSFA([quadratic, Layer(1, expansion=CUBIC, method=method)]).fit(X)
        HierarchicalSFA([Layer(2, field=2, method=method), Layer(2, method=method)]).fit(noise)  # linear
        HierarchicalSFA([Layer(2, expansion=CUBIC, method=method)], graph="serial").fit(noise, noise[:, 0])
        HierarchicalSFA([Layer(2, expansion=CUBIC, method="pca")]).fit(noise)


def test_held_out_delta_values_of_one_node_are_those_of_sfa(rng, monkeypatch):
    X = rng.standard_normal((90, 3)).cumsum(axis=0)
    found = []
    monkeypatch.setattr(
        _expand, "warn_of_overfitting", lambda *values, **_: found.append(np.hstack(values[:3]))
    )
    SFA(2, lag=2, expansion=Polynomial(2)).fit([X[:40], X[40:]])
    HierarchicalSFA([Layer(2, expansion=Polynomial(2))], lag=2).fit([X[:40], X[40:]])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_a_regressor_that_is_good_on_held_out_samples_does_not_warn_of_few_rows():
    # Sensors around a circle: 24 samples of rank 23, all of them smooth in the angle.
    angles = np.arange(0, 360, 15.0)
    sensors = np.exp(8 * np.cos(np.radians(angles[:, None] - np.arange(0, 360, 12.0))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GraphSFARegressor(period=360).fit(sensors, angles)
    assert model.held_out_score_ > 0.9
    with pytest.warns(UserWarning, match="have rank 23"):
        GraphSFARegressor(2, period=360, shrinkage=None, expansion=None).fit(sensors, angles)


@pytest.mark.parametrize(("spread", "warned"), [(0.5, False), (0.7, True)])
def test_a_regressor_warns_of_angles_below_half_of_the_variance(spread, warned):
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 360, 60)
    circle = np.column_stack([np.sin(np.radians(angles)), np.cos(np.radians(angles))])
    X = circle + spread * rng.standard_normal((60, 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = GraphSFARegressor(period=360).fit(X, angles)
    assert (
        (model.held_out_score_ < 0.5) == warned == ("45 degrees" in "".join(str(w.message) for w in caught))
    )
    assert 0.3 < model.held_out_score_ < 0.7
