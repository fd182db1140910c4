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
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.networks import SETTINGS, cut, train
from common.options import read_options
from tsibench import PATTERNS, RECORDS, held_out_values, score


def row(what: str, name: str, cells: list[float], spread: list[float] | None, after: str = "") -> str:
    """A line of the table."""
    told = [
        f"{'':20}" if np.isnan(c) else f"{c:10.3f}" + (f" +- {s:.3f} " if s is not None else f"{'':10}")
        for c, s in zip(cells, spread or [None] * len(cells), strict=True)
    ]
    return f"{what[:46]:46}{name:>5}{''.join(told)}{after}".rstrip()


def print_published(folder: Path, name: str, network: str) -> None:
    """Print the published rows of a network."""
    table = pd.read_csv(folder / "tsibench" / "published.csv")
    table = table[(table.dataset == name) & (table.method == network)].set_index(["pattern", "rate"])
    table = table.loc[list(PATTERNS)]
    count = f"{'':16}{int(table.parameters.iloc[0]):>12,}"
    print(row(f"{network}, published", "MAE", list(table.mae), list(table.mae_sd), count))
    print(row("", "MSE", list(table.mse), None), flush=True)


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
    heads = [f"{pattern} {rate.rstrip('%')} %" for pattern, rate in PATTERNS]
    print(f"{options.only:51}{''.join(f'{head:>19} ' for head in heads)} s train s fills  parameters")
    for network in options.networks.split(","):
        if network in ("SAITS", "BRITS"):
            print_published(options.data, options.only.removesuffix("Raw"), network)
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
                print(f"{network}, seed {seed}, {heads[j]}: {cells}; {told}", file=sys.stderr, flush=True)
        mean, spread = errors.mean(0), errors.std(0)
        after = f"{trained:8.0f}{filled:8.0f}{filler.parameters:>12,}"
        print(row(f"{network}, run here", "MAE", list(mean[:, 0]), list(spread[:, 0]), after))
        print(row("", "MSE", list(mean[:, 1]), None), flush=True)


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # PyPOTS reports every epoch
    main()
