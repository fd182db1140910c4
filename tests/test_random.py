"""Seeds of all types that scikit-learn accepts."""

import numpy as np

from probsfa._random import generator


def test_equal_seeds_give_equal_numbers():
    assert generator(3).random() == generator(3).random() == np.random.default_rng(3).random()
    one, other = (generator(np.random.RandomState(3)).random() for _ in range(2))
    assert one == other


def test_a_generator_is_returned_and_none_gives_a_new_one():
    rng = np.random.default_rng(0)
    assert generator(rng) is rng
    assert generator(None).random() != generator(None).random()
