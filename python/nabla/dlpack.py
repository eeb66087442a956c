"""Arrays in and out of other libraries without a copy: DLPack 1.1, and what came before
version 1.0. Nothing that another library calls later is Python code."""
import ctypes
from typing import Any, Optional

import numpy as np

from . import _c
from ._errors import Unsupported
from ._library import LIB, byref, call
from ._scopes import attempt, current
from .arrays import Array, wrap

_api = ctypes.pythonapi
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                 ctypes.c_void_p]
_is_valid = _api.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object,
                                                       ctypes.c_char_p]
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object,
                                                        ctypes.c_char_p]
_set_name = _api.PyCapsule_SetName
_set_name.restype, _set_name.argtypes = ctypes.c_int, [ctypes.py_object,
                                                       ctypes.c_char_p]
# The same of a capsule that is being freed: an address, without a reference.
_dying = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_dying_is_valid = _dying(("PyCapsule_IsValid", _api))
_dying_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api))

# Capsules compare names by their text, and keep the address: these live for ever.
VERSIONED, UNVERSIONED = b"dltensor_versioned", b"dltensor"
USED_VERSIONED, USED_UNVERSIONED = b"used_dltensor_versioned", b"used_dltensor"


def _delete(tensor: int, structure: Any) -> None:
    deleter = structure.from_address(tensor).deleter
    if deleter:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(tensor)


def _forget(capsule: int) -> None:
    """Frees a tensor that nobody took."""
    for name, structure in ((VERSIONED, _c.nabla_dlpack_managed),
                            (UNVERSIONED, _c.nabla_dlpack_unversioned)):
        if _dying_is_valid(capsule, name):
            _delete(_dying_pointer(capsule, name), structure)


_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_forget)
_api.Py_IncRef(ctypes.py_object(_destructor))  # capsules may outlive this module
_destructor_address = ctypes.cast(_destructor, ctypes.c_void_p).value


def export(array: Array, stream: Any, max_version: Any, dl_device: Any,
           copy: Optional[bool]) -> Any:
    """A capsule with the values of an array, which it keeps."""
    if stream is not None and stream != -1:
        raise BufferError("arrays are on the CPU, which has no streams")
    if dl_device is not None and tuple(int(d) for d in dl_device) != (1, 0):
        raise BufferError("arrays are on the CPU")
    if copy:
        raise BufferError("a copy is made by array(x.numpy())")
    if array.is_packed:
        array = array.materialize()
    tensor = ctypes.c_void_p()
    attempt(LIB.nabla_array_to_dlpack, array._pointer, byref(tensor))
    if max_version is not None and max_version[0] >= 1:
        return _new(tensor, VERSIONED, _destructor_address)
    old = ctypes.c_void_p()
    try:
        call(LIB.nabla_dlpack_drop_version, tensor, byref(old))
    except Exception:
        _delete(tensor.value or 0, _c.nabla_dlpack_managed)
        raise
    return _new(old, UNVERSIONED, _destructor_address)


def _capsule(value: Any) -> Any:
    try:
        return value.__dlpack__(max_version=(1, 1))
    except TypeError:  # before version 1.0
        return value.__dlpack__()


def from_dlpack(value: Any) -> Array:
    """An array on the memory of anything that has DLPack (NumPy, torch, jax), without a
    copy. The memory must not change as long as the array, or one that was made from it
    and is pending, is used."""
    if isinstance(value, Array):
        return value
    if not hasattr(value, "__dlpack__"):
        raise TypeError("%r has no __dlpack__" % type(value).__name__)
    if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] != 1:
        raise Unsupported("a device of type %d; arrays are on the CPU" %
                          value.__dlpack_device__()[0])
    if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
        raise Unsupported("the array is not row-major: numpy.ascontiguousarray() "
                          "makes a copy that is")
    capsule = _capsule(value)
    if _is_valid(capsule, VERSIONED):
        tensor = _pointer(capsule, VERSIONED)
        out = wrap(LIB.nabla_array_from_dlpack(current().handle, tensor))
        _set_name(capsule, USED_VERSIONED)
        return out
    tensor = ctypes.c_void_p()
    call(LIB.nabla_dlpack_add_version, _pointer(capsule, UNVERSIONED), byref(tensor))
    array = LIB.nabla_array_from_dlpack(current().handle, tensor)
    # from here on the tensor is ours, whatever happens
    _set_name(capsule, USED_UNVERSIONED)
    if not array:
        _delete(tensor.value or 0, _c.nabla_dlpack_managed)
    return wrap(array)
