"""The C library: its functions, failures, and handles that are freed once."""
import atexit
import ctypes
import os
import threading
from typing import Any, Callable, List, NoReturn, Optional

from . import _c
from ._errors import BY_STATUS, Closed, Error

LIB: Any = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                    "libnabla.so"))
for _name, (_result, _parameters) in _c.FUNCTIONS.items():
    _function = getattr(LIB, _name)
    _function.restype = _result
    _function.argtypes = _parameters

byref = ctypes.byref
pointer_out = ctypes.c_void_p

# From here on nothing is freed: the system does, and libraries may be gone.
_is_ending: List[bool] = []
atexit.register(_is_ending.append, True)


def is_ending() -> bool:
    return bool(_is_ending)


def end_use() -> None:
    """From here on nothing is freed."""
    _is_ending.append(True)


def version() -> str:
    """The version of the library."""
    return LIB.nabla_version().decode()


def new_diag() -> Any:
    return _c.nabla_diag(offset=_c.NO_OFFSET)


def fail(diag: Any) -> NoReturn:
    """Raises what a diag says."""
    raise error_of(diag)


def error_of(diag: Any) -> Error:
    size = LIB.nabla_diag_format(byref(diag), None, 0) + 1
    text = ctypes.create_string_buffer(size)
    LIB.nabla_diag_format(byref(diag), text, size)
    status = LIB.nabla_status_name(diag.code).decode()
    kind = BY_STATUS.get(status, Error)
    error = kind(text.value.decode("utf-8", "replace"))
    error.status = status
    return error


def call(function: Any, *arguments: Any) -> None:
    """Calls a function whose last parameter is a diag, and raises if it fails."""
    diag = new_diag()
    if function(*arguments, byref(diag)):
        fail(diag)


def create(function: Any, *arguments: Any) -> int:
    """The same for a function that writes a handle before the diag."""
    out = pointer_out()
    call(function, *arguments, byref(out))
    return out.value or 0


def options(kind: Any, **values: Any) -> Any:
    """A structure of options, with its size."""
    return kind(struct_size=ctypes.sizeof(kind), **values)


def to_path(path: Any) -> bytes:
    return os.fsencode(path)


class Handle:
    """An object of C, with those that must outlive it. It is freed once, when it and
    all that were made from it are given up, on any thread and in any order."""

    __slots__ = ("value", "_free", "_parents", "_holds")

    def __init__(self, value: int, free: Callable[[int], None], *parents: "Handle"):
        self.value = value
        self._free = free
        self._parents = parents
        for parent in parents:
            parent.hold()
        # Popping is atomic; whoever takes the last frees.
        self._holds: List[bool] = [True]

    def hold(self) -> None:
        self._holds.append(False)

    def drop(self) -> None:
        try:
            is_last = self._holds.pop()
        except (IndexError, AttributeError):
            return
        if is_last:
            self._free(self.value)
            for parent in self._parents:
                parent.drop()

    def __del__(self) -> None:
        if not _is_ending:
            self.drop()


class Owner:
    """The base of classes that have a handle and can be closed."""

    _handle: Optional[Handle] = None
    _noun = "object"

    def _open(self) -> Handle:
        handle = self._handle
        if handle is None:
            raise Closed("the %s is closed" % self._noun)
        return handle

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._handle is None

    def close(self) -> None:
        """Gives up the object; what was made from it stays usable. Closing twice is
        allowed, every other use raises Closed."""
        self._handle = None

    def __enter__(self) -> Any:
        self._open()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


LOCK = threading.RLock()
