"""Lazy arrays."""
import ctypes
import threading
from typing import Any, Iterator, List, NoReturn, Optional, Sequence, Tuple, Union

import numpy as np

from . import _c, _dtypes, _views
from ._errors import InvalidArgument, Unsupported
from ._library import LIB, byref, is_ending
from ._operations import Methods
from ._recording import set_array
from ._scopes import KEPT, Scope, attempt, current, raise_failure
from .formats import Format
from .models import Weight

_get_ident = threading.get_ident
_retain, _release, _dense = LIB.nabla_retain, LIB.nabla_release, LIB.nabla_array_dense


class Array(Methods):
    """A value of one dtype and shape, dense or packed. It is pending until its values
    are needed: then all operations that it depends on are compiled to one function, or
    a function of the same form is found."""

    __slots__ = ("_pointer", "_scope", "_keep")
    _pointer: int
    _scope: Scope
    _keep: Tuple[Any, ...]
    __array_priority__ = 1000
    __array_ufunc__ = None

    def __init__(self, *_: Any) -> None:
        raise TypeError("nabla.array() makes arrays")

    def __del__(self) -> None:
        try:
            pointer, scope = self._pointer, self._scope
        except AttributeError:
            return
        if is_ending() or not pointer:
            return
        _release(pointer)
        if scope.ended:
            return
        if scope.thread == _get_ident():
            _release(pointer)
        else:
            scope.garbage.append(pointer)

    # ---- what it is ----

    def _described(self) -> Any:
        return _c.nabla_dense.from_address(_dense(self._pointer))

    @property
    def shape(self) -> Tuple[Optional[int], ...]:
        """Sizes; None for a named dimension while a function is traced."""
        it = self._described()
        return tuple(None if d < 0 else d for d in it.shape[:it.rank])

    @property
    def ndim(self) -> int:
        return self._described().rank

    @property
    def size(self) -> int:
        out = 1
        for dim in self.shape:
            if dim is None:
                raise InvalidArgument("a dimension is not known while it is traced")
            out *= dim
        return out

    @property
    def dtype(self) -> str:
        """"f32", "i64", ... ; of a packed array that of its values."""
        return _dtypes.name_of(self._described().dtype)

    @property
    def is_packed(self) -> bool:
        return bool(LIB.nabla_array_is_packed(self._pointer))

    @property
    def format(self) -> Optional[Format]:
        """How it is packed, computing it if it is pending; None where it is dense."""
        return self.weight().format if self.is_packed else None

    @property
    def T(self) -> "Array":
        """Its dimensions in reverse order."""
        return self.transpose()

    # ---- values ----

    def realize(self) -> "Array":
        """Computes its values, and returns it."""
        realize(self)
        return self

    def _read(self) -> Any:
        out = _c.nabla_dense()
        attempt(LIB.nabla_array_read, self._pointer, byref(out))
        return out

    def numpy(self) -> Any:
        """Its values, computed if need be: a read-only NumPy array on the same memory.
        bf16 needs the package ml_dtypes; a packed array is materialized."""
        if self.is_packed:
            return self.materialize().numpy()
        value = self._read()
        return _views.of_dense(value, self)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        values = self.numpy()
        if dtype is not None and np.dtype(dtype) != values.dtype:
            return values.astype(dtype)
        return values.copy() if copy else values

    def item(self) -> Union[bool, int, float]:
        """The value of an array of one element."""
        if self.size != 1:
            raise InvalidArgument("an array of %d elements has no item()" % self.size)
        return self.numpy().reshape(()).item()

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def weight(self) -> Weight:
        """A packed array as a weight, whose components are its memory."""
        desc = _c.nabla_weight_desc()
        attempt(LIB.nabla_array_weight, self._pointer, byref(desc))
        return Weight(desc, (self,))

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        value = self.item()
        if isinstance(value, float):
            raise TypeError("an array of floats is no index")
        return int(value)

    def __bool__(self) -> bool:
        return bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of rank 0 has no len()")
        if self.shape[0] is None:
            raise InvalidArgument("a dimension is not known while it is traced")
        return self.shape[0]

    def __iter__(self) -> Iterator["Array"]:
        return iter([self[i] for i in range(len(self))])

    def __repr__(self) -> str:
        shape = ["?" if d is None else d for d in self.shape]
        text = "x".join(str(d) for d in shape) or "scalar"
        how = " packed" if self.is_packed else ""
        is_pending = not self.is_packed and not self._described().data
        return "<nabla.Array %s %s%s%s>" % (text, self.dtype, how,
                                            " pending" if is_pending else "")

    __hash__ = object.__hash__

    def astype(self, dtype: Any) -> "Array":
        """Converted to a dtype: "f32", "bf16", numpy.int32."""
        return self.convert(dtype)

    # ---- DLPack ----

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None,
                   dl_device: Any = None, copy: Optional[bool] = None) -> Any:
        from . import dlpack
        return dlpack.export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return 1, 0

    # ---- elements ----

    def __getitem__(self, key: Any) -> "Array":
        return _index(self, key)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TypeError("arrays do not change: x.at(dim, indices, values, \"set\") gives "
                        "a new one")

    # ---- operators ----

    def __neg__(self) -> "Array":
        return self.neg()

    def __abs__(self) -> "Array":
        return self.abs()

    def __invert__(self) -> "Array":
        return self.not_()

    def __pos__(self) -> "Array":
        return self


