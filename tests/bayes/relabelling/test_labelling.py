"""The labelling of a maximum: every mirror image of a draw is brought to it, in rotated coordinates too."""

import numpy as np
import pytest

from probsfa.bayes.coordinates.chart import choose_chart
from probsfa.bayes.coordinates.rotation import align
from probsfa.bayes.relabelling.labelling import Labelling, merges
from probsfa.bayes.sampling.laplace import LaplaceApproximation
from tests.bayes.support import images, small_problem
from tests.tolerances import EXACT


def test_all_images_of_a_draw_fold_to_one(rng):
    target, _, values = small_problem(rng)
    centre = target.to_vector(values)
    labelling = Labelling(target, LaplaceApproximation(centre, 0.1 * np.eye(target.size), 0.0, 0), None)
    draw = centre + 0.01 * rng.standard_normal(target.size)
    timescale, loadings = (target.slices[name] for name in ("timescale", "loadings"))
    vectors = []
    for t, c in images(draw[timescale], draw[loadings].reshape(4, 2)):
        vector = draw.copy()
        vector[timescale], vector[loadings] = t, c.ravel()
        vectors.append(vector)
    folded = labelling.fold(np.array(vectors))
    np.testing.assert_array_equal(folded, np.tile(draw, (8, 1)))
    reference = labelling.symmetry_reference
    np.testing.assert_array_equal(reference.timescale, centre[timescale])
    np.testing.assert_allclose(reference.loadings_width, 0.2)


def test_rotated_coordinates_are_one_image_already(rng):
    target, data, values = small_problem(rng)
    frame = choose_chart(target, values, data).rotation
    centre = target.to_vector(values)
    labelling = Labelling(target, LaplaceApproximation(centre, 0.1 * np.eye(target.size), 0.0, 0), frame)
    assert labelling.symmetry_reference is None
    draws = centre + 0.01 * rng.standard_normal((3, target.size))
    np.testing.assert_allclose(labelling.fold(draws), draws, atol=EXACT)


@pytest.mark.parametrize(("gap", "known"), [(1.0, False), (0.0, True), (3.0, False)])
def test_a_maximum_where_two_time_scales_are_one_is_noticed(rng, gap, known):
    """There the density in the chart has a spike, in which a climb may end."""
    target, data, values = small_problem(rng)
    frame = choose_chart(target, values, data).rotation
    loadings = values["loadings"]
    coordinates, aligned = align(frame, np.array([2.0, 2.0 + gap]), loadings)
    centre = target.to_vector(values)
    centre[target.slices["timescale"]] = coordinates
    centre[target.slices["loadings"]] = aligned.ravel()
    for std, merged in [(0.1, known), (3.0, True), (np.nan, True)]:
        laplace = LaplaceApproximation(centre, std * np.eye(target.size), 0.0, 0)
        assert merges(target, frame, laplace) == merged
        assert not merges(target, None, laplace)
