"""Two networks of TSI-Bench, trained here on the windows and hidden cells of `tsibench.py`.

SAITS (Du, Cote & Liu 2023) and BRITS (Cao et al. 2018) as PyPOTS has them, on one processor core, beside
their published rows (Du et al. 2024, arXiv:2406.12747, tables 12 to 16). Records, windows, scales and the
hidden cells of the test part are those of that program for each seed, so that lines compare.

Settings are those of TSI-Bench: of ItalyAir as its repository has them; of ETT_h1, where its file is empty,
those that a later study took over, with which the networks have as many parameters as its logs print. Adam,
batches of 32, 100 epochs at most; training ends when the part between training and test, holed likewise, has
not been filled better for ten epochs. For each pattern a network is trained on windows with holes of that
pattern, as there; with ``--holes training`` one network is trained for all patterns, on the cells that the
model of `tsibench.py` is fitted to. SAITS is 2,048 and 1,024 wide where its settings say 64, as it must be
8 heads of 256 and 128 wide and PyPOTS corrects that; ``SAITS-64`` has 8 heads of 8, all else being the same.

PyPOTS is no dependency of this package. In an environment of its own:

    pip install . pypots torch

Seconds are those of the processor, for training and for filling all test windows; parameters are those that
are learned. A line of what each training did goes to the error stream. The third record is the second with
its -200, which stand for missing values, left in as values: so PyPOTS reads it.

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
    """Return cells of the table; those of patterns that were not asked for are empty."""
    return ["" if np.isnan(value) else f"{value:.3f}" for value in values]


def with_spread(values: Iterable[float], spread: Iterable[float]) -> list[str]:
    """Return cells of the table with standard deviations."""
    pairs = zip(numbers(values), spread, strict=True)
    return [f"{text} +- {deviation:.3f}" if text else "" for text, deviation in pairs]


def add_published(table: Table, folder: Path, name: str, network: str) -> None:
    """Add the published rows of a network."""
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
    logging.disable(logging.WARNING)  # PyPOTS reports every epoch
    main()
