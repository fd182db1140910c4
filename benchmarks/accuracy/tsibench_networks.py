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

import contextlib
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options

sys.path.insert(0, str(Path(__file__).resolve().parent))

from tsibench import PATTERNS, RECORDS, Filler, Record, held_out_values, hide, score

ETT = {"n_steps": 48, "n_features": 7}
ITALY = {"n_steps": 12, "n_features": 13}
#: Settings by record and network; ``lr`` is the step of Adam.
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "ETT_h1": {
        "SAITS": {
            **ETT,
            **{"n_layers": 3, "d_model": 2048, "d_ffn": 512, "n_heads": 8, "d_k": 256, "d_v": 128},
            **{"dropout": 0.0, "attn_dropout": 0.1, "lr": 0.00013619330183926336},
        },
        "SAITS-64": {
            **ETT,
            **{"n_layers": 3, "d_model": 64, "d_ffn": 512, "n_heads": 8, "d_k": 8, "d_v": 128},
            **{"dropout": 0.0, "attn_dropout": 0.1, "lr": 0.00013619330183926336},
        },
        "BRITS": {**ETT, "rnn_hidden_size": 512, "lr": 0.005364156231811175},
    },
    "ItalyAir": {
        "SAITS": {
            **ITALY,
            **{"n_layers": 3, "d_model": 1024, "d_ffn": 64, "n_heads": 8, "d_k": 128, "d_v": 32},
            **{"dropout": 0.1, "attn_dropout": 0.2, "lr": 0.00007565260478606772},
        },
        "SAITS-64": {
            **ITALY,
            **{"n_layers": 3, "d_model": 64, "d_ffn": 64, "n_heads": 8, "d_k": 8, "d_v": 32},
            **{"dropout": 0.1, "attn_dropout": 0.2, "lr": 0.00007565260478606772},
        },
        "BRITS": {**ITALY, "rnn_hidden_size": 256, "lr": 0.002656655600651736},
    },
}
SETTINGS["ItalyAirRaw"] = SETTINGS["ItalyAir"]
#: Where the random numbers of the published runs start.
FIRST_SEED = 2024
PATIENCE, BATCH = 10, 32


class Network:
    """A network that learned to fill standardised windows."""

    def __init__(self, model: Any, mean: np.ndarray, scale: np.ndarray) -> None:
        self.model, self.mean, self.scale = model, mean, scale
        #: Numbers that were learned.
        self.parameters = sum(p.numel() for p in model.model.parameters() if p.requires_grad)

    def __call__(self, windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        """Fill windows."""
        holed = (np.stack(windows) - self.mean) / self.scale
        filled = self.model.predict({"X": holed.astype(np.float32)})["imputation"]
        return list(np.asarray(filled, dtype=float) * self.scale + self.mean), None


def cut(rows: np.ndarray, window: int) -> np.ndarray:
    """Windows without overlap (N, T, D)."""
    n = len(rows) // window
    return rows[: n * window].reshape(n, window, -1)


def train(
    network: str, name: str, record: Record, which: int | None, seed: int, epochs: int
) -> tuple[Filler, str]:
    """Train a network for one pattern, or with the holes of the training part; say how that went."""
    with contextlib.redirect_stdout(sys.stderr):  # PyPOTS greets
        import torch
        from pypots.imputation import BRITS, SAITS
        from pypots.optim import Adam
        from pypots.utils.random import set_random_seed

    torch.set_num_threads(1)
    set_random_seed(FIRST_SEED + seed)
    rows = record.values[record.train]
    mean, scale = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
    judged = cut((record.values[record.train.stop : record.test.start] - mean) / scale, record.window)
    if which is None:
        rows = np.where(np.random.default_rng(seed).random(rows.shape) < record.holes, np.nan, rows)
    learned = cut((rows - mean) / scale, record.window)
    rng = np.random.default_rng([seed, 2])
    pattern, rate = ("point", f"{100 * record.holes:.0f}%") if which is None else PATTERNS[which]
    if which is not None:
        learned = np.stack([np.where(hide(one, pattern, rate, record, rng), np.nan, one) for one in learned])
    holed = np.stack([np.where(hide(one, pattern, rate, record, rng), np.nan, one) for one in judged])

    settings = dict(SETTINGS[name][network])
    step = settings.pop("lr")
    kind = BRITS if network == "BRITS" else SAITS
    model = kind(
        **settings,
        epochs=epochs,
        patience=min(PATIENCE, epochs),
        batch_size=BATCH,
        optimizer=Adam(lr=step),
        device="cpu",
        saving_path=None,
        model_saving_strategy=None,
    )
    begin = time.perf_counter()
    model.fit(
        {"X": learned.astype(np.float32)},
        {"X": holed.astype(np.float32), "X_ori": judged.astype(np.float32)},
    )
    spent = time.perf_counter() - begin
    told = f"{len(learned)} windows, best of epoch {model.best_epoch}, {spent:.0f} s of the clock"
    return Network(model, mean, scale), told


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
