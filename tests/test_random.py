"""Seeds of all types that scikit-learn accepts."""

import numpy as np

from probsfa._random import generator


def test_a_number_and_a_random_state_give_the_same_again():
    assert generator(3).random() == generator(3).random() == np.random.default_rng(3).random()
    one, other = (generator(np.random.RandomState(3)).random() for _ in range(2))
    assert one == other


def test_a_generator_goes_on_and_none_is_new_each_time():
    rng = np.random.default_rng(0)
    assert generator(rng) is rng
    assert generator(None).random() != generator(None).random()
