"""NumPy gives arrays to nabla/dlpack.h and takes them, without a copy.

usage: dlpack_numpy.py LIBNABLA; exit 77 without a NumPy that has DLPack 1.0
"""

import ctypes
import sys

try:
    import numpy as np

    np.zeros(1).__dlpack__(max_version=(1, 0))
except (ImportError, TypeError):
    print("skipped: no NumPy 2.1")
    sys.exit(77)

nabla = ctypes.CDLL(sys.argv[1])
pointer = ctypes.c_void_p
for name in ("nabla_array_from_dlpack", "nabla_add"):
    getattr(nabla, name).restype = pointer
    getattr(nabla, name).argtypes = [pointer, pointer]
nabla.nabla_array_to_dlpack.argtypes = [pointer, pointer, pointer]
nabla.nabla_engine_destroy.argtypes = nabla.nabla_scope_end.argtypes = [pointer]
nabla.nabla_scope_create.argtypes = [pointer, pointer, pointer]
api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [pointer, ctypes.c_char_p, pointer]
api.PyCapsule_GetPointer.restype = pointer
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
FRESH, USED = b"dltensor_versioned", b"used_dltensor_versioned"


def take(scope, array):
    capsule = array.__dlpack__(max_version=(1, 0))
    tensor = api.PyCapsule_GetPointer(capsule, FRESH)
    out = nabla.nabla_array_from_dlpack(scope, tensor)
    if out:
        api.PyCapsule_SetName(capsule, USED)
    return out


class Exporter:
    """What numpy.from_dlpack asks for a capsule."""

    def __init__(self, array):
        self.tensor = pointer()
        assert nabla.nabla_array_to_dlpack(array, ctypes.byref(self.tensor),
                                           None) == 0

    def __dlpack__(self, **options):
        return api.PyCapsule_New(self.tensor, FRESH, None)

    def __dlpack_device__(self):
        return 1, 0


engine, scope = pointer(), pointer()
assert nabla.nabla_engine_create(None, None, ctypes.byref(engine), None) == 0
assert nabla.nabla_scope_create(engine, ctypes.byref(scope), None) == 0
dtypes = ("f8", "f4", "f2", "i8", "i4", "i1", "u1", "?")
for dtype in dtypes:
    for shape in ((), (3,), (2, 3), (0, 2)):
        x = np.asarray(np.random.default_rng(0).random(shape) * 9, dtype)
        leaf = take(scope, x)
        assert leaf, dtype
        same = np.from_dlpack(Exporter(leaf))
        assert same.dtype == x.dtype and same.shape == x.shape
        assert not x.size or same.ctypes.data == x.ctypes.data
        assert (same == x).all() and not same.flags.writeable
        if dtype == "?" or not x.size:
            continue
        result = np.from_dlpack(Exporter(nabla.nabla_add(leaf, leaf)))
        want = x + x if dtype not in ("i1", "u1") else x.astype("i4") * 2
        assert (result == want.astype(result.dtype)).all(), (dtype, shape)
assert not take(scope, np.zeros((4, 4), "f4")[:, ::2])  # strides
nabla.nabla_scope_end(scope)
nabla.nabla_engine_destroy(engine)
print(f"figure: dtypes {len(dtypes)}")
