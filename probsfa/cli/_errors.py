"""The error of what the user can put right."""

__all__ = ["CommandError"]


class CommandError(ValueError):
    """Something the user can put right; shown as one line, with exit code 2."""
