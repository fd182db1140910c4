"""Two vintages of the nowcasting data of the Federal Reserve Bank of New York."""

import hashlib
import io
from importlib import resources
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Bunch

from probsfa._typing import FloatArray

__all__ = ["load_nowcast"]


class _Series(NamedTuple):
    """Title, frequency of publication and transformation of a series."""

    title: str
    frequency: str
    change: str


_GROWTH, _DIFFERENCE, _LEVEL = "log difference", "difference", "none"

#: The series in the order of the source.
SERIES = {
    "PAYEMS": _Series("employees on nonfarm payrolls", "month", _GROWTH),
    "JTSJOL": _Series("job openings", "month", _GROWTH),
    "CPIAUCSL": _Series("consumer prices", "month", _GROWTH),
    "DGORDER": _Series("new orders of durable goods", "month", _GROWTH),
    "HSN1F": _Series("new houses sold", "month", _GROWTH),
    "RSAFS": _Series("retail sales and food services", "month", _GROWTH),
    "UNRATE": _Series("unemployment rate", "month", _DIFFERENCE),
    "HOUST": _Series("housing starts", "month", _GROWTH),
    "INDPRO": _Series("industrial production", "month", _GROWTH),
    "PPIFIS": _Series("producer prices, final demand", "month", _GROWTH),
    "DSPIC96": _Series("real disposable income", "month", _GROWTH),
    "BOPTEXP": _Series("exports of goods and services", "month", _GROWTH),
    "BOPTIMP": _Series("imports of goods and services", "month", _GROWTH),
    "WHLSLRIMSA": _Series("wholesale inventories", "month", _GROWTH),
    "TTLCONS": _Series("construction spending", "month", _GROWTH),
    "IR": _Series("import prices", "month", _GROWTH),
    "CPILFESL": _Series("consumer prices without food and energy", "month", _GROWTH),
    "PCEPILFE": _Series("prices of consumption without food and energy", "month", _GROWTH),
    "PCEPI": _Series("prices of consumption", "month", _GROWTH),
    "PERMIT": _Series("building permits", "month", _GROWTH),
    "TCU": _Series("capacity utilisation", "month", _DIFFERENCE),
    "BUSINV": _Series("business inventories", "month", _GROWTH),
    "IQ": _Series("export prices", "month", _GROWTH),
    "GACDISA066MSFRBNY": _Series("Empire State survey, general conditions", "month", _LEVEL),
    "PCEC96": _Series("real consumption", "month", _GROWTH),
    "GACDFSA066MSFRBPHI": _Series("Philadelphia survey, current activity", "month", _LEVEL),
    "GDPC1": _Series("real gross domestic product", "quarter", _GROWTH),
    "ULCNFB": _Series("unit labour cost", "quarter", _GROWTH),
    "A261RX1Q020SBEA": _Series("real gross domestic income", "quarter", _GROWTH),
}
VINTAGES = {"june": "2016-06-29", "july": "2016-07-29"}
START = "1985-01-01"
MISSING = -(2**62)

_MONTHS = {"month": 1, "quarter": 3}
_FILE = "nowcast.npz"
_SHA256 = "b47ab115a5876ce1f2c7e1c6a5c2559d48fa6422da024fb4ded7b60de3986172"

