"""Networks of PyPOTS: training and results."""

import contextlib
import sys
import time
from typing import Any

import numpy as np
from common.window_records import PATTERNS, Filler, Record, hide

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
#: First seed of the published runs.
FIRST_SEED = 2024
PATIENCE, BATCH = 10, 32


class Network:
    """A trained network that imputes standardised windows."""

    def __init__(self, model: Any, mean: np.ndarray, scale: np.ndarray) -> None:
        self.model, self.mean, self.scale = model, mean, scale
        #: Number of learned parameters.
        self.parameters = sum(p.numel() for p in model.model.parameters() if p.requires_grad)

    def __call__(self, windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        """Impute windows."""
        holed = (np.stack(windows) - self.mean) / self.scale
        filled = self.model.predict({"X": holed.astype(np.float32)})["imputation"]
        return list(np.asarray(filled, dtype=float) * self.scale + self.mean), None


def cut(rows: np.ndarray, window: int) -> np.ndarray:
    """Cut rows into windows (N, T, D) without overlap."""
    n = len(rows) // window
    return rows[: n * window].reshape(n, window, -1)


def train(
    network: str, name: str, record: Record, which: int | None, seed: int, epochs: int
) -> tuple[Filler, str]:
    """Train a network for one pattern, or for the missing values of the training part; print the result."""
    with contextlib.redirect_stdout(sys.stderr):  # PyPOTS prints a greeting
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
        rows = np.where(np.random.default_rng(seed).random(rows.shape) < record.hidden_share, np.nan, rows)
    learned = cut((rows - mean) / scale, record.window)
    rng = np.random.default_rng([seed, 2])
    pattern, rate = ("point", f"{100 * record.hidden_share:.0f}%") if which is None else PATTERNS[which]
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
