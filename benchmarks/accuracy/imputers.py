"""Three imputers in one scikit-learn pipeline: errors of hidden values and of predictions, and seconds.

``make_pipeline(StandardScaler(), imputer, Ridge())`` predicts one column from the others of the same row.
The imputers are ``ProbabilisticImputer()``, ``IterativeImputer()`` and ``KNNImputer()``, with their
defaults. The first 1,000 of 1,500 rows of a data set are for the fit, the others for the test. In both, 10 %
of the values are hidden, as single values or in blocks of 24 rows. Errors are root mean squares: of the
hidden values of the test rows, in standard deviations of their columns, and of the predictions of test rows,
in standard deviations of the predicted column. For comparison, predictions of the last row of the table use
the columns without hidden values; values that are missing in the data are replaced by column means. Seconds
are of fit and prediction together; processor seconds in brackets.

    python benchmarks/accuracy/imputers.py [--quick] [--data FOLDER]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probsfa.datasets import hide_blocks, hide_values
from probsfa.imputation import ProbabilisticImputer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import RECORDS, records
from common.options import read_options
from common.side_by_side import setting
from common.tables import Table

N_ROWS, N_FIT = 1500, 1000
#: The column that is predicted: temperature at one of three airports, oil temperature, fine particles.
TARGETS = {"weather": 1, "ETT": 6, "Beijing, one station": 0}
HIDINGS = {
    "values": lambda X: hide_values(X, 0.1, random_state=0),
    "24-row blocks": lambda X: hide_blocks(X, 24, 0.1, random_state=0),
}
IMPUTERS = {
    "ProbabilisticImputer": ProbabilisticImputer,
    "IterativeImputer": lambda: IterativeImputer(random_state=0),
    "KNNImputer": KNNImputer,
}


def without_gaps(column):
    """Interpolate the two missing values of the predicted column of the weather."""
    known, rows = ~np.isnan(column), np.arange(len(column))
    return np.interp(rows, rows[known], column[known])


def run(imputer, X, y, hidden):
    """Return errors of hidden values and of predictions, wall-clock seconds and processor seconds."""
    incomplete = np.where(hidden, np.nan, X)
    began = np.array([time.perf_counter(), time.process_time()])
    pipeline = make_pipeline(StandardScaler(), imputer, Ridge()).fit(incomplete[:N_FIT], y[:N_FIT])
    predicted = pipeline.predict(incomplete[N_FIT:])
    seconds = np.array([time.perf_counter(), time.process_time()]) - began
    completed = pipeline[:-1].transform(incomplete[N_FIT:])
    truth = pipeline[0].transform(X[N_FIT:])
    errors = (completed - truth)[hidden[N_FIT:]]
    missed = (predicted - y[N_FIT:]) / y[:N_FIT].std()
    return np.sqrt(np.mean(errors**2)), np.sqrt(np.mean(missed**2)), *seconds


def main() -> None:
    """Print a table for each record."""
    args = read_options(
        __doc__,
        data=RECORDS,
        quick=(False, "one record"),
    )
    warnings.simplefilter("ignore")
    print(setting("numpy", "scikit-learn"))
    found = records(args.data)
    for name in list(TARGETS)[:1] if args.quick else TARGETS:
        if found[name] is None:
            print(f"{name}: its file is not in {args.data}")
            continue
        data = found[name][:N_ROWS]
        X, y = np.delete(data, TARGETS[name], axis=1), without_gaps(data[:, TARGETS[name]])
        rows = {each: [each] for each in [*IMPUTERS, "nothing hidden"]}
        for hide in HIDINGS.values():
            hidden = hide(X)
            for each, make in IMPUTERS.items():
                error, missed, seconds, processor = run(make(), X, y, hidden)
                rows[each] += [f"{error:.3f}", f"{missed:.3f}", f"{seconds:.1f} ({processor:.1f})"]
            _, missed, *_ = run(SimpleImputer(), X, y, np.zeros_like(hidden))
            rows["nothing hidden"] += ["", f"{missed:.3f}", ""]
        head = [part for each in HIDINGS for part in (f"hidden {each}", "prediction", "seconds")]
        print(f"\n{name}, {X.shape[1]} columns:\n")
        Table("", *head, rows=list(rows.values()))


if __name__ == "__main__":
    main()
