"""Output of the commands: results to standard output, notes and progress to standard error."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

__all__ = ["Screen"]

# Seconds between two reports of progress.
_REPORT_INTERVAL = 0.5


class Screen:
    """Output to the terminal of the user.

    Parameters
    ----------
    quiet : bool
        Whether to suppress notes and progress. Results, warnings and errors are always written.
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
        """Write a warning to standard error in one line, also if quiet."""
        sys.stderr.write(f"probsfa: warning: {_one_line(text.splitlines())}\n")
        sys.stderr.flush()

    @contextmanager
    def working(self, activity: str) -> Iterator[None]:
        """Show the current activity and its duration, only on a terminal."""
        if self.quiet or not sys.stderr.isatty():
            yield
            return
        done, start_time = threading.Event(), time.monotonic()

        def show() -> None:
            while not done.wait(_REPORT_INTERVAL):
                sys.stderr.write(f"\r{activity}, {time.monotonic() - start_time:.0f} s")
                sys.stderr.flush()

        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    @contextmanager
    def progress(self) -> Iterator[Callable[[int, int, str], None]]:
        """Yield a function that shows a progress bar, only on a terminal."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda done, total, activity: None
            return
        from tqdm import tqdm  # not required where no bar is shown

        bar_format = "{desc:<22} {percentage:3.0f} % |{bar}| {elapsed}"
        with tqdm(total=1, file=sys.stderr, leave=False, bar_format=bar_format) as bar:

            def show(done: int, total: int, activity: str) -> None:
                bar.n, bar.total = done, total
                bar.set_description(activity)

            yield show

    def error(self, text: str) -> None:
        """Write an error to standard error in one line."""
        sys.stderr.write(f"probsfa: error: {_one_line(text.splitlines())}\n")


def _one_line(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
