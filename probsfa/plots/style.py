"""Common style of all figures: colours and axes."""

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A palette for colour-blind readers that is distinguishable in grey (Okabe & Ito 2008).
BLUE, ORANGE, GREEN, GREY, BLACK = "#0072B2", "#D55E00", "#009E73", "#999999", "#222222"
PALETTE = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9", BLACK, GREY)  # for groups, in this order


def figure(width: float, height: float) -> Any:
    """Make a new figure; size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def axes_or_new(ax: "Axes | None", width: float, height: float) -> "Axes":
    """Return the axes, or those of a new figure of the given size in inches if `ax` is None."""
    return figure(width, height).subplots() if ax is None else ax


def format_axes(ax: "Axes", when: NDArray[Any] | None = None) -> None:
    """Remove upper and right spines; with times, set the limits and label dates briefly."""
    ax.spines[["top", "right"]].set_visible(False)
    if when is None or len(when) < 2:
        return
    ax.set_xlim(when[0], when[-1])
    if when.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=4, maxticks=9)  # with minticks=5 it has no interval for five days
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
