# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Locates and opens libmoec.so once, and converts statuses to exceptions."""

import ctypes
import os
import pathlib
import threading
import weakref
from collections import deque
from typing import Any

from moec import _abi
from moec._words import as_python
from moec.errors import MoecError, error_of

FILE = "libmoec.so"
VARIABLE = "MOEC_LIBRARY"


def path_of_library() -> pathlib.Path:
    """Returns MOEC_LIBRARY if set, otherwise the file beside this module. Raises ImportError if the file does not exist."""
    if given := os.environ.get(VARIABLE):
        path = pathlib.Path(given)
        if not path.is_file():
            raise ImportError(f"{VARIABLE} is '{given}': expected the path of a {FILE}, and there is no such file")
        return path
    path = pathlib.Path(__file__).with_name(FILE)
    if not path.is_file():
        raise ImportError(f"no {FILE} is next to {__file__}: install moec's wheel, or set {VARIABLE} to a {FILE}")
    return path


def get_include() -> str:
    """Returns the folder of the C and C++ headers moec/moec.h and moec/moec.hpp, for the compiler option -I. Raises ImportError
    if it does not exist."""
    folder = pathlib.Path(__file__).with_name("include")
    if not (folder / "moec" / "moec.h").is_file():
        raise ImportError(f"no headers lie in {folder}: install moec's wheel")
    return str(folder)


def get_library() -> str:
    """Returns the path of libmoec.so, for a linker. The library exports the C interface and depends on libc, libm and libgcc_s
    only."""
    return str(path_of_library())


class Library:
    """The opened library. The functions of the C interface are attributes, named without moec_."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        try:
            self.functions = ctypes.CDLL(str(path))
        except OSError as error:
            raise ImportError(f"{path} cannot be opened: {error}") from error
        for name, (result, arguments) in _abi.FUNCTIONS.items():
            function = getattr(self.functions, f"moec_{name}", None)
            if function is None and name in _abi.OF_THE_COMPILER:
                continue
            if function is None:
                raise ImportError(f"{path} is not the library of this package: it has no moec_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        version = self.functions.moec_version()
        if version // 100 != _abi.VERSION_MAJOR * 100 + _abi.VERSION_MINOR:
            got = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
            raise ImportError(f"{path} has version {got}; expected {_abi.VERSION_MAJOR}.{_abi.VERSION_MINOR}")
        self.version = f"{version // 10000}.{version // 100 % 100}.{version % 100}"

    def __getattr__(self, name: str) -> Any:
        if name in _abi.OF_THE_COMPILER:
            raise error_of("no_compiler", f"{self.path} has no compiler, it only loads packages; expected a {FILE}")
        raise AttributeError(name)

    def check(self, status: int) -> None:
        """Raises the exception of a status other than MOEC_OK."""
        if status:
            raise self.error(status)

    def error(self, status: int) -> MoecError:
        message = (self.functions.moec_last_error() or b"").decode(errors="replace")
        return error_of((self.functions.moec_status_name(status) or b"").decode(), as_python(message))

    def made(self, name: str, *arguments: Any) -> "Handle":
        """Calls a function whose last argument receives an object, and returns the object as a Handle."""
        destroy_deferred()
        made = ctypes.c_void_p()
        self.check(getattr(self, name)(*arguments, ctypes.byref(made)))
        assert made.value is not None
        return Handle(made.value, getattr(self, _DESTROY[name]))

    def text(self, name: str, *arguments: Any) -> str:
        """Calls a function whose last argument receives a text, and returns the text."""
        made = ctypes.c_void_p()
        self.check(getattr(self, name)(*arguments, ctypes.byref(made)))
        try:
            return str(self.functions.moec_text_get(made).decode())
        finally:
            self.functions.moec_text_destroy(made)

    def number(self, name: str, *arguments: Any) -> int:
        """Calls a function whose last argument receives a 64-bit integer, and returns it."""
        number = ctypes.c_uint64()
        self.check(getattr(self, name)(*arguments, ctypes.byref(number)))
        return number.value


_DESTROY = {
    "compile_config": "package_files_destroy",
    "package_files_read": "package_files_destroy",
    "package_load": "package_destroy",
    "package_load_files": "package_destroy",
    "layer_create": "layer_destroy",
    "context_create": "context_destroy",
    "comm_group_create": "comm_group_destroy",
    "comm_create": "comm_destroy",
    "checkpoint_open": "checkpoint_close",
    "weights_open": "weights_close",
}

# A callback must not call the C interface, but Python's garbage collector may run during a callback. Handles that are dropped
# in a callback are destroyed later.
_callback = threading.local()
_deferred: deque[tuple[Any, int]] = deque()


def enter_callback() -> None:
    _callback.active = True


def leave_callback() -> None:
    _callback.active = False


def _destroy(function: Any, address: int) -> None:
    if getattr(_callback, "active", False):
        _deferred.append((function, address))
    else:
        function(address)


def destroy_deferred() -> None:
    """Destroys the handles that were dropped during a callback."""
    while _deferred:
        try:
            function, address = _deferred.popleft()
        except IndexError:
            return
        function(address)


class Handle:
    """Owns an object of the library and destroys it with the last reference. A call in flight keeps its handles alive."""

    __slots__ = ("__weakref__", "_as_parameter_", "destroy", "memory")

    def __init__(self, address: int, destroy: Any) -> None:
        self._as_parameter_ = ctypes.c_void_p(address)
        self.memory: Any = None
        """The owners of memory that the object points to."""
        self.destroy = weakref.finalize(self, _destroy, destroy, address)
        # At process exit the driver may already be unloaded.
        self.destroy.atexit = False

    def __reduce__(self) -> Any:
        raise TypeError("objects of libmoec.so cannot be copied or pickled")


_lock = threading.Lock()
_opened: list[Library] = []


def library() -> Library:
    """Returns the library and opens it on first use. Raises ImportError if it is missing or has another version."""
    if not _opened:
        with _lock:
            if not _opened:
                from moec import _messages

                opened = Library(path_of_library())
                _messages.connect(opened)
                _opened.append(opened)
    return _opened[0]
