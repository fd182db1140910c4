"""AR(1) noise: predictions, intervals and imputation of real series, with and without it.

Weather of three airports (bundled, 18 columns): models are fitted to March and April, and evaluated in May by
one-hour-ahead predictions. "lag 1" and "lag 24" are mean absolute autocorrelations of the standardized
errors, "coverage" and "worst" the coverage of 90 % intervals (mean and minimum over columns), "RMSE / last
value" the ratio of the root mean square error to that of the last value, geometric mean over columns.

Tennessee Eastman process (Downs & Vogel 1993; d00 of Braatz, 500 rows, 52 columns): a tenth of the values is
hidden as single values, and imputed. Root mean square errors are in standard deviations of the columns.

    python benchmarks/accuracy/ar1_noise.py [--components K] [--data FOLDER]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np

from probsfa import ProbabilisticSFA
from probsfa.datasets import hide_values, load_nyc_weather

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

AR1 = {"noise": "ar1"}


def weather(n_components: int) -> None:
    """Print the table of predictions one hour ahead."""
    data = load_nyc_weather().data
    train, test = data["2013-03":"2013-04"], data["2013-05":"2013-05"]
    table = Table(
        "weather",
        *(
            "log-likelihood",
            "lag 1",
            "lag 24",
            "coverage",
            "worst",
            "RMSE / last value",
            "evaluations",
            "seconds",
        ),
    )
    for name, k, asked in (
        ("4 factors", 4, {}),
        ("4 factors, AR(1) noise", 4, AR1),
        (f"{n_components} factors", n_components, {}),
        (f"{n_components} factors, AR(1) noise", n_components, AR1),
        (f"{n_components} factors, a day", n_components, {"rhythms": ["1D"]}),
        (f"{n_components} factors, a day, AR(1) noise", n_components, {"rhythms": ["1D"], **AR1}),
    ):
        start = time.perf_counter()
        model = ProbabilisticSFA(k, **asked).fit(train)
        seconds = time.perf_counter() - start
        diagnostics = model.diagnose(test)
        covered = diagnostics.covered(0.9)["one step"]
        autocorrelations = [
            np.abs(diagnostics.autocorrelation[diagnostics.lags == lag]).mean() for lag in (1, 24)
        ]
        errors, last = diagnostics.predictions - test, test.shift(1) - test
        both = errors.notna() & last.notna()
        ratio = np.sqrt((errors[both] ** 2).mean() / (last[both] ** 2).mean())
        table.add(
            name,
            f"{model.log_likelihood_:.0f}",
            *(f"{value:.2f}" for value in autocorrelations),
            *(f"{100 * share:.1f}%" for share in (covered.mean(), covered.min())),
            f"{np.exp(np.log(ratio).mean()):.2f}",
            model.n_evaluations_,
            f"{seconds:.0f}",
        )


def eastman(folder: Path) -> None:
    """Print errors and coverage of hidden values."""
    data = np.load(folder / "tep" / "tep.npz")["d00"].astype(float)
    hidden = hide_values(data, 0.1, random_state=0)
    incomplete = np.where(hidden, np.nan, data)
    scale, rows = np.nanstd(incomplete, axis=0), np.arange(len(data))
    interpolated = np.column_stack(
        [np.interp(rows, rows[~h], x[~h]) for x, h in zip(data.T, hidden.T, strict=True)]
    )
    print()
    table = Table("Tennessee Eastman", "RMSE", "coverage", "log-likelihood", "seconds")
    table.add("linear interpolation", f"{np.sqrt(np.mean(((interpolated - data) / scale)[hidden] ** 2)):.3f}")
    for name, k, asked in (
        ("default", None, {}),
        ("default, AR(1) noise", None, AR1),
        ("10 factors", 10, {}),
    ):
        start = time.perf_counter()
        model = ProbabilisticSFA(k, **asked).fit(incomplete)
        seconds = time.perf_counter() - start
        filled, std = model.impute(incomplete, return_std=True)
        error = np.abs(filled - data)
        table.add(
            f"{name} ({model.decay_.size} factors)" if k is None else name,
            f"{np.sqrt(np.mean((error / scale)[hidden] ** 2)):.3f}",
            f"{100 * np.mean((error < 1.645 * std)[hidden]):.1f}%",
            f"{model.log_likelihood_:.0f}",
            f"{seconds:.0f}",
        )


def main() -> None:
    """Print both tables."""
    options = read_options(
        __doc__,
        data="tep/",
        components=(6, "factors for the weather"),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weather(options.components)
        if (options.data / "tep").is_dir():
            eastman(options.data)


if __name__ == "__main__":
    main()
