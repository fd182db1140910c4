"""What the commands say when they cannot go on."""

__all__ = ["CommandError"]


class CommandError(ValueError):
    """Something the user can put right; shown as one line, with exit code 2."""
