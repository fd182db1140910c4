"""The bundled vintages: numbers of the source, values published in July, and documented changes."""

import hashlib
import os
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from probsfa.datasets import _build_nowcast, _nowcast, load_nowcast

# As documented in DESCR.
SHAPES = {"june": (378, 29), "july": (379, 29)}
N_MISSING_IN_JULY, N_REVEALED, N_REVISED = 2315, 21, 85


@pytest.fixture(scope="module")
def nowcast():
    return load_nowcast()


@pytest.fixture(scope="module")
def source_folder():
    shared = Path(os.environ.get("PROBSFA_DATA", Path(__file__).parents[3] / "shared" / "data"))
    folder = shared / "frbny_nowcast"
    if not folder.exists():
        pytest.skip("the source tables are not there (set PROBSFA_DATA to the folder of data sets)")
    return folder


def test_equals_the_source_tables(nowcast, source_folder):
    for name, day in _nowcast.VINTAGES.items():
        table = pd.read_csv(
            source_folder / f"{day}.csv", index_col=0, parse_dates=True, date_format="%m/%d/%y"
        )
        # Exactly equal as doubles: the decimals of the source are kept.
        pd.testing.assert_frame_equal(
            nowcast[f"{name}_levels"],
            table.astype(float),
            check_names=False,
            check_freq=False,
            check_exact=True,
        )


def test_building_again_gives_the_same_arrays(source_folder, tmp_path):
    _build_nowcast.build(source_folder, tmp_path / "again.npz")
    with np.load(tmp_path / "again.npz") as again:
        stored = _nowcast._read()
        assert set(again.files) == set(stored)
        for name, array in stored.items():
            np.testing.assert_array_equal(again[name], array)


def test_numbers_that_would_be_rounded_are_build_errors():
    with pytest.raises(ValueError, match="integer"):
        _build_nowcast._whole_numbers(np.array([[0.25]]), np.array([1]))
    with pytest.raises(ValueError, match="x: 7 decimals"):
        _build_nowcast._decimals(pd.Series(["1.0000001"], name="x"))


def test_the_later_vintage_has_the_documented_releases_and_revisions(nowcast):
    assert {name: nowcast[f"{name}_levels"].shape for name in SHAPES} == SHAPES
    assert {name: nowcast[name].shape for name in SHAPES} == SHAPES
    assert nowcast.july_levels.isna().to_numpy().sum() == N_MISSING_IN_JULY
    for june, july in ((nowcast.june_levels, nowcast.july_levels), (nowcast.june, nowcast.july)):
        later = july.loc[june.index]
        assert (june.isna() & later.notna()).to_numpy().sum() == N_REVEALED
        assert (june.notna() & later.isna()).to_numpy().sum() == 0
    both = nowcast.june_levels.notna() & nowcast.july_levels.loc[nowcast.june.index].notna()
    differ = (nowcast.june_levels != nowcast.july_levels.loc[nowcast.june.index]) & both
    assert differ.to_numpy().sum() == N_REVISED


def test_months_are_evenly_spaced_and_named(nowcast):
    assert nowcast.june.index.equals(pd.date_range("1985-01-01", "2016-06-01", freq="MS"))
    assert nowcast.july.index[-1] == pd.Timestamp("2016-07-01")
    assert nowcast.july.index.freqstr == "MS"
    assert nowcast.feature_names == list(nowcast.june.columns) == list(nowcast.series.index)


@pytest.mark.parametrize(
    ("name", "month", "by_hand"),
    [
        ("PAYEMS", "1985-02-01", lambda: 100 * np.log(96497 / 96373)),
        ("UNRATE", "2016-05-01", lambda: 4.7 - 5.0),
        ("GACDFSA066MSFRBPHI", "1985-02-01", lambda: 10.9),
        ("GDPC1", "2016-03-01", lambda: 100 * np.log(16514.6 / 16470.6)),
    ],
)
def test_changes_agree_with_their_definition(nowcast, name, month, by_hand):
    np.testing.assert_allclose(nowcast.june.loc[month, name], by_hand(), rtol=1e-12)


def test_a_change_is_missing_if_one_of_its_levels_is_missing(nowcast):
    for name, series in nowcast.series.iterrows():
        levels, changes = nowcast.july_levels[name], nowcast.july[name]
        if series["change"] == "none":
            pd.testing.assert_series_equal(levels, changes)
            continue
        months = 3 if series["frequency"] == "quarter" else 1
        known = [
            t >= months and np.isfinite(levels.iloc[t]) and np.isfinite(levels.iloc[t - months])
            for t in range(len(levels))
        ]
        np.testing.assert_array_equal(changes.notna(), known)


def test_loaded_data_are_copies(nowcast):
    again = load_nowcast()
    again.june.iloc[:] = 0.0
    pd.testing.assert_frame_equal(load_nowcast().june, nowcast.june)


def test_file_is_small_and_has_a_checksum_and_a_licence():
    folder = resources.files("probsfa.datasets") / "data"
    content = (folder / "nowcast.npz").read_bytes()
    assert len(content) < 60_000
    assert hashlib.sha256(content).hexdigest() in (folder / "README.md").read_text(encoding="utf-8")
    licence = (folder / "nowcast_LICENSE.txt").read_text(encoding="utf-8")
    assert "BSD 3-Clause" in licence
    assert "Federal Reserve Bank of New York" in licence


def test_a_changed_file_is_an_error(monkeypatch):
    monkeypatch.setattr(_nowcast, "_SHA256", "0" * 64)
    with pytest.raises(ValueError, match="install"):
        load_nowcast()
