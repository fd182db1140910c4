"""Common style of all figures: colours and axes."""

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that colour-blind readers can distinguish, also in grey (Okabe & Ito 2008).
BLUE, ORANGE, GREEN, GREY, BLACK = "#0072B2", "#D55E00", "#009E73", "#999999", "#222222"
PALETTE = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9", BLACK, GREY)  # colours of groups


def figure(width: float, height: float) -> Any:
    """Return a new figure of a size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def axes_or_new(ax: "Axes | None", width: float, height: float) -> "Axes":
    """Return the axes; if None, axes of a new figure of the given size in inches."""
    return figure(width, height).subplots() if ax is None else ax


def format_axes(ax: "Axes", times: NDArray[Any] | None = None) -> None:
    """Remove upper and right spines; with times, set the limits and the format of dates."""
    ax.spines[["top", "right"]].set_visible(False)
    if times is None or len(times) < 2:
        return
    ax.set_xlim(times[0], times[-1])
    if times.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=4, maxticks=9)  # minticks=5 fails for slightly less than five days
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
