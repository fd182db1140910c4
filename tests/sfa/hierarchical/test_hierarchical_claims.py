"""Statements of the papers about hierarchies, on fixed seeds; benchmarks/ has the complete experiments."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from probsfa.datasets import make_half_moons
from probsfa.graphs import heat_kernel
from probsfa.sfa import SFA, HierarchicalSFA, Layer, cascade_layers


def _variance_within_moons(y, target):
    """Return the variance within half-moons as a fraction of the total variance."""
    return sum(np.var(y[target == k]) * np.mean(target == k) for k in (0, 1)) / np.var(y)


@pytest.mark.parametrize("draw", range(5))
def test_every_level_separates_new_points_of_half_moons_better(draw):
    train = make_half_moons(2000, random_state=draw).data
    moons = make_half_moons(2000, random_state=draw + 1000)
    model = HierarchicalSFA(cascade_layers(4, 4), graph=heat_kernel(train, 0.05)).fit(train)
    within_by_level = [
        _variance_within_moons(model.transform_layer(moons.data, level)[:, 0], moons.target)
        for level in range(4)
    ]
    assert all(later < earlier for earlier, later in zip(within_by_level, within_by_level[1:], strict=False))
    assert within_by_level[-1] < 0.10
    means = KMeans(2, n_init=10, random_state=0).fit(model.transform(train)[:, :1])
    assert adjusted_rand_score(moons.target, means.predict(model.transform(moons.data)[:, :1])) >= 0.95


def test_cascaded_polynomials_diverge_without_clipping():
    train = make_half_moons(2000, random_state=0).data
    new = make_half_moons(2000, random_state=1000).data
    graph = heat_kernel(train, 0.05)
    unclipped = HierarchicalSFA(cascade_layers(4, 4, clip=None), graph=graph).fit(train)
    clipped = HierarchicalSFA(cascade_layers(4, 4), graph=graph).fit(train)
    assert np.abs(unclipped.transform(new)[:, 0]).max() > 1e4
    assert np.abs(clipped.transform(new)[:, 0]).max() < 2


def test_a_hierarchy_overfits_less_than_sfa():
    layers = [Layer(3, field=6), Layer(3, field=2), Layer(3, field=2)]
    ratios = []
    for draw in range(15):
        rng = np.random.default_rng(draw)
        train, test = rng.standard_normal((25, 24)), rng.standard_normal((1000, 24))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The 25 rows have rank 24")
            direct = SFA(3).fit(train).transform(test).std()
        ratios.append(direct / HierarchicalSFA(layers).fit(train).transform(test).std())
    assert np.median(ratios) > 3
