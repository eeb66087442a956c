"""Threads that compute."""
from typing import Any, Optional, Union

from . import _c
from ._library import LIB, Handle, Owner, create


class Pool(Owner):
    """Worker threads, the caller included, that products and files may share; 0: one
    for each CPU of this process. One product runs at a time."""

    _noun = "pool"

    def __init__(self, threads: int = 0):
        if threads < 0:
            raise ValueError("threads are 0 or more, not %d" % threads)
        self._handle = Handle(create(LIB.nabla_pool_create, threads, None),
                              LIB.nabla_pool_destroy)

    @property
    def threads(self) -> int:
        return LIB.nabla_pool_size(self._open().value)


def handle_of(threads: Union[int, Pool, None]) -> Optional[Handle]:
    """The pool of an argument `threads`: None or 1 is the calling thread alone."""
    if isinstance(threads, Pool):
        return threads._open()
    if threads is None or threads == 1:
        return None
    return Pool(threads)._open()


def environment(pool: Optional[Handle], **members: Any) -> Any:
    return _c.nabla_environment(pool=pool.value if pool else None, **members)