def floor_divide(x: Any, y: Any) -> Array:
    """Division that rounds down, as Python's //."""
    from . import _operations as op
    x, y = asarray(x), asarray(y)
    if x.dtype.startswith(("f", "bf")) or y.dtype.startswith(("f", "bf")):
        return op.floor(op.div(x, y))
    return op.quotient(op.sub(x, op.mod(op.add(op.mod(x, y), y), y)), y)


_new = object.__new__
ArrayLike = Union[Array, Weight, np.ndarray, float, int, bool, Sequence[Any]]


def wrap(pointer: Optional[int], keep: Tuple[Any, ...] = (),
         scope: Optional[Scope] = None) -> Array:
    """An array of C that a function has just given; NULL is the scope's failure."""
    if not pointer:
        raise_failure()
    out = _new(Array)
    _retain(pointer)
    out._pointer = pointer
    out._scope = current() if scope is None else scope
    out._keep = keep
    return out


def borrowed(pointer: int) -> Array:
    """An array that belongs to C, such as an argument of a callback."""
    return wrap(pointer, (), KEPT)


set_array(Array, wrap)


def is_arraylike(value: Any) -> bool:
    return isinstance(value, (Array, Weight, np.ndarray, np.generic, int, float)) or \
        (hasattr(value, "__dlpack__") and not isinstance(value, type))


def array(values: Any, dtype: Any = None) -> Array:
    """Makes an array of a NumPy array, a list, a number, anything with DLPack (each is
    copied), or a Weight, which stays packed as it lies.

    A Python float or int has no dtype of its own, and takes that of what it is
    combined with; its value is an argument of what is compiled: another value compiles
    nothing. A dtype converts."""
    out = asarray(values) if isinstance(values, (Array, Weight, bool, int, float)) and \
        not isinstance(values, np.generic) else _copied(values)
    return out if dtype is None else out.convert(dtype)


def _copied(values: Any) -> Array:
    if isinstance(values, complex):
        raise Unsupported("arrays have no complex numbers")
    if not isinstance(values, (np.ndarray, np.generic, list, tuple)) and \
            hasattr(values, "__dlpack__"):
        from . import dlpack
        return dlpack.from_dlpack(values)
    if isinstance(values, (list, tuple)) and current().is_trace and _has_arrays(values):
        raise InvalidArgument("a list or tuple of traced arrays is no array: stack() makes "
                              "one of them. As an argument of a function a list is a tree: "
                              "np.array(list) is one array")
    data = np.asarray(values)
    if not isinstance(values, (np.ndarray, np.generic)):  # lists of Python numbers
        data = data.astype({"f": np.float32, "i": np.int32}.get(data.dtype.kind,
                                                                data.dtype)
                           if data.dtype.kind in "fi" and not _is_wide(data)
                           else data.dtype)
    data = _views.contiguous(data)
    value = _views.dense(data)
    return wrap(LIB.nabla_array_of(current().handle, byref(value)))


def _has_arrays(values: Any) -> bool:
    return any(isinstance(value, Array) or
               isinstance(value, (list, tuple)) and _has_arrays(value) for value in values)


def _is_wide(data: Any) -> bool:
    return data.dtype.kind == "i" and data.size > 0 and \
        (data.max() > 2 ** 31 - 1 or data.min() < -2 ** 31)


