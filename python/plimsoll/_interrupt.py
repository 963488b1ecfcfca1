"""Searches that Ctrl-C and SIGTERM end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Callable, Generic, TypeVar

from plimsoll._native import Cancel

T = TypeVar("T")


class _Call(Generic[T]):
    """One call on a thread of its own."""

    def __init__(self, search: Callable[[Cancel], T]) -> None:
        self.cancel = Cancel()
        self._search = search
        self._begun = threading.Event()
        self._done = threading.Event()
        self._answer: list[T] = []
        self._error: BaseException | None = None

    def _work(self) -> None:
        self._begun.set()
        try:
            self._answer.append(self._search(self.cancel))
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    def _wait(self) -> None:
        while not self._done.wait(0.1):  # a signal that another thread got wakes nobody
            pass

    def run(self) -> T:
        try:
            threading.Thread(target=self._work, daemon=True, name="plimsoll").start()
            self._wait()
        except KeyboardInterrupt:
            self.cancel.set()
            if not self._begun.wait(1):  # it came before there was a thread
                raise
            try:
                self._wait()
            except KeyboardInterrupt:  # the second: the search is left to end by itself
                raise KeyboardInterrupt from None
        if self._error is not None:
            raise self._error
        return self._answer[0]


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Within, SIGTERM is Ctrl-C, where the program has not said what else it is."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def interruptible(search: Callable[[Cancel], T]) -> T:
    """`search(cancel)`; the first Ctrl-C or SIGTERM cancels it, so that it returns the best so far, the second raises.

    Python tells only the main thread of signals; elsewhere the search simply runs.
    """
    if threading.current_thread() is not threading.main_thread():
        return search(Cancel())
    with _terminated_as_interrupted():
        return _Call(search).run()
