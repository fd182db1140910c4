"""Model selection: structures found in simulated series, and models selected for real data.

*Structures.* Series of 600 rows and 6 columns: two AR(1) factors; a factor and AR(1) noise of each column; a
smooth (Matern-3/2) process; a factor and a stochastic cycle; Poisson counts with a factor; white noise.
A row for each kind has the number of series in which `select_model` found the structure, or a model of at
most 2 BIC units more, how often it warned of counts, the number of models, and processor seconds.

*Records.* The bundled weather, ETT_h1 and the UCI air-quality data, in which a tenth of the observed values
is hidden, as single values and in blocks of 24 rows. The table has root mean square errors in standard
deviations, of the selected model, of `ProbabilisticSFA()` and of linear interpolation.

    python benchmarks/accuracy/selection.py [--seeds N] [--records NAME ...] [--data FOLDER]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.linalg import expm

from probsfa import ProbabilisticSFA, select_model
from probsfa.datasets import hide_blocks, hide_values
from probsfa.imputation import LinearInterpolation

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import records
from common.options import read_options
from common.side_by_side import setting, timed
from common.tables import Table

ROWS, COLUMNS = 600, 6
#: Options of the true structures; a Gaussian model of counts has none.
TRUTHS = {
    "two factors": {"n_components": 2},
    "a factor, AR(1) noise": {"n_components": 1, "noise": "ar1"},
    "a smooth process": {"n_components": 0, "smooth": 1},
    "a factor, a cycle": {"n_components": 1, "rhythms": 1},
    "counts": None,
    "white noise": {"n_components": 0},
}


def markov(rng, matrix, start):
    """Draw rows (ROWS, K) of a stationary process z_t = A z_t-1 + e_t with a given covariance (K, K)."""
    root, innovation = np.linalg.cholesky(start), np.linalg.cholesky(start - matrix @ start @ matrix.T)
    states = [root @ rng.standard_normal(len(start))]
    while len(states) < ROWS:
        states.append(matrix @ states[-1] + innovation @ rng.standard_normal(len(start)))
    return np.array(states)


def ar1(rng, decay):
    """Draw an AR(1) process of unit variance."""
    return markov(rng, np.array([[decay]]), np.eye(1))


def draw(kind, seed):
    """Draw a series of a kind."""
    rng = np.random.default_rng([seed, list(TRUTHS).index(kind)])
    white = rng.standard_normal((ROWS, COLUMNS))
    if kind == "white noise":
        return white
    loadings = rng.standard_normal((3, COLUMNS))
    if kind == "two factors":
        return np.hstack([ar1(rng, 0.98), ar1(rng, 0.8)]) @ loadings[:2] + 0.5 * white
    if kind == "a factor, AR(1) noise":
        own = np.hstack([ar1(rng, decay) for decay in rng.uniform(0.6, 0.95, COLUMNS)])
        return ar1(rng, 0.98) @ loadings[:1] + 0.7 * own + 0.3 * white
    if kind == "a smooth process":
        rate = 1.0 / 15.0
        drift = np.array([[0.0, 1.0], [-(rate**2), -2.0 * rate]])
        path = markov(rng, expm(drift), np.diag([1.0, rate**2]))[:, :1]
        return path @ loadings[:1] + 0.5 * white
    if kind == "counts":
        return rng.poisson(np.exp(0.5 + 0.7 * ar1(rng, 0.95) @ loadings[:1])).astype(float)
    turn = 2.0 * np.pi / 24.0
    rotation = 0.98 * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return ar1(rng, 0.95) @ loadings[:1] + markov(rng, rotation, np.eye(2)) @ loadings[1:] + 0.5 * white


def structures(seeds):
    """Yield a line for each kind."""
    for kind, truth in TRUTHS.items():
        found = near = warned = models = 0
        began, other = time.process_time(), []
        for seed in range(seeds):
            X = draw(kind, seed)
            with warnings.catch_warnings(record=True) as messages:
                warnings.simplefilter("always")
                selection = select_model(X)
            warned += any("EmissionSFA" in str(each.message) for each in messages)
            models += len(selection.table)
            if truth is None:
                continue
            best = ProbabilisticSFA(**{"noise": "diagonal", **truth}).fit(X)
            found += selection.options == truth
            near += selection.best_estimator_.bic(X) <= best.bic(X) + 2.0
            if selection.options != truth:
                other.append(str(selection.options))
        seconds = (time.process_time() - began) / seeds
        of = ["", ""] if truth is None else [f"{found} of {seeds}", f"{near} of {seeds}"]
        others = "; ".join(sorted(set(other)))
        yield [kind, *of, str(warned), f"{models / seeds:.0f}", f"{seconds:.1f}", others]


def real(X):
    """Yield a line for each method of a record."""
    single_values = hide_values(X, 0.05, random_state=1)
    blocks = hide_blocks(np.where(single_values, np.nan, X), 24, 0.05, random_state=1)
    incomplete, spread = np.where(single_values | blocks, np.nan, X), np.nanstd(X, axis=0)
    selected = []

    def by_selection():
        selected.append(select_model(incomplete))
        return selected[0].best_estimator_.impute(incomplete)

    methods = {
        "linear interpolation": lambda: LinearInterpolation().fill(incomplete).values,
        "ProbabilisticSFA()": lambda: ProbabilisticSFA().fit(incomplete).impute(incomplete),
        "select_model": by_selection,
    }
    for called, fill in methods.items():
        seconds, filled = timed(fill, time.process_time)
        errors = [
            np.sqrt(np.mean((((filled - X) / spread)[hidden]) ** 2)) for hidden in (single_values, blocks)
        ]
        chosen = f": {selected[0].options}" if selected else ""
        yield [called + chosen, *(f"{error:.3f}" for error in errors), f"{seconds:.1f}"]


def main() -> None:
    """Print both tables."""
    options = read_options(
        __doc__,
        data="etth1/, air_quality_uci/",
        seeds=(10, "series of each kind; 0 for none"),
        records={"nargs": "*", "default": ["weather", "ETT", "air quality"]},
    )
    warnings.simplefilter("ignore")
    print(setting("numpy"))
    if options.seeds:
        heads = ["series", "found", "within 2 BIC", "warned of counts", "fits", "s", "other structures"]
        table = Table(*heads)
        for line in structures(options.seeds):
            table.add(*line)
    given = records(options.data) if options.records else {}
    for name in options.records:
        if given[name] is None:
            raise FileNotFoundError(f"{options.data} does not hold the record {name!r}")
        print()
        table = Table(name, "values", "blocks", "s")
        for line in real(given[name]):
            table.add(*line)


if __name__ == "__main__":
    main()