DESCR = """\
Two vintages of 29 series of the economy of the United States, as published on 2016-06-29 and 2016-07-29

Monthly from January 1985: 378 months in the June vintage, 379 in the July vintage. 26 series are monthly;
gross domestic product, unit labour cost and gross domestic income are quarterly and are in the last month of
their quarter, so that two of three values are missing. Some monthly series begin later, and each
series ends at its last publication (ragged edge). 21 % of the values of the July vintage are missing. 21
values that are missing in the June vintage are published in the July vintage; they are the test values of a
nowcast from the June vintage. 85 other values were revised. The row of July 2016 has the two surveys only.

june_levels and july_levels are the numbers as published, in the units of the source. june and july, the
data for models, are changes since the previous publication (a month, or a quarter for quarterly series):

    log difference   100 (log x_t - log x_t-1), about per cent: all amounts, prices and indexes
    difference       x_t - x_t-1, in percentage points: unemployment rate, capacity utilisation
    none             x_t: the two surveys, whose questions are about changes

The transformations are choices of this package; the bank uses others for some series (for example absolute
changes of payrolls and permits).
The first value of a series that is differenced is missing. series has a row for each series with its title,
frequency and change. Nothing is standardized, and no outlier is removed: late 2008 is in the data.

Source: Federal Reserve Bank of New York, code and data of its nowcast (Bok, Caratelli, Giannone, Sbordone &
Tambalotti 2018, Annual Review of Economics 10:615), github.com/FRBNY-TimeSeriesAnalysis/Nowcasting, BSD
3-clause licence, copyright 2018 Federal Reserve Bank of New York. The licence is in
probsfa/datasets/data/nowcast_LICENSE.txt.
"""


def load_nowcast() -> Bunch:
    """Load two vintages of 29 monthly and quarterly series of the United States economy, with a ragged edge.

    Returns
    -------
    Bunch
        ``june`` and ``july``, DataFrames (378, 29) and (379, 29) of changes as published on 2016-06-29 and
        2016-07-29, indexed by month and NaN where missing; ``june_levels`` and ``july_levels``, the published
        numbers; ``series``, a DataFrame with ``title``, ``frequency`` and ``change`` of each;
        ``feature_names``; ``DESCR``, the source and the definition of the changes.

    Raises
    ------
    ValueError
        If the installed file has been changed.

    See Also
    --------
    load_nyc_weather : Hourly weather with missing values.
    probsfa.ProbabilisticSFA.news : Attribution of a revised prediction to new values.

    References
    ----------
    Bok, Caratelli, Giannone, Sbordone & Tambalotti (2018), Annual Review of Economics 10:615,
    doi:10.1146/annurev-economics-080217-053214.

    Examples
    --------
    >>> nowcast = load_nowcast()
    >>> nowcast.june.shape, nowcast.july.shape
    ((378, 29), (379, 29))
    >>> revealed = nowcast.june.isna() & nowcast.july.reindex_like(nowcast.june).notna()
    >>> int(revealed.to_numpy().sum())
    21
    >>> print(nowcast.series.loc["GDPC1", "title"], nowcast.july["GDPC1"].iloc[-2].round(2))
    real gross domestic product 0.3
    """
    stored = _read()
    levels = {name: _frame(_decode(stored[name], stored["decimals"])) for name in VINTAGES}
    series = pd.DataFrame.from_dict(SERIES, orient="index", columns=list(_Series._fields))
    changes = {name: frame.apply(_changes) for name, frame in levels.items()}
    return Bunch(
        june=changes["june"],
        july=changes["july"],
        june_levels=levels["june"],
        july_levels=levels["july"],
        series=series.rename_axis("series"),
        feature_names=list(SERIES),
        DESCR=DESCR,
    )


def _read() -> dict[str, NDArray[np.int64]]:
    content = (resources.files("probsfa.datasets") / "data" / _FILE).read_bytes()
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise ValueError(f"{_FILE} is not the file that came with probsfa; install the package again.")
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in ("decimals", *VINTAGES)}


def _decode(stored: NDArray[np.int64], decimals: NDArray[np.int64]) -> FloatArray:
    # Both numbers are exact in float64, so that the quotient is the float64 nearest to the decimal number.
    return np.where(stored == MISSING, np.nan, stored / 10.0**decimals)


def _frame(values: FloatArray) -> pd.DataFrame:
    months = pd.date_range(START, periods=len(values), freq="MS", name="month")
    return pd.DataFrame(values, index=months, columns=list(SERIES))


def _changes(levels: "pd.Series[float]") -> "pd.Series[float]":
    """Return the changes of a series since the previous publication."""
    _, frequency, change = SERIES[str(levels.name)]
    if change == _LEVEL:
        return levels
    values = levels.map(np.log) * 100.0 if change == _GROWTH else levels
    return values - values.shift(_MONTHS[frequency])
