"""Ctrl-C ends a training between steps, never in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C only sets a flag, so that no step is half done; the second one raises as
    usual.
    """
    seen = [False]
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.getsignal(signal.SIGINT)

    def note(*_: Any) -> None:
        seen[0] = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: seen[0]
    finally:
        signal.signal(signal.SIGINT, before)
