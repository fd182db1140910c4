"""All equivalent images of a draw have the labelling of the maximum, also in rotated coordinates."""

import numpy as np
import pytest

from probsfa.bayes.coordinates.chart import choose_chart
from probsfa.bayes.coordinates.rotation import align, choose_frame, make_frame, restricted
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.priors import Priors
from probsfa.bayes.relabelling.labelling import Labelling, reliable_frame
from probsfa.bayes.sampling.laplace import LaplaceApproximation
from probsfa.statespace.noise import NoiseVariances
from tests.bayes.support import images, small_problem
from tests.tolerances import EXACT


def test_all_images_of_a_draw_fold_to_the_same_vector(rng):
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


def test_rotated_coordinates_need_no_symmetry_reference(rng):
    target, data, values = small_problem(rng)
    frame = choose_chart(target, values, data).rotation
    centre = target.to_vector(values)
    labelling = Labelling(target, LaplaceApproximation(centre, 0.1 * np.eye(target.size), 0.0, 0), frame)
    assert labelling.symmetry_reference is None
    draws = centre + 0.01 * rng.standard_normal((3, target.size))
    np.testing.assert_allclose(labelling.fold(draws), draws, atol=EXACT)


@pytest.mark.parametrize(("gap", "known"), [(1.0, False), (0.0, True), (3.0, False)])
def test_a_maximum_at_equal_time_scales_has_no_reliable_frame(rng, gap, known):
    """At equal time scales the density has a spike, in which an optimizer may end."""
    target, data, values = small_problem(rng)
    frame = choose_chart(target, values, data).rotation
    loadings = values["loadings"]
    coordinates, aligned = align(frame, np.array([2.0, 2.0 + gap]), loadings)
    centre = target.to_vector(values)
    centre[target.slices["timescale"]] = coordinates
    centre[target.slices["loadings"]] = aligned.ravel()
    for std, merged in [(0.1, known), (3.0, True), (np.nan, True)]:
        laplace = LaplaceApproximation(centre, std * np.eye(target.size), 0.0, 0)
        assert (reliable_frame(target, frame, laplace) is None) == merged
        assert reliable_frame(target, None, laplace) is None


def test_factors_with_uncertain_time_scales_leave_the_frame(rng):
    loadings, timescale, noise = rng.standard_normal((6, 3)), np.array([3.0, 20.0, 150.0]), np.full(6, 0.5)
    frame = choose_frame(timescale, np.log(timescale), loadings, loadings, noise, 10_000)
    target = Target(3, NoiseVariances.of_option("diagonal", 6), Priors())
    centre, std = np.zeros(target.size), np.full(target.size, 0.1)
    centre[target.slices["timescale"]] = np.log(timescale)
    centre[target.slices["loadings"]] = loadings.ravel()
    for vague, members in [([0.1, 0.1, 0.1], [0, 1, 2]), ([0.1, 0.5, 0.1], [0, 2]), ([0.5, 0.5, 0.1], [])]:
        std[target.slices["timescale"]] = vague
        kept = reliable_frame(target, frame, LaplaceApproximation(centre, np.diag(std), 0.0, 0))
        assert ([] if kept is None else list(kept.members)) == members


def test_a_restricted_frame_is_that_made_of_its_factors(rng):
    loadings, logs, weights = rng.standard_normal((6, 3)), np.array([1.0, 3.0, 5.0]), rng.uniform(1.0, 3.0, 6)
    fewer = restricted(make_frame(logs, loadings, weights, np.arange(3)), np.array([True, False, True]))
    for part, wanted in zip(fewer, make_frame(logs, loadings, weights, np.array([0, 2])), strict=True):
        np.testing.assert_allclose(part, wanted, atol=EXACT)
