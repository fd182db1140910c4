"""Figures of several panels."""

from typing import Any, NamedTuple


class Panel(NamedTuple):
    """A panel: its title and a function that draws it."""

    title: str
    draw: Any


def draw(panels: list[Panel], path: str) -> None:
    """Write the figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, -(-len(panels) // 3), figsize=(13, 8), layout="constrained")
    for ax in axes.ravel():
        ax.set_axis_off()
    for ax, panel in zip(axes.ravel(), panels, strict=False):
        ax.set_axis_on()
        panel.draw(ax)
        ax.set(title=panel.title, xticks=[], yticks=[])
    figure.savefig(path, dpi=100)
