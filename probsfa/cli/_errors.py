"""Error for problems that the user can correct."""

__all__ = ["CommandError"]


class CommandError(ValueError):
    """A problem that the user can correct; reported in one line, with exit code 2."""
