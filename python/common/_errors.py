"""Exceptions: one class for each status of C, all below Error."""
from typing import Dict, Type


class Error(Exception):
    """A call of Nabla that failed. Its text is the library's sentence: the file or
    tensor, what is wrong, what to do."""

    status: str = ""


class InvalidArgument(Error, ValueError):
    """The caller asked for something that is wrong."""


class Corrupt(Error, ValueError):
    """The input contradicts itself or its format."""


class Unsupported(Error, NotImplementedError):
    """Valid, but this build cannot do it."""


class TooLarge(Error, OverflowError):
    """A declared size overflows or passes a named limit."""


class NoMemory(Error, MemoryError):
    """An allocation failed."""


class InputOutput(Error, OSError):
    """The operating system refused a read or a write."""


class Cancelled(Error):
    """The caller asked to stop."""


class NotFinite(Error, ValueError):
    """The input holds NaN or infinity."""


class Exists(Error, FileExistsError):
    """The output exists and replacing it was not allowed."""


class Closed(Error, ValueError):
    """An object was used after close()."""


BY_STATUS: Dict[str, Type[Error]] = {
    "INVALID_ARGUMENT": InvalidArgument, "CORRUPT": Corrupt,
    "UNSUPPORTED": Unsupported, "TOO_LARGE": TooLarge, "NO_MEMORY": NoMemory,
    "IO": InputOutput, "CANCELLED": Cancelled, "NOT_FINITE": NotFinite,
    "EXISTS": Exists}
