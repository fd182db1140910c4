"""Signals that end a command, with removal of temporary files and a time limit."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from probsfa._files import discard_temporary_files

__all__ = ["GRACE_SECONDS", "Stopped", "raise_stopped_on_signals"]

# Time in seconds from a signal to forced termination, which is needed because compiled code does not handle
# signals.
GRACE_SECONDS = 2.0

_SIGNAL_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Stopped(BaseException):
    """Raised by a signal that ends the command.

    A fit catches KeyboardInterrupt and returns the parameters so far. The command must not write such a
    result. It therefore raises this exception, which a fit does not catch.

    Parameters
    ----------
    number : int
        The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def message(self) -> str:
        """The message for the user."""
        return _message(self.number)

    @property
    def exit_code(self) -> int:
        """The exit code that shells expect: 130 after Ctrl-C."""
        return 128 + self.number


@contextmanager
def raise_stopped_on_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP raise `Stopped` in the block.

    If the block has not ended `GRACE_SECONDS` after the signal, temporary files are removed and the process
    is terminated. The context has an effect only in the main thread, in which Python handles signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = {int(getattr(signal, name)) for name in _SIGNAL_NAMES if hasattr(signal, name)}
    previous_handlers = {number: signal.getsignal(number) for number in numbers}
    # Signals that are ignored (nohup) or handled outside of Python keep their handlers.
    previous_handlers = {
        number: handler
        for number, handler in previous_handlers.items()
        if handler not in (signal.SIG_IGN, None)
    }
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    ended = threading.Event()
    stopped = threading.Event()

    def stop(number: int, _: FrameType | None) -> None:
        if not stopped.is_set():  # a second signal must not disturb the clean-up
            stopped.set()
            raise Stopped(number)

    def watch() -> None:
        while received := receiver.recv(1):
            if received[0] in previous_handlers and not ended.wait(GRACE_SECONDS):
                discard_temporary_files()
                sys.stderr.write(f"\nprobsfa: error: {_message(received[0])}\n")
                sys.stderr.flush()
                os._exit(128 + received[0])

    hook = sys.unraisablehook

    def ignore_stopped(unraisable: "sys.UnraisableHookArgs") -> None:
        if unraisable.exc_type is not Stopped:  # callbacks of C code cannot propagate exceptions
            hook(unraisable)

    # The interpreter writes the number of the signal immediately, also if compiled code delays the Python
    # handler.
    wakeup = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        sys.unraisablehook = ignore_stopped
        for number in previous_handlers:
            signal.signal(number, stop)
        yield
    finally:
        ended.set()
        sys.unraisablehook = hook
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        sender.close()
        watcher.join()
        receiver.close()


def _message(number: int) -> str:
    event = "interrupted" if number == signal.SIGINT else "terminated"
    return f"{event}; no file was written."
