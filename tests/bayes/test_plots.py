"""Plots of posteriors show the draws, in the given axes."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from probsfa import plots


@pytest.fixture
def ax():
    return Figure().subplots()


def test_names_are_public():
    assert {
        "plot_timescales",
        "plot_loadings",
        "plot_factors",
        "plot_predictive_check",
        "plot_imputation_fan",
    } < set(plots.__all__)
    with pytest.raises(AttributeError, match="no attribute 'plot_nothing'"):
        _ = plots.plot_nothing


def test_timescales_integrate_to_one_over_their_logarithm(sampled, ax):
    assert plots.plot_timescales(sampled, ax=ax) is ax
    (line,) = ax.get_lines()
    x, y = line.get_xydata().T
    assert np.trapezoid(y, np.log(x)) == pytest.approx(1.0, abs=0.02)
    assert np.exp(np.average(np.log(x), weights=y)) == pytest.approx(
        np.exp(np.mean(np.log(-1.0 / np.log(sampled.draws_.decay)))), rel=0.05
    )


def test_forest_shows_medians(sampled):
    (ax,) = plots.plot_loadings(sampled)
    medians = np.median(sampled.draws_.loadings / sampled.fitted_.units.scale[:, None], axis=(0, 1))[:, 0]
    np.testing.assert_allclose(ax.get_lines()[-1].get_xdata(), medians)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="axes.*1"):
        plots.plot_loadings(sampled, axes=Figure().subplots(1, 2))


def test_factors_have_bands(sampled, frame):
    (ax,) = plots.plot_factors(sampled)
    with pytest.warns(FutureWarning, match="plot_factors"):
        assert plots.plot_latents is plots.plot_factors
    middle = ax.get_lines()[0].get_ydata()
    assert np.corrcoef(middle, np.asarray(sampled.transform(frame[0]))[:, 0])[0, 1] > 0.99
    with pytest.raises(ValueError, match=r"level.*got 2\.0"):
        plots.plot_factors(sampled, level=2.0)


def test_predictive_check_shows_the_observed_autocorrelation(sampled, frame, ax):
    plots.plot_predictive_check(sampled, 1, lags=5, ax=ax)
    observed = next(line for line in ax.get_lines() if line.get_label() == "observed")
    x = frame[0]["b"].to_numpy() - np.nanmean(frame[0]["b"])
    wanted = [np.nanmean(x[h:] * x[: 80 - h]) / np.nanmean(x**2) for h in range(6)]
    np.testing.assert_allclose(observed.get_ydata(), wanted)
    for feature, given in ((frame[0], "DataFrame"), (3, "3"), (-1, "-1"), ("b", "'b'")):
        with pytest.raises(ValueError, match=f"feature.*0.*2.*{given}"):
            plots.plot_predictive_check(sampled, feature)


def test_fan_is_nested_and_shows_the_truth(sampled, frame, ax):
    X, truth = frame
    plots.plot_imputation_fan(sampled, X, 0, truth=truth["a"], ax=ax)
    assert len(ax.collections) == 3
    shown = next(line for line in ax.get_lines() if line.get_label() == "truth").get_ydata()
    np.testing.assert_array_equal(shown[X["a"].isna()], truth["a"].to_numpy()[X["a"].isna()])
