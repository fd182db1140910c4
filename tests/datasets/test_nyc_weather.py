"""The bundled weather: readings of the source, and documented properties."""

import hashlib
import os
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from probsfa.datasets import _build_nyc_weather, _nyc_weather, hide_blocks, hide_values, load_nyc_weather

MPH_PER_KNOT = 1.15078


@pytest.fixture(scope="module")
def weather():
    return load_nyc_weather()


@pytest.fixture(scope="module")
def source_file():
    shared = Path(os.environ.get("PROBSFA_DATA", Path(__file__).parents[3] / "shared" / "data"))
    path = shared / "nyc_weather" / "weather.csv.gz"
    if not path.exists():
        pytest.skip("the source table is not there (set PROBSFA_DATA to the folder of data sets)")
    return path


def test_data_are_an_hourly_frame(weather):
    assert weather.data.shape == (8730, 18)
    assert list(weather.data.columns) == weather.feature_names
    assert weather.data.index.equals(weather.time)
    assert str(weather.time.tz) == "UTC"
    assert np.all(np.diff(weather.time.asi8) == weather.time.asi8[1] - weather.time.asi8[0])
    assert weather.data.notna().any().all()


def test_equals_the_source_table(weather, source_file):
    table = pd.read_csv(source_file, parse_dates=["time_hour"])
    for airport, rows in table.groupby("origin"):
        rows = rows.set_index("time_hour").reindex(weather.time)
        for name in ("temp", "dewp", "pressure", "visib"):
            # Exactly equal as doubles: the decimals of the source are kept.
            pd.testing.assert_series_equal(
                weather.data[f"{name}_{airport}"], rows[name], check_names=False, check_exact=True
            )
        direction = np.deg2rad(rows["wind_dir"])
        for name, part in (("u", np.sin(direction)), ("v", np.cos(direction))):
            expected = -rows["wind_speed"] * part
            np.testing.assert_allclose(weather.data[f"{name}_{airport}"], expected, rtol=0, atol=1e-6)


def test_building_again_gives_the_same_arrays(source_file, tmp_path):
    _build_nyc_weather.build(source_file, tmp_path / "again.npz")
    with np.load(tmp_path / "again.npz") as again:
        stored = _nyc_weather._read()
        assert set(again.files) == set(stored)
        for name, array in stored.items():
            np.testing.assert_array_equal(again[name], array)


def test_readings_that_would_be_rounded_are_build_errors():
    with pytest.raises(ValueError, match="temp: readings are not"):
        _build_nyc_weather._whole_numbers(np.array([1.0, 2.5]), "temp")


@pytest.mark.parametrize(
    ("knots", "tens", "u", "v"),
    [
        (10, 36, 0.0, -10.0),  # from the north, so the air moves south
        (10, 9, -10.0, 0.0),  # from the east, so it moves west
        (10, 27, 10.0, 0.0),
        (10, 18, 0.0, 10.0),
        (0, 0, 0.0, 0.0),  # calm
        (0, _nyc_weather.MISSING, 0.0, 0.0),  # calm, and no direction given
        (5, _nyc_weather.MISSING, np.nan, np.nan),  # variable
        (_nyc_weather.MISSING, _nyc_weather.MISSING, np.nan, np.nan),
    ],
)
def test_wind_is_the_velocity_of_the_air(knots, tens, u, v):
    got = _nyc_weather._wind(np.array([knots], np.int16), np.array([tens], np.int16))
    np.testing.assert_allclose(np.ravel(got) / MPH_PER_KNOT, [u, v], atol=1e-6)


def test_the_impossible_reading_is_included_and_described(weather):
    impossible = weather.data["u_EWR"].idxmax()
    assert impossible == pd.Timestamp("2013-02-12 08:00+00:00")
    np.testing.assert_allclose(
        np.hypot(*weather.data.loc[impossible, ["u_EWR", "v_EWR"]]), 1048.36058, rtol=1e-8
    )
    assert "2013-02-12 08:00" in weather.DESCR
    assert "drop_impossible=True" in weather.DESCR


def test_loaded_data_are_copies(weather):
    again = load_nyc_weather()
    again.data.iloc[:] = 0.0
    pd.testing.assert_frame_equal(load_nyc_weather().data, weather.data)


def test_file_is_small_and_has_a_checksum():
    folder = resources.files("probsfa.datasets") / "data"
    content = (folder / "nyc_weather.npz").read_bytes()
    assert len(content) < 400_000
    assert hashlib.sha256(content).hexdigest() in (folder / "README.md").read_text(encoding="utf-8")


def test_a_changed_file_is_an_error(monkeypatch):
    monkeypatch.setattr(_nyc_weather, "_SHA256", "0" * 64)
    with pytest.raises(ValueError, match="install"):
        load_nyc_weather()


@pytest.mark.parametrize(
    ("hide", "rmse", "mae"),
    [(hide_values, 0.335, 0.117), (hide_blocks, 0.581, 0.340)],
    ids=["values", "blocks"],
)
def test_errors_of_linear_interpolation_agree_with_the_documentation(weather, hide, rmse, mae):
    values = weather.data.to_numpy()
    scores = []
    for seed in range(3):
        hidden = hide(values, random_state=seed)
        incomplete = pd.DataFrame(np.where(hidden, np.nan, values))
        filled = incomplete.interpolate(limit_direction="both")
        errors = ((filled - values) / incomplete.std()).to_numpy()[hidden]
        scores.append((np.sqrt(np.mean(errors**2)), np.mean(np.abs(errors))))
    np.testing.assert_allclose(np.mean(scores, axis=0), [rmse, mae], atol=0.002)


def test_the_impossible_reading_is_dropped_only_on_request():
    reported, plausible = load_nyc_weather().data, load_nyc_weather(drop_impossible=True).data
    changed = (reported.isna() != plausible.isna()).to_numpy()
    assert changed.sum() == 2
    assert np.abs(reported.to_numpy()[changed]).max() > 1000
    assert np.nanmax(np.abs(plausible[["u_EWR", "v_EWR"]].to_numpy())) < 100
    np.testing.assert_array_equal(plausible.to_numpy()[~changed], reported.to_numpy()[~changed])
    assert plausible["u_EWR"].std() < 0.6 * reported["u_EWR"].std()
