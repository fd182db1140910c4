"""Figures show the given data on the given axes, without changes of global settings."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import date2num
from matplotlib.figure import Figure

from probsfa import graphs, plots

Z90 = 1.6448536269514722


@pytest.fixture
def ax():
    return Figure().subplots()


def lines(ax):
    """Return lines by their label."""
    return {line.get_label(): line.get_xydata() for line in ax.get_lines()}


def extent(band):
    """Return the lowest and the highest value of a band."""
    points = np.concatenate([path.vertices for path in band.get_paths()])
    return points[:, 1].min(), points[:, 1].max()


def test_slow_features_are_drawn_in_order_with_their_bands():
    rng = np.random.default_rng(0)
    means, std = rng.standard_normal((30, 3)), np.full((30, 3), 0.5)
    axes = plots.plot_slow_features(means, std)
    assert len(axes) == 3
    for k, ax in enumerate(axes):
        np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), means[:, k])
        low, high = extent(ax.collections[0])
        np.testing.assert_allclose([low, high], [means[:, k].min() - Z90 / 2, means[:, k].max() + Z90 / 2])
        assert ax.get_ylabel() == f"feature {k + 1}"
    assert axes[-1].get_xlabel() == "row"
    assert len({ax.figure for ax in axes}) == 1


def test_slow_features_without_bands_in_given_axes():
    given = Figure().subplots(2, 1)
    axes = plots.plot_slow_features(np.zeros((5, 2)), names=["season", "weather"], axes=given)
    assert axes == list(given)
    assert [ax.get_ylabel() for ax in axes] == ["season", "weather"]
    assert not any(ax.collections for ax in axes)


@pytest.mark.parametrize(
    ("level", "half"), [(0.5, 0.6744897501960817), (0.9, Z90), (0.95, 1.959963984540054)]
)
def test_bands_have_their_nominal_probability(level, half):
    [ax] = plots.plot_slow_features(np.zeros((5, 1)), np.full((5, 1), 2.0), level=level)
    np.testing.assert_allclose(extent(ax.collections[0]), [-2.0 * half, 2.0 * half])


def test_lines_of_imputed_values_end_at_adjacent_observations(ax):
    observed = np.array([1.0, 2.0, np.nan, np.nan, 5.0, 6.0])
    filled = np.array([1.0, 2.0, 2.5, 4.5, 5.0, 6.0])
    truth = np.array([1.0, 2.0, 3.0, np.nan, 5.0, 6.0])
    std = np.array([0.0, 0.0, 1.0, 2.0, 0.0, 0.0])
    assert plots.plot_imputation(observed, filled, std, truth=truth, ax=ax) is ax
    drawn = lines(ax)
    np.testing.assert_array_equal(drawn["observed"][:, 1], observed)
    np.testing.assert_array_equal(drawn["imputed"][:, 1], [np.nan, 2.0, 2.5, 4.5, 5.0, np.nan])
    np.testing.assert_array_equal(drawn["truth"][:, 1], [np.nan, np.nan, 3.0, np.nan, np.nan, np.nan])
    np.testing.assert_allclose(extent(ax.collections[0]), [2.5 - Z90, 4.5 + 2 * Z90])
    # No band at observed values, also if their standard deviation is positive.
    plots.plot_imputation(observed, filled, std + 9.0, ax=(other := Figure().subplots()))
    path = other.collections[0].get_paths()[0].vertices
    assert set(path[path[:, 0] == 1.0][:, 1]) == {2.0}


def test_masked_values_are_not_drawn(ax):
    masked = np.ma.array([0.0, 999.0, 2.0], mask=[0, 1, 0])
    plots.plot_imputation(
        masked, [0.0, 1.0, 2.0], truth=np.ma.array([0.0, 1.0, 999.0], mask=[0, 0, 1]), ax=ax
    )
    np.testing.assert_array_equal(lines(ax)["observed"][:, 1], [0.0, np.nan, 2.0])
    np.testing.assert_array_equal(lines(ax)["truth"][:, 1], [np.nan, 1.0, np.nan])
    [axes] = plots.plot_slow_features(masked[:, None])
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), [0.0, np.nan, 2.0])


class Fan:
    """A model that imputes zero; the width of an interval is twice its probability."""

    def impute(self, X, interval):
        X = np.asarray(X, dtype=float)
        filled = np.where(np.isnan(X), 0.0, X)
        return filled, filled - interval, filled + interval


def test_bands_at_the_last_row_are_not_drawn_at_the_first_row(ax):
    X = np.array([[1.0], [2.0], [3.0], [np.nan]])
    plots.plot_imputation_fan(Fan(), X, ax=ax)
    np.testing.assert_array_equal(lines(ax)["imputed"][:, 1], [np.nan, np.nan, 3.0, 0.0])
    np.testing.assert_array_equal(lines(ax)["observed"][:, 1], X[:, 0])


def test_legend_names_only_what_is_drawn(ax):
    plots.plot_imputation([0.0, np.nan, 2.0], [0.0, 1.0, 2.0], ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["observed", "imputed"]


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_dates(ax, zone):
    times = pd.date_range("2020-03-01", periods=4, freq="h", tz=zone)
    plots.plot_imputation(np.arange(4.0), np.arange(4.0), times=times, ax=ax)
    utc = times if zone is None else times.tz_convert("UTC").tz_localize(None)
    np.testing.assert_allclose(lines(ax)["observed"][:, 0], date2num(utc.to_numpy()))
    assert ax.get_xlabel() == ""


def test_delta_values(ax):
    plots.plot_delta_values([0.01, 0.5, 1.9], ax=ax)
    np.testing.assert_array_equal(ax.get_lines()[0].get_xydata(), [[1, 0.01], [2, 0.5], [3, 1.9]])
    assert ax.get_yscale() == "log"


def test_history_is_the_difference_from_the_final_value(ax):
    plots.plot_history([-10.0, -4.0, -3.0], ax=ax)
    np.testing.assert_array_equal(ax.get_lines()[0].get_xydata(), [[0, 7.0], [1, 1.0], [2, np.nan]])


def test_the_first_two_coordinates_of_an_embedding_are_drawn(ax):
    points = np.random.default_rng(0).standard_normal((20, 3))
    assert plots.plot_embedding(points, ax=ax) is ax
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), points[:, :2])
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_legend()) == ("coordinate 1", "coordinate 2", None)


def test_one_coordinate_is_drawn_against_row_numbers(ax):
    plots.plot_embedding([[3.0], [1.0]], ax=ax)
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), [[0, 3], [1, 1]])


def test_few_labels_are_groups_and_many_numbers_a_scale():
    points = np.random.default_rng(0).standard_normal((12, 2))
    groups = np.repeat(["a", "b", "c"], 4)
    ax = plots.plot_embedding(points, groups)
    for drawn, kind in zip(ax.collections, "abc", strict=True):
        assert drawn.get_label() == kind
        np.testing.assert_array_equal(drawn.get_offsets(), points[groups == kind])
    assert len({tuple(drawn.get_facecolor()[0]) for drawn in ax.collections}) == 3
    ax = plots.plot_embedding(points, np.arange(12) / 7)
    np.testing.assert_allclose(ax.collections[0].get_array(), np.arange(12) / 7)
    assert len(ax.figure.axes) == 2  # with a colour bar


def test_the_eigengap_is_drawn(ax):
    values = np.array([1.0, 0.95, 0.9, 0.3, 0.25])
    plots.plot_eigengap(values, ax=ax)
    before, after = (dots.get_offsets() for dots in ax.collections[1:])
    np.testing.assert_array_equal(before, np.column_stack([[1, 2, 3], values[:3]]))
    np.testing.assert_array_equal(after, np.column_stack([[4, 5], values[3:]]))
    assert extent(ax.collections[0]) == (0.3, 0.9)
    assert ax.get_legend().get_texts()[0].get_text() == "largest gap: 3 clusters"
    other = plots.plot_eigengap(values, 1)
    assert other.get_legend().get_texts()[0].get_text() == "gap: 1 cluster"


def test_a_graph_is_drawn_edge_by_edge(ax):
    W = np.array([[5.0, 1, 0, 2], [1, 0, 4, 0], [0, 4, 0, 0], [2, 0, 0, 0]])  # with a self-loop
    positions = np.arange(8.0).reshape(4, 2)
    graph = graphs.from_sparse(W, node_weights=[1.0, 2.0, 3.0, 4.0])
    assert plots.plot_graph(graph, positions, ax=ax) is ax
    edges, vertices = ax.collections
    drawn = {tuple(map(tuple, ends)): width for ends, width in zip(
        edges.get_segments(), edges.get_linewidths(), strict=True)}  # fmt: skip
    expected = {(0, 1): 1.0, (1, 2): 4.0, (0, 3): 2.0}
    assert set(drawn) == {(tuple(positions[i]), tuple(positions[j])) for i, j in expected}
    for (i, j), weight in expected.items():
        assert drawn[tuple(positions[i]), tuple(positions[j])] == pytest.approx(2.0 * weight / 4.0)
    np.testing.assert_array_equal(vertices.get_offsets(), positions)
    np.testing.assert_allclose(vertices.get_sizes() / vertices.get_sizes()[-1], [0.25, 0.5, 0.75, 1.0])


def test_vertices_without_positions_are_drawn_on_a_circle_in_order(ax):
    plots.plot_graph(graphs.temporal(4), labels=[0, 0, 1, 1], ax=ax)
    found = np.concatenate([drawn.get_offsets() for drawn in ax.collections[1:]])
    np.testing.assert_allclose(found, [[0, 1], [1, 0], [0, -1], [-1, 0]], atol=1e-12)
    assert len(ax.collections[0].get_segments()) == 3


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.plot_slow_features(np.zeros((1, 1)))[0],
        lambda: plots.plot_embedding([[0.0]]),
        lambda: plots.plot_graph(graphs.clustered([0, 1])),  # self-loops only
        lambda: plots.plot_imputation([np.nan], [1.0], [1.0], truth=[1.0]),
        lambda: plots.plot_delta_values([0.0]),
        lambda: plots.plot_eigengap([0.0, 0.0]),
        lambda: plots.plot_history([-3.0]),
        lambda: plots.plot_history([-3.0, -3.0]),
    ],
)
def test_the_smallest_figures_can_be_saved(draw, tmp_path):
    draw().figure.savefig(tmp_path / "small.png")


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.plot_slow_features(np.zeros(5)), "means"),
        (
            lambda: plots.plot_slow_features(np.zeros((5, 2)), np.zeros((5, 1))),
            r"std.*\(5, 2\)",
        ),
        (lambda: plots.plot_slow_features(np.zeros((5, 2)), -np.ones((5, 2))), "negative"),
        (
            lambda: plots.plot_slow_features(np.zeros((5, 2)), times=np.arange(4)),
            r"times.*\(5,\)",
        ),
        (lambda: plots.plot_slow_features(np.zeros((5, 2)), names=["a"]), "names.*2"),
        (lambda: plots.plot_slow_features(np.zeros((5, 2)), axes=[Figure().subplots()]), "axes.*2"),
        (
            lambda: plots.plot_slow_features(np.zeros((5, 2)), np.ones((5, 2)), level=90),
            "level.*0",
        ),
        (lambda: plots.plot_imputation([1.0], [1.0, 2.0]), "filled.*1"),
        (lambda: plots.plot_imputation([1.0], [1.0], truth=[1.0, 2.0]), "truth.*1"),
        (lambda: plots.plot_delta_values([[1.0]]), "delta_values"),
        (lambda: plots.plot_embedding([1.0]), "embedding"),
        (lambda: plots.plot_embedding([[1.0]], [1, 2]), "labels.*1"),
        (lambda: plots.plot_embedding(np.zeros((9, 2)), list("abcdefghi")), "9 different values"),
        (lambda: plots.plot_graph(graphs.temporal(2001)), "2000"),
        (lambda: plots.plot_graph(graphs.temporal(3), [[0.0, 1.0]]), r"positions.*\(3, 2\)"),
        (lambda: plots.plot_graph(graphs.temporal(3), labels=[0]), "labels.*3"),
        (lambda: plots.plot_eigengap([1.0, 0.5], 2), "n_clusters.*1.*1"),
        (lambda: plots.plot_eigengap([1.0, 0.5, 0.7]), "eigenvalues"),
        (lambda: plots.plot_history([]), "history"),
    ],
)
def test_invalid_arguments_are_errors(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_global_settings_do_not_change():
    before = dict(mpl.rcParams)
    plots.plot_slow_features(np.zeros((5, 2)), np.ones((5, 2)))
    plots.plot_imputation([0.0, np.nan], [0.0, 1.0], [0.0, 1.0])
    plots.plot_delta_values([0.1, 1.0])
    plots.plot_history([-2.0, -1.0])
    plots.plot_embedding(np.zeros((5, 2)), np.arange(5))
    plots.plot_graph(graphs.temporal(3))
    assert dict(mpl.rcParams) == before


def test_import_loads_no_matplotlib_and_drawing_loads_no_pyplot():
    code = (
        "import sys; from probsfa import plots; assert 'matplotlib' not in sys.modules\n"
        "plots.plot_delta_values([0.1, 1.0]); assert 'matplotlib.pyplot' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("hours", [0.07, 1.5, 4.2, 30.0, 100.0, 119.0, 1_000.0, 3_000.0, 30_000.0, 3e5])
def test_dates_of_any_span_have_labels(hours, ax):
    """Spans between four and five days, minutes or seconds had no interval that matplotlib could select."""
    times = pd.date_range("2024-03-01", periods=50, freq=pd.Timedelta(hours=hours) / 49)
    plots.plot_slow_features(np.zeros((50, 1)), times=times, axes=[ax])
    assert 3 <= len(ax.xaxis.get_major_formatter().format_ticks(ax.get_xticks())) <= 10
