"""Packed data contain the observations, and a start has values for all sites."""

import numpy as np

from probsfa._validation import Sequences
from probsfa.bayes import Priors
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.packing import pack, panels_of, start_values
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateSpace


def two_sequences(rng):
    values = rng.standard_normal((12, 2))
    values[3, 1] = values[8] = np.nan
    times = np.concatenate([np.cumsum(rng.choice([1.0, 2.5], 7)), np.cumsum(rng.choice([1.0, 2.5], 5))])
    return Sequences(values, (7, 5), times)


def test_hierarchical_series_contain_each_sequence(rng):
    sequences = two_sequences(rng)
    series = pack(sequences, True)
    assert series.values.shape[0] == 2 and series.values.shape[1] >= 7
    for i, (rows, n) in enumerate(zip(sequences.slices, sequences.lengths, strict=True)):
        np.testing.assert_array_equal(series.mask[i, :n], sequences.mask[rows])
        assert not series.mask[i, n:].any()
        observed = sequences.mask[rows]
        np.testing.assert_array_equal(series.values[i, :n][observed], sequences.values[rows][observed])
        assert series.gap_index[i, 0] == len(series.gaps)
        np.testing.assert_allclose(series.gaps[series.gap_index[i, 1:n]], np.diff(sequences.times[rows]))


def test_panels_and_last_rows_belong_together(rng):
    sequences = two_sequences(rng)
    (whole,), ((first, second),) = panels_of(sequences, False)
    assert whole.n_rows == 12 and first == (0, 6) and second == (1, 11)
    panels, last_rows = panels_of(sequences, True)
    assert [panel.n_rows for panel in panels] == [7, 5] and last_rows == [[(0, 6)], [(1, 4)]]


def test_values_of_starts_are_finite_and_positive(rng):
    params = StateSpace(
        np.array([1.0, -0.5]), rng.standard_normal((3, 2)), np.array([0.0, 0.2, 0.5]), np.zeros(3)
    )
    for groups, n in (((0, 1, 2), 3), ((0, 0, 0), 1), ((0, -1, 1), 2)):
        values = start_values(params, Target(2, NoiseVariances(groups), Priors()))
        assert np.all(np.isfinite(values["timescale"])) and np.all(values["timescale"] > 0.0)
        assert values["noise_std"].shape == (n,) and np.all(values["noise_std"] > 0.0)
        np.testing.assert_allclose(values["noise_std"] ** 2, values["noise_variance"])
