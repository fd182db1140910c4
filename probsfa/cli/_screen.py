"""What the commands write: results to standard output, notes and progress to standard error."""

import sys
from collections.abc import Iterable
from typing import Any

__all__ = ["Screen"]


class Screen:
    """Writes for the user.

    Parameters
    ----------
    quiet : bool
        Whether to leave out notes and progress. Results, warnings and errors are always written.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def result(self, text: str) -> None:
        """Write a result to standard output."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Write a note to standard error."""
        if not self.quiet:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def warn(self, text: str) -> None:
        """Write what the user should know in any case to standard error, on one line."""
        sys.stderr.write(f"probsfa: note: {_one_line(text.splitlines())}\n")
        sys.stderr.flush()

    def progress(self, total: int) -> Any:
        """Start a progress bar, to be used in a `with` block."""
        from tqdm import tqdm

        form = "{desc:<22} {percentage:3.0f} % |{bar}| {elapsed}"
        return tqdm(total=total, file=sys.stderr, disable=self.quiet, leave=False, bar_format=form)

    def error(self, text: str) -> None:
        """Write an error to standard error, on one line."""
        sys.stderr.write(f"probsfa: error: {_one_line(text.splitlines())}\n")


def _one_line(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
