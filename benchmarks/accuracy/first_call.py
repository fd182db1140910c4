"""The first call on real records: no option at all, beside linear interpolation.

``ProbabilisticSFA().fit(X).impute(X)`` and ``probsfa impute`` with no option, on six
records: the bundled weather, the UCI air-quality record (-200 is missing), ETT,
Tennessee Eastman (normal operation, both runs), occupancy (training file) and Beijing (one station, and all
twelve). 10 % of the observed cells are hidden, one by one or in blocks of 24 rows, five masks each. Errors
are root mean squares in units of each column's standard deviation. Seconds are of fit and impute together, in
a process that has compiled nothing yet for the first mask of a record; those of the command are of its whole
process, reading and writing included. In brackets, processor seconds, which hardly depend on what else the
machine does.

    python benchmarks/accuracy/first_call.py [--quick] [--only NAME] [--commands N] [--data FOLDER]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from probsfa import ProbabilisticSFA
from probsfa.datasets import hide_blocks, hide_cells
from probsfa.imputation import LinearInterpolation

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import RECORDS, add_data_option, records
from common.side_by_side import setting, table

HIDINGS = {
    "cells": lambda X, seed: hide_cells(X, 0.1, random_state=seed),
    "24-row blocks": lambda X, seed: hide_blocks(X, 24, 0.1, random_state=seed),
}


def by_package(seen):
    """The first call; gives the fill, standard deviations and the model."""
    model = ProbabilisticSFA().fit(seen)
    return *model.impute(seen, return_std=True), model


def by_command(seen):
    """The command without an option, on a file of these values; gives the fill and the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.csv"), Path(folder, "out.csv")
        pd.DataFrame(seen).add_prefix("x").to_csv(source, index=False)
        call = [sys.executable, "-m", "probsfa", "impute", str(source), "-o", str(target), "-q"]
        clock = Clock()
        subprocess.run(call, check=True, capture_output=True)
        seconds = clock.read()
        return pd.read_csv(target).to_numpy(float), seconds


class Clock:
    """Seconds since it was made, and processor seconds of this process and of those it has waited for."""

    def __init__(self):
        self.began = self._now()

    def _now(self):
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return np.array([time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used)])

    def read(self):
        """Both since then."""
        return self._now() - self.began


def in_words(seconds):
    """Seconds, and processor seconds in brackets."""
    return "{:.1f} ({:.1f})".format(*seconds)


def main() -> None:
    """Print a line for each mask, and the table of means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one mask")
    parser.add_argument("--only", help="the record of this name")
    parser.add_argument(
        "--commands",
        type=int,
        default=5,
        metavar="N",
        help="run the command, too, on the first N masks of a record",
    )
    add_data_option(parser, RECORDS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(setting("jax", "jaxlib", "numpy"))
    rows = []
    for name, X in records(args.data).items():
        if args.only not in (None, name):
            continue
        if X is None:
            print(f"{name}: its file is not in {args.data}")
            continue
        scale = np.nanstd(X, axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        for hiding, hide in HIDINGS.items():
            runs = []
            for seed in range(1 if args.quick else 5):
                hidden = hide(X, seed)
                seen = np.where(hidden, np.nan, X)

                def error(filled, hidden=hidden, X=X, scale=scale):
                    return float(np.sqrt(np.mean((((filled - X) / scale)[hidden]) ** 2)))

                lines = error(LinearInterpolation().fill(seen).values)
                clock = Clock()
                filled, std, model = by_package(seen)
                seconds = clock.read()
                covered = float(np.mean(np.abs(filled - X)[hidden] <= 1.6449 * std[hidden]))
                command, whole = np.nan, np.zeros(2)
                if seed < args.commands:
                    output, whole = by_command(seen)
                    command = error(output)
                runs.append([lines, error(filled), command, covered, *seconds, *whole])
                told = "" if np.isnan(command) else f", command {command:.4f} ({in_words(whole)} s)"
                print(
                    f"{name}, {hiding}, mask {seed}: linear {lines:.4f}, probsfa {runs[-1][1]:.4f} "
                    f"(K = {len(model.decay_)}, {model.n_evaluations_} evaluations, "
                    f"{in_words(seconds)} s){told}",
                    flush=True,
                )
            by_commands = [run for run in runs if not np.isnan(run[2])]
            lines, ours, _, covered = np.mean(runs, axis=0)[:4]
            command = np.mean([run[2] for run in by_commands]) if by_commands else np.nan
            won = sum(run[1] < run[0] for run in runs)
            won_too = sum(run[2] < run[0] for run in by_commands)
            longest = np.max(runs, axis=0)[4:]
            rows.append(
                [f"{name}, {hiding}", f"{lines:.3f}", f"{ours:.3f}", f"{command:.3f}",
                 f"{won} of {len(runs)}, {won_too} of {len(by_commands)}", f"{100 * covered:.0f} %",
                 in_words(longest[:2]), in_words(longest[2:])]
            )  # fmt: skip
    head = ["record", "linear", "first call", "command", "better in", "90 % covers", "longest s", "command s"]
    print("\n" + table(head, rows))


if __name__ == "__main__":
    main()
