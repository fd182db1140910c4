"""Images as rows."""

from typing import Any

import numpy as np

__all__ = ["flat_images", "image_shape"]


def flat_images(X: Any) -> Any:
    """Return images (N, H, W) or (N, H, W, C), or a list of such, as rows (N, H W C); else X as it is."""
    if isinstance(X, list) and X and all(_is_images(x) for x in X):
        return [x.reshape(len(x), -1) for x in X]
    return X.reshape(len(X), -1) if _is_images(X) else X


def image_shape(X: Any) -> tuple[int, ...] | None:
    """Return (H, W, C) of images, or of those in a list; None for anything else.

    Raises
    ------
    ValueError
        If the images of a list differ.
    """
    pieces = X if isinstance(X, list) else [X]
    shapes = {(*x.shape[1:], 1)[:3] for x in pieces if _is_images(x)}
    if len(shapes) > 1:
        raise ValueError(f"X has images of different shapes, {sorted(shapes)}; all must have one.")
    return shapes.pop() if shapes else None


def _is_images(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.ndim in (3, 4) and X.shape[0] > 0