def asarray(value: Any) -> Array:
    """An operand: an array as it is, everything else as array() makes it."""
    if isinstance(value, Array):
        return value
    if isinstance(value, Weight):
        return wrap(LIB.nabla_array_of_weight(current().handle, byref(value._desc)),
                    (value,))
    if isinstance(value, (np.ndarray, np.generic)):
        return _copied(value)
    if isinstance(value, bool):
        return _copied(np.bool_(value))
    if isinstance(value, int):
        if not -2 ** 63 <= value < 2 ** 63:
            raise InvalidArgument("%d is beyond 64 bits" % value)
        return wrap(LIB.nabla_integer(current().handle, value))
    if isinstance(value, float):
        return wrap(LIB.nabla_scalar(current().handle, value))
    if value is None or isinstance(value, (str, bytes, dict)):
        raise TypeError("%r is no array" % type(value).__name__)
    return _copied(value)


def constant(values: Any) -> Array:
    """An array that is a part of the program that is compiled: for small tables. Other
    values compile anew."""
    data = _views.contiguous(np.asarray(values))
    value = _views.dense(data)
    return wrap(LIB.nabla_constant(current().handle, byref(value)))


def borrow(values: Any) -> Array:
    """An array on the memory of a NumPy array or of anything with DLPack, without a
    copy; it must not change as long as it is used here."""
    from . import dlpack
    return dlpack.from_dlpack(values)


def realize(*arrays: Array) -> None:
    """Computes the values of any number of arrays in one run."""
    for value in arrays:
        if not isinstance(value, Array):
            raise TypeError("%r is no nabla.Array" % type(value).__name__)
    if not arrays:
        return
    table = (ctypes.c_void_p * len(arrays))(*[a._pointer for a in arrays])
    attempt(LIB.nabla_realize, current().handle, len(arrays), ctypes.addressof(table))


# ---- indexing ----


def _index(x: Array, key: Any) -> Array:
    keys: List[Any] = list(key) if isinstance(key, tuple) else [key]
    known = sum(1 for k in keys if k is not None and k is not Ellipsis)
    if known > x.ndim:
        raise InvalidArgument("%d indices of rank %d" % (known, x.ndim))
    dots = [i for i, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1:
        raise InvalidArgument("an index has one '...'")
    fill: List[Any] = [slice(None)] * (x.ndim - known)
    at = dots[0] if dots else len(keys)
    keys[at:at + len(dots)] = fill
    dim = 0
    if all(k is None or isinstance(k, (int, slice)) for k in keys):
        x, removed = _sliced(x, [k for k in keys if k is not None])
        x = x.squeeze(removed) if removed else x
        for k in keys:
            if k is None:
                x = x.unsqueeze(dim)
            if not isinstance(k, int):
                dim += 1
        return x
    for k in keys:
        if k is None:
            x = x.unsqueeze(dim)
        elif isinstance(k, bool) or getattr(k, "dtype", None) in ("bool", np.bool_):
            raise Unsupported("an index of truth values: use where()")
        elif isinstance(k, int):
            rest = [slice(None)] * dim
            x = _index(x, tuple(rest + [k]))
            continue
        elif isinstance(k, slice):
            x, _ = _sliced(x, [slice(None)] * dim + [k])
        else:
            indices = asarray(k)
            x = x.take(indices, dim)
            dim += indices.ndim - 1
        dim += 1
    return x


def _sliced(x: Array, keys: List[Any]) -> Tuple[Array, List[int]]:
    """The elements of integers and slices; dimensions of integers have size 1."""
    starts, limits, strides, flips, removed = [], [], [], [], []
    shape = x.shape
    keys = keys + [slice(None)] * (len(shape) - len(keys))
    for dim, k in enumerate(keys):
        size = shape[dim]
        if isinstance(k, int):
            if size is not None and not -size <= k < size:
                raise IndexError("index %d of dimension %d, which has %d" % (k, dim,
                                                                             size))
            starts.append(k)
            limits.append(k + 1 if k != -1 else _c_end())
            strides.append(1)
            removed.append(dim)
            continue
        if size is None:
            if (k.step or 1) < 1:
                raise Unsupported("a negative step over a named dimension")
            starts.append(k.start or 0)
            limits.append(_c_end() if k.stop is None else k.stop)
            strides.append(k.step or 1)
            continue
        first, last, step = k.indices(size)
        if step < 0:
            count = len(range(first, last, step))
            first, last, step = first + (count - 1) * step, first + 1, -step
            if not count:
                first = last = 0
            flips.append(dim)
        starts.append(first)
        limits.append(max(last, first))
        strides.append(step)
    if not any(k != slice(None) for k in keys):
        return x, removed
    x = x.slice(starts, limits, strides)
    return (x.flip(flips) if flips else x), removed


def _c_end() -> int:
    return 2 ** 63 - 1
