"""Memory of C as NumPy arrays that keep its owner, and the other way round."""
from typing import Any, Sequence, Tuple

import numpy as np

from . import _c, _dtypes
from ._errors import InvalidArgument, TooLarge


class _View:
    """What NumPy makes an array of; the array holds it, and it holds the owner."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, shape: Tuple[int, ...], dtype: Any, owner: Any,
                 is_read_only: bool):
        self.__array_interface__ = {
            "version": 3, "shape": shape, "typestr": dtype.str,
            "data": (address, is_read_only)}
        self.owner = owner


def view(address: int, shape: Sequence[int], dtype: Any, owner: Any,
         is_read_only: bool = True) -> Any:
    """An array on memory that `owner` keeps."""
    dtype = np.dtype(dtype)
    sizes = tuple(int(s) for s in shape)
    if not address or 0 in sizes:
        return np.empty(sizes, dtype)
    if dtype.isbuiltin == 1:
        return np.asarray(_View(address, sizes, dtype, owner, is_read_only))
    plain = np.dtype("u%d" % dtype.itemsize)  # of ml_dtypes
    return np.asarray(_View(address, sizes, plain, owner, is_read_only)).view(dtype)


def contiguous(value: Any, dtype: Any = None) -> Any:
    """A row-major array of a value, without a copy where it is one already."""
    array = np.asarray(value, dtype)
    if array.dtype.hasobject or array.dtype.kind in "USV" and not array.dtype.isbuiltin:
        if array.dtype not in _dtypes.TO_C:
            raise InvalidArgument("values of dtype %s are no numbers" % array.dtype)
    # ascontiguousarray gives rank 1 for rank 0
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def address(array: Any) -> int:
    return array.__array_interface__["data"][0]


def dense(array: Any) -> Any:
    """A nabla_dense on the memory of a row-major array, which has to outlive it."""
    if array.ndim > _c.ARRAY_MAX_RANK:
        raise TooLarge("rank %d; at most %d" % (array.ndim, _c.ARRAY_MAX_RANK))
    out = _c.nabla_dense(data=address(array), dtype=_dtypes.to_c(array.dtype),
                         rank=array.ndim)
    out.shape[:array.ndim] = array.shape
    return out


def of_dense(value: Any, owner: Any) -> Any:
    return view(value.data or 0, value.shape[:value.rank],
                _dtypes.to_numpy(value.dtype), owner)


def aligned(shape: Sequence[int], dtype: Any) -> Any:
    """New memory at a multiple of 64 bytes, where C computes without a copy."""
    dtype = np.dtype(dtype)
    size = int(np.prod(tuple(shape), dtype=np.int64)) * dtype.itemsize
    block = np.empty(size + 64, np.uint8)
    start = -address(block) % 64
    return block[start:start + size].view(dtype).reshape(shape)
