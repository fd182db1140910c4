"""Scores of methods, printed as a table in descending order of quality."""

import sys

import numpy as np
from common.tables import Table


class Scores:
    """Scores of several methods, with one value for each split."""

    def __init__(self, title: str, *, smaller: bool = False) -> None:
        self.title = title
        self.smaller = smaller  # root mean square errors; otherwise shares
        self.rows: dict[str, list[float]] = {}
        self.losses: dict[str, np.ndarray] = {}

    def add(self, name: str, value: float, losses: np.ndarray | None = None) -> None:
        """Add the score of one split; `losses` are squared errors or wrong predictions of its cases."""
        self.rows.setdefault(name, []).append(float(value))
        if losses is not None:
            self.losses[name] = np.asarray(losses, dtype=float).ravel()
        print(f"  {name}: {value:.4f}", file=sys.stderr, flush=True)

    def show(self, note: str = "") -> None:
        """Print mean scores, best first, and the difference of the best method of either side."""
        print(f"\n{self.title}\n")
        order = sorted(self.rows, key=lambda name: np.mean(self.rows[name]) * (1 if self.smaller else -1))
        table = Table("", "mean", "smallest to largest")
        for name in order:
            values = self.rows[name]
            spread = [f"{min(values):.4f} to {max(values):.4f}"] if len(values) > 1 else []
            table.add(name, f"{np.mean(values):.4f}", *spread)
        print()
        ours = next(name for name in order if name.startswith("probsfa"))
        peer = next(name for name in order if not name.startswith("probsfa"))
        gap = np.array(self.rows[ours]) - np.array(self.rows[peer])
        error = f" +- {gap.std(ddof=1) / np.sqrt(len(gap)):.4f}" if len(gap) > 1 else ""
        default = "probsfa, default"
        if len(gap) == 1 and {default, peer} <= set(self.losses):
            paired = self.losses[default] - self.losses[peer]
            unit = 0.5 / self.rows[peer][0] if self.smaller else 1.0  # of a root mean square
            difference, spread = self.rows[default][0] - self.rows[peer][0], unit * paired.std(ddof=1)
            print(
                f"  default less best of the others: {difference:+.4f} +- {spread / len(paired) ** 0.5:.4f}"
            )
        print(f"  best of ours less best of the others: {gap.mean():+.4f}{error}{note}")


def rmse(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Return the root mean square error."""
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))
