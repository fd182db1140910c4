"""Permutations and sign changes of draws."""

import numpy as np

from probsfa.bayes.draws import Draws
from probsfa.bayes.relabelling.matching import Relabelling
from probsfa.bayes.relabelling.ordering import canonical_order, relabelled, reordered


def make_draws(rng, chains=2, n=5, d=3, k=2):
    shape = (chains, n)
    return Draws(
        rng.uniform(0.1, 0.9, (*shape, k)),
        rng.standard_normal((*shape, d, k)),
        rng.uniform(0.1, 1.0, (*shape, d)),
        rng.standard_normal((*shape, d)),
    )


def test_each_draw_gets_its_own_permutation_and_signs(rng):
    draws = make_draws(rng)
    orders = np.array([rng.permutation(2) for _ in range(10)])
    signs = rng.choice([-1.0, 1.0], (10, 2))
    out = relabelled(draws, Relabelling(orders, signs))
    for i, (chain, draw) in enumerate(np.ndindex(2, 5)):
        np.testing.assert_array_equal(out.decay[chain, draw], draws.decay[chain, draw][orders[i]])
        expected = draws.loadings[chain, draw][:, orders[i]] * signs[i]
        np.testing.assert_array_equal(out.loadings[chain, draw], expected)
    assert out.offset is draws.offset and out.noise_variance is draws.noise_variance


def test_canonical_order_is_slowest_first_with_the_largest_correlation_positive(rng):
    draws = make_draws(rng)
    draws = draws._replace(decay=draws.decay * 0.1 + [0.2, 0.8])
    loadings = np.array([[0.1, 2.0], [-3.0, 1.0], [1.0, -0.5]]) + 0.01 * draws.loadings
    draws, scale = draws._replace(loadings=loadings), np.array([1.0, 1.0, 0.1])
    order, signs = canonical_order(draws, scale)
    out = reordered(draws, order, signs)
    assert np.all(out.decay[..., 0] > out.decay[..., 1])
    # In units of the columns, the third loading of both factors is the largest: -0.5 / 0.1 and 1.0 / 0.1.
    assert np.all(out.loadings[..., 2, :] > 0.0)
    np.testing.assert_allclose(np.abs(out.loadings[..., 0]), np.abs(draws.loadings[..., 1]))


def test_loadings_of_other_states_are_unchanged(rng):
    draws = make_draws(rng, chains=3)
    others = rng.standard_normal((3, 5, 3, 4))
    draws = draws._replace(loadings=np.concatenate([draws.loadings, others], axis=-1))
    out = relabelled(draws, Relabelling(np.tile([1, 0], (15, 1)), np.tile([1.0, -1.0], (15, 1))))
    np.testing.assert_array_equal(out.loadings[..., 2:], others)
    np.testing.assert_array_equal(out.loadings[..., :2], draws.loadings[..., [1, 0]] * [1.0, -1.0])
