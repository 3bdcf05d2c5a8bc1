# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sends the library's messages to `logging`, and its progress to progress bars or to a function of the caller.

If MOEC_LOG is set, the library itself writes its messages to stderr. MOEC_PROGRESS=0 disables progress bars.
"""

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from moec import _abi
from moec import _library as library_module

Item = TypeVar("Item")
Progress = Callable[[str, int, int], None]
"""A progress function. Its arguments are the name of a step, the number of finished parts of the step, and the number of all
parts. It must not call moec."""

LOGGER = logging.getLogger("moec")
_LEVELS = {
    _abi.LogLevel.ERROR: logging.ERROR,
    _abi.LogLevel.WARNING: logging.WARNING,
    _abi.LogLevel.INFO: logging.INFO,
    _abi.LogLevel.DEBUG: logging.DEBUG,
}


def _log(_: Any, level: int, message: bytes) -> None:
    library_module.enter_callback()
    try:
        LOGGER.log(_LEVELS.get(_abi.LogLevel(level), logging.ERROR), message.decode(errors="replace"))
    finally:
        library_module.leave_callback()


class _Bars:
    """One tqdm bar for each step. A bar appears after half a second and is removed when the step ends."""

    def __init__(self) -> None:
        from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

        self.make, self.bars = tqdm, dict[str, Any]()

    def __call__(self, step: str, done: int, total: int) -> None:
        bar = self.bars.get(step)
        if bar is None:
            if done >= total:
                return
            bar = self.bars[step] = self.make(total=total, desc=step, leave=False, delay=0.5)
        bar.update(done - bar.n)
        if done >= total:
            bar.close()
            del self.bars[step]

    def close(self) -> None:
        for bar in self.bars.values():
            bar.close()
        self.bars.clear()


class _Listener:
    """A progress function and the first exception that it raised."""

    def __init__(self, function: Progress) -> None:
        self.function = function
        self.failed: BaseException | None = None


class _Listeners:
    """All active progress functions. The library has one callback per process, which is set while there is a listener."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.all: list[_Listener] = []
        self.called = _abi.PROGRESS_FUNCTION(self.call)

    def call(self, _: Any, step: bytes, done: int, total: int) -> None:
        library_module.enter_callback()
        try:
            for listener in tuple(self.all):
                try:
                    listener.function(step.decode(errors="replace"), done, total)
                except BaseException as error:  # raised again outside of the callback
                    listener.failed = listener.failed or error
        finally:
            library_module.leave_callback()

    def add(self, library: library_module.Library, listener: _Listener) -> None:
        with self.lock:
            self.all.append(listener)
            if len(self.all) == 1:
                library.check(library.set_progress(self.called, None))

    def remove(self, library: library_module.Library, listener: _Listener) -> None:
        with self.lock:
            self.all.remove(listener)
            if not self.all:
                library.check(library.set_progress(_abi.PROGRESS_FUNCTION(), None))


_listeners = _Listeners()
_kept: list[Any] = []


class _Signals:
    """Handles SIGINT while the main thread is inside the library.

    Python's handler would raise KeyboardInterrupt within a callback, where ctypes discards exceptions. Therefore the exception is
    stored, the library is asked to end its call, and the exception is raised after the call.
    """

    def __init__(self) -> None:
        self.kept: BaseException | None = None
        self.called = _abi.INTERRUPT_FUNCTION(self.is_interrupted)

    def is_interrupted(self, _: Any) -> int:
        return int(self.kept is not None and threading.current_thread() is threading.main_thread())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        before = signal.getsignal(signal.SIGINT)
        # Only the main thread receives signals. A handler that Python did not install is kept.
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return

        def keep(number: int, frame: Any) -> None:
            try:
                before(number, frame)
            except BaseException as error:  # raised again outside of the handler
                self.kept = self.kept or error

        signal.signal(signal.SIGINT, keep)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            kept, self.kept = self.kept, None
            if kept is not None:
                raise kept


_signals = _Signals()


def connect(library: library_module.Library) -> None:
    """Installs the callbacks; called once, when the library is opened."""
    library.check(library.set_interrupt(_signals.called, None))
    atexit.register(library.set_interrupt, _abi.INTERRUPT_FUNCTION(), None)
    if os.environ.get("MOEC_LOG"):
        atexit.register(library.set_progress, _abi.PROGRESS_FUNCTION(), None)
        return
    function = _abi.LOG_FUNCTION(_log)
    _kept.append(function)
    # Python's logger filters the messages, because its level may change at any time.
    library.check(library.set_log(function, None, _abi.LogLevel.DEBUG))
    # No thread of the library may call the interpreter during its shutdown.
    atexit.register(library.set_log, _abi.LOG_FUNCTION(), None, _abi.LogLevel.WARNING)
    atexit.register(library.set_progress, _abi.PROGRESS_FUNCTION(), None)


def _function_of(progress: bool | Progress | None) -> Progress | None:
    if callable(progress):
        return progress
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("MOEC_PROGRESS") != "0"
    if not isinstance(progress, bool):
        raise TypeError(f"progress: expected None, True, False or a function, got {type(progress).__name__}")
    if not progress:
        return None
    try:
        return _Bars()
    except ImportError:
        return None


@contextlib.contextmanager
def reported(library: library_module.Library, progress: bool | Progress | None) -> Iterator[None]:
    """Shows the library's progress during the `with` block, and raises KeyboardInterrupt after Ctrl-C has ended its work.

    progress: None shows bars if stderr is a terminal and tqdm is installed. A function receives (step, done, total) for all work
        of the process; an exception that it raises is raised again when the work is done.
    """
    function = _function_of(progress)
    if function is None:
        with _signals.held():
            yield
        return
    listener = _Listener(function)
    _listeners.add(library, listener)
    try:
        with _signals.held():
            yield
    finally:
        _listeners.remove(library, listener)
        if isinstance(function, _Bars):
            function.close()
    if listener.failed is not None:
        raise listener.failed


def each(items: Collection[Item], step: str, progress: bool | Progress | None) -> Iterator[Item]:
    """Yields the items and reports progress like reported()."""
    function = _function_of(progress)
    try:
        for done, item in enumerate(items):
            if function is not None:
                function(step, done, len(items))
            yield item
        if function is not None:
            function(step, len(items), len(items))
    finally:
        if isinstance(function, _Bars):
            function.close()
