"""Two networks of TSI-Bench, trained on the windows and hidden values of `tsibench.py`.

SAITS (Du, Cote & Liu 2023) and BRITS (Cao et al. 2018) as implemented by PyPOTS, on one processor core, and
their published results (Du et al. 2024, arXiv:2406.12747, tables 12 to 16). Windows, scales and hidden values
of the test part are those of `tsibench.py` for each seed, so that results are comparable.

Settings are those of TSI-Bench: for ItalyAir from its repository; for ETT_h1, whose settings file is empty,
from a later study, with which the networks have as many parameters as in the published logs. Training is by
Adam with batches of 32 and at most 100 epochs. It ends when the error on the validation part, with values
hidden in the same pattern, has not decreased for ten epochs. As in TSI-Bench, a network is trained for each
pattern; with ``--holes training`` one network is trained for all patterns, on the values to which the model
of `tsibench.py` is fitted. The published settings of SAITS have the width (d_model) 64, and 8 heads of width
256 (ETT_h1) or 128 (ItalyAir). PyPOTS increases the width to that of all heads together, 2,048 or 1,024.
``SAITS-64`` has 8 heads of width 8, and otherwise the same settings.

PyPOTS is not a dependency of this package. In a separate environment:

    pip install . pypots torch

Seconds are processor seconds of training and of the imputation of all test windows; parameters are the
numbers of estimated parameters. The result of each training is written to standard error. The third data set
is the second with its code -200 for missing values left in as values, as PyPOTS reads it.

    python benchmarks/accuracy/tsibench_networks.py [--only NAME] [--networks LIST] [--patterns LIST]
"""

import logging
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.networks import SETTINGS, cut, train
from common.options import read_options
from common.tables import Table
from common.window_records import HEADS, PATTERNS, RECORDS, held_out_values, score


def numbers(values: Iterable[float]) -> list[str]:
    """Return texts of the table; those of patterns that were not requested are empty."""
    return ["" if np.isnan(value) else f"{value:.3f}" for value in values]


def with_spread(values: Iterable[float], spread: Iterable[float]) -> list[str]:
    """Return texts of the table with standard deviations."""
    pairs = zip(numbers(values), spread, strict=True)
    return [f"{text} +- {deviation:.3f}" if text else "" for text, deviation in pairs]


def add_published(table: Table, folder: Path, name: str, network: str) -> None:
    """Add the published results of a network."""
    frame = pd.read_csv(folder / "tsibench" / "published.csv")
    frame = frame[(frame.dataset == name) & (frame.method == network)].set_index(["pattern", "rate"])
    frame = frame.loc[list(PATTERNS)]
    count = f"{int(frame.parameters.iloc[0]):,}"
    table.add(f"{network}, published", "MAE", *with_spread(frame.mae, frame.mae_sd), "", "", count)
    table.add("", "MSE", *numbers(frame.mse))


def main() -> None:
    """Train the networks and print the table."""
    options = read_options(
        __doc__,
        data="etth1/, air_quality_uci/ and tsibench/",
        only={"choices": list(SETTINGS), "default": "ETT_h1", "help": "which record"},
        networks=("BRITS,SAITS", "which networks, with commas between them"),
        patterns=(
            "01234",
            "numbers of patterns: 0, 1 and 2 for 10, 50 and 90 %% points, 3 for subsequences, 4 for blocks",
        ),
        holes={
            "choices": ("pattern", "training"),
            "default": "pattern",
            "help": "missing values of training windows: as in the filled pattern, or as in tsibench.py",
        },
        seeds=1,
        epochs=(100, "epochs at most"),
    )
    warnings.simplefilter("ignore")
    record = RECORDS[options.only](options.data)
    asked = [int(digit) for digit in options.patterns]
    scale = np.nanstd(record.values[record.train], axis=0)
    windows = list(cut(record.values[record.test], record.window))
    table = Table(options.only, "", *HEADS, "s train", "s fills", "parameters")
    for network in options.networks.split(","):
        if network in ("SAITS", "BRITS"):
            add_published(table, options.data, options.only.removesuffix("Raw"), network)
        errors = np.full((options.seeds, len(PATTERNS), 2), np.nan)
        trained = filled = 0.0
        for seed in range(options.seeds):
            hidden = held_out_values(windows, record, seed)
            filler = None
            for j in asked:
                if filler is None or options.holes == "pattern":
                    begin = time.process_time()
                    which = j if options.holes == "pattern" else None
                    filler, told = train(network, options.only, record, which, seed, options.epochs)
                    trained += time.process_time() - begin
                begin = time.process_time()
                errors[seed, j] = score(filler, windows, hidden[j], scale)[0][:2]
                filled += time.process_time() - begin
                cells = f"{errors[seed, j, 0]:.4f} {errors[seed, j, 1]:.4f}"
                print(f"{network}, seed {seed}, {HEADS[j]}: {cells}; {told}", file=sys.stderr, flush=True)
        mean, spread = errors.mean(0), errors.std(0)
        rest = f"{trained:.0f}", f"{filled:.0f}", f"{filler.parameters:,}"
        table.add(f"{network}, run here", "MAE", *with_spread(mean[:, 0], spread[:, 0]), *rest)
        table.add("", "MSE", *numbers(mean[:, 1]))


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # PyPOTS prints a line for every epoch
    main()
